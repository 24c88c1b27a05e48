"""Reports about a release: its summary, the HTML report, and the steps of the search."""

from __future__ import annotations

from shoal.report.alternatives import note_alternative, note_categories
from shoal.report.html_report import render_report
from shoal.report.notebook import render_release
from shoal.report.path_page import PathPlot
from shoal.report.path_text import explain
from shoal.report.summary import Summary

__all__ = ["PathPlot", "Summary", "explain", "note_alternative", "note_categories", "render_release", "render_report"]
