"""The path of a release as a picture and as a page, for the owner alone."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from shoal.errors import EngineError, PolicyError
from shoal.recoding.search_path import AttributeNames, Refusal, SearchPath
from shoal.report.formatting import escape_markup, format_count, format_figure, format_label, join_labels, name_sets
from shoal.report.html_report import STYLE
from shoal.report.path_plot import WIDTH, svg
from shoal.report.path_text import DONE, REASON, by_attribute, left, standing, worth

CHILDREN, REFUSED = 20, 200  # shown in a cell, and for an attribute
SUFFIXES = (".svg", ".html")
WIDE = """
body { max-width: 76rem; } p, svg { max-width: 52rem; } svg { display: block; width: 100%; height: auto; }
.wide { overflow-x: auto; } .wide table { font-size: .9rem; } .wide td { overflow-wrap: anywhere; min-width: 7rem; }
.wide td:first-child { min-width: 4.5rem; } .wide td.figure { min-width: 0; } .wide td.list { min-width: 14rem; }
.wide th { vertical-align: bottom; } th.figure { text-align: right; } .here { background: #2a7f6233; }
"""


@dataclass(frozen=True)
class PathPlot:
    """The path of a release, drawn: how large the smallest group was and how much was known, step by step.

    A notebook shows it as it is. Its tooltips and the page's tables name values of the original table, also such as the
    release hides: it stays with the owner.
    """

    path: SearchPath

    @cached_property
    def svg(self) -> str:
        """The picture alone, an SVG without scripts or outside parts."""
        return svg(self.path)

    @cached_property
    def html(self) -> str:
        """The whole page: the picture, a table of all steps, and the values that were left."""
        return page(self.path)

    def save(self, path: str | pathlib.Path) -> pathlib.Path:
        """Write the picture (``.svg``) or the page (``.html``) to a file, in place of one that is there.

        A new file can be read by nobody but its owner (mode 600).
        """
        target = pathlib.Path(path)
        suffix = target.suffix.lower()
        if suffix not in SUFFIXES:
            raise PolicyError(f"a path is saved as '.svg' or '.html', and {str(path)!r} ends in neither")
        try:
            target.touch(mode=0o600)
            target.write_text(self.svg if suffix == ".svg" else self.html, encoding="utf-8")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise EngineError(f"cannot write the path to {str(path)!r}: {why}") from error
        return target

    def _repr_html_(self) -> str:
        return f'<div style="max-width: {WIDTH}px">{self.svg}</div>'

    def __repr__(self) -> str:
        return f"Picture({format_count(len(self.path), 'step')}, the release after {self.path.chosen:,})"


def page(path: SearchPath) -> str:
    """The path as one page without scripts or outside parts, for the owner alone: its labels are raw values."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>The path to the release</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}{WIDE}</style></head><body>
<h1>The path to the release</h1>
<p>{escape_markup(standing(path))} The picture shows for every step how many records the smallest group had after it, all those
who share the identifiers, and how much the table then told; the step that was released is marked. <strong>The labels are values
of the original table, also such as the release hides: this page must stay with the owner.</strong></p>
{svg(path)}
<h2>Steps</h2>
{_steps(path)}
{_left(path)}
{f"<p>Why the path ended: {escape_markup(format_label(path.ended, REASON))}</p>" if path.ended else ""}
</body></html>
"""


def _steps(path: SearchPath) -> str:
    names = name_sets(path)
    sizes = [f"smallest group, {name}" if name else "smallest group" for name in names.values()]
    head = _head(
        ("step", "attribute", "value", "children"),
        (*worth(path.measures, path.direction), "score", *sizes, "NCP", "information", "suppressed"),
    )
    explained = "".join(
        f"<li>{escape_markup(name)}: {escape_markup(join_labels(f, len(f)))}</li>" for f, name in names.items() if name
    )
    above = f"<p>Groups are counted for each set of identifiers:</p><ul>{explained}</ul>" if explained else ""
    return above + _wide(head, _rows(path, names))


def _rows(path: SearchPath, names: Mapping[AttributeNames, str]) -> Iterator[str]:
    start = _standing(path.smallest, path.measures, names)
    yield _row([_place(path, 0), "", ""], "", ["", "", "", *start], here=not path.chosen)
    for number, step in enumerate(path, 1):
        words = [_place(path, number), format_label(step.attribute), format_label(step.value)]
        figures = [format_figure(v) for v in (step.gain, step.loss, step.score)]
        figures += _standing(step.smallest, step.measures, names)
        yield _row(words, join_labels(step.children, CHILDREN), figures, here=number == path.chosen)


def _place(path: SearchPath, number: int) -> str:
    return f"{number:,} (release)" if number == path.chosen else f"{number:,}"


def _standing(
    smallest: Mapping[AttributeNames, int], measures: Mapping[str, float], names: Mapping[AttributeNames, str]
) -> list[str]:
    sizes = [format_figure(smallest.get(found)) for found in names]
    return [*sizes, *(format_figure(measures.get(name)) for name in ("ncp", "information", "suppressed"))]


def _left(path: SearchPath) -> str:
    if not path.refused:
        return ""
    head = _head(("attribute", "value", "children", f"why it was not {DONE[path.direction]}"))
    rows = (row for refused in by_attribute(path).values() for row in _refused(refused))
    return f"<h2>{left(path)}</h2>\n{_wide(head, rows)}"


def _refused(refused: list[Refusal]) -> Iterator[str]:
    for r in refused[:REFUSED]:
        yield _row(
            [format_label(r.attribute), format_label(r.value)],
            join_labels(r.children, CHILDREN),
            reason=format_label(r.reason, REASON),
        )
    if len(refused) > REFUSED:
        yield _row([format_label(refused[0].attribute), f"and {len(refused) - REFUSED:,} more"], "", reason="")


def _wide(head: str, rows: Iterable[str]) -> str:
    return "\n".join(['<div class="wide" tabindex="0"><table>', head, *rows, "</table></div>"])


def _head(words: Iterable[str], figures: Iterable[str] = ()) -> str:
    cells = [f"<th>{escape_markup(name)}</th>" for name in words]
    cells += [f'<th class="figure">{escape_markup(name)}</th>' for name in figures]
    return f"<tr>{''.join(cells)}</tr>"


def _row(
    words: Iterable[str], listed: str, figures: Iterable[str] = (), *, reason: str | None = None, here: bool = False
) -> str:
    cells = [f"<td>{escape_markup(word)}</td>" for word in words]
    cells.append(f'<td class="list">{escape_markup(listed)}</td>')
    cells += [f'<td class="figure">{escape_markup(text)}</td>' for text in figures]
    cells += [f'<td class="list">{escape_markup(reason)}</td>'] if reason is not None else []
    begin = '<tr class="here">' if here else "<tr>"
    return f"{begin}{''.join(cells)}</tr>"
