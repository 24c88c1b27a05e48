"""The linking attack on a model: Definition 6 of Friedman, Wolff and Schuster, "Providing k-anonymity in data mining"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.engines import Engine, open_data
from shoal.engines.raw_columns import RawColumns
from shoal.errors import DataError, PolicyError, explain_unknown_column
from shoal.formats.numbers import format_count
from shoal.mining.learning_policy import name_target
from shoal.mining.readers import read_model
from shoal.mining.scikit_learn import ReadModel
from shoal.policy import Policy, parse_policy
from shoal.spans import Knowledge, describe_conditions

MOST_NAMED = 8  # people in the text of an attack


@dataclass(frozen=True)
class LinkedPeople:
    """The people of one span, and the cells that they may be in: the tests on private columns, the class, the population.

    ``text`` has the public values of the people in words. ``possible`` are the classes that the published populations allow.
    """

    people: tuple[str, ...]
    text: str
    cells: tuple[tuple[str, str | None, int], ...]
    possible: tuple[str | None, ...]

    @property
    def certain(self) -> str | None:
        """The class of these people if only one is possible, otherwise None."""
        return self.possible[0] if len(self.possible) == 1 else None

    def __str__(self) -> str:
        more = len(self.people) - MOST_NAMED
        people = ", ".join(self.people[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
        classes = " or ".join("missing" if c is None else c for c in self.possible)
        return f"{people} ({self.text}): {classes}"


@dataclass(frozen=True)
class LinkingAttack:
    """The result of a linking attack: the people of every span, smallest span first."""

    target: str
    links: tuple[LinkedPeople, ...]

    @property
    def smallest(self) -> int:
        """The smallest number of people that private values are linked to; 0 if there are none."""
        sizes = [len(link.people) for link in self.links if len(link.cells) > 1]
        return min(sizes, default=0)

    @property
    def learned(self) -> dict[str, str]:
        """The class of every person whose class the attacker knows for certain."""
        return {person: link.certain for link in self.links if link.certain is not None for person in link.people}

    def __str__(self) -> str:
        known = len(self.learned)
        head = f"The attacker knows {self.target!r} of {format_count(known, 'person', 'people')} for certain."
        return "\n".join([head, *(f"  {link}" for link in self.links)])


def linking(model: Any, frame: Any, policy: Policy) -> LinkingAttack:
    """Link people to private values with a published model: what an attacker with names and public values learns.

    The attacker takes the names and public values of all people (Definition 4), finds the span of each person, groups people
    with equal spans, and lists the private values that the published populations of these cells allow.

    Parameters
    ----------
    model : the published model
    frame : the records that the model was fitted on. The attack reads the quasi-identifiers of a person; private columns are
        read only to count the populations that the model publishes, and for the values that are possible at all
    policy : the policy; its quasi-identifiers are public, its first identifier names the people

    Returns
    -------
    The people of every span with the classes that are possible for them. For the owner only.
    """
    policy = parse_policy(policy)
    engine = open_data(frame, policy.with_conventions())
    policy = name_target(policy, engine.schema().names)
    target = str(policy.target)
    for name in policy.quasi:
        if name not in engine.schema().names:
            raise PolicyError(explain_unknown_column(name, engine.schema().names))
    read = read_model(model, engine, policy, target)
    if not isinstance(read, ReadModel):
        raise DataError(
            "the attack lists the cells of a single tree. For an ensemble, shoal.models.audit counts the people that all trees "
            "together distinguish."
        )
    spans = read.find_spans(Knowledge(frozenset(policy.quasi), target in policy.quasi))
    tree, names = read.tree, _name_people(engine, policy)
    population = read.count_cells()
    members: Mapping[int, list[str]] = {s: [] for s in range(len(spans.leaves))}
    for s, name in zip(spans.span.tolist(), names, strict=True):
        members[s].append(name)
    links = []
    for s, leaves in enumerate(spans.leaves):
        bins = [int(spans.known_class[s])] if spans.known_class[s] >= 0 else range(len(tree.classes))
        cells = tuple(
            (
                describe_conditions((c for c in tree.path(leaf) if c.column not in policy.quasi), ""),
                tree.classes[c],
                int(population[leaf, c]),
            )
            for leaf in leaves
            for c in bins
        )
        text = describe_conditions(spans.describe(s), "all people")
        possible = tuple(dict.fromkeys(label for _, label, count in cells if count))
        links.append(LinkedPeople(tuple(members[s]), text, cells, possible))
    return LinkingAttack(target, tuple(sorted(links, key=lambda link: len(link.people))))


def _name_people(engine: Engine, policy: Policy) -> list[str]:
    """The name of every record's person: the first identifier in the table, or the number of the record."""
    column = next((name for name in policy.identifiers if name in engine.schema().names), None)
    if column is None:
        return [f"record {r + 1}" for r in range(engine.schema().rows)]
    return ["missing" if v is None else str(v) for v in RawColumns.of(engine).list_all(column)]
