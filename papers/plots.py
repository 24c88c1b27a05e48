"""Line and scatter plots as SVG, without a plotting library, so that a second run writes identical files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import log10

WIDTH, HEIGHT = 760, 430
LEFT, RIGHT, TOP, BOTTOM = 58, 128, 44, 54
PAPER, INK, FAINT = "#fbfcfd", "#223344", "#d5dde3"  # a background, so that plots are readable on dark pages
COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#8a5a9e",
    "#c2528b",
    "#3d9bd1",
    "#a97c00",
)  # distinguishable with colour blindness
LOWEST = HEIGHT - BOTTOM  # lowest position of the name of a line


@dataclass(frozen=True)
class Line:
    """A series of values, one for each position of the x axis."""

    name: str
    values: Sequence[float]
    colour: str
    dashed: bool = False


@dataclass(frozen=True)
class Dots:
    """Points of one group."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: str
    hollow: bool = False


def lines(
    title: str,
    axes: tuple[str, str],
    places: Sequence[object],
    series: Sequence[Line],
    ends: tuple[int, int],
    *,
    step: int = 1,
    log: bool = False,
) -> str:
    """Plot series over evenly spaced positions; the y axis goes from ``ends[0]`` to ``ends[1]`` with a line for each step.

    With ``log`` the ends are exponents of ten.
    """
    low, high = ends

    def across(place: float) -> float:
        return LEFT + place / max(len(places) - 1, 1) * (WIDTH - LEFT - RIGHT)

    def down(value: float) -> float:
        height = max(log10(value), low) if log else value
        return HEIGHT - BOTTOM - (height - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [*_frame(title, axes)]
    for tick in range(low, high + 1, step):
        parts += _level(down(10.0**tick), f"{10.0**tick:,.15g}") if log else _level(down(tick), f"{tick:,}")
    parts += [_text(across(i), HEIGHT - BOTTOM + 18, str(place), "middle") for i, place in enumerate(places)]
    for line in series:
        points = " ".join(f"{across(i):.1f},{down(value):.1f}" for i, value in enumerate(line.values))
        dash = ' stroke-dasharray="2 5"' if line.dashed else ""
        parts.append(f'<polyline points="{points}" fill="none" stroke="{line.colour}" stroke-width="2"{dash}/>')
        if not line.dashed:
            parts += [
                f'<circle cx="{across(i):.1f}" cy="{down(v):.1f}" r="3" fill="{line.colour}"/>'
                for i, v in enumerate(line.values)
            ]
    heights = _apart([down(line.values[-1]) for line in series])
    parts += [
        _text(WIDTH - RIGHT + 12, y + 4, line.name, colour=line.colour) for line, y in zip(series, heights, strict=True)
    ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def scatter(title: str, axes: tuple[str, str], groups: Sequence[Dots], ends: tuple[int, int]) -> str:
    """Plot dots over two axes with the same ends, and the diagonal of equal values."""
    low, high = ends
    side = HEIGHT - TOP - BOTTOM

    def across(value: float) -> float:
        return LEFT + (value - low) / (high - low) * side

    def down(value: float) -> float:
        return HEIGHT - BOTTOM - (value - low) / (high - low) * side

    parts = [*_frame(title, axes, side)]
    for tick in range(low, high + 1):
        parts += [*_level(down(tick), str(tick), side), _text(across(tick), HEIGHT - BOTTOM + 18, str(tick), "middle")]
    corner = f'x1="{across(low):.1f}" y1="{down(low):.1f}" x2="{across(high):.1f}" y2="{down(high):.1f}"'
    parts.append(f'<line {corner} stroke="{INK}" stroke-width="1"/>')
    for number, group in enumerate(groups):
        look = f'fill="{"none" if group.hollow else group.colour}" stroke="{group.colour}" stroke-width="1.6"'
        parts += [f'<circle cx="{across(x):.1f}" cy="{down(y):.1f}" r="4" {look}/>' for x, y in group.points]
        y = TOP + 24 + 26 * number
        parts.append(f'<circle cx="{LEFT + side + 28}" cy="{y}" r="4" {look}/>')
        parts.append(_text(LEFT + side + 40, y + 4, group.name))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _frame(title: str, axes: tuple[str, str], across: int = WIDTH - LEFT - RIGHT) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13" '
        f'role="img"><title>{escape(title)}</title>'
    )
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{PAPER}"/>'
    yield _text(LEFT, 26, title)
    yield _text(LEFT + across / 2, HEIGHT - 12, axes[0], "middle")
    middle = (TOP + HEIGHT - BOTTOM) / 2
    yield _text(18, middle, axes[1], "middle").replace("<text ", f'<text transform="rotate(-90 18 {middle})" ')


def _level(y: float, label: str, across: int = WIDTH - LEFT - RIGHT) -> Iterator[str]:
    yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + across}" y2="{y:.1f}" stroke="{FAINT}"/>'
    yield _text(LEFT - 8, y + 4, label, "end")


def _text(x: float, y: float, words: str, anchor: str = "start", colour: str = INK) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(words)}</text>'


def _apart(heights: Sequence[float], least: float = 16) -> list[float]:
    """Return positions of labels near these heights, without overlap, inside the plot."""
    order = sorted(range(len(heights)), key=heights.__getitem__)
    placed = list(heights)
    for above, this in pairwise(order):
        placed[this] = max(placed[this], placed[above] + least)
    floor = float(LOWEST)
    for this in reversed(order):
        placed[this] = min(placed[this], floor)
        floor = placed[this] - least
    return placed
