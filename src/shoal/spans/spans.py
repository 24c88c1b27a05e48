"""Spans of a model: Definitions 4 to 7 and Claim 3 of Friedman, Wolff and Schuster, "Providing k-anonymity in data mining".

An attacker knows the public values of every person. The span of a person is the set of cells that the person may fall in, with
any private values. People with equal spans cannot be distinguished with the model. A span of a single cell shows nothing
private (Claim 2); every other span must be shared by k people (Claim 3).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shoal.arrays import BoolArray, Int32Array, Int64Array
from shoal.kernels.combinations import number_combinations, sort_combinations
from shoal.requirements.groups import Groups
from shoal.spans.cell_tree import CellTree, Condition, describe_conditions


@dataclass(frozen=True)
class Knowledge:
    """What an attacker knows about every person: the values of some columns, and perhaps the class."""

    columns: frozenset[str]
    knows_class: bool = False


class SpanFigures(ABC):
    """The figures that spans of one tree and of several trees share.

    ``span`` is the span of every record, ``known_class`` the class of every span, if the attacker knows it (-1: not known).
    """

    span: Int32Array
    known_class: Int32Array

    @property
    @abstractmethod
    def class_labels(self) -> tuple[str | None, ...]:
        """The classes of the model."""

    @property
    def count(self) -> int:
        """The number of spans."""
        return len(self.known_class)

    @cached_property
    def size(self) -> Int64Array:
        """The number of records of every span."""
        return np.bincount(self.span, minlength=self.count).astype(np.int64)

    def describe_class(self, s: int) -> str:
        """The class of a span in words, if the attacker knows it."""
        known = int(self.known_class[s])
        return "" if known < 0 else f", class {self.class_labels[known]}"


@dataclass(frozen=True)
class Spans(SpanFigures):
    """The spans of the records of a table.

    ``span`` is the span of every record. Span s has the cells of the leaves ``leaves[s]``: the bins of all classes, or the bin
    of the class ``known_class[s]`` (-1: not known). Spans without records are not listed.
    """

    tree: CellTree
    knowledge: Knowledge
    span: Int32Array
    leaves: tuple[tuple[int, ...], ...]
    known_class: Int32Array

    @property
    def class_labels(self) -> tuple[str | None, ...]:
        """The classes of the tree."""
        return self.tree.classes

    @cached_property
    def cells(self) -> Int64Array:
        """The number of cells of every span."""
        bins = np.where(self.known_class >= 0, 1, self.tree.bins)
        return np.array([len(leaves) for leaves in self.leaves], np.int64) * bins

    @property
    def single(self) -> BoolArray:
        """Whether each span is a single cell."""
        return np.asarray(self.cells == 1)

    def describe(self, s: int) -> tuple[Condition, ...]:
        """The tests on public columns that all people of a span pass."""
        found: dict[Condition, None] = {}
        for leaf in self.leaves[s]:
            found |= dict.fromkeys(c for c in self.tree.path(leaf) if c.column in self.knowledge.columns)
        return tuple(found)

    def list_cells(self, s: int, population: Int64Array) -> list[tuple[str, str | None, int]]:
        """The cells of a span: the leaf in words, the class, and the number of all records in the cell."""
        tree, known = self.tree, int(self.known_class[s])
        return [
            (
                describe_conditions(tree.path(leaf), "all records"),
                tree.classes[c] if tree.classes else None,
                int(population[leaf, c]),
            )
            for leaf in self.leaves[s]
            for c in ([known] if known >= 0 else range(max(len(tree.classes), 1)))
        ]


def lower_spans(
    span: Int32Array,
    count: int,
    names: Sequence[str],
    codes: Sequence[Int32Array],
    labels: Sequence[tuple[str | None, ...]],
    person: Int32Array | None = None,
) -> Groups:
    """Spans as groups, with the counts of private columns, so that requirements on groups apply.

    ``span`` is the span of every record. ``codes`` and ``labels`` have the codes of every record and the value of every code,
    by column; ``person`` is the person of every record (-1: unknown).
    """
    columns = [span, *codes, *([] if person is None else [person + 1])]
    _, order, start = sort_combinations(columns, len(span))
    first = order[start]
    return Groups(
        ("span",),
        tuple(names),
        np.arange(count, dtype=np.int32).reshape(-1, 1),
        np.searchsorted(span[first], np.arange(count + 1)).astype(np.int64),
        np.stack([c[first] for c in codes], axis=1).astype(np.int32) if codes else np.zeros((len(first), 0), np.int32),
        np.diff(start, append=len(span)).astype(np.int64),
        tuple(map(len, labels)),
        tuple(labels),
        None if person is None else person[first],
    )


def find_spans(
    tree: CellTree, codes: Sequence[Int32Array], classes: Int32Array, leaf: Int64Array, knowledge: Knowledge
) -> Spans:
    """The span of every record.

    Parameters
    ----------
    tree : the model
    codes : the codes of every column of the tree, by record
    classes, leaf : the class and the leaf of every record
    knowledge : what the attacker knows

    Records with equal public values have the same span, so the tree is walked once per combination of public values. The leaves
    are taken one after another: the combinations that may fall in a leaf are separated from those that may not. The domain of a
    private column is the set of its values in the table.
    """
    if knowledge.columns.issuperset(tree.columns):
        return _separate_leaves(tree, classes, leaf, knowledge)
    rows = len(classes)
    public = [j for j, name in enumerate(tree.columns) if name in knowledge.columns]
    combination, order, start = sort_combinations([codes[j] for j in public], rows)
    sample = order[start]
    span, spans = np.zeros(len(sample), np.int64), 1
    visits: list[tuple[int, Int64Array]] = []
    if rows:
        domains = [np.bincount(c, minlength=n) > 0 for c, n in zip(codes, tree.sizes, strict=True)]
        for node, here in tree.walk([c[sample] for c in codes], domains, knowledge.columns):
            number, inverse = np.unique(span[here], return_inverse=True)
            span[here] = spans + inverse
            spans += len(number)
            visits.append((node, here))
    by_record = span[combination]
    columns = [number_combinations([by_record], rows)] if rows else [np.zeros(0, np.int32)]
    if knowledge.knows_class:
        columns.append(np.ascontiguousarray(classes, np.int32))
    numbered, by_span, first = sort_combinations(columns, rows)
    member = by_span[first]  # one record of every span
    lists: dict[int, list[int]] = {}
    for node, here in visits:
        for s in np.unique(span[here]).tolist():
            lists.setdefault(s, []).append(node)
    return Spans(
        tree,
        knowledge,
        numbered,
        tuple(tuple(sorted(lists[s])) for s in by_record[member].tolist()),
        classes[member].astype(np.int32) if knowledge.knows_class else np.full(len(member), -1, np.int32),
    )


def _separate_leaves(tree: CellTree, classes: Int32Array, leaf: Int64Array, knowledge: Knowledge) -> Spans:
    """The spans for an attacker who knows all columns of a tree: every leaf is a span, or every cell."""
    columns = [leaf.astype(np.int32), *([np.ascontiguousarray(classes, np.int32)] if knowledge.knows_class else [])]
    numbered, order, start = sort_combinations(columns, len(classes))
    member = order[start]
    known = classes[member] if knowledge.knows_class else np.full(len(member), -1)
    return Spans(tree, knowledge, numbered, tuple((n,) for n in leaf[member].tolist()), known.astype(np.int32))
