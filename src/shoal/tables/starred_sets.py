"""Sets of starred attributes as a lattice with two levels per attribute: the value, or ``*``.

The search releases records at the cheapest sets first. The same lattice gives a lower bound for every record: the cheapest set
under which enough records of the whole table agree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from math import comb

import numpy as np

from shoal import threads
from shoal.arrays import FloatArray, Int32Array, Int64Array
from shoal.encoding.codes import Codes
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.tables.lattice import Lattice, Level

MOST_SETS = 4_096  # more than 12 attributes: only the smaller sets, and some larger ones
MOST_ROWS = 500_000_000  # sets x combinations that the lower bound may count
TIE = 1e-9  # costs that differ by less are equal


@dataclass(frozen=True)
class StarredSets:
    """The lattice of starred sets, by cost, and the least cost of the sets that it does not have."""

    lattice: Lattice
    unlisted: float

    @classmethod
    def of(cls, codes: Codes, policy: Policy, importance: FloatArray, workers: threads.Workers) -> StarredSets:
        """The sets of a table; the cost of a set is the sum of the importance of its attributes."""
        levels = [_list_levels(attribute.size) for attribute in codes.attributes]
        varied = np.flatnonzero([len(of_attribute) > 1 for of_attribute in levels])
        values = [len(np.unique(codes.quasi[:, j])) for j in varied]
        order = varied[np.argsort(-np.array(values) / importance[varied], kind="stable")]
        complete, sets = _list_sets(order.tolist())
        node = np.zeros((len(sets), len(levels)), np.int32)
        for number, starred in enumerate(sets):
            node[number, list(starred)] = 1
        lattice = Lattice.of_nodes(codes, policy, levels, node, importance, workers)
        cheapest = np.sort(importance[varied])
        return cls(lattice, np.inf if complete == len(varied) else float(cheapest[: complete + 1].sum()))

    def release(self, records: int, progress: Progress) -> Int32Array:
        """Release records at the cheapest sets first; return the group of every combination, -1 for the rest.

        Among sets of the same cost, the set that releases the most records is next.
        """
        table = self.lattice.table
        rows = np.arange(len(table.codes), dtype=np.int32)
        group = np.full(len(rows), -1, np.int32)
        first, groups = 0, 0
        while first < self.lattice.size and len(rows):
            progress("starring", records - int(table.records[rows].sum()), records)
            last = int(np.searchsorted(self.lattice.bound, self.lattice.bound[first] + TIE, side="right"))
            groups, rows = self._release_equal(np.arange(first, last), rows, groups, group)
            first = last
        progress("starring", records, records)
        return group

    def _release_equal(
        self, nodes: Int64Array, rows: Int32Array, groups: int, group: Int32Array
    ) -> tuple[int, Int32Array]:
        """Release records at sets of the same cost; return the number of all groups, and the rows that are left.

        The number of records that a set releases falls while others release records, if the requirements depend on sizes alone.
        So a set is evaluated again only when its last number is the largest. For other requirements this order is an estimate.
        """
        released = self.lattice.evaluate(nodes, rows, None)[0]
        current = np.ones(len(nodes), bool)
        while len(rows) and released.max(initial=0) > 0:
            best = int(np.argmax(released))
            if current[best]:
                new, rows = self.lattice.publish(int(nodes[best]), rows, None, np.inf, groups, group)
                groups, released[best] = groups + new, 0
                current[:] = False
                continue
            again = np.argsort(-released, kind="stable")[: threads.CORES]
            released[again] = self.lattice.evaluate(nodes[again], rows, None)[0]
            current[again] = True
        return groups, rows

    def bound_costs(self) -> FloatArray:
        """For every combination, a lower bound of the cost of each of its records.

        The group of a record has at least k records that agree in all attributes without a star. So the record costs at least
        the cheapest set under which k records of the table agree.
        """
        lattice = self.lattice
        cells = replace(lattice.table.cells, width=0)
        by_size = replace(
            lattice, table=replace(lattice.table, cells=cells)
        )  # other requirements cannot lower the bound
        rows = np.arange(len(lattice.table.codes), dtype=np.int32)
        cost = np.full(len(rows), np.inf)
        group = np.empty(len(rows), np.int32)
        affordable = MOST_ROWS // max(len(rows), 1)
        for node, bound in enumerate(lattice.bound.tolist()):
            if bound >= self.unlisted or node > affordable:
                break
            group[:] = -1
            by_size.publish(node, rows, None, np.inf, 0, group)
            cost[(group >= 0) & np.isinf(cost)] = bound
            if not np.isinf(cost).any():
                return cost
        else:
            bound = float(lattice.bound[-1])
        cost[np.isinf(cost)] = min(bound, self.unlisted)
        return cost


def _list_levels(size: int) -> tuple[Level, ...]:
    """The values and the star; an attribute with one value needs no star."""
    value = Level(np.arange(size, dtype=np.int32), np.zeros(size))
    star = Level(np.zeros(size, np.int32), np.ones(size))
    return (value, star) if size > 1 else (value,)


def _list_sets(attributes: list[int]) -> tuple[int, set[tuple[int, ...]]]:
    """Sets of attributes, and the size up to which all sets are listed.

    All sets, if there are at most `MOST_SETS`. Otherwise the smaller ones, and those that have the first attributes and one
    other: attributes are in the order in which it helps most to star them.
    """
    complete, count = 0, 1
    while complete < len(attributes) and count + comb(len(attributes), complete + 1) <= MOST_SETS:
        complete += 1
        count += comb(len(attributes), complete)
    found = {tuple(sorted(s)) for size in range(complete + 1) for s in combinations(attributes, size)}
    if complete < len(attributes):
        for size in range(complete, len(attributes)):
            found |= {tuple(sorted((*attributes[:size], other))) for other in attributes[size:]}
    return complete, found
