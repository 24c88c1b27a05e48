"""Bottom-up generalization, slow and obvious: every step tries every value and counts all groups."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.encoding.codes import Codes
from shoal.policy import Policy
from tests.reference import tds
from tests.reference.tds import EQUAL, Candidate, Cut, Names, Run, Step, Table, Value, exchange


@dataclass(frozen=True)
class Figures:
    """The records of the smallest group of every set, passing or not, and the records in failing groups."""

    smallest: dict[Names, int]
    failing: dict[Names, int]


@dataclass(frozen=True)
class Search(Table):
    """The search of bottom-up generalization."""

    anonymity: str = "records"

    def leaves(self, j: int) -> tuple[Value, ...]:
        """Return all leaves, or the root if no requirement covers the attribute."""
        if j not in self.used:
            return (self.top(j),)
        tree = self.codes.attributes[j].taxonomy
        return tuple(Value(j, code, code, int(node)) for code, node in enumerate(tree.leaf))

    def inner(self, j: int) -> list[Value]:
        """Return all inner nodes, by their first code."""
        tree = self.codes.attributes[j].taxonomy
        nodes = sorted(set(tree.parent[1:].tolist()), key=lambda n: (tree.lo[n], n))
        return [Value(j, int(tree.lo[n]), int(tree.hi[n]), n, top=n == 0) for n in nodes]

    def measure(self, cut: Cut) -> Figures:
        """Return the figures of every set."""
        checks = self.check(cut)
        smallest = {names: int(size.min()) for names, (size, _) in checks.items()}
        return Figures(smallest, {names: int(size[~ok].sum()) for names, (size, ok) in checks.items()})

    def candidate(self, cut: Cut, value: Value, now: Figures) -> Candidate | None:
        """Return the candidate of a value; None if some child is not in the cut."""
        children = self.nodes(value.j, value.node)
        if not all(child in cut[value.j] for child in children):
            return None
        then = self.measure(exchange(cut, children, [value]))
        sets = [names for names in self.sets if self.names[value.j] in names]
        if self.anonymity == "records":
            gain = sum(now.failing[names] - then.failing[names] for names in sets) / len(sets)
        else:
            gain = sum(then.smallest[names] - now.smallest[names] for names in sets) / len(sets)
        gain, loss = max(0.0, gain), self.gain(value, children)
        return Candidate(value, children, gain, loss, loss / gain if gain > 0 else loss, then.smallest)


def is_better(one: Candidate, other: Candidate) -> bool:
    """Whether a candidate is better than one that is earlier in the order of the values."""
    if (one.gain > 0) != (other.gain > 0):
        return one.gain > 0
    return one.score < other.score * (1 - EQUAL)


def generalize(codes: Codes, policy: Policy, *, anonymity: str = "records", reopen: bool = True) -> Run:
    """Generalize value after value, until the requirements hold; then specialize again while they hold."""
    search = Search(codes, policy, anonymity)
    cut: Cut = tuple(search.leaves(j) for j in range(len(search.names)))
    start, steps = search.measure(cut).smallest, list[Step]()
    while not search.holds(cut):
        now = search.measure(cut)
        best: Candidate | None = None
        for j in sorted(search.used):
            for value in search.inner(j):
                candidate = search.candidate(cut, value, now)
                if candidate is not None and (best is None or is_better(candidate, best)):
                    best = candidate
        if best is None:
            break
        cut = exchange(cut, best.children, [best.value])
        steps.append(search.step(best))
    if reopen and steps and search.holds(cut):
        again = tds.Search(codes, policy)
        cuts, _ = tds.follow(again, None, thrifty=True, cut=cut)
        cut = cuts[tds.best_stop(again, cuts)[1]]
    return search.result(cut, steps, start)
