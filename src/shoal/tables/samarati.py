"""Samarati's search: the least height of an anonymous node, by binary search (Samarati, TKDE 2001)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from shoal.errors import PolicyError
from shoal.progress import Progress
from shoal.tables.lattice_method import LatticeMethod
from shoal.tables.lattice_search import MOST_STATES, LatticeSearch, Node


class Samarati(LatticeMethod):
    """Find the least height with an anonymous node by binary search, and choose the best node of this height.

    Parameters
    ----------
    policy : the policy
    objective : the measure by which the nodes of the height are compared, as for `FullDomain`
    common : ``write``, ``improve`` and others, as for every method; see `GroupingMethod`

    The height of a node is the sum of its levels, which are those of `FullDomain`. Where a node that is coarser than an
    anonymous one can fail, as with entropy l-diversity and suppression, the heights are searched one after another instead.
    Ties: the lower level of the earlier attribute in the policy.

    Guarantee
    ---------
    Every group meets every requirement, and no anonymous node has a lower height. Deterministic. Never better than
    `FullDomain` by its objective.

    References
    ----------
    Samarati: Protecting respondents' identities in microdata release. TKDE 2001.
    """

    name: ClassVar[str] = "samarati"
    summary: ClassVar[str] = "finds the least sum of levels by binary search, and the best node with this sum"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)

    def choose(self, search: LatticeSearch, progress: Progress) -> Node | None:
        """The best of the lowest anonymous nodes."""
        refuse_large(search, self.name)
        ranges = [
            range(search.fixed.get(j, search.lattice.base[j]), search.fixed.get(j, top) + 1)
            for j, top in enumerate(search.lattice.top)
        ]
        low, high = sum(r[0] for r in ranges), sum(r[-1] for r in ranges)
        first = low

        def has_anonymous(height: int) -> bool:
            progress("searching", height - low, high - low + 1)
            return any(search.check(node).holds for node in list_height(ranges, height))

        if search.lattice.inherits:
            last = high
            while first < last:
                middle = (first + last) // 2
                first, last = (first, middle) if has_anonymous(middle) else (middle + 1, last)
        else:
            first = next((height for height in range(low, high + 1) if has_anonymous(height)), high)
        checked = [(search.check(node), node) for node in list_height(ranges, first)]
        found = [(node.score, levels) for node, levels in checked if node.holds]
        if not found:
            return None
        least = min(score for score, _ in found)
        return min(levels for score, levels in found if score <= least + 1e-12 * max(1.0, abs(least)))


def refuse_large(search: LatticeSearch, method: str) -> None:
    """Raise `PolicyError` for a lattice whose nodes cannot be listed."""
    if search.states > MOST_STATES:
        raise PolicyError(
            f"{method} lists the nodes of the lattice, but this lattice has {search.states:,} nodes, and at most "
            f"{MOST_STATES:,} are possible. Use method 'optimal' with 'seconds', or fewer levels."
        )


def list_height(ranges: Sequence[range], height: int) -> Iterator[Node]:
    """The nodes with this sum of levels, from high to low levels of the first attributes."""
    if not ranges:
        if height == 0:
            yield ()
        return
    rest = ranges[1:]
    least, most = sum(r[0] for r in rest), sum(r[-1] for r in rest)
    for level in reversed(ranges[0]):
        if least <= height - level <= most:
            yield from ((level, *node) for node in list_height(rest, height - level))
