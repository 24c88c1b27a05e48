"""The path as a plot: the smallest group against the information, one dot per step, as SVG without external resources."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from shoal.formats.numbers import format_count
from shoal.recoding.search_path import AttributeNames, SearchPath
from shoal.report.formatting import describe_change, format_label, join_labels, name_sets

WIDTH, HEIGHT = 760, 300  # width of the whole plot, height of the plot area
LEFT, RIGHT, TOP, BELOW, ROW = 90, 28, 74, 56, 20
CHARACTER = 6.6  # approximate width in pixels
ALL_DOTS = 100  # steps up to which every step has a dot
DOT_GAP, LINE_GAP = 7.0, 0.7  # least distance in pixels between dots, and between points of a line
MOST_TICKS, FAINT = 8, 0.5  # approximate limit; opacity of the path after the release
COLOURS = ("#3b7ea1", "#c76b2e", "#2f8f6d", "#9364b5", "#b3502f", "#7d8a25")
DASHES = ("", "7 4", "2 4", "9 3 2 3")
LEADING = (range(1, 10), (1, 2, 5), (1,))  # leading digits of logarithmic ticks; the first choice that fits is used
STYLE = """
.shoal-path .back { fill: #fbfcfd; } .shoal-path .ink { fill: #223344; } .shoal-path .soft { fill: #52646f; }
.shoal-path .grid { stroke: #d5dde2; } .shoal-path .mark { stroke: #223344; fill: none; }
@media (prefers-color-scheme: dark) {
.shoal-path .back { fill: #171c20; } .shoal-path .ink { fill: #e3eaee; } .shoal-path .soft { fill: #a9b8c1; }
.shoal-path .grid { stroke: #37424a; } .shoal-path .mark { stroke: #e3eaee; } }
"""


@dataclass(frozen=True)
class Axis:
    """An axis for values from ``low`` to ``high``, drawn from ``begin`` to ``end``, with ticks and their texts."""

    low: float
    high: float
    begin: float
    end: float
    ticks: tuple[tuple[float, str], ...]

    def at(self, value: float) -> float:
        """Return the coordinate of a value."""
        return self.begin + (value - self.low) / (self.high - self.low) * (self.end - self.begin)


@dataclass(frozen=True)
class Spot:
    """The position of the table after a step."""

    number: int
    x: float
    y: float


def render_svg(path: SearchPath) -> str:
    """Plot anonymity against information along the path, for the data owner only: tooltips contain raw values.

    The vertical axis has the records of the smallest group on a logarithmic scale, with a line for each attribute set. The
    horizontal axis has the information in bits if the path has a target, else the information kept, 1 - NCP. With hundreds of
    steps, dots that would touch are omitted; the lines are complete. Colours follow the light or dark mode of the system.
    """
    names = name_sets(path)
    information, text, is_percent = _list_information(path)
    across = _linear([v for v in information if math.isfinite(v)] or [0.0], is_percent)
    sizes = {attributes: _list_sizes(path, attributes) for attributes in names}
    down = _logarithmic([v for values in sizes.values() for v in values] or [1])
    lines = {attributes: _place_spots(information, sizes[attributes], across, down) for attributes in names}
    height = TOP + HEIGHT + BELOW + (len(names) * ROW if len(names) > 1 else 0)
    label = escape(f"Path: {_heading(path)}")
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="shoal-path" viewBox="0 0 {WIDTH} {height}" role="img" '
            f'aria-label="{label}" font-family="system-ui, sans-serif" font-size="13">',
            f"<style>{STYLE}</style>",
            f'<rect class="back" width="{WIDTH}" height="{height}" rx="6"/>',
            _text(LEFT, 26, _heading(path), more='font-weight="600"'),
            *_draw_grid(across, down),
            *_draw_titles(text),
            *_mark_release(path, list(lines.values())),
            *(part for number, spots in enumerate(lines.values()) for part in _draw_line(path, spots, number)),
            *_draw_legend(names),
            "</svg>",
        ]
    )


def _list_information(path: SearchPath) -> tuple[list[float], str, bool]:
    """Return the information before the first and after every step, the title of the axis, and whether it is a percentage."""
    tables = [path.measures, *(step.measures for step in path)]
    if all("information" in table for table in tables):
        return [t["information"] for t in tables], "information about the target in bits, summed over attributes", False
    return [1 - t["ncp"] for t in tables], "information kept, 1 - NCP", True


def _list_sizes(path: SearchPath, attributes: AttributeNames) -> list[int]:
    """Return the smallest group before the first and after every step; an empty table is drawn at 1."""
    return [max(sizes.get(attributes, 1), 1) for sizes in (path.smallest, *(step.smallest for step in path))]


def _place_spots(information: Sequence[float], sizes: Sequence[int], across: Axis, down: Axis) -> list[Spot]:
    pairs = enumerate(zip(information, sizes, strict=True))
    return [Spot(n, across.at(x), down.at(math.log10(y))) for n, (x, y) in pairs if math.isfinite(x)]


def _linear(values: Sequence[float], is_percent: bool) -> Axis:
    low, high = round(min(values), 9), round(max(values), 9)
    if high - low <= 1e-9 * max(1.0, abs(high)):
        low = math.ceil(low) - 1.0 if low else 0.0
        high = low + 1
    rough = (high - low) / (MOST_TICKS - 2)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))
    ends = range(math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) + 1)
    format_tick = _make_tick_format(step, is_percent)
    ticks = tuple((n * step, format_tick(n * step)) for n in ends)
    return Axis(ticks[0][0], ticks[-1][0], LEFT, WIDTH - RIGHT, ticks)


def _make_tick_format(step: float, is_percent: bool) -> Callable[[float], str]:
    """Return a function that writes a tick with enough digits to differ from the next tick."""
    scale, unit = (100, " %") if is_percent else (1, "")
    digits = max(0, -math.floor(math.log10(step * scale) + 1e-9))
    return lambda value: f"{value * scale + 0.0:,.{digits}f}{unit}"


def _logarithmic(sizes: Collection[int]) -> Axis:
    for leading in LEADING:
        values = [m * 10**p for p in range(len(str(max(sizes))) + 1) for m in leading]
        first = max(n for n, value in enumerate(values) if value <= min(sizes))
        last = min(n for n, value in enumerate(values) if value >= max(sizes))
        if first == last:
            first, last = max(first - 1, 0), last + 1
        if last - first < MOST_TICKS:
            break
    ticks = tuple((math.log10(v), f"{v:,}" if v < 1e6 else f"{v / 1e6:,g} M") for v in values[first : last + 1])
    return Axis(ticks[0][0], ticks[-1][0], TOP + HEIGHT, TOP, ticks)


def _heading(path: SearchPath) -> str:
    if not path.steps:
        return "No steps"
    is_down = path.direction == "specialize"
    change = "specializes a value, from left to right" if is_down else "generalizes values, from right to left"
    return f"{format_count(len(path), 'step')}: {'each' if len(path) > 1 else 'it'} {change}"


def _text(x: float, y: float, text: str, *, anchor: str = "start", kind: str = "ink", more: str = "") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(text)}</text>'


def _draw_grid(across: Axis, down: Axis) -> Iterator[str]:
    for value, text in across.ticks:
        x = across.at(value)
        yield f'<line class="grid" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{TOP + HEIGHT}"/>'
        yield _text(x, TOP + HEIGHT + 18, text, anchor="middle", kind="soft")
    for value, text in down.ticks:
        y = down.at(value)
        yield f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>'
        yield _text(LEFT - 14, y + 4.5, text, anchor="end", kind="soft")


def _draw_titles(text: str) -> Iterator[str]:
    middle = TOP + HEIGHT / 2
    yield _text((LEFT + WIDTH - RIGHT) / 2, TOP + HEIGHT + 42, text, anchor="middle")
    yield _text(
        18, middle, "records in the smallest group", anchor="middle", more=f'transform="rotate(-90 18 {middle})"'
    )


def _mark_release(path: SearchPath, lines: Sequence[Sequence[Spot]]) -> Iterator[str]:
    """Mark the released table: a dashed line to the axis, a text above the plot area, a ring on every line."""
    spots = [spot for line in lines for spot in line if spot.number == path.chosen]
    if not spots:
        return
    sizes = (path.steps[path.chosen - 1] if path.chosen else path).smallest
    size = f", smallest group {format_count(next(iter(sizes.values())), 'record')}" if len(sizes) == 1 else ""
    text = f"release: {f'after step {path.chosen:,}' if path.chosen else 'before the first step'}{size}"
    half, x = len(text) * CHARACTER / 2, spots[0].x
    yield _text(min(max(x, LEFT + half), WIDTH - RIGHT - half), TOP - 12, text, anchor="middle")
    yield f'<line class="mark" stroke-dasharray="3 3" x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{TOP + HEIGHT}"/>'
    for spot in spots:
        yield f'<circle class="mark" stroke-width="2" cx="{spot.x:.1f}" cy="{spot.y:.1f}" r="8"/>'


def _draw_line(path: SearchPath, spots: Sequence[Spot], number: int) -> Iterator[str]:
    """Draw a line and its dots; the part after the release is fainter."""
    colour, dash = _select_style(number)
    released, later = ([s for s in spots if s.number <= path.chosen], [s for s in spots if s.number >= path.chosen])
    for part, faint in ((released, 1.0), (later, FAINT)):
        if len(part) > 1:
            points = " ".join(f"{s.x:.1f},{s.y:.1f}" for s in _thin_out(part, LINE_GAP, (part[-1].number,)))
            yield (
                f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2" stroke-opacity="{faint}" '
                f'stroke-dasharray="{dash or "none"}" stroke-linejoin="round"/>'
            )
    dots = _thin_out(spots, DOT_GAP if len(path) > ALL_DOTS else 0.0, (0, path.chosen, len(path)))
    for dot, after in zip(dots, [*(d.number for d in dots[1:]), len(path) + 1], strict=True):
        faint = 1.0 if dot.number <= path.chosen else FAINT
        yield (
            f'<circle cx="{dot.x:.1f}" cy="{dot.y:.1f}" r="3.6" fill="{colour}" fill-opacity="{faint}">'
            f"<title>{escape(_format_tooltip(path, dot.number, after - 1))}</title></circle>"
        )


def _select_style(number: int) -> tuple[str, str]:
    """Return the colour and the dashes of a line."""
    return COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]


def _thin_out(spots: Sequence[Spot], gap: float, keep: Collection[int]) -> list[Spot]:
    """Return the spots that are at least ``gap`` from the spot before, and the spots of the steps in ``keep``."""
    kept: list[Spot] = []
    for spot in spots:
        if not kept or spot.number in keep or math.hypot(spot.x - kept[-1].x, spot.y - kept[-1].y) >= gap:
            kept.append(spot)
    return kept


def _format_tooltip(path: SearchPath, number: int, last: int) -> str:
    near = f"\n(steps {number + 1:,} to {last:,} are next to this dot)" if last > number else ""
    if not number:
        return f"before the first step{near}"
    step = path.steps[number - 1]
    change = describe_change(step, path.direction, arrow="→", most=4, width=40)
    return f"step {number:,} of {len(path):,}, {format_label(step.attribute)}: {change}{near}"


def _draw_legend(names: dict[AttributeNames, str]) -> Iterator[str]:
    if len(names) < 2:
        return
    for number, (attributes, name) in enumerate(names.items()):
        y, (colour, dash) = TOP + HEIGHT + BELOW + 4 + number * ROW, _select_style(number)
        text = f"{name}: {join_labels(attributes, len(attributes), 30)}"
        yield (
            f'<line x1="{LEFT}" y1="{y}" x2="{LEFT + 34}" y2="{y}" stroke="{colour}" stroke-width="2" '
            f'stroke-dasharray="{dash or "none"}"/><circle cx="{LEFT + 17}" cy="{y}" r="3.6" fill="{colour}"/>'
        )
        yield _text(LEFT + 42, y + 4.5, format_label(text, int((WIDTH - LEFT - RIGHT - 42) / CHARACTER)))
