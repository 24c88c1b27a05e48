"""What a reader wants to know of a release at a glance, as rows of words, as a page, and as the path that led there."""

from __future__ import annotations

from shoal.report.facts import Facts
from shoal.report.page import html
from shoal.report.path import explain
from shoal.report.picture import Picture

__all__ = ["Facts", "Picture", "explain", "html"]
