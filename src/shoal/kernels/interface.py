"""Constants and named tuples that kernels share with their callers. This module does not load the compiler."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# The kind of an attribute: how `boxes.interval_loss` measures an interval.
NUMBER, TREE, FLAT = range(3)

# The header of attribute a in the loss tables is ints[HEAD * a : HEAD * (a + 1)]: kind, number of codes, code of missing, and
# the starts of its leaves, its nodes and its floats.
KIND, SIZE, MISSING, LEAVES, NODES, FLOATS, HEAD = range(7)

# How `mondrian.grow_tree` chooses a cut.
MEDIAN, GAIN, RELAXED, TARGET = range(4)
STEP_BYTES = 16  # codes are compared this many bytes at a time, so rows are padded to a multiple

# The next seed of `kmember.grow_clusters`: furthest from the last record, furthest from the last seed, or a random record.
LAST, SEED, RANDOM = range(3)
# Indices in the state of its search.
PICKED, CLUSTERS, REMAINING, REFERENCE, NONEMPTY = range(5)

# The columns of the group table of `specialize`: begin, end and size of a group, and its records
# if it fails; from FIGURES on three look-ahead figures for every attribute.
GROUP_BEGIN, GROUP_END, GROUP_SIZE, GROUP_FAILING, FIGURES = range(5)
SMALLEST, FAILING, CHILD_GROUPS = range(3)
NO_GROUP = np.int64(1) << np.int64(62)  # the size of the smallest group where there is none: larger than any group
MOST_JOINT = 256  # the most combinations of slots that are counted in one table


class RuleArrays(NamedTuple):
    """The rules of the requirements for `limits`; see `requirements.requirement.Limits`."""

    term: NDArray[Any]
    parameter: NDArray[Any]
    table_shares: NDArray[Any]
    left: NDArray[Any]
    right: NDArray[Any]
    floor: NDArray[Any]
    figure: NDArray[Any]
    value_order: NDArray[Any]


class LossArrays(NamedTuple):
    """The attribute weights, and the two arrays of `boxes.interval_loss`."""

    weight: NDArray[Any]
    ints: NDArray[Any]
    floats: NDArray[Any]


class SplitLosses(NamedTuple):
    """The losses for `mondrian`; ``first_code`` is the first code under each node, where ``ints`` has the last code."""

    ints: NDArray[Any]
    floats: NDArray[Any]
    weight: NDArray[Any]
    first_code: NDArray[Any]


class SplitCells(NamedTuple):
    """The cells of every row for `mondrian`: cells ``start[u]`` to ``start[u + 1]`` belong to row u.

    By cell: the sensitive codes, the number of records, the class of the target. Sensitive attribute s begins at ``offset[s]``
    in a histogram.
    """

    start: NDArray[Any]
    sensitive: NDArray[Any]
    records: NDArray[Any]
    offset: NDArray[Any]
    classes: NDArray[Any]
    class_count: int


class SensitiveLabels(NamedTuple):
    """The label of every cell, the sensitive codes of every label, their offsets in a histogram, and the limits."""

    label: NDArray[Any]
    sensitive: NDArray[Any]
    offset: NDArray[Any]
    limits: RuleArrays


class ClusterCells(NamedTuple):
    """The cells for `kmember`: codes, records left and label of every cell, and the sensitive codes of every label."""

    rows: NDArray[Any]
    records: NDArray[Any]
    label: NDArray[Any]
    sensitive: NDArray[Any]
    offset: NDArray[Any]


class DistanceScale(NamedTuple):
    """The scale of distances for `microaggregate`.

    By number: the factor of a squared difference, the squared distance from a missing value, whether values are missing. By
    category: its first place in the table of code distances.
    """

    factor: NDArray[Any]
    missing_distance: NDArray[Any]
    has_missing: NDArray[Any]
    first: NDArray[Any]


class TaxonomyArrays(NamedTuple):
    """The taxonomies of all categories for `microaggregate`.

    The node of every code; the first and last code under every node, its parent and its squared distance; the root of every
    taxonomy.
    """

    leaf: NDArray[Any]
    low: NDArray[Any]
    high: NDArray[Any]
    parent: NDArray[Any]
    cost: NDArray[Any]
    root: NDArray[Any]
