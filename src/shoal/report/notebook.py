"""The compact HTML form of a release in a notebook. It contains the figures of the summary, and no values of records."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.formats.html_text import render_list, render_table, render_view
from shoal.report.summary import INFORMATION_KEPT, RISKS, STATISTICS_KEPT, Summary

OWNER = "This view is for the owner: do not publish it. Publish the files of the public folder."


def render_release(summary: Summary, dropped: Sequence[str] = ()) -> str:
    """The status of a release, its size and risks, its requirements, the information kept, and the notes."""
    certificate = summary.certificate
    columns = (f"Dropped columns: {', '.join(dropped)}.",) if dropped else ()
    return render_view(
        f"Release: {certificate.verdict}: {certificate.counts}, method {summary.method}",
        certificate.requirements_html(),
        render_table(RISKS[0], ("figure", *RISKS[1:]), summary.risks()),
        render_table(INFORMATION_KEPT[0], ("column", INFORMATION_KEPT[1]), summary.information()),
        render_table(STATISTICS_KEPT[0], ("figure", *STATISTICS_KEPT[1:]), summary.statistics()),
        render_list((*certificate.all_notes, *summary.notes, *columns, OWNER)),
    )
