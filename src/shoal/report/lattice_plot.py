"""The lattice of levels as a plot: the state of every node by its height, as SVG without external resources.

The nodes of a small lattice are dots, connected with their neighbours. A large lattice has one bar per height, divided by the
states of its nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, LEFT, RIGHT, TOP, BELOW = 760, 70, 20, 72, 40
ROW = 34  # the vertical distance of heights
MOST_DOTS, MOST_CONNECTED = 600, 120  # nodes
RADIUS = 5.0
STATES = {"anonymous": "#2f8f6d", "not anonymous": "#b3502f", "pruned": "#a9b8c1"}
STYLE = """
.shoal-lattice .back { fill: #fbfcfd; } .shoal-lattice .ink { fill: #223344; } .shoal-lattice .edge { stroke: #d5dde2; }
.shoal-lattice .mark { stroke: #223344; fill: none; }
@media (prefers-color-scheme: dark) {
.shoal-lattice .back { fill: #171c20; } .shoal-lattice .ink { fill: #e3eaee; } .shoal-lattice .edge { stroke: #37424a; }
.shoal-lattice .mark { stroke: #e3eaee; } }
"""


@dataclass(frozen=True)
class PlottedNode:
    """A node: its levels, its state, and a description for its tooltip."""

    levels: tuple[int, ...]
    state: str
    text: str

    @property
    def height(self) -> int:
        """The sum of the levels."""
        return sum(self.levels)


def plot_lattice(
    title: str, nodes: Sequence[PlottedNode], chosen: tuple[int, ...] | None, counts: Mapping[int, Mapping[str, int]]
) -> str:
    """Plot a lattice; ``counts`` has the number of nodes by height and state, for lattices with too many nodes for dots."""
    dots = 0 < len(nodes) <= MOST_DOTS
    heights = sorted({node.height for node in nodes} if dots else counts, reverse=True)
    below = TOP + ROW * len(heights) + BELOW
    drawn = _draw_dots(nodes, chosen, heights) if dots else _draw_bars(counts, chosen, heights)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="shoal-lattice" viewBox="0 0 {WIDTH} {below}" role="img" '
            f'aria-label="{escape(title)}" font-family="system-ui, sans-serif" font-size="13">',
            f"<style>{STYLE}</style>",
            f'<rect class="back" width="{WIDTH}" height="{below}" rx="6"/>',
            _text(LEFT, 26, title, 'font-weight="600"'),
            *_draw_legend(chosen is not None),
            *(_text(LEFT - 14, _down(i) + 4, str(h), 'text-anchor="end"') for i, h in enumerate(heights)),
            _text(LEFT, below - 14, "height: the sum of the levels; 0 has the values, the largest height the roots"),
            *drawn,
            "</svg>",
        ]
    )


def _draw_dots(nodes: Sequence[PlottedNode], chosen: tuple[int, ...] | None, heights: Sequence[int]) -> Iterator[str]:
    """One dot per node, lines to the nodes with one level more, and a ring around the chosen node."""
    place: dict[tuple[int, ...], tuple[float, float]] = {}
    for row, height in enumerate(heights):
        own = sorted((n for n in nodes if n.height == height), key=lambda n: n.levels)
        for i, node in enumerate(own):
            across = LEFT + (i + 0.5) * (WIDTH - LEFT - RIGHT) / len(own)
            place[node.levels] = across, _down(row)
    if len(nodes) <= MOST_CONNECTED:
        for levels, (x, y) in place.items():
            for j in range(len(levels)):
                above = place.get((*levels[:j], levels[j] + 1, *levels[j + 1 :]))
                if above is not None:
                    yield f'<path class="edge" d="M{x:.1f} {y:.1f}L{above[0]:.1f} {above[1]:.1f}"/>'
    widest = max(sum(n.height == h for n in nodes) for h in heights)
    radius = max(1.2, min(RADIUS, (WIDTH - LEFT - RIGHT) / widest / 2.6))
    for node in nodes:
        x, y = place[node.levels]
        tip = f"<title>{escape(node.text)}</title>"
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{STATES[node.state]}">{tip}</circle>'
    if chosen in place:
        x, y = place[chosen]
        yield f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="{radius + 3:.1f}" stroke-width="2"/>'


def _draw_bars(
    counts: Mapping[int, Mapping[str, int]], chosen: tuple[int, ...] | None, heights: Sequence[int]
) -> Iterator[str]:
    """One bar per height, as long as its number of nodes, divided by their states."""
    widest = max(sum(own.values()) for own in counts.values())
    scale = (WIDTH - LEFT - RIGHT - 90) / widest
    for row, height in enumerate(heights):
        x = float(LEFT)
        for state, colour in STATES.items():
            number = counts[height].get(state, 0)
            tip = f"<title>{number:,} nodes of height {height}: {state}</title>"
            place = f'x="{x:.1f}" y="{_down(row) - 9:.1f}" width="{number * scale:.1f}" height="18"'
            yield f'<rect {place} fill="{colour}">{tip}</rect>'
            x += number * scale
        yield _text(x + 6, _down(row) + 4, f"{sum(counts[height].values()):,}")
        if chosen is not None and sum(chosen) == height:
            yield f'<path class="mark" d="M{LEFT} {_down(row) + 13:.1f}H{x:.1f}" stroke-width="2"/>'


def _draw_legend(has_chosen: bool) -> Iterator[str]:
    x = float(LEFT)
    for state, colour in STATES.items():
        yield f'<circle cx="{x + RADIUS:.1f}" cy="46" r="{RADIUS}" fill="{colour}"/>'
        yield _text(x + 16, 50, state)
        x += 34 + 7 * len(state)
    if has_chosen:
        yield f'<circle class="mark" cx="{x + RADIUS:.1f}" cy="46" r="{RADIUS}" stroke-width="2"/>'
        yield _text(x + 16, 50, "chosen (in bars: its height)")


def _down(row: int) -> float:
    return TOP + ROW * (row + 0.5)


def _text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text class="ink" x="{x:.1f}" y="{y:.1f}" {more}>{escape(words)}</text>'
