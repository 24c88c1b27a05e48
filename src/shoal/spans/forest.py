"""Spans of several trees together: forests, bagging and boosting.

A cell of an ensemble is a tuple of leaves, one of every tree, with a class. A leaf of a tree allows some public and some
private values, each on its own. So if a tuple is possible for two people, the same private values lead both to it. Two people
therefore have equal spans exactly if their spans are equal in every tree: the joint spans are the combinations of the spans of
the trees, and no tuples need to be listed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shoal import kernels
from shoal.arrays import BoolArray, Int32Array, Int64Array
from shoal.kernels.combinations import number_combinations, sort_combinations
from shoal.kernels.interface import FeatureRanks, PrivateDomain, ThresholdNodes
from shoal.spans.cell_tree import Condition
from shoal.spans.spans import Knowledge, SpanFigures


@dataclass(frozen=True)
class ThresholdTree:
    """One tree of an ensemble."""

    nodes: ThresholdNodes

    @cached_property
    def depth(self) -> int:
        """The length of the longest way from the root to a leaf."""
        level, depth = np.zeros(1, np.int64), 0
        while True:
            inner = level[self.nodes.feature[level] >= 0]
            if not len(inner):
                return depth
            level, depth = np.concatenate([self.nodes.left[inner], self.nodes.right[inner]]), depth + 1


@dataclass(frozen=True)
class EnsembleSpans(SpanFigures):
    """The joint spans of an ensemble, and the figures of every tree alone.

    ``span`` is the span of every record. ``leaves`` is the largest number of leaves of one tree in each span: 1 if every tree
    has one possible leaf. ``tree_span`` has the span of every record in each tree alone, ``tree_leaves`` its number of leaves.
    """

    knowledge: Knowledge
    span: Int32Array
    leaves: Int64Array
    known_class: Int32Array
    bins: int  # cells of a tuple of leaves, see `CellTree.bins`
    tree_span: tuple[Int32Array, ...]
    tree_leaves: tuple[Int64Array, ...]
    forest: ThresholdForest
    member: Int64Array  # one record of every span
    codes: tuple[Int32Array, ...]

    @property
    def class_labels(self) -> tuple[str | None, ...]:
        """The classes of the ensemble."""
        return self.forest.classes

    @property
    def single(self) -> BoolArray:
        """Whether each span is a single cell."""
        bins = np.where(self.known_class >= 0, 1, self.bins)
        return np.asarray(self.leaves * bins == 1)

    def describe(self, s: int) -> tuple[Condition, ...]:
        """The public values of all people of a span, in words."""
        row = [int(c[self.member[s]]) for c in self.codes]
        return self.forest.describe_alike(row, self.knowledge)

    def list_cells(self, s: int, population: Int64Array) -> list[tuple[str, str | None, int]]:
        """No cells: a span of an ensemble can have very many. ``population`` is not used."""
        return []

    def find_smallest_of_trees(self, class_labels: Int32Array) -> tuple[int, ...]:
        """The k that each tree alone reaches: the size of its smallest span of several cells; all records if there is none."""
        found = []
        for span, leaves in zip(self.tree_span, self.tree_leaves, strict=True):
            columns = [span, *([class_labels] if self.knowledge.knows_class else [])]
            number, order, start = sort_combinations(columns, len(span))
            size = np.bincount(number)
            bins = 1 if self.knowledge.knows_class else self.bins
            several = leaves[order[start]] * bins > 1
            found.append(int(size[several].min(initial=len(span))))
        return tuple(found)


@dataclass(frozen=True)
class ThresholdForest:
    """The trees of an ensemble over the codes of the columns that they test."""

    columns: tuple[str, ...]
    features: FeatureRanks
    trees: tuple[ThresholdTree, ...]
    classes: tuple[str | None, ...]
    sizes: tuple[int, ...]  # the number of codes of every column
    describe_codes: Callable[[int, BoolArray], Condition]  # some codes of a column in words

    def describe_alike(self, row: Sequence[int], knowledge: Knowledge) -> tuple[Condition, ...]:
        """The public values, by column, that pass the same tests as those of one record."""
        alike = {j: np.ones(self.sizes[j], bool) for j, name in enumerate(self.columns) if name in knowledge.columns}
        for tree in self.trees:
            waiting = [0]
            while waiting:
                node = waiting.pop()
                f = int(tree.nodes.feature[node])
                if f < 0:
                    continue
                j, begin = int(self.features.column[f]), int(self.features.start[f])
                left, right = int(tree.nodes.left[node]), int(tree.nodes.right[node])
                if j not in alike:
                    waiting += [left, right]
                    continue
                rank = self.features.rank[begin : begin + self.sizes[j]]
                goes_left = np.where(rank < 0, tree.nodes.missing_left[node], rank < tree.nodes.cut[node])
                alike[j] &= goes_left == goes_left[row[j]]
                waiting.append(left if goes_left[row[j]] else right)
        return tuple(self.describe_codes(j, codes) for j, codes in alike.items() if not codes.all())

    def find_spans(
        self,
        codes: Sequence[Int32Array],
        classes: Int32Array,
        knowledge: Knowledge,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> EnsembleSpans:
        """The joint spans of all records; every tree is walked once per combination of public values."""
        rows = len(classes)
        public = np.array([name in knowledge.columns for name in self.columns], np.bool_)
        chosen = [codes[j] for j in np.flatnonzero(public).tolist()]
        combination, order, start = sort_combinations(chosen, rows)
        sample = order[start]
        table = np.ascontiguousarray(
            np.stack([c[sample] for c in codes], axis=1) if codes else np.zeros((len(sample), 0))
        )
        domain = self._find_domain(codes, public)
        joint = np.zeros(len(sample), np.int32)
        most = np.ones(len(sample), np.int64)
        tree_span, tree_leaves = [], []
        for done, tree in enumerate(self.trees):
            progress(done, len(self.trees))
            numbers = _start_numbers(len(sample))
            kernels.tree_spans.separate(
                tree.nodes, self.features, table.astype(np.int32), domain, np.int64(tree.depth), numbers
            )
            own = numbers.span.astype(np.int32)
            joint = number_combinations([joint, own], len(sample))
            most = np.maximum(most, numbers.leaves)
            tree_span.append(own[combination])
            tree_leaves.append(numbers.leaves[combination])
        progress(len(self.trees), len(self.trees))
        columns = [joint[combination]]
        if knowledge.knows_class:
            columns.append(np.ascontiguousarray(classes, np.int32))
        span, by_span, first = sort_combinations(columns, rows)
        member = by_span[first]
        known = classes[member] if knowledge.knows_class else np.full(len(member), -1)
        return EnsembleSpans(
            knowledge,
            span,
            most[combination][member],
            known.astype(np.int32),
            max(len(self.classes), 2) if self.classes else 1,
            tuple(tree_span),
            tuple(tree_leaves),
            self,
            member.astype(np.int64),
            tuple(codes),
        )

    def _find_domain(self, codes: Sequence[Int32Array], public: BoolArray) -> PrivateDomain:
        """The possible values of private columns: the ranks of a column with one feature, otherwise its codes."""
        tests = np.bincount(self.features.column, minlength=len(self.columns))
        by_rank = ~public & (tests == 1)
        ranks, has_missing = np.zeros(len(self.columns), np.int64), np.zeros(len(self.columns), np.bool_)
        for f, column in enumerate(self.features.column.tolist()):
            begin = int(self.features.start[f])
            rank = self.features.rank[begin : begin + self.sizes[column]]
            ranks[column], has_missing[column] = rank.max(initial=-1) + 1, (rank < 0).any()
        listed = [np.zeros(0, bool)]
        length = np.zeros(len(self.columns) + 1, np.int64)
        for j in np.flatnonzero(~public & ~by_rank).tolist():
            listed.append(np.bincount(codes[j], minlength=self.sizes[j]) > 0)
            length[j + 1] = self.sizes[j]
        return PrivateDomain(public, by_rank, ranks, has_missing, np.cumsum(length), np.concatenate(listed))


def _start_numbers(rows: int) -> kernels.tree_spans.SpanNumbers:
    size = np.zeros(rows + 1, np.int64)
    size[0] = rows
    return kernels.tree_spans.SpanNumbers(
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int64),
        size,
        np.zeros(rows + 1, np.int64),
        np.full(rows + 1, -1, np.int64),
        np.zeros(rows + 1, np.int64),
        np.ones(1, np.int64),
    )
