"""What a reader wants to know of a release at a glance, as rows of words, as a page, and as the path that led there."""

from __future__ import annotations

from shoal.report.html_report import html
from shoal.report.path_page import Picture
from shoal.report.path_text import explain
from shoal.report.summary import Facts

__all__ = ["Facts", "Picture", "explain", "html"]
