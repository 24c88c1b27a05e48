"""The lattice after a search: the state of its nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from shoal.formats.html_text import escape_markup, render_table, render_view
from shoal.kernels.interface import ANONYMOUS, TAGGED, UNSEEN
from shoal.report.lattice_plot import MOST_DOTS, PlottedNode, plot_lattice
from shoal.tables.lattice_search import LatticeSearch

ANONYMOUS_NODE, FAILING_NODE, PRUNED_NODE = "anonymous", "not anonymous", "pruned"
MOST_SHOWN = 50  # nodes in the representation
MOST_LISTED = 10  # nodes in the report
MOST_PLOTTED = 2**21  # nodes of a lattice with a picture


@dataclass(frozen=True)
class LatticeNode:
    """A node: the level of every attribute, and the result of its check.

    ``state`` is ``anonymous``, ``not anonymous`` or ``pruned`` (the search did not need it). ``loss`` is the objective by its
    name in ``release.measures``, and ``suppressed`` the records that would be suppressed. Both are None if the node was not
    checked. For a failing node ``suppressed`` is at least the number of records, and ``loss`` is None.
    """

    levels: Mapping[str, int]
    state: str
    loss: float | None = None
    suppressed: int | None = None


class SearchedLattice:
    """The lattice of a search: 0 is the level of the raw values, and the height of a taxonomy the level of its root.

    Iterate over all nodes (over the checked nodes, if the lattice is very large), or `find` one by its levels. ``size`` is the
    number of nodes. The groups of ``checked`` nodes were counted, ``tagged`` nodes are not anonymous because a
    coarser node is not, and ``pruned`` nodes were not needed. ``finished``: the chosen node is proved to be the best.
    ``bound``: no node of the lattice has a better objective (None if the method does not compute it). ``base`` has the lowest
    levels that were counted: 0, unless the table was too large for memory. Nodes with lower levels count as pruned, and
    ``finished`` and ``bound`` do not include them.
    """

    def __init__(self, search: LatticeSearch, chosen: tuple[int, ...] | None) -> None:
        self._search = search
        lattice = search.lattice
        self.names = lattice.names
        self.heights = dict(zip(lattice.names, lattice.top, strict=True))
        self.base = dict(zip(lattice.names, lattice.base, strict=True))
        self.objective = lattice.objective.name
        self.size = lattice.size
        self.chosen = None if chosen is None else dict(zip(self.names, chosen, strict=True))
        self.finished = search.finished
        self.bound = search.bound() if search.swept else None
        log = search.log
        self._row = {tuple(level): row for row, level in enumerate(log.level[: search.checked].tolist())}

    @property
    def checked(self) -> int:
        """The number of nodes whose groups were counted."""
        return self._search.checked + int(self._search.log.counts[2])

    @property
    def tagged(self) -> int:
        """The number of nodes that fail because a coarser node fails; nodes with equal levels count once."""
        state = self._search.log.state
        failing = self._search.log.outcome[: self._search.checked] != ANONYMOUS
        return max(int((state == TAGGED).sum()) - int(failing.sum()), 0)

    @property
    def pruned(self) -> int:
        """The number of nodes that the search neither checked nor tagged."""
        return max(self.size - self.checked - self.tagged, 0)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[LatticeNode]:
        if len(self._search.log.state):
            yield from (self._build(node) for node in product(*(range(h + 1) for h in self._search.lattice.top)))
        else:
            yield from (self._build(self._search.to_node(np.array(level))) for level in self._row)

    def find(self, levels: Mapping[str, int]) -> LatticeNode:
        """The node with these levels."""
        return self._build(tuple(levels[name] for name in self.names))

    def _build(self, node: tuple[int, ...]) -> LatticeNode:
        search, levels = self._search, dict(zip(self.names, node, strict=True))
        if any(level < base for level, base in zip(node, search.lattice.base, strict=True)):
            return LatticeNode(levels, PRUNED_NODE)  # not counted, because the table did not fit in memory
        level = search.to_levels(node)
        row = self._row.get(tuple(level.tolist()))
        if row is not None:
            log, suppressed = search.log, int(search.log.suppressed[row])
            if log.outcome[row] != ANONYMOUS:
                return LatticeNode(levels, FAILING_NODE, None, suppressed)
            loss = search.lattice.objective.measure(float(log.value[row]), len(node))
            return LatticeNode(levels, ANONYMOUS_NODE, loss, suppressed)
        state = search.log.state
        is_tagged = len(state) and state[int((level * search.space.stride).sum())] not in (UNSEEN, ANONYMOUS)
        return LatticeNode(levels, FAILING_NODE if is_tagged else PRUNED_NODE)

    def plot(self) -> str:
        """The lattice as an SVG picture: the state of every node by its height; empty if too large. For the owner only."""
        if not 0 < len(self._search.log.state) <= MOST_PLOTTED:
            return ""
        small = list(self) if self.size <= MOST_DOTS else []
        dots = [PlottedNode(tuple(n.levels.values()), n.state, self._describe(n)) for n in small]
        chosen = None if self.chosen is None else tuple(self.chosen.values())
        title = (
            f"{self.size:,} generalizations: {self.checked:,} checked, {self.tagged:,} tagged, {self.pruned:,} pruned"
        )
        return plot_lattice(title, dots, chosen, self._count_by_height())

    def _count_by_height(self) -> dict[int, dict[str, int]]:
        """The number of nodes by their height and state; nodes with equal levels count once."""
        search = self._search
        height = np.zeros(1, np.int64)
        for j in search.order:
            height = np.add.outer(height, search.lattice.different[j]).reshape(-1)
        state = search.log.state
        marks = {
            ANONYMOUS_NODE: state == ANONYMOUS,
            PRUNED_NODE: state == UNSEEN,
            FAILING_NODE: (state != ANONYMOUS) & (state != UNSEEN),
        }
        counted = {name: np.bincount(height[mark], minlength=int(height.max()) + 1) for name, mark in marks.items()}
        return {
            h: {name: int(counts[h]) for name, counts in counted.items()}
            for h in range(int(height.max()) + 1)
            if any(counts[h] for counts in counted.values())
        }

    def _describe(self, node: LatticeNode) -> str:
        levels = ", ".join(f"{name} {level}" for name, level in node.levels.items())
        loss = "" if node.loss is None else f"; {self.objective} {node.loss:.4g}"
        suppressed = "" if node.suppressed is None else f"; {node.suppressed:,} suppressed"
        return f"{levels}: {node.state}{loss}{suppressed}"

    def _render_table(self) -> str:
        """The best checked nodes as an HTML table."""
        nodes = [self._build(self._search.to_node(np.array(level))) for level in self._row]
        sign = -1 if self.objective == "precision" else 1
        best = sorted((n for n in nodes if n.loss is not None), key=lambda n: sign * (n.loss or 0.0))[:MOST_LISTED]
        rows = [(*(str(v) for v in n.levels.values()), f"{n.loss:.6g}", f"{n.suppressed:,}") for n in best]
        return render_table("best nodes", (*self.names, self.objective, "suppressed"), rows)

    def render_section(self) -> str:
        """The section of the owner's report: the picture, and the best nodes that were checked."""
        chosen = "none" if self.chosen is None else ", ".join(f"{name} {level}" for name, level in self.chosen.items())
        state = "the best of all" if self.finished else "the best that was found"
        return (
            f"<h2>Lattice of levels</h2>\n<p>Chosen: {escape_markup(chosen)} ({state}). Level 0 has the values, the highest "
            "level the root. A pruned generalization was not needed to find the chosen one. To choose another one, set the "
            f"parameter <code>levels</code>.</p>\n{self.plot()}\n{self._render_table()}\n"
        )

    def __repr__(self) -> str:
        return (
            f"SearchedLattice({self.size:,} nodes: {self.checked:,} checked, {self.tagged:,} tagged, "
            f"{self.pruned:,} pruned; chosen: {self.chosen})"
        )

    def _repr_html_(self) -> str:
        rows = []
        for level in list(self._row)[:MOST_SHOWN]:
            node = self._build(self._search.to_node(np.array(level)))
            loss = "" if node.loss is None else f"{node.loss:.6g}"
            rows.append((*(str(v) for v in node.levels.values()), node.state, loss, str(node.suppressed)))
        head = (*self.names, "state", self.objective, "suppressed")
        return render_view(repr(self), render_table("checked nodes", head, rows))
