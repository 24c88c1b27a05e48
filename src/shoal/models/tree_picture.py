"""A picture of a decision tree as SVG: the root on the left, a bar with the classes in every leaf."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from shoal.errors import EngineError
from shoal.formats.html_text import escape_markup
from shoal.mining.tree_model import TreeModel

MOST_LEAVES = 120  # a larger tree is drawn without its deepest nodes
COLUMN, ROW, BAR, MARGIN = 190, 26, 120, 16
COLORS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#eeca3b", "#9d755d", "#72b7b2", "#ff9da6")


@dataclass(frozen=True)
class TreePicture:
    """A tree as SVG. Notebooks show it; `save` writes it."""

    model: TreeModel

    @property
    def svg(self) -> str:
        """The picture as SVG text."""
        return draw_tree(self.model)

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> Path:
        """Write the picture to a file; return its path."""
        file = Path(path)
        try:
            file.write_text(self.svg, encoding="utf-8", newline="\n")
        except OSError as error:
            raise EngineError(f"cannot write the picture to {str(file)!r}: {error.strerror or error}.") from error
        return file


def draw_tree(model: TreeModel) -> str:
    """Draw a tree; subtrees below a depth are drawn as one box with the number of their leaves, if the tree is large."""
    deepest = _choose_depth(model)
    shapes: list[str] = []
    rows = _draw_node(model, 0, 0, 0, deepest, shapes)[1]
    depth = _measure_depth(model, 0, deepest)
    width = MARGIN * 2 + (depth + 1) * COLUMN + BAR + 60
    legend = _draw_legend(model, MARGIN + rows * ROW + 8)
    height = MARGIN * 2 + rows * ROW + 30
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="11" role="img">'
        f"<title>Decision tree for {escape_markup(model.target)}</title>"
        f'<rect width="100%" height="100%" fill="white"/>{"".join(shapes)}{legend}</svg>\n'
    )


def _choose_depth(model: TreeModel) -> int:
    """The largest depth at which the picture has at most `MOST_LEAVES` rows and columns."""
    level, depth, finished = [0], 0, 0
    while True:
        below = [c for n in level for c in model.nodes[n].children]
        finished += sum(not model.nodes[n].children for n in level)
        if not below or finished + len(below) > MOST_LEAVES or depth == MOST_LEAVES:
            return depth
        level, depth = below, depth + 1


def _measure_depth(model: TreeModel, n: int, deepest: int) -> int:
    children = model.nodes[n].children
    return 0 if not children or deepest == 0 else 1 + max(_measure_depth(model, c, deepest - 1) for c in children)


def _draw_node(model: TreeModel, n: int, depth: int, row: int, deepest: int, shapes: list[str]) -> tuple[float, int]:
    """Draw a node and everything below it, from a row on; return its vertical place, and the next free row."""
    node, x = model.nodes[n], MARGIN + depth * COLUMN
    condition = model.condition(n)
    words = _shorten("all records" if condition is None else str(condition))
    full = escape_markup("all records" if condition is None else str(condition))
    if not node.children or depth == deepest:
        y = MARGIN + row * ROW + ROW / 2
        text = model.describe_leaf(n) if not node.children else f"{_count_leaves(model, n):,} more leaves"
        shapes.append(_write(x, y + 4, words, full) + _draw_bar(model, n, x + COLUMN, y, text))
        return y, row + 1
    places = []
    for child in node.children:
        y, row = _draw_node(model, child, depth + 1, row, deepest, shapes)
        places.append(y)
    middle = (places[0] + places[-1]) / 2
    shapes.extend(
        f'<path d="M{x + COLUMN - 34} {middle:.1f} H{x + COLUMN - 20} V{y:.1f} H{x + COLUMN - 6}" '
        'fill="none" stroke="#999"/>'
        for y in places
    )
    shapes.append(_write(x, middle + 4, words, full))
    return middle, row


def _draw_bar(model: TreeModel, n: int, x: float, y: float, text: str) -> str:
    """The shares of the classes in a leaf."""
    parts, at = [], x
    for c, share in enumerate(model.probabilities[n]):
        if model.populations != "nothing" and share > 0:
            width = share * BAR
            parts.append(
                f'<rect x="{at:.1f}" y="{y - 7:.1f}" width="{width:.1f}" height="14" fill="{COLORS[c % len(COLORS)]}"/>'
            )
            at += width
    return f"<g><title>{escape_markup(text)}</title>{''.join(parts)}</g>"


def _draw_legend(model: TreeModel, y: float) -> str:
    parts, x = [], float(MARGIN)
    for c, label in enumerate(model.classes):
        text = "missing" if label is None else label
        parts.append(
            f'<rect x="{x}" y="{y}" width="12" height="12" fill="{COLORS[c % len(COLORS)]}"/>'
            f'<text x="{x + 16}" y="{y + 10}">{escape_markup(_shorten(text))}</text>'
        )
        x += 30 + 6.5 * len(_shorten(text))
    return "".join(parts)


def _write(x: float, y: float, text: str, full: str) -> str:
    return f'<text x="{x}" y="{y:.1f}"><title>{full}</title>{escape_markup(text)}</text>'


def _shorten(text: str, most: int = 24) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _count_leaves(model: TreeModel, n: int) -> int:
    leaves, waiting = 0, [n]
    while waiting:
        children = model.nodes[waiting.pop()].children
        leaves += not children
        waiting += children
    return leaves
