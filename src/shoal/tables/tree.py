"""Model-based anonymization: a decision tree whose leaves are groups (Friedman, Wolff, Schuster, sections 3 and 6.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Unpack

import numpy as np

from shoal import kernels
from shoal.arrays import Int32Array
from shoal.encoding.codes import Codes
from shoal.errors import PolicyError
from shoal.mining.grow import CRITERIA, Attacker, InducedTree, LearningTable, check_choice, induce_tree
from shoal.pipeline.method import CommonParameters, GroupingMethod, Need
from shoal.pipeline.publication import LabelPublication, Publication
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding import Placement
from shoal.recoding.group_labels import Ends, parse_ends
from shoal.recoding.grouping import Grouping, Regions, SplitTree


class ClassificationTree(GroupingMethod):
    """Group records by the leaves of a decision tree for the target, so that the table keeps what predicts the target.

    The tree is that of `shoal.models.AnonymousTree` with all quasi-identifiers public: every leaf is a span, and every span is
    one group. By default the groups are published with the tests on the way to their leaf: a column that no test reads is
    ``*``. This is the table that is equivalent to the tree (section 3 of the paper): each can be computed from the other.

    Parameters
    ----------
    policy : the policy. The tree predicts its target, or its first sensitive column if it has no target
    criterion : how splits are rated: ``gain`` (information gain), ``gain-ratio`` or ``gini``
    common : ``write``, ``objective``, ``improve`` and others, as for every method; see `GroupingMethod`. Default of ``ends``:
        ``cut``, the tests of the tree; ``tight`` keeps more information

    Guarantee
    ---------
    Every group meets every requirement of the policy, also requirements on fewer attributes, since their groups are unions of
    leaves. No record is suppressed. The leaves tend towards one value of the target: if the target is sensitive, require
    l-diversity or t-closeness.

    References
    ----------
    Friedman, Wolff, Schuster: Providing k-anonymity in data mining. VLDB Journal 17 (2008).
    """

    name: ClassVar[str] = "tree"
    cuts: ClassVar[bool] = True
    summary: ClassVar[str] = "groups records by the leaves of a decision tree for the target"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {},
        {"criterion": "gain-ratio"},
        {"criterion": "gini"},
        {"ends": "tight"},
        {"improve": True},
    )

    def __init__(self, policy: Policy, *, criterion: str = "gain", **common: Unpack[CommonParameters]) -> None:
        super().__init__(policy, **common)
        self.criterion = criterion

    @classmethod
    def list_needs(cls, parameters: Mapping[str, Any]) -> frozenset[Need]:
        """A class to predict."""
        return frozenset({"sensitive"})

    def extra_columns(self) -> tuple[str, ...]:
        """The class."""
        return () if self._class_column is None else (self._class_column,)

    @property
    def _class_column(self) -> str | None:
        """The column that the tree predicts: the target, or the first sensitive column."""
        return self.policy.target or next(iter(self.policy.sensitive), None)

    def publication(self) -> Publication:
        """The labels of the groups: by default the tests of the tree, unless records are moved between groups."""
        return LabelPublication(self.policy, self.style(), self._ends, self.name)

    @property
    def _ends(self) -> Ends:
        return parse_ends(self.ends or ("tight" if self.improve else "cut"))

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        """The leaves of the tree; ``rng`` is not used."""
        check_choice("criterion", self.criterion, CRITERIA)
        self.refuse_non_monotone()
        if self._class_column is None:
            raise PolicyError(
                "tree needs a target, whose values the tree predicts. Name a column as 'target' or 'sensitive' in the policy, "
                "or use the method 'mondrian'."
            )
        table = LearningTable.of(codes, self._class_column, split_by_target=True)
        attacker = Attacker(frozenset(a.name for a in codes.attributes), False, tuple(self.policy.require))
        progress("splitting", 0, 1)
        tree = induce_tree(table, [attacker], criterion=self.criterion, rule="all")
        progress("splitting", 1, 1)
        if tree is None:  # the whole table fails; the release is refused later
            tree = induce_tree(table, [attacker], criterion=self.criterion, rule="all", max_leaves=1, check_root=False)
        assert tree is not None  # noqa: S101
        return _group_leaves(codes, tree, publish_tests=self._ends == "cut")


def _group_leaves(codes: Codes, tree: InducedTree, *, publish_tests: bool) -> Grouping:
    """The leaves with records as groups, in the order of their first combination.

    With ``publish_tests`` the box of a group is the region of its leaf, also in categories, instead of the values it has.
    """
    leaf = tree.leaf[codes.counts.start[:-1]] if len(codes.quasi) else np.zeros(0, np.int32)
    leaves, first = np.unique(leaf, return_index=True)
    leaves = leaves[np.argsort(first)]
    number = np.full(len(tree.nodes.attribute), -1, np.int32)
    number[leaves] = np.arange(len(leaves), dtype=np.int32)
    group = number[leaf]
    lo, hi = kernels.boxes.bound_groups(codes.quasi, np.arange(len(group)), group, len(leaves))
    regions = None
    if publish_tests:
        regions = Regions(tree.nodes.lo[leaves], tree.nodes.hi[leaves], np.zeros(lo.shape, bool))
        categories = [j for j, a in enumerate(codes.attributes) if a.taxonomy is not None]
        lo[:, categories], hi[:, categories] = regions.lo[:, categories], regions.hi[:, categories]
    return Grouping(Placement.whole(codes.counts, group), lo, hi, _make_split_tree(tree, number), regions=regions)


def _make_split_tree(tree: InducedTree, group: Int32Array) -> SplitTree:
    """The tree with two children per node: a node with more children is a chain of cuts.

    A value that no record of the node has goes to the child of the values before it. Its records are outside the box of that
    child.
    """
    nodes = tree.nodes
    made: list[list[int]] = []
    waiting = [(0, -1, False)]  # a node, and the cut of which it is the left or the right child
    while waiting:
        n, parent, is_right = waiting.pop()
        new = len(made)
        if parent >= 0:
            made[parent][3 if is_right else 2] = new
        a = int(nodes.attribute[n])
        if a < 0:
            made.append([-1, 0, -1, -1, int(group[n])])
            continue
        first = int(nodes.first_child[n])
        children = [c for c in range(first, first + int(nodes.children[n])) if nodes.end[c] > nodes.begin[c]]
        for i, child in enumerate(children[:-1]):
            made.append([a, int(nodes.lo[children[i + 1], a]) - 1, -1, -1, -1])
            at = len(made) - 1
            waiting.append((child, at, False))
            if i + 2 < len(children):
                made[at][3] = at + 1
            else:
                waiting.append((children[-1], at, True))
    columns = np.array(made, np.int32).reshape(-1, 5)
    return SplitTree(*(np.ascontiguousarray(columns[:, j]) for j in range(5)))
