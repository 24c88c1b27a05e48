"""Compact HTML for notebooks: escaped, with inline styles only, and readable in light and dark themes.

Colours are those of the notebook. Every table has headers with a scope, and no meaning depends on a colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from shoal.errors import escape_invisible

MOST = 50  # rows of a table or entries of a list
LONGEST = 200  # characters of a cell
CELL = "text-align:{};padding:2px 12px 2px 0;border-bottom:1px solid rgba(128,128,128,.4);vertical-align:top"


def escape_markup(text: str) -> str:
    """Escape a text for HTML: it cannot begin or end an element or attribute, and contains no control characters.

    >>> print(escape_markup('<b title="x">'), escape_markup("a\\0b"))
    &lt;b title=&quot;x&quot;&gt; a\\x00b
    """
    return escape(escape_invisible(text))


def render_view(title: str, *parts: str) -> str:
    """A block with a title line and parts, which are HTML already."""
    body = "".join(part for part in parts if part)
    return f'<div style="margin:4px 0"><p style="margin:0 0 4px"><strong>{_shorten(title)}</strong></p>{body}</div>'


def render_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], *, figures: bool = True) -> str:
    """A table with a caption; the first column has the row headers, the last one is aligned to the right for figures.

    Only the first 50 rows are shown, and the number of the others. Without rows the result is empty.
    """
    listed = list(rows)
    if not listed:
        return ""
    last = len(head) - 1

    def align(place: int) -> str:
        return CELL.format("right" if figures and place == last else "left")

    top = "".join(f'<th scope="col" style="{align(i)}">{_shorten(text)}</th>' for i, text in enumerate(head))
    body = []
    for row in listed[:MOST]:
        first = f'<th scope="row" style="{align(0)};font-weight:normal">{_shorten(row[0])}</th>'
        cells = "".join(f'<td style="{align(i)}">{_shorten(text)}</td>' for i, text in enumerate(row) if i)
        body.append(f"<tr>{first}{cells}</tr>")
    if len(listed) > MOST:
        body.append(f'<tr><td colspan="{len(head)}" style="{CELL.format("left")}">{count_more(listed)}</td></tr>')
    return (
        f'<table style="border-collapse:collapse;margin:4px 0 8px"><caption style="text-align:left;font-weight:600">'
        f"{_shorten(caption)}</caption><thead><tr>{top}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    )


def render_list(texts: Sequence[str]) -> str:
    """A list of texts, such as notes; only the first 50 are shown, and the number of the others."""
    shown = [escape_markup(text) for text in texts[:MOST]] + ([count_more(texts)] if len(texts) > MOST else [])
    return f'<ul style="margin:4px 0">{"".join(f"<li>{text}</li>" for text in shown)}</ul>' if shown else ""


def count_more(entries: Sequence[object]) -> str:
    """The number of entries that are not shown."""
    return f"… and {len(entries) - MOST:,} more"


def _shorten(text: str) -> str:
    return escape_markup(text if len(text) <= LONGEST else text[: LONGEST - 1] + "…")
