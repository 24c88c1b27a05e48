"""The path of a release as a plot and as an HTML page, for the data owner only."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from shoal.errors import EngineError, PolicyError
from shoal.formats.html_text import escape_markup
from shoal.formats.numbers import format_count
from shoal.recoding.search_path import AttributeNames, Refusal, SearchPath
from shoal.report.formatting import format_figure, format_label, join_labels, name_sets
from shoal.report.html_report import STYLE
from shoal.report.path_plot import WIDTH, render_svg
from shoal.report.path_text import (
    PARTICIPLE,
    REASON_WIDTH,
    group_refusals,
    name_gain_and_loss,
    summarize,
    title_refusals,
)

MOST_CHILDREN, MOST_REFUSED = 20, 200  # children in a table cell; refused values per attribute
SUFFIXES = (".svg", ".html")
WIDE = """
body { max-width: 76rem; } p, svg { max-width: 52rem; } svg { display: block; width: 100%; height: auto; }
.wide { overflow-x: auto; } .wide table { font-size: .9rem; } .wide td { overflow-wrap: anywhere; min-width: 7rem; }
.wide td:first-child { min-width: 4.5rem; } .wide td.figure { min-width: 0; } .wide td.list { min-width: 14rem; }
.wide th { vertical-align: bottom; } th.figure { text-align: right; } .here { background: #2a7f6233; }
"""


@dataclass(frozen=True)
class PathPlot:
    """A plot of the path of a release: the smallest group against the information, step by step.

    A notebook displays the plot. The tooltips of the plot and the tables of the page contain values of the original table, also
    values that the release hides: the plot must stay with the data owner.
    """

    path: SearchPath

    @cached_property
    def svg(self) -> str:
        """The plot alone, as SVG without scripts or external resources."""
        return render_svg(self.path)

    @cached_property
    def html(self) -> str:
        """The whole page: the plot, a table of all steps, and the values that were not specialized."""
        return render_page(self.path)

    def save(self, path: str | pathlib.Path) -> pathlib.Path:
        """Write the plot (``.svg``) or the page (``.html``) to a file; an existing file is overwritten.

        Only the user who writes a new file can read it (mode 600).
        """
        target = pathlib.Path(path)
        suffix = target.suffix.lower()
        if suffix not in SUFFIXES:
            raise PolicyError(f"Cannot save the path to {str(path)!r}: the name must end in '.svg' or '.html'.")
        try:
            target.touch(mode=0o600)
            target.write_text(self.svg if suffix == ".svg" else self.html, encoding="utf-8")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise EngineError(f"Cannot write the path to {str(path)!r}: {why}. Choose another file.") from error
        return target

    def _repr_html_(self) -> str:
        return f'<div style="max-width: {WIDTH}px">{self.svg}</div>'

    def __repr__(self) -> str:
        return f"PathPlot({format_count(len(self.path), 'step')}, release after step {self.path.chosen:,})"


def render_page(path: SearchPath) -> str:
    """Render the path as one page without scripts or external resources, for the data owner only: labels are raw values."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Path to the release</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}{WIDE}</style></head><body>
<h1>Path to the release</h1>
<p>{escape_markup(summarize(path))} The plot shows, for the table after every step, the number of records in the smallest group
(records with equal published quasi-identifiers) and the information in the table. The released table is marked. <strong>The
labels are values of the original table, also values that the release hides: this page must
stay with the data owner.</strong></p>
{render_svg(path)}
<h2>Steps</h2>
{_render_steps(path)}
{_render_refusals(path)}
{f"<p>Why the path ended: {escape_markup(format_label(path.stop_reason, REASON_WIDTH))}</p>" if path.stop_reason else ""}
</body></html>
"""


def _render_steps(path: SearchPath) -> str:
    names = name_sets(path)
    sizes = [
        f"records in the smallest group, {name}" if name else "records in the smallest group" for name in names.values()
    ]
    head = _render_head(
        ("step", "attribute", "value", "children"),
        (
            *name_gain_and_loss(path.measures, path.direction),
            "score",
            *sizes,
            "NCP",
            "information",
            "suppressed records",
        ),
    )
    sets = "".join(
        f"<li>{escape_markup(name)}: {escape_markup(join_labels(s, len(s)))}</li>" for s, name in names.items() if name
    )
    intro = f"<p>Groups are counted for each set of quasi-identifiers:</p><ul>{sets}</ul>" if sets else ""
    return intro + _render_table(head, _render_rows(path, names))


def _render_rows(path: SearchPath, names: Mapping[AttributeNames, str]) -> Iterator[str]:
    start = _format_figures(path.smallest, path.measures, names)
    yield _render_row([_format_number(path, 0), "", ""], "", ["", "", "", *start], is_release=not path.chosen)
    for number, step in enumerate(path, 1):
        words = [_format_number(path, number), format_label(step.attribute), format_label(step.value)]
        figures = [format_figure(v) for v in (step.gain, step.loss, step.score)]
        figures += _format_figures(step.smallest, step.measures, names)
        yield _render_row(words, join_labels(step.children, MOST_CHILDREN), figures, is_release=number == path.chosen)


def _format_number(path: SearchPath, number: int) -> str:
    return f"{number:,} (release)" if number == path.chosen else f"{number:,}"


def _format_figures(
    smallest: Mapping[AttributeNames, int], measures: Mapping[str, float], names: Mapping[AttributeNames, str]
) -> list[str]:
    sizes = [format_figure(smallest.get(attributes)) for attributes in names]
    return [*sizes, *(format_figure(measures.get(name)) for name in ("ncp", "information", "suppressed"))]


def _render_refusals(path: SearchPath) -> str:
    if not path.refusals:
        return ""
    head = _render_head(("attribute", "value", "children", f"why it was not {PARTICIPLE[path.direction]}"))
    rows = (row for refusals in group_refusals(path).values() for row in _render_refusal_rows(refusals))
    return f"<h2>{title_refusals(path)}</h2>\n{_render_table(head, rows)}"


def _render_refusal_rows(refusals: list[Refusal]) -> Iterator[str]:
    for refusal in refusals[:MOST_REFUSED]:
        yield _render_row(
            [format_label(refusal.attribute), format_label(refusal.value)],
            join_labels(refusal.children, MOST_CHILDREN),
            reason=format_label(refusal.reason, REASON_WIDTH),
        )
    if len(refusals) > MOST_REFUSED:
        more = f"and {len(refusals) - MOST_REFUSED:,} more"
        yield _render_row([format_label(refusals[0].attribute), more], "", reason="")


def _render_table(head: str, rows: Iterable[str]) -> str:
    return "\n".join(['<div class="wide" tabindex="0"><table>', head, *rows, "</table></div>"])


def _render_head(words: Iterable[str], figures: Iterable[str] = ()) -> str:
    cells = [f"<th>{escape_markup(name)}</th>" for name in words]
    cells += [f'<th class="figure">{escape_markup(name)}</th>' for name in figures]
    return f"<tr>{''.join(cells)}</tr>"


def _render_row(
    words: Iterable[str],
    children: str,
    figures: Iterable[str] = (),
    *,
    reason: str | None = None,
    is_release: bool = False,
) -> str:
    cells = [f"<td>{escape_markup(word)}</td>" for word in words]
    cells.append(f'<td class="list">{escape_markup(children)}</td>')
    cells += [f'<td class="figure">{escape_markup(text)}</td>' for text in figures]
    cells += [f'<td class="list">{escape_markup(reason)}</td>'] if reason is not None else []
    begin = '<tr class="here">' if is_release else "<tr>"
    return f"{begin}{''.join(cells)}</tr>"
