"""The lattice after a search: the state of its nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from shoal.formats.html_text import render_table, render_view
from shoal.kernels.interface import ANONYMOUS, TAGGED, UNSEEN
from shoal.tables.lattice_search import LatticeSearch

ANONYMOUS_NODE, FAILING_NODE, PRUNED_NODE = "anonymous", "not anonymous", "pruned"
MOST_SHOWN = 50  # nodes in the representation


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
    ``bound``: no node of the lattice has a better objective (None if the method does not compute it).
    """

    def __init__(self, search: LatticeSearch, chosen: tuple[int, ...] | None) -> None:
        self._search = search
        lattice = search.lattice
        self.names = lattice.names
        self.heights = dict(zip(lattice.names, lattice.top, strict=True))
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
