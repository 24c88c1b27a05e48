"""The path as a picture: the smallest group against what is known, one dot per step, as SVG without outside parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from shoal.recoding.search_path import AttributeNames, SearchPath
from shoal.report.formatting import describe_change, format_count, format_label, join_labels, name_sets

WIDTH, HEIGHT = 760, 300  # of the whole, and of the field between the axes
LEFT, RIGHT, TOP, BELOW, ROW = 90, 28, 74, 56, 20
SIGN = 6.6  # about the width of a letter
EVERY, APART, FINE = 100, 7.0, 0.7  # up to so many steps each has its dot; else pixels between dots, and along a line
MANY, FAINT = 8, 0.5  # ticks at most, about; how much of its colour the path has past the release
COLOURS = ("#3b7ea1", "#c76b2e", "#2f8f6d", "#9364b5", "#b3502f", "#7d8a25")
DASHES = ("", "7 4", "2 4", "9 3 2 3")
LEADING = (range(1, 10), (1, 2, 5), (1,))  # the digits that ticks of a logarithmic axis begin with, the finest that fit
STYLE = """
.shoal-path .back { fill: #fbfcfd; } .shoal-path .ink { fill: #223344; } .shoal-path .soft { fill: #52646f; }
.shoal-path .grid { stroke: #d5dde2; } .shoal-path .mark { stroke: #223344; fill: none; }
@media (prefers-color-scheme: dark) {
.shoal-path .back { fill: #171c20; } .shoal-path .ink { fill: #e3eaee; } .shoal-path .soft { fill: #a9b8c1; }
.shoal-path .grid { stroke: #37424a; } .shoal-path .mark { stroke: #e3eaee; } }
"""


@dataclass(frozen=True)
class Axis:
    """Values from ``low`` to ``high`` laid out from ``begin`` to ``end`` on the page, with ticks and their texts."""

    low: float
    high: float
    begin: float
    end: float
    ticks: tuple[tuple[float, str], ...]

    def at(self, value: float) -> float:
        """Where a value lies on the page."""
        return self.begin + (value - self.low) / (self.high - self.low) * (self.end - self.begin)


@dataclass(frozen=True)
class Spot:
    """Where the table after a step lies on the page."""

    number: int
    x: float
    y: float


def svg(path: SearchPath) -> str:
    """Anonymity against information along the path, for the owner alone: a dot's tooltip names raw values.

    Down the side the records of the smallest group, on a logarithmic scale, a line for each set of identifiers; along the
    foot the bits of information where the path has them, else the certainty kept, 1 - NCP. With hundreds of steps dots that
    would touch are left out; the lines stay whole. Light and dark follow the reader's system.
    """
    names = name_sets(path)
    known, text, percent = _known(path)
    across = _linear([v for v in known if math.isfinite(v)] or [0.0], percent)
    sizes = {found: _sizes(path, found) for found in names}
    down = _logarithmic([v for values in sizes.values() for v in values] or [1])
    lines = {found: _spots(known, sizes[found], across, down) for found in names}
    height = TOP + HEIGHT + BELOW + (len(names) * ROW if len(names) > 1 else 0)
    said = escape(f"The path: {_heading(path)}")
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="shoal-path" viewBox="0 0 {WIDTH} {height}" role="img" '
            f'aria-label="{said}" font-family="system-ui, sans-serif" font-size="13">',
            f"<style>{STYLE}</style>",
            f'<rect class="back" width="{WIDTH}" height="{height}" rx="6"/>',
            _text(LEFT, 26, _heading(path), more='font-weight="600"'),
            *_grid(across, down),
            *_titles(text),
            *_release(path, list(lines.values())),
            *(part for place, spots in enumerate(lines.values()) for part in _curve(path, spots, place)),
            *_legend(names),
            "</svg>",
        ]
    )


def _known(path: SearchPath) -> tuple[list[float], str, bool]:
    """What is known before the first and after every step, what to call it, and whether it is a share."""
    tables = [path.measures, *(step.measures for step in path)]
    if all("information" in table for table in tables):
        return [t["information"] for t in tables], "information: the bits that each attribute tells, summed", False
    return [1 - t["ncp"] for t in tables], "certainty kept, 1 - NCP", True


def _sizes(path: SearchPath, found: AttributeNames) -> list[int]:
    """The smallest group before the first and after every step; an empty table is drawn at 1."""
    return [max(sizes.get(found, 1), 1) for sizes in (path.smallest, *(step.smallest for step in path))]


def _spots(known: Sequence[float], sizes: Sequence[int], across: Axis, down: Axis) -> list[Spot]:
    pairs = enumerate(zip(known, sizes, strict=True))
    return [Spot(n, across.at(x), down.at(math.log10(y))) for n, (x, y) in pairs if math.isfinite(x)]


def _linear(values: Sequence[float], percent: bool) -> Axis:
    low, high = round(min(values), 9), round(max(values), 9)
    if high - low <= 1e-9 * max(1.0, abs(high)):
        low = math.ceil(low) - 1.0 if low else 0.0
        high = low + 1
    rough = (high - low) / (MANY - 2)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))
    ends = range(math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) + 1)
    write = _writer(step, percent)
    ticks = tuple((n * step, write(n * step)) for n in ends)
    return Axis(ticks[0][0], ticks[-1][0], LEFT, WIDTH - RIGHT, ticks)


def _writer(step: float, percent: bool) -> Callable[[float], str]:
    """Writes a tick with as many digits as its neighbours need to differ."""
    scale, sign = (100, " %") if percent else (1, "")
    digits = max(0, -math.floor(math.log10(step * scale) + 1e-9))
    return lambda value: f"{value * scale + 0.0:,.{digits}f}{sign}"


def _logarithmic(sizes: Collection[int]) -> Axis:
    for leading in LEADING:
        values = [m * 10**p for p in range(len(str(max(sizes))) + 1) for m in leading]
        first = max(n for n, value in enumerate(values) if value <= min(sizes))
        last = min(n for n, value in enumerate(values) if value >= max(sizes))
        if first == last:
            first, last = max(first - 1, 0), last + 1
        if last - first < MANY:
            break
    shown = values[first : last + 1]
    ticks = tuple((math.log10(v), f"{v:,}" if v < 1e6 else f"{v / 1e6:,g} M") for v in shown)
    return Axis(ticks[0][0], ticks[-1][0], TOP + HEIGHT, TOP, ticks)


def _heading(path: SearchPath) -> str:
    if not path.steps:
        return "No step was taken"
    how = "opens a value, from left to right" if path.direction == "open" else "closes a value, from right to left"
    return f"{format_count(len(path), 'step')}: {'each' if len(path) > 1 else 'it'} {how}"


def _text(x: float, y: float, text: str, *, anchor: str = "start", kind: str = "ink", more: str = "") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(text)}</text>'


def _grid(across: Axis, down: Axis) -> Iterator[str]:
    for value, text in across.ticks:
        x = across.at(value)
        yield f'<line class="grid" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{TOP + HEIGHT}"/>'
        yield _text(x, TOP + HEIGHT + 18, text, anchor="middle", kind="soft")
    for value, text in down.ticks:
        y = down.at(value)
        yield f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>'
        yield _text(LEFT - 14, y + 4.5, text, anchor="end", kind="soft")


def _titles(text: str) -> Iterator[str]:
    middle = TOP + HEIGHT / 2
    yield _text((LEFT + WIDTH - RIGHT) / 2, TOP + HEIGHT + 42, text, anchor="middle")
    yield _text(
        18, middle, "records in the smallest group", anchor="middle", more=f'transform="rotate(-90 18 {middle})"'
    )


def _release(path: SearchPath, lines: Sequence[Sequence[Spot]]) -> Iterator[str]:
    """The step that was released: a line down to the axis, its words above the field, a ring on every line."""
    spots = [spot for line in lines for spot in line if spot.number == path.chosen]
    if not spots:
        return
    sizes = (path.steps[path.chosen - 1] if path.chosen else path).smallest
    size = f", smallest group {next(iter(sizes.values())):,}" if len(sizes) == 1 else ""
    text = f"the release: {f'after step {path.chosen:,}' if path.chosen else 'before the first step'}{size}"
    half, x = len(text) * SIGN / 2, spots[0].x
    yield _text(min(max(x, LEFT + half), WIDTH - RIGHT - half), TOP - 12, text, anchor="middle")
    yield f'<line class="mark" stroke-dasharray="3 3" x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{TOP + HEIGHT}"/>'
    for spot in spots:
        yield f'<circle class="mark" stroke-width="2" cx="{spot.x:.1f}" cy="{spot.y:.1f}" r="8"/>'


def _curve(path: SearchPath, spots: Sequence[Spot], place: int) -> Iterator[str]:
    """A line and its dots; fainter where the path goes on past the release."""
    colour, dash = _colour(place)
    taken, later = ([s for s in spots if s.number <= path.chosen], [s for s in spots if s.number >= path.chosen])
    for part, faint in ((taken, 1.0), (later, FAINT)):
        if len(part) > 1:
            points = " ".join(f"{s.x:.1f},{s.y:.1f}" for s in _apart(part, FINE, (part[-1].number,)))
            yield (
                f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2" stroke-opacity="{faint}" '
                f'stroke-dasharray="{dash or "none"}" stroke-linejoin="round"/>'
            )
    dots = _apart(spots, APART if len(path) > EVERY else 0.0, (0, path.chosen, len(path)))
    for dot, after in zip(dots, [*(d.number for d in dots[1:]), len(path) + 1], strict=True):
        faint = 1.0 if dot.number <= path.chosen else FAINT
        yield (
            f'<circle cx="{dot.x:.1f}" cy="{dot.y:.1f}" r="3.6" fill="{colour}" fill-opacity="{faint}">'
            f"<title>{escape(_tooltip(path, dot.number, after - 1))}</title></circle>"
        )


def _colour(place: int) -> tuple[str, str]:
    return COLOURS[place % len(COLOURS)], DASHES[place % len(DASHES)]


def _apart(spots: Sequence[Spot], gap: float, keep: Collection[int]) -> list[Spot]:
    """The spots that are so far from the one kept before them, and those that must be kept."""
    kept: list[Spot] = []
    for spot in spots:
        if not kept or spot.number in keep or math.hypot(spot.x - kept[-1].x, spot.y - kept[-1].y) >= gap:
            kept.append(spot)
    return kept


def _tooltip(path: SearchPath, number: int, last: int) -> str:
    near = f"\n(steps {number + 1:,} to {last:,} lie close by)" if last > number else ""
    if not number:
        return f"before the first step{near}"
    step = path.steps[number - 1]
    what = describe_change(step, path.direction, arrow="→", most=4, width=40)
    return f"step {number:,} of {len(path):,}, {format_label(step.attribute)}: {what}{near}"


def _legend(names: dict[AttributeNames, str]) -> Iterator[str]:
    if len(names) < 2:
        return
    for place, (found, name) in enumerate(names.items()):
        y, (colour, dash) = TOP + HEIGHT + BELOW + 4 + place * ROW, _colour(place)
        text = f"{name}: {join_labels(found, len(found), 30)}"
        yield (
            f'<line x1="{LEFT}" y1="{y}" x2="{LEFT + 34}" y2="{y}" stroke="{colour}" stroke-width="2" '
            f'stroke-dasharray="{dash or "none"}"/><circle cx="{LEFT + 17}" cy="{y}" r="3.6" fill="{colour}"/>'
        )
        yield _text(LEFT + 42, y + 4.5, format_label(text, int((WIDTH - LEFT - RIGHT - 42) / SIGN)))
