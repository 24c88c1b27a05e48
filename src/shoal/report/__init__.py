"""What a reader wants to know of a release at a glance, as rows of words and as a page."""

from __future__ import annotations

from shoal.report.facts import Facts
from shoal.report.page import html

__all__ = ["Facts", "html"]
