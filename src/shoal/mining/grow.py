"""Grow a decision tree whose spans meet the requirements of a policy (Friedman, Wolff, Schuster, section 5.1, Algorithm 1).

The columns that attackers know are public: the quasi-identifiers. All other columns are private. A requirement on some of the
quasi-identifiers is a requirement against an attacker who knows these columns only, so every such set has spans of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from shoal import kernels
from shoal.arrays import Int32Array, Int64Array
from shoal.encoding.attributes import Attribute
from shoal.encoding.codes import Codes, EncodedColumn
from shoal.errors import PolicyError, list_choices
from shoal.formats.dates import parse_date
from shoal.formats.numbers import parse_number
from shoal.kernels.bundle import Bundle
from shoal.kernels.interface import (
    CUT,
    ENTROPY_GAIN,
    GAIN_RATIO,
    GINI,
    LINK_COUNT,
    NO_ROOM,
    NODE_COUNT,
    OF_LINK_COUNT,
    SPAN_COUNT,
    AttackerArrays,
    InductionNodes,
    InductionRows,
    InductionScratch,
    SpanTable,
    SplitChoices,
    WaitingLeaves,
)
from shoal.policy import Policy
from shoal.requirements import Requirement, TableDistribution
from shoal.requirements.requirement import Limits
from shoal.taxonomy import Taxonomy

CRITERIA = {"gain": ENTROPY_GAIN, "gain-ratio": GAIN_RATIO, "gini": GINI}
RULES = ("claim3", "all")
PARSERS: dict[Literal["numeric", "date"], Callable[[str], float | None]] = {"numeric": parse_number, "date": parse_date}
LEAST_RECORDS, MOST_UNIQUE = (
    20,
    0.9,
)  # a private column of texts is not tested if a larger share of the records is unique
NO_LIMIT = 2**62


@dataclass(frozen=True)
class LearningTable:
    """The rows of a table from which a tree is learned: cells of codes with their class, records and votes.

    ``features`` are the attributes that may split the data, ``codes`` their codes [row, feature]. ``votes`` are the records or
    people that requirements count.
    """

    features: tuple[Attribute, ...]
    codes: Int32Array
    classes: Int32Array
    class_labels: tuple[str | None, ...]
    sensitive: Int32Array
    distribution: TableDistribution
    records: Int64Array
    votes: Int64Array
    counts_people: bool = False

    @classmethod
    def of(
        cls, codes: Codes, target: str, private: Sequence[str] = (), *, split_by_target: bool = False
    ) -> LearningTable:
        """The cells of a table; ``private`` names the sensitive columns that may split the data.

        A private column of texts is left out if nearly every text occurs once, such as a name: a tree would publish the texts.
        """
        names = [a.name for a in codes.attributes]
        extra = {s.name: s for s in codes.sensitive}
        order = [s.name for s in codes.sensitive]
        public = [j for j, name in enumerate(names) if name != target or split_by_target]
        features = {name: make_private_attribute(extra[name]) for name in private if name != target}
        chosen = [
            name
            for name, feature in features.items()
            if feature.taxonomy is None
            or not is_mostly_unique(np.bincount(codes.counts.sensitive[:, order.index(name)], codes.counts.size))
        ]
        combination = codes.combination
        columns = [codes.quasi[combination, j] for j in public]
        columns += [codes.counts.sensitive[:, order.index(name)] for name in chosen]
        if target in names:
            at = names.index(target)
            taxonomy, position = codes.attributes[at].taxonomy, codes.attributes[at].position
            labels = tuple(map(str, position.tolist())) if taxonomy is None else taxonomy.leaves
            classes = codes.quasi[combination, at]
        else:
            classes, labels = codes.counts.sensitive[:, order.index(target)], extra[target].labels
        votes = codes.counts.size
        if codes.person is not None:
            people = int(codes.person.max(initial=-1)) + 1
            votes = kernels.people.choose_votes(codes.person, codes.cell_hash, people).astype(np.int64)
            votes = np.where(codes.person < 0, codes.counts.size, votes)
        return cls(
            (*(codes.attributes[j] for j in public), *(features[name] for name in chosen)),
            np.ascontiguousarray(np.stack(columns, axis=1).astype(np.int32))
            if columns
            else np.zeros((len(combination), 0), np.int32),
            np.ascontiguousarray(classes, np.int32),
            labels,
            np.ascontiguousarray(codes.counts.sensitive),
            codes.distribution,
            codes.counts.size,
            votes,
            codes.person is not None,
        )

    @cached_property
    def choices(self) -> SplitChoices:
        """The splits of every feature: the levels of its taxonomy, or the cuts of its numbers."""
        size = np.array([f.size for f in self.features], np.int64)
        tables = [list_levels(f.taxonomy) if f.taxonomy is not None else None for f in self.features]
        levels = np.array([0 if t is None else len(t[0]) for t in tables], np.int64)
        length = levels * size
        values = [f.position if f.taxonomy is None else np.zeros(0) for f in self.features]
        return SplitChoices(
            size,
            levels,
            _starts(length),
            _join([t[0].ravel() for t in tables if t is not None], np.int32),
            _join([t[1].ravel() for t in tables if t is not None], np.int32),
            _starts(np.array([len(v) for v in values], np.int64)),
            _join(values, np.float64),
        )


@dataclass(frozen=True)
class InducedTree:
    """A tree of splits over codes, with its leaves' rows, as the kernel grew it.

    ``leaf`` is the leaf of every row of the learning table.
    """

    features: tuple[Attribute, ...]
    class_labels: tuple[str | None, ...]
    nodes: InductionNodes
    leaf: Int32Array

    @property
    def leaves(self) -> Int64Array:
        """The numbers of the leaves."""
        return np.flatnonzero(self.nodes.attribute < 0)


@dataclass(frozen=True)
class Attacker:
    """An attacker who knows the values of some columns, and perhaps the class, and the requirements against this attacker."""

    columns: frozenset[str]
    knows_class: bool
    requirements: tuple[Requirement, ...]


def list_attackers(policy: Policy) -> list[Attacker]:
    """One attacker for every set of columns that a requirement of a policy is about; the target is the class."""
    sets: dict[tuple[str, ...], list[Requirement]] = {}
    for requirement in policy.require:
        known = tuple(policy.quasi) if requirement.on is None else tuple(requirement.on)
        sets.setdefault(known, []).append(requirement)
    return [Attacker(frozenset(known), policy.target in known, tuple(required)) for known, required in sets.items()]


def induce_tree(
    table: LearningTable,
    attackers: Sequence[Attacker],
    *,
    criterion: str = "gain",
    rule: str = "claim3",
    max_leaves: int | None = None,
    max_depth: int | None = None,
    check_root: bool = True,
) -> InducedTree | None:
    """Grow a tree; None if the requirements fail for the whole table, so that not even its root may be released.

    Parameters
    ----------
    table : the rows to learn from
    attackers : what attackers know, and the requirements against each of them
    criterion : ``gain``, ``gain-ratio`` or ``gini``
    rule : ``claim3`` spares spans of a single cell, which show nothing private; ``all`` does not
    max_leaves, max_depth : limits of the size of the tree (default: none)
    check_root : whether the requirements are tested on the whole table
    """
    check_choice("criterion", criterion, CRITERIA)
    check_choice("rule", rule, RULES)
    arrays, limits = _lower_attackers(table, attackers, rule)
    n = len(table.codes)
    total = float(table.records.sum())
    unit = 2.0 ** (kernels.tree_induction.BITS - np.ceil(np.log2(total * np.log2(max(total, 2.0)) + 1.0)))
    domains = table.distribution.domains
    rows = InductionRows(
        table.codes,
        table.classes,
        table.sensitive,
        table.records,
        table.votes,
        np.concatenate(([0], np.cumsum(domains)[:-1])).astype(np.int64) if domains else np.zeros(0, np.int64),
        len(table.class_labels),
        CRITERIA[criterion],
        unit,
    )
    scratch = _make_scratch(table, len(table.distribution.shares) if len(limits.term) else 0)
    nodes, waiting = _make_root(table)
    spans = _make_spans(table, arrays)
    if check_root and not kernels.tree_induction.root_holds(rows, spans, arrays, scratch):
        return None
    waiting.counts[:] = 1, 1, 1, len(spans.begin), len(spans.leaf), len(spans.of_span)
    order = np.arange(n)
    limit = [np.int64(NO_LIMIT if most is None else most) for most in (max_leaves, max_depth)]
    while (
        kernels.tree_induction.grow(rows, order, nodes, waiting, spans, table.choices, arrays, scratch, *limit)
        == NO_ROOM
    ):
        nodes, waiting, spans = _make_room(nodes, waiting, spans)
    used = waiting.counts[NODE_COUNT]
    nodes = InductionNodes(*(getattr(nodes, field.name)[:used] for field in fields(nodes)))
    leaf = np.empty(n, np.int32)
    ends = np.flatnonzero((nodes.attribute < 0) & (nodes.end > nodes.begin))
    ends = ends[np.argsort(nodes.begin[ends])]
    leaf[order] = np.repeat(ends, nodes.end[ends] - nodes.begin[ends])
    return InducedTree(table.features, table.class_labels, nodes, leaf)


def check_choice(name: str, given: str, allowed: Sequence[str] | dict[str, int]) -> None:
    """Raise `PolicyError` for a parameter with an unknown value."""
    choices = list(allowed)
    if given not in choices:
        raise PolicyError(f"unknown value {given!r} for {name!r}; {list_choices(str(given), choices)}")


def make_private_attribute(column: EncodedColumn) -> Attribute:
    """A private column as an attribute: numbers or dates in ascending order, or categories without a taxonomy.

    Texts that are the same number, such as 1 and 1.0, are categories: no cut could separate their codes.
    """
    has_missing = bool(column.labels) and column.labels[-1] is None
    present = [str(label) for label in (column.labels[:-1] if has_missing else column.labels)]
    for kind, parse in PARSERS.items():
        numbers = [number for text in present if (number := parse(text)) is not None and np.isfinite(number)]
        if present and len(numbers) == len(present) and all(a < b for a, b in pairwise(numbers)):
            position = np.array([*numbers, *([np.inf] if has_missing else [])], np.float64)
            return Attribute(column.name, kind, position, None, 1.0)
    tree = Taxonomy.flat(present)
    position = np.arange(tree.size, dtype=np.float64)
    if has_missing:
        tree, position = tree.with_missing(), np.append(position, np.inf)
    return Attribute(column.name, "categorical", position, tree, 1.0, flat=True)


def is_mostly_unique(records: NDArray[np.number[Any]]) -> bool:
    """Whether nearly every value of a column occurs once, from their numbers of records; small tables have no such columns."""
    return bool(records.sum() >= LEAST_RECORDS and (records == 1).sum() > MOST_UNIQUE * records.sum())


def list_levels(tree: Taxonomy) -> tuple[Int32Array, Int32Array]:
    """For every level below the root, the first and the last code of the node above each code [level, code].

    A leaf above a level is its own node. A level with the same nodes as the level above is left out.
    """
    node = tree.leaf.copy()
    first, last = [], []
    while (tree.parent[node] >= 0).any():
        first.append(tree.lo[node])
        last.append(tree.hi[node])
        deepest = tree.level[node] == tree.level[node].max()
        node = np.where(deepest & (tree.parent[node] >= 0), tree.parent[node], node)
    kept = [i for i in range(len(first)) if i == 0 or (first[i] != first[i - 1]).any()]
    kept.reverse()
    empty = np.zeros((0, tree.size), np.int32)
    if not kept:
        return empty, empty
    return np.stack([first[i] for i in kept]).astype(np.int32), np.stack([last[i] for i in kept]).astype(np.int32)


def _lower_attackers(table: LearningTable, attackers: Sequence[Attacker], rule: str) -> tuple[AttackerArrays, Limits]:
    """The attackers as arrays, and the limits of all their requirements."""
    by_values = [
        [r for r in attacker.requirements if not r.size_only] for attacker in attackers
    ]  # ``least`` tests the others
    terms = [[t for r in requirements for t in r.limits(table.distribution)] for requirements in by_values]
    limits = Limits.of([t for own in terms for t in own], table.distribution, 1)
    names = [f.name for f in table.features]
    public = [[name in attacker.columns for name in names] for attacker in attackers]
    knows_class = [attacker.knows_class for attacker in attackers]
    arrays = AttackerArrays(
        np.array(public, np.bool_).reshape(len(attackers), len(names)),
        np.array(knows_class, np.bool_),
        np.append(_starts(np.array([len(own) for own in terms])), sum(map(len, terms))).astype(np.int64),
        limits.arrays() if len(limits.term) else None,
        np.array([max(r.least for r in attacker.requirements) for attacker in attackers], np.int64),
        not len(limits.term) and not table.counts_people,
        rule == "claim3",
    )
    return arrays, limits


def _make_scratch(table: LearningTable, width: int) -> InductionScratch:
    """Work arrays; ``width`` is the length of a histogram."""
    n, classes, most = len(table.codes), len(table.class_labels), max(int(table.choices.size.max(initial=1)), 2)
    return InductionScratch(
        np.zeros(width, np.int64),
        np.zeros(most, np.int64),
        np.zeros(most + 2, np.int64),
        np.zeros(most + 2, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(min(most, n), np.int64),
        np.zeros((min(most, kernels.tree_induction.TABLE * n + 64), classes), np.int64),
        np.zeros(min(most, n), np.int64),
        np.zeros(classes, np.int64),
        np.zeros(classes, np.int64),
    )


def _make_root(table: LearningTable) -> tuple[InductionNodes, WaitingLeaves]:
    """The root, which is the only leaf and waits."""
    size = table.choices.size.astype(np.int32)
    nodes = InductionNodes(
        np.full(1, -1, np.int64),
        np.full(1, CUT, np.int64),
        np.zeros(1, np.int64),
        np.full(1, -1, np.int64),
        np.zeros(1, np.int64),
        np.zeros(1, np.bool_),
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
        np.full(1, len(table.codes), np.int64),
        np.zeros((1, len(size)), np.int32),
        (size - 1).reshape(1, -1),
        np.bincount(table.classes, table.records, minlength=len(table.class_labels)).astype(np.int64).reshape(1, -1),
    )
    waiting = WaitingLeaves(
        np.full(1, -1, np.int64),
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
        np.full(1, np.inf),
        np.ones(1, np.bool_),
        np.zeros(1, np.int64),
        np.zeros(6, np.int64),
        np.zeros(6, np.int64),
    )
    return nodes, waiting


def _make_spans(table: LearningTable, attackers: AttackerArrays) -> SpanTable:
    """The spans of the root: one for an attacker, or one for every class if the attacker knows the class."""
    n = len(table.codes)
    row, owner, sizes = [], [], []
    for b, knows in enumerate(attackers.knows_class):
        row.append(np.argsort(table.classes, kind="stable") if knows else np.arange(n))
        counts = np.bincount(table.classes) if knows else np.array([n])
        counts = counts[counts > 0]
        owner.append(np.full(len(counts), b))
        sizes.append(counts)
    attacker, size = np.concatenate(owner).astype(np.int64), np.concatenate(sizes)
    end = np.cumsum(size).astype(np.int64)
    spans = len(size)
    return SpanTable(
        np.concatenate(row).astype(np.int64),
        attacker,
        end - size,
        end,
        np.arange(spans, dtype=np.int64),
        np.zeros(spans, np.int64),
        np.full(spans, -1, np.int64),
        np.zeros(1, np.int64),
        np.arange(spans, dtype=np.int64),
        np.append(np.arange(1, spans), -1).astype(np.int64),
    )


def _make_room(
    nodes: InductionNodes, waiting: WaitingLeaves, spans: SpanTable
) -> tuple[InductionNodes, WaitingLeaves, SpanTable]:
    """Copies with room for the nodes, spans and links that the next split needs, and for as many again."""
    needed = waiting.needed

    def lengthen(bundle: Bundle, count: int, *names: str) -> dict[str, NDArray[Any]]:
        return {name: _lengthen(getattr(bundle, name), int(needed[count])) for name in names}

    return (
        replace(nodes, **lengthen(nodes, NODE_COUNT, *(field.name for field in fields(nodes)))),
        replace(waiting, **lengthen(waiting, NODE_COUNT, "attribute", "level", "at", "score", "stale", "queue")),
        replace(
            spans,
            **lengthen(spans, SPAN_COUNT, "attacker", "begin", "end", "first"),
            **lengthen(spans, LINK_COUNT, "leaf", "next"),
            **lengthen(spans, NODE_COUNT, "of_first"),
            **lengthen(spans, OF_LINK_COUNT, "of_span", "of_next"),
        ),
    )


def _lengthen(array: NDArray[Any], size: int) -> NDArray[Any]:
    """A longer copy of an array, or the array itself if it has room for so many entries."""
    if size <= len(array):
        return array
    longer = np.empty((2 * size, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


def _starts(lengths: Int64Array) -> Int64Array:
    """The start of every part in the concatenation of parts."""
    return (np.cumsum(lengths) - lengths).astype(np.int64)


def _join(parts: Sequence[np.ndarray], kind: type) -> np.ndarray:
    return np.concatenate([np.zeros(0, kind), *parts]).astype(kind)
