"""Bottom-up generalization, slow and obvious: every value is tried at every step, and all groups counted anew."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.encoding.codes import Codes
from shoal.policy import Policy
from shoal.requirements.groups import Groups
from tests.reference.tds import EQUAL, Candidate, Cut, Names, Run, Step, Table, Value, exchange


@dataclass(frozen=True)
class Standing:
    """For every set the records of its smallest group, passing or not, and those in groups that do not pass."""

    smallest: dict[Names, int]
    failing: dict[Names, int]


@dataclass(frozen=True)
class Climb(Table):
    """What is asked on the way up."""

    anonymity: str = "records"

    def leaves(self, j: int) -> tuple[Value, ...]:
        """All leaves, or the root where no requirement looks at the attribute."""
        if j not in self.used:
            return (self.top(j),)
        tree = self.codes.attributes[j].taxonomy
        return tuple(Value(j, code, code, int(node)) for code, node in enumerate(tree.leaf))

    def inner(self, j: int) -> list[Value]:
        """All nodes that are no leaves, by their first code."""
        tree = self.codes.attributes[j].taxonomy
        nodes = sorted(set(tree.parent[1:].tolist()), key=lambda n: (tree.lo[n], n))
        return [Value(j, int(tree.lo[n]), int(tree.hi[n]), n, top=n == 0) for n in nodes]

    def stand(self, groups: Groups) -> Standing:
        """How every set stands."""
        tested = {names: self.tested(groups, names) for names in self.sets}
        smallest = {names: int(size.min()) for names, (size, _) in tested.items()}
        return Standing(smallest, {names: int(size[~ok].sum()) for names, (size, ok) in tested.items()})

    def holds(self, groups: Groups) -> bool:
        return self.allowed(groups) if self.policy.suppress > 0 else not any(self.stand(groups).failing.values())

    def candidate(self, cut: Cut, value: Value, now: Standing) -> Candidate | None:
        """What closing a value is worth; None where its children are not all published."""
        children = self.nodes(value.j, value.node)
        if not all(child in cut[value.j] for child in children):
            return None
        then = self.stand(self.groups(exchange(cut, children, [value])))
        held = [names for names in self.sets if self.names[value.j] in names]
        if self.anonymity == "records":
            won = sum(now.failing[names] - then.failing[names] for names in held) / len(held)
        else:
            won = sum(then.smallest[names] - now.smallest[names] for names in held) / len(held)
        won, lost = max(0.0, won), self.gain(value, children)
        return Candidate(value, children, won, lost, lost / won if won > 0 else lost, then.smallest)


def better(one: Candidate, other: Candidate) -> bool:
    """Whether a candidate comes before one that stands earlier in the order of the values."""
    if (one.gain > 0) != (other.gain > 0):
        return one.gain > 0
    return one.score < other.score * (1 - EQUAL)


def generalize(codes: Codes, policy: Policy, *, anonymity: str = "records") -> Run:
    """Close one value after the other, until the requirements hold."""
    climb = Climb(codes, policy, anonymity)
    cut: Cut = tuple(climb.leaves(j) for j in range(len(climb.names)))
    start, steps = climb.stand(climb.groups(cut)).smallest, list[Step]()
    while not climb.holds(groups := climb.groups(cut)):
        now = climb.stand(groups)
        best: Candidate | None = None
        for j in sorted(climb.used):
            for value in climb.inner(j):
                candidate = climb.candidate(cut, value, now)
                if candidate is not None and (best is None or better(candidate, best)):
                    best = candidate
        if best is None:
            break
        cut = exchange(cut, best.children, [best.value])
        steps.append(climb.step(best))
    return climb.result(cut, steps, start)
