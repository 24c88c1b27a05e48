"""Constants and bundles that kernels share with their callers. This module does not load the compiler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.bundle import Bundle

LARGEST_CODE = np.int32(2**31 - 1)  # no code is larger
LOW = np.int64(0xFFFFFFFF)  # the low half of a word that holds two numbers
# Arguments of a known type. The compiler makes a copy of a function for every literal number that is passed to it.
ZERO64, ONE64, NONE64 = np.int64(0), np.int64(1), np.int64(-1)

LEAST_GAIN = 1e-9  # per record; a smaller gain is rounding
LEAST_IMPROVEMENT = 1e-12  # a smaller decrease of the shortfall does not count

# The kind of an attribute: how `boxes.interval_loss` measures an interval.
NUMBER, TREE, FLAT, RANGED = range(4)

# The header of attribute a in the loss tables is ints[HEAD * a : HEAD * (a + 1)]: kind, number of codes, code of missing, and
# the starts of its leaves, its nodes and its floats. After the leaves of a RANGED attribute come, by code, the first and the
# last code of the node where a run may begin or end. Before its floats come, by code, the lower and the upper ends of runs,
# counted in source values. A NUMBER has the ends of ranges, by code, among the floats: the lower ends from LEAVES on, the
# upper ends from FLOATS on.
KIND, SIZE, MISSING, LEAVES, NODES, FLOATS, HEAD = range(7)

# How `mondrian.grow_tree` chooses a cut.
MEDIAN, GAIN, RELAXED, TARGET = range(4)
TABLE = 1 << 16  # attributes with up to this many codes use a table, others are sorted
CLASS_ROOM = 64  # beside four per row, the entries of an attribute in the table of classes
SHORT = 48  # up to this many rows are sorted by insertion
STEP_BYTES = 16  # codes are compared this many bytes at a time, so rows are padded to a multiple

# How `tree_induction` rates a split: information gain, gain ratio, Gini index. A split of a number has the level CUT.
ENTROPY_GAIN, GAIN_RATIO, GINI = range(3)
CUT = np.int64(-1)
# Indices in its counts: nodes, leaves, leaves in the queue, spans, links of spans, links of leaves.
NODE_COUNT, LEAF_COUNT, QUEUE_COUNT, SPAN_COUNT, LINK_COUNT, OF_LINK_COUNT = range(6)

MOST_STEPS = 20_000  # steps of an exact search of `downcoding`; a box that needs more counts as not covered

# The next seed of `kmember.grow_clusters`: furthest from the last record, furthest from the last seed, or a random record.
LAST, SEED, RANDOM = range(3)
# Attributes with up to this many codes have a table of terms (`ClusterBox`), or of the losses of all intervals.
LARGEST_TABLE = 256
TREE_SAMPLE = 32  # groups that determine the cut of a node of a `GroupTree`
MOST_NEAR = 64  # groups that a `local_search` tests for one entry
# Indices in the state of its search.
PICKED, CLUSTERS, REMAINING, REFERENCE, NONEMPTY = range(5)

# Indices in the state of `agglomerative.merge_groups`: groups, entries of the queue, whether the search is complete.
ALIVE, QUEUED, DONE = range(3)

# The columns of the group table of `specialize`: begin, end and size of a group, and its records
# if it fails; from FIGURES on three look-ahead figures for every attribute.
GROUP_BEGIN, GROUP_END, GROUP_SIZE, GROUP_FAILING, FIGURES = range(5)
SMALLEST, FAILING, CHILD_GROUPS = range(3)
# The columns of its fields, one row per attribute: word, shift and mask of the slot, then of the code.
SLOT_WORD, SLOT_SHIFT, SLOT_MASK, CODE_WORD, CODE_SHIFT, CODE_MASK = range(6)
# The columns of its chunks, attributes with adjacent slots: the first, the one after the last, and word, shift and mask.
CHUNK_FIRST, CHUNK_END, CHUNK_WORD, CHUNK_SHIFT, CHUNK_MASK = range(5)
NO_GROUP = np.int64(1) << np.int64(62)  # the size of the smallest group where there is none: larger than any group
MOST_JOINT = 256  # the most combinations of slots that are counted in one table

# The objectives of `roll_up`: the mean loss of each attribute, added, or the logarithms of 1 + this loss, added; the squared
# sizes of groups; the mean size of a group; the share of records outside the most frequent class of their group.
SUM_OF_MEANS, SUM_OF_LOGARITHMS, SQUARED_SIZES, AVERAGE_SIZE, MISCLASSIFIED = range(5)
# Whether it decides a node that is within the limit: always, if no group fails, or never (then the caller does).
DECIDES, DECIDES_WHOLE, DECIDES_NEVER = range(3)
# The states of nodes; TAGGED: fails because a coarser node has too many records in small groups.
UNSEEN, ANONYMOUS, FAILS, TAGGED = range(4)
LEAST_SLOTS = 16  # of its hash table
# Why it returns.
FINISHED, PAUSED, NO_ROOM, ASKS = range(4)


@dataclass(frozen=True, eq=False)
class RuleArrays(Bundle):
    """The rules of the requirements for `limits`; see `requirements.requirement.Limits`."""

    term: NDArray[Any]
    parameter: NDArray[Any]
    table_shares: NDArray[Any]
    left: NDArray[Any]
    right: NDArray[Any]
    floor: NDArray[Any]
    figure: NDArray[Any]
    value_order: NDArray[Any]


@dataclass(frozen=True, eq=False)
class LossArrays(Bundle):
    """The attribute weights, and the two arrays of `boxes.interval_loss`."""

    weight: NDArray[Any]
    ints: NDArray[Any]
    floats: NDArray[Any]


@dataclass(frozen=True, eq=False)
class SplitLosses(Bundle):
    """The losses for `mondrian`; ``first_code`` is the first code under each node, where ``ints`` has the last code."""

    ints: NDArray[Any]
    floats: NDArray[Any]
    weight: NDArray[Any]
    first_code: NDArray[Any]


@dataclass(frozen=True, eq=False)
class SplitCells(Bundle):
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


@dataclass(frozen=True, eq=False)
class SplitRows(Bundle):
    """The rows for `mondrian`, which are reordered in place: codes with padding, number of records, combination (``ref``).

    If cuts may divide equal values, each row is one record and ``ref`` its cell.
    """

    codes: NDArray[Any]
    records: NDArray[Any]
    ref: NDArray[Any]


@dataclass(frozen=True, eq=False)
class SplitCriteria(Bundle):
    """How `mondrian` judges a cut: the losses, the cells, the limits, and the least records of a group."""

    losses: SplitLosses
    cells: SplitCells
    limits: RuleArrays
    least: int


@dataclass(frozen=True, eq=False)
class SplitScratch(Bundle):
    """Work arrays of `mondrian`.

    For all cuts: the smallest and largest code of the segment by attribute (``lo``, ``hi``); records by code (``tally``), two
    buffers of sort keys, the digits of a sort (``digit``), and the histograms of the segment and of both sides of a cut (empty:
    sizes decide alone). For cuts by gain: the boxes by code (``table``), the running box, its previous state, the largest code,
    the loss by attribute; by entry its position, cumulative records and code, and the loss up to it and from it on; the
    tabulated attributes and their places. For cuts by the target: the records of every class on either side, and by code and
    class. ``width`` is by attribute.
    """

    lo: NDArray[Any]
    hi: NDArray[Any]
    tally: NDArray[Any]
    keys: NDArray[Any]
    spare: NDArray[Any]
    digit: NDArray[Any]
    whole: NDArray[Any]
    left_counts: NDArray[Any]
    right_counts: NDArray[Any]
    table: NDArray[Any]
    box: NDArray[Any]
    previous: NDArray[Any]
    largest: int
    attribute_loss: NDArray[Any]
    place: NDArray[Any]
    cumulative: NDArray[Any]
    code: NDArray[Any]
    before: NDArray[Any]
    after: NDArray[Any]
    tabulated: NDArray[Any]
    base: NDArray[Any]
    left_classes: NDArray[Any]
    right_classes: NDArray[Any]
    class_table: NDArray[Any]
    class_first: NDArray[Any]
    width: NDArray[Any]


@dataclass(frozen=True, eq=False)
class CutNodes(Bundle):
    """The nodes of a tree of cuts of `mondrian`: attribute (-1: a group), cut, children, segment of rows; and a stack."""

    attribute: NDArray[Any]
    cut: NDArray[Any]
    child: NDArray[Any]
    segment: NDArray[Any]
    stack: NDArray[Any]


@dataclass(frozen=True, eq=False)
class CombinationCells(Bundle):
    """The cells of every combination for `specialize`, `generalize` and `halving`.

    Cells ``start[u]`` to ``start[u + 1]`` belong to combination u. By cell: the sensitive codes and the number of records.
    Sensitive attribute s begins at ``offset[s]`` in a histogram, which has ``width`` entries (0: the requirements depend on the
    size of groups alone).
    """

    start: NDArray[Any]
    sensitive: NDArray[Any]
    records: NDArray[Any]
    offset: NDArray[Any]
    width: int


@dataclass(frozen=True, eq=False)
class MergeTable(Bundle):
    """The combinations for `agglomerative` and `halving`: codes, number of records, rank (which breaks ties).

    The limits, and the least records of a group; the losses.
    """

    rows: NDArray[Any]
    records: NDArray[Any]
    rank: NDArray[Any]
    limits: RuleArrays
    least: int
    loss_tables: LossArrays


@dataclass(frozen=True, eq=False)
class Halves(Bundle):
    """The two halves of a split of `halving`, and its work arrays.

    Box and weighted losses by half and attribute; records, D and histogram by half; the half of every place of the segment
    (``side``), places (``spare``), a histogram to try with (``trial``).
    """

    low: NDArray[Any]
    high: NDArray[Any]
    loss: NDArray[Any]
    records: NDArray[Any]
    total: NDArray[Any]
    histogram: NDArray[Any]
    side: NDArray[Any]
    spare: NDArray[Any]
    trial: NDArray[Any]

    @classmethod
    def allocate(cls, table: MergeTable, width: int) -> Halves:
        """Room for the halves of a table; a histogram has ``width`` entries."""
        n, m = table.rows.shape
        box = np.empty((2, m), np.int32), np.empty((2, m), np.int32), np.empty((2, m))
        figures = np.zeros(2, np.int64), np.zeros(2), np.zeros((2, width), np.int64)
        return cls(*box, *figures, np.empty(n, np.int8), np.empty(n, np.int32), np.zeros(width, np.int64))


@dataclass(frozen=True, eq=False)
class MergedGroups(Bundle):
    """The groups of `agglomerative`, numbered by their first combinations; one that has merged into another is not alive.

    By group: box (smallest codes, then largest codes), weighted loss by attribute (``terms``), records, D, rank, first and
    last combination, whether it is alive, whether it fails. By combination: the next one of its group (-1: none), and its
    group after the search (``owner``). The queue of failing groups, the smallest first: records (``key``), tag (rank and
    number of the group), ``stamp`` is not used. ``members``, ``own`` and ``trial`` are work arrays: combinations, and
    histograms.
    """

    box: NDArray[Any]
    terms: NDArray[Any]
    records: NDArray[Any]
    loss: NDArray[Any]
    rank: NDArray[Any]
    head: NDArray[Any]
    tail: NDArray[Any]
    following: NDArray[Any]
    owner: NDArray[Any]
    alive: NDArray[Any]
    failing: NDArray[Any]
    key: NDArray[Any]
    tag: NDArray[Any]
    stamp: NDArray[Any]
    members: NDArray[Any]
    own: NDArray[Any]
    trial: NDArray[Any]

    @classmethod
    def of(cls, table: MergeTable, width: int) -> MergedGroups:
        """Every combination as a group; a histogram has ``width`` entries."""
        n, m = table.rows.shape
        numbers = np.arange(n, dtype=np.int32)
        return cls(
            box=np.hstack((table.rows, table.rows)),
            terms=np.zeros((n, m)),
            records=table.records.copy(),
            loss=np.zeros(n),
            rank=table.rank.copy(),
            head=numbers,
            tail=numbers.copy(),
            following=np.full(n, -1, np.int32),
            owner=numbers.copy(),
            alive=np.ones(n, bool),
            failing=np.zeros(n, bool),
            key=np.empty(2 * n),
            tag=np.empty(2 * n, np.int64),
            stamp=np.empty(2 * n, np.int32),
            members=np.empty(n, np.int32),
            own=np.zeros(width, np.int64),
            trial=np.zeros(width, np.int64),
        )


@dataclass(frozen=True, eq=False)
class HullTree(Bundle):
    """A tree over the groups of `agglomerative`: ``order`` has the groups in tree order, one per place.

    By node: hull, first and last place (``span``), left child (the right child follows; -1: a leaf), parent, groups alive, the
    least records, the least and the largest D. By group: its leaf. ``stack``, ``bounds``, ``codes`` and ``spare`` are work
    arrays.
    """

    order: NDArray[Any]
    hull: NDArray[Any]
    span: NDArray[Any]
    child: NDArray[Any]
    parent: NDArray[Any]
    remaining: NDArray[Any]
    least_records: NDArray[Any]
    least_loss: NDArray[Any]
    most_loss: NDArray[Any]
    leaf: NDArray[Any]
    stack: NDArray[Any]
    bounds: NDArray[Any]
    codes: NDArray[Any]
    spare: NDArray[Any]

    @classmethod
    def allocate(cls, groups: MergedGroups) -> HullTree:
        """Room for a tree over the groups that are alive."""
        order = np.flatnonzero(groups.alive).astype(np.int32)
        n = len(order)
        room = 2 * n + 1
        return cls(
            order=order,
            hull=np.empty((room, groups.box.shape[1]), np.int32),
            span=np.empty((room, 2), np.int32),
            child=np.full(room, -1, np.int32),
            parent=np.full(room, -1, np.int32),
            remaining=np.zeros(room, np.int64),
            least_records=np.zeros(room, np.int64),
            least_loss=np.zeros(room),
            most_loss=np.zeros(room),
            leaf=np.full(len(groups.alive), -1, np.int32),
            stack=np.empty(room + 1, np.int32),
            bounds=np.empty(room + 1),
            codes=np.empty(n, np.int32),
            spare=np.empty(n, np.int32),
        )


@dataclass(frozen=True, eq=False)
class RefinedRows(Bundle):
    """The rows and groups of `specialize`, which change, and the places of slots and codes in a row.

    By row: its words, its combination (``ref``), its records. By group: its facts, and its value in every attribute.
    """

    words: NDArray[Any]
    ref: NDArray[Any]
    records: NDArray[Any]
    facts: NDArray[Any]
    node: NDArray[Any]
    fields: NDArray[Any]
    chunks: NDArray[Any]


@dataclass(frozen=True, eq=False)
class LookAheadInput(Bundle):
    """The input of the look-ahead figures of `specialize`.

    By value: its number of children, and whether it may still be specialized. The cells, the limits, and the least records of
    a group; whether the requirements depend on the size of groups alone.
    """

    fan_out: NDArray[Any]
    alive: NDArray[Any]
    cells: CombinationCells
    limits: RuleArrays | None
    least: int
    size_only: bool


@dataclass(frozen=True, eq=False)
class LookAheadScratch(Bundle):
    """Work arrays of `specialize`: records, start of the rows and verdict by child; records by combination of slots and chunk;
    base, word, shift and mask of the counted chunks; histograms by child; a buffer for the rows of one group.
    """

    counts: NDArray[Any]
    start: NDArray[Any]
    passes: NDArray[Any]
    table: NDArray[Any]
    plan: NDArray[Any]
    histogram: NDArray[Any]
    words: NDArray[Any]
    ref: NDArray[Any]
    records: NDArray[Any]


@dataclass(frozen=True, eq=False)
class SpecializedValue(Bundle):
    """A value that `specialize` splits: its attribute, its first child and number of children, the new slot of every code."""

    attribute: int
    first: int
    children: int
    slots: NDArray[Any]


@dataclass(frozen=True, eq=False)
class SensitiveLabels(Bundle):
    """The label of every cell, the sensitive codes of every label, their offsets in a histogram, and the limits."""

    label: NDArray[Any]
    sensitive: NDArray[Any]
    offset: NDArray[Any]
    limits: RuleArrays


@dataclass(frozen=True, eq=False)
class ClusterCells(Bundle):
    """The cells for `kmember`: codes, records left and label of every cell, and the sensitive codes of every label.

    Sensitive column s begins at ``offset[s]`` in a histogram; the last entry is the length of the histogram. ``sums`` is a
    Fenwick tree of the records left, if seeds are random: entry i is the sum of the last i & -i records up to cell i - 1.
    """

    rows: NDArray[Any]
    records: NDArray[Any]
    label: NDArray[Any]
    sensitive: NDArray[Any]
    offset: NDArray[Any]
    sums: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Forest(Bundle):
    """Trees of boxes, one per label, and a priority queue for each; see `neighbours`.

    ``order`` has the cells in tree order, one per place. By node: box, first and last place (``span``), left child (the right
    child follows; -1: a leaf), parent, remaining cells, smallest rank. By label: its first place (``start``), the root (-1:
    none), the start of its queue, the entries of the queue, the penalty of the label, whether it is allowed. By cell: the
    leaf, and the rank. By entry of a queue: D or a lower bound, the tag, and the version of the box for which D was computed.
    ``stack``, ``upper``, ``codes`` and ``spare`` are work arrays.
    """

    order: NDArray[Any]
    box: NDArray[Any]
    span: NDArray[Any]
    child: NDArray[Any]
    parent: NDArray[Any]
    remaining: NDArray[Any]
    first_rank: NDArray[Any]
    start: NDArray[Any]
    root: NDArray[Any]
    queue_start: NDArray[Any]
    queued: NDArray[Any]
    penalty: NDArray[Any]
    allowed: NDArray[Any]
    leaf: NDArray[Any]
    rank: NDArray[Any]
    key: NDArray[Any]
    tag: NDArray[Any]
    stamp: NDArray[Any]
    stack: NDArray[Any]
    upper: NDArray[Any]
    codes: NDArray[Any]
    spare: NDArray[Any]

    @classmethod
    def allocate(cls, cells: NDArray[Any], label: NDArray[Any], labels: int, rank: NDArray[Any], m: int) -> Forest:
        """Room for a forest over some cells, with ``m`` attributes; ``label`` and ``rank`` are by cell, for all cells.

        Most of the room for nodes and queues is never used, nor ever given by the system.
        """
        n, own = len(cells), label[cells]
        order = cells[np.argsort(own, kind="stable")].astype(np.int32)
        room = 2 * n + labels
        return cls(
            order=order,
            box=np.empty((room, 2 * m), np.int32),
            span=np.empty((room, 2), np.int32),
            child=np.empty(room, np.int32),
            parent=np.empty(room, np.int32),
            remaining=np.empty(room, np.int32),
            first_rank=np.empty(room, np.int32),
            start=np.concatenate(([0], np.cumsum(np.bincount(own, minlength=labels)))).astype(np.int64),
            root=np.full(labels, -1, np.int32),
            queue_start=np.zeros(labels + 1, np.int64),
            queued=np.zeros(labels, np.int64),
            penalty=np.zeros(labels),
            allowed=np.ones(labels, bool),
            leaf=np.empty(len(label), np.int32),
            rank=rank,
            key=np.empty(room + n),
            tag=np.empty(room + n, np.int64),
            stamp=np.empty(room + n, np.int32),
            stack=np.empty(room, np.int32),
            upper=np.empty(room),
            codes=np.empty(n, np.int32),
            spare=np.empty(n, np.int32),
        )


@dataclass(frozen=True, eq=False)
class ClusterBox(Bundle):
    """The box of a cluster for `neighbours`, or of a group for `agglomerative`, and the terms of D.

    By attribute: the smallest and largest code, the weighted loss, the start of its table of terms (-1: no table), the bound
    of all later terms (``rest``). ``term`` has all tables: the term of an attribute by the code that joins the box.
    """

    low: NDArray[Any]
    high: NDArray[Any]
    loss: NDArray[Any]
    term_start: NDArray[Any]
    rest: NDArray[Any]
    term: NDArray[Any]
    loss_tables: LossArrays

    @classmethod
    def allocate(cls, loss_tables: LossArrays, most: int = LARGEST_TABLE) -> ClusterBox:
        """Room for a box; attributes with up to ``most`` codes get a table of terms."""
        m = len(loss_tables.weight)
        size = loss_tables.ints[SIZE : HEAD * m : HEAD].astype(np.int64)
        tabulated = np.where(size <= most, size, 0)
        start = np.where(size <= most, np.cumsum(tabulated) - tabulated, -1)
        numbers = np.empty(m, np.int32), np.empty(m, np.int32), np.empty(m), start, np.empty(m)
        return cls(*numbers, np.empty(int(tabulated.sum())), loss_tables)


@dataclass(frozen=True, eq=False)
class LabelSearch(Bundle):
    """The forest of `kmember` with a tree for every label; the histogram of the cluster, and a work array of that length."""

    forest: Forest
    histogram: NDArray[Any]
    after: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Penalties(Bundle):
    """The penalized columns for `kmember`, and the amount of each penalty.

    A row of ``columns``: the column of the label, its first place in the histogram, the place after its last, whether it is the
    class. ``harmful`` marks by place in the histogram the values that a whole cluster should not share.
    """

    columns: NDArray[Any]
    amount: NDArray[Any]
    harmful: NDArray[Any]

    @classmethod
    def none(cls) -> Penalties:
        """No penalties."""
        return cls(np.zeros((0, 4), np.int64), np.zeros(0), np.zeros(0, bool))


@dataclass(frozen=True, eq=False)
class ClusterRules(Bundle):
    """How `kmember` makes clusters.

    ``seed_choice`` is LAST, SEED or RANDOM. ``box_grows``: records are compared with the box of the whole cluster, otherwise
    with the seed alone.
    """

    k: int
    seed_choice: int
    box_grows: bool
    penalties: Penalties
    limits: RuleArrays
    loss_tables: LossArrays


@dataclass(frozen=True, eq=False)
class ClusterOutput(Bundle):
    """The result of `kmember`: the cell of every pick; by cluster its first pick, and whether it failed the requirement."""

    picks: NDArray[Any]
    starts: NDArray[Any]
    failed: NDArray[Any]


@dataclass(frozen=True, eq=False)
class RecordClusters(Bundle):
    """Clusters of records for `cluster_merging`.

    By record: its cell, its cluster (-1: none), and the next record of its cluster (-1: none). By cluster: its first and last
    record, its number of records, its box, and D, the weighted loss of the box, summed over the attributes. ``own`` and
    ``histogram`` are work arrays for the counts of sensitive values.
    """

    cell: NDArray[Any]
    group: NDArray[Any]
    following: NDArray[Any]
    head: NDArray[Any]
    tail: NDArray[Any]
    size: NDArray[Any]
    low: NDArray[Any]
    high: NDArray[Any]
    loss: NDArray[Any]
    own: NDArray[Any]
    histogram: NDArray[Any]


@dataclass(frozen=True, eq=False)
class IntervalLosses(Bundle):
    """The losses of all intervals of attributes with few codes, and where each attribute's losses begin (-1: no table).

    ``loss_tables`` serve the other attributes. ``attribute_order``: attributes that separate groups best are compared first.
    """

    pairs: NDArray[Any]
    begin: NDArray[Any]
    loss_tables: LossArrays
    attribute_order: NDArray[Any]

    @classmethod
    def allocate(cls, loss_tables: LossArrays) -> IntervalLosses:
        """Room for the losses, which `group_tree.tabulate_losses` writes."""
        m = len(loss_tables.weight)
        size = loss_tables.ints[SIZE : HEAD * m : HEAD].astype(np.int64)
        length = np.where(size <= LARGEST_TABLE, size**2, 0)
        begin = np.where(size <= LARGEST_TABLE, np.cumsum(length) - length, -1)
        return cls(np.empty(int(length.sum())), begin, loss_tables, np.arange(m))


@dataclass(frozen=True, eq=False)
class GroupBoxes(Bundle):
    """Groups for `group_tree`: box, loss by attribute, D, size."""

    low: NDArray[Any]
    high: NDArray[Any]
    loss: NDArray[Any]
    total: NDArray[Any]
    size: NDArray[Any]


@dataclass(frozen=True, eq=False)
class GroupTree(Bundle):
    """A tree of the boxes of groups; see `group_tree`.

    By node: first and last place, left child (the right child follows; -1: a leaf), hull, largest loss, least size, least D.
    By place: group, and its box, loss by attribute, D and size. ``spare`` has room for groups, ``key`` and ``hull`` for a
    sample of groups.
    """

    span: NDArray[Any]
    child: NDArray[Any]
    hull_low: NDArray[Any]
    hull_high: NDArray[Any]
    largest_loss: NDArray[Any]
    least_size: NDArray[Any]
    least_total: NDArray[Any]
    group: NDArray[Any]
    low: NDArray[Any]
    high: NDArray[Any]
    loss: NDArray[Any]
    total: NDArray[Any]
    size: NDArray[Any]
    spare: NDArray[Any]
    key: NDArray[Any]
    ordered: NDArray[Any]
    hull: NDArray[Any]

    @classmethod
    def allocate(cls, groups: NDArray[Any], m: int) -> GroupTree:
        """Room for a tree of some groups with ``m`` attributes, which `group_tree.build_tree` builds."""
        n = len(groups)
        room = max(2 * n, 1)
        return cls(
            span=np.empty((room, 2), np.int32),
            child=np.empty(room, np.int32),
            hull_low=np.empty((room, m), np.int32),
            hull_high=np.empty((room, m), np.int32),
            largest_loss=np.empty((room, m)),
            least_size=np.empty(room),
            least_total=np.empty(room),
            group=groups.astype(np.int32),
            low=np.empty((n, m), np.int32),
            high=np.empty((n, m), np.int32),
            loss=np.empty((n, m)),
            total=np.empty(n),
            size=np.empty(n, np.int64),
            spare=np.empty(n, np.int32),
            key=np.empty(2 * TREE_SAMPLE, np.int64),
            ordered=np.empty(2 * TREE_SAMPLE, np.int64),
            hull=np.empty((4, m), np.int32),
        )


@dataclass(frozen=True, eq=False)
class NearestGroups(Bundle):
    """Work arrays of a search in a `GroupTree`, and its result: groups and increases, cheapest first."""

    stack: NDArray[Any]
    bound: NDArray[Any]
    group: NDArray[Any]
    increase: NDArray[Any]

    @classmethod
    def allocate(cls, nodes: int, want: int) -> NearestGroups:
        """Room for up to ``want`` groups in trees of up to so many nodes."""
        return cls(np.empty(nodes + 2, np.int32), np.empty(nodes + 2), np.empty(want, np.int64), np.empty(want))


@dataclass(frozen=True, eq=False)
class SearchState(Bundle):
    """The state of a `local_search`, and the codes of all cells (``rows``).

    By entry: cell, group, number of records; linked lists of the entries of a group. By group: first entry, number of records;
    by [group, attribute] the two smallest and the two largest codes, and the loss; D; the time of the last change, and of the
    last proposal that was not applied; the counts of the sensitive values (no rows: counted again for each test). ``used``:
    the number of entries, and the changes of groups.
    """

    rows: NDArray[Any]
    cell: NDArray[Any]
    group: NDArray[Any]
    records: NDArray[Any]
    following: NDArray[Any]
    previous: NDArray[Any]
    head: NDArray[Any]
    size: NDArray[Any]
    low: NDArray[Any]
    next_low: NDArray[Any]
    high: NDArray[Any]
    next_high: NDArray[Any]
    loss: NDArray[Any]
    total: NDArray[Any]
    changed: NDArray[Any]
    refused: NDArray[Any]
    histogram: NDArray[Any]
    used: NDArray[Any]


@dataclass(frozen=True, eq=False)
class MoveScratch(Bundle):
    """Work arrays of the moves of a `local_search`: counts of sensitive values, two boxes, the loss of a point, near groups."""

    counts: NDArray[Any]
    other_counts: NDArray[Any]
    low: NDArray[Any]
    high: NDArray[Any]
    other_low: NDArray[Any]
    other_high: NDArray[Any]
    point_loss: NDArray[Any]
    nearest: NearestGroups

    @classmethod
    def allocate(cls, width: int, m: int, nodes: int = 0) -> MoveScratch:
        """Room for ``width`` counts, ``m`` attributes, and a search in trees of up to so many nodes."""
        return cls(
            counts=np.zeros(width, np.int64),
            other_counts=np.zeros(width, np.int64),
            low=np.empty(m, np.int32),
            high=np.empty(m, np.int32),
            other_low=np.empty(m, np.int32),
            other_high=np.empty(m, np.int32),
            point_loss=np.zeros(m),
            nearest=NearestGroups.allocate(nodes, MOST_NEAR),
        )


@dataclass(frozen=True, eq=False)
class Division(Bundle):
    """Work arrays of `regrouping` for the division of a group: by entry and by run of equal codes."""

    entries: NDArray[Any]
    codes: NDArray[Any]
    order: NDArray[Any]
    cost: NDArray[Any]
    run_cost: NDArray[Any]
    run_code: NDArray[Any]
    run_size: NDArray[Any]
    run_low: NDArray[Any]
    run_high: NDArray[Any]
    before_low: NDArray[Any]
    before_high: NDArray[Any]
    after_low: NDArray[Any]
    after_high: NDArray[Any]
    run_counts: NDArray[Any]

    @classmethod
    def allocate(cls, n: int, m: int, width: int) -> Division:
        """Room for groups of up to ``n`` entries."""
        return cls(
            entries=np.empty(n, np.int64),
            codes=np.empty(n, np.int64),
            order=np.empty(n, np.int64),
            cost=np.empty(n),
            run_cost=np.empty(n),
            run_code=np.empty(n + 1, np.int64),
            run_size=np.empty(n + 1, np.int64),
            run_low=np.empty((n + 1, m), np.int32),
            run_high=np.empty((n + 1, m), np.int32),
            before_low=np.empty((n + 1, m), np.int32),
            before_high=np.empty((n + 1, m), np.int32),
            after_low=np.empty((n + 1, m), np.int32),
            after_high=np.empty((n + 1, m), np.int32),
            run_counts=np.empty((n + 1, width), np.int64),
        )


@dataclass(frozen=True, eq=False)
class DistanceScale(Bundle):
    """The scale of distances for `microaggregate`.

    By number: the factor of a squared difference, the squared distance from a missing value, whether values are missing. By
    category: its first place in the table of code distances.
    """

    factor: NDArray[Any]
    missing_distance: NDArray[Any]
    has_missing: NDArray[Any]
    first: NDArray[Any]


@dataclass(frozen=True, eq=False)
class TaxonomyArrays(Bundle):
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


@dataclass(frozen=True, eq=False)
class LatticeLevels(Bundle):
    """The levels of all attributes for `lattice`: level l of attribute j has the number ``first[j] + l``.

    ``begin`` has the start of every level in ``word`` and ``loss``, which hold the word and the weighted loss of every code.
    """

    first: NDArray[Any]
    begin: NDArray[Any]
    word: NDArray[Any]
    loss: NDArray[Any]


@dataclass(frozen=True, eq=False)
class LatticeTable(Bundle):
    """The rows for `lattice`: their codes, records and cells, the limits, and the least records of a group."""

    codes: NDArray[Any]
    records: NDArray[Any]
    cells: CombinationCells
    limits: RuleArrays | None
    least: int


@dataclass(frozen=True, eq=False)
class SearchSpace(Bundle):
    """The lattice for `roll_up`, with the attributes in the order of the search.

    Packed rows have the codes of attribute j in a word, ``bits[j]`` bits behind those of the attribute before. Bundle b has the
    attributes from ``bundle[b]`` on, in word ``lane[b]`` from the bit ``shift[b]`` on (``mask[b]``). Level l of
    attribute j has the number ``first[j] + l`` and ``values`` different values; ``begin`` has its start in ``value``, ``word``
    and ``loss``, which hold the number of the value, the word and the loss of every code.
    By level: the ``mean`` loss of all records, and its ``score``, the least that the attribute adds to the objective. By
    attribute: the loss of a suppressed record (``lost``), the lowest and the highest level, the ``stride`` of node numbers.
    ``policy_order`` has the attributes in the order of the policy.

    Step d chooses a level of ``attribute[d]``, or a block of levels if ``is_block[d]``: block b of attribute j has the levels
    from ``block[j, b]`` to ``block[j, b + 1]`` - 1. ``floor`` is the least score of a level and all higher ones. Tables are
    counted after the numbers of steps in ``stages`` (``has_table``), and the coarsest node is tested after those of ``probe``.
    """

    bits: NDArray[Any]
    bundle: NDArray[Any]
    lane: NDArray[Any]
    shift: NDArray[Any]
    mask: NDArray[Any]
    fused_begin: NDArray[Any]
    first: NDArray[Any]
    values: NDArray[Any]
    begin: NDArray[Any]
    value: NDArray[Any]
    word: NDArray[Any]
    loss: NDArray[Any]
    mean: NDArray[Any]
    score: NDArray[Any]
    floor: NDArray[Any]
    lost: NDArray[Any]
    low: NDArray[Any]
    top: NDArray[Any]
    stride: NDArray[Any]
    policy_order: NDArray[Any]
    attribute: NDArray[Any]
    is_block: NDArray[Any]
    blocks: NDArray[Any]
    block: NDArray[Any]
    stages: NDArray[Any]
    has_table: NDArray[Any]
    probe: NDArray[Any]


@dataclass(frozen=True, eq=False)
class SearchRules(Bundle):
    """The objective and the test of nodes for `roll_up`: the records of the table, how many of them may be suppressed, the
    least size of a group, and the limits where they depend on sensitive values (``tests_values``).

    A released group meets the limits ``relaxed`` against the whole table, whatever records are suppressed.
    ``inherits``: a node that is finer than a failing one fails. ``sizes_first``: the sizes of the groups are tested before a
    table of the groups is counted. ``sizes_decide``: they are the only requirement, and the objective is a sum over the
    attributes. The classes are the entries ``class_first`` to ``class_last``
    of a histogram. Where requirements are on several sets of attributes, set s has the attributes ``set_attribute`` from
    ``set_start[s]`` on, the limits from ``term_start[s]`` on, and its own least size; otherwise these arrays are empty.
    """

    kind: int
    records: int
    limit: int
    least: int
    tests_values: bool
    limits: RuleArrays | None
    relaxed: RuleArrays
    inherits: bool
    decides: int
    sizes_first: bool
    sizes_decide: bool
    class_first: int
    class_last: int
    set_start: NDArray[Any]
    set_attribute: NDArray[Any]
    least_of_set: NDArray[Any]
    term_start: NDArray[Any]


@dataclass(frozen=True, eq=False)
class RolledTables(Bundle):
    """The stack of tables for `roll_up`: by row its key, a row of the first table, its records and their histogram.

    ``start`` and ``rows`` are by table, ``built[0]`` is the last valid table. ``slot`` and ``stamp`` are hash slots, ``clock``
    has the time stamp and the number of rows that were counted, ``passes`` is by group of the last table. The first table has
    ``codes`` [attribute, row], and ``packed`` [row, word] if its sizes are counted first. Then ``dense`` has the
    records of every combination of values, and zeros between two counts; ``fused`` is filled by `number_values`. Slice s of the
    first table has the rows from ``slice_start[s]`` on. Its values of the attributes ``sliced``, directly below their roots,
    are ``slice_value[s]``; ``slice_values`` are the numbers of these values. Work arrays: ``raised`` by attribute, and the
    order, the number and the end of slices.
    """

    key: NDArray[Any]
    row: NDArray[Any]
    size: NDArray[Any]
    histogram: NDArray[Any]
    start: NDArray[Any]
    rows: NDArray[Any]
    built: NDArray[Any]
    slot: NDArray[Any]
    clock: NDArray[Any]
    passes: NDArray[Any]
    probe_key: NDArray[Any]
    probe_size: NDArray[Any]
    codes: NDArray[Any]
    packed: NDArray[Any]
    dense: NDArray[Any]
    fused: NDArray[Any]
    sliced: NDArray[Any]
    slice_value: NDArray[Any]
    slice_values: NDArray[Any]
    slice_start: NDArray[Any]
    raised: NDArray[Any]
    slice_order: NDArray[Any]
    slice_number: NDArray[Any]
    slice_closes: NDArray[Any]


@dataclass(frozen=True, eq=False)
class SearchPlace(Bundle):
    """The place of a search: the number of steps, and the choice of each; by number of steps the lowest and the highest level
    of every attribute, and the least score.

    ``level`` is the current node, ``best`` the score of the best node so far, which has the levels ``best_level``. ``at`` and
    ``lost`` are work arrays by attribute.
    """

    level: NDArray[Any]
    depth: NDArray[Any]
    choice: NDArray[Any]
    low: NDArray[Any]
    high: NDArray[Any]
    bound: NDArray[Any]
    best: NDArray[Any]
    best_level: NDArray[Any]
    at: NDArray[Any]
    lost: NDArray[Any]


@dataclass(frozen=True, eq=False)
class SearchLog(Bundle):
    """The checked nodes of a search: levels, state, suppressed records, objective; ``counts[0]`` is their number, and
    ``counts[2]`` that of further nodes whose small groups alone were counted.

    ``state`` has the state of every node, or is empty for a lattice that is too large. Then ``failed`` has the nodes whose
    finer nodes all fail, and ``counts[1]`` their number.
    """

    level: NDArray[Any]
    outcome: NDArray[Any]
    suppressed: NDArray[Any]
    value: NDArray[Any]
    state: NDArray[Any]
    failed: NDArray[Any]
    counts: NDArray[Any]


@dataclass(frozen=True, eq=False)
class PublishedBoxes(Bundle):
    """The boxes that `lattice` must not overlap: by node, one row of each box, rows ``start[v]`` to ``start[v + 1]``."""

    node: NDArray[Any]
    start: NDArray[Any]
    row: NDArray[Any]


@dataclass(frozen=True, eq=False)
class InductionRows(Bundle):
    """The rows for `tree_induction`: by row its codes, class, sensitive codes, records, and votes.

    Votes are the records or people that requirements count. Sensitive attribute s begins at ``offset[s]`` in a histogram.
    """

    codes: NDArray[Any]
    classes: NDArray[Any]
    sensitive: NDArray[Any]
    records: NDArray[Any]
    votes: NDArray[Any]
    offset: NDArray[Any]
    class_count: int
    criterion: int
    unit: float


@dataclass(frozen=True, eq=False)
class SplitChoices(Bundle):
    """The splits that `tree_induction` may choose: by attribute its number of codes and of levels (0: cuts of numbers).

    The block of a code at level l is at ``first_block[a] + l * size[a] + code``: ``block`` has its first code, ``last`` its
    last code. ``position`` has the values of the codes of numbers, from ``first_position[a]`` on.
    """

    size: NDArray[Any]
    levels: NDArray[Any]
    first_block: NDArray[Any]
    block: NDArray[Any]
    last: NDArray[Any]
    first_position: NDArray[Any]
    position: NDArray[Any]


@dataclass(frozen=True, eq=False)
class AttackerArrays(Bundle):
    """The attackers of `tree_induction`: by attacker the attributes that are public, and whether the class is known.

    The terms of attacker b are ``first_term[b]`` to ``first_term[b + 1]`` of the rules. ``least`` is the least size of a span.
    ``size_only``: the rules depend on the size alone, and every record is a vote. ``spare_single``: spans of a single cell need
    not meet the requirements.
    """

    public: NDArray[Any]
    knows_class: NDArray[Any]
    first_term: NDArray[Any]
    rules: RuleArrays | None
    least: NDArray[Any]
    size_only: bool
    spare_single: bool


@dataclass(frozen=True, eq=False)
class InductionNodes(Bundle):
    """The nodes of a tree of `tree_induction`.

    By node: the split (attribute -1: a leaf), the first child and the number of children, whether the last child has the blocks
    without records, the depth, the rows in the order of leaves, the region of codes, and the records of every class.
    """

    attribute: NDArray[Any]
    level: NDArray[Any]
    at: NDArray[Any]
    first_child: NDArray[Any]
    children: NDArray[Any]
    has_other: NDArray[Any]
    depth: NDArray[Any]
    begin: NDArray[Any]
    end: NDArray[Any]
    lo: NDArray[Any]
    hi: NDArray[Any]
    classes: NDArray[Any]


@dataclass(frozen=True, eq=False)
class WaitingLeaves(Bundle):
    """The leaves that `tree_induction` may split. By node: the best allowed split and its score (infinite before a search),
    and whether it must be searched again.

    ``queue`` has the leaves by score. ``counts`` has the numbers of nodes, leaves, spans and links so far. ``needed`` has those
    of the arrays that are too short for the next split.
    """

    attribute: NDArray[Any]
    level: NDArray[Any]
    at: NDArray[Any]
    score: NDArray[Any]
    stale: NDArray[Any]
    queue: NDArray[Any]
    counts: NDArray[Any]
    needed: NDArray[Any]


@dataclass(frozen=True, eq=False)
class SpanTable(Bundle):
    """The spans of all attackers for `tree_induction`, and the links of spans and leaves.

    Span s belongs to ``attacker[s]`` and has the rows ``row[begin[s]:end[s]]``. Its first link is ``first[s]``; link e names
    ``leaf[e]`` and continues with ``next[e]``. The links of leaf l are ``of_first[l]``, ``of_span`` and ``of_next``.
    """

    row: NDArray[Any]
    attacker: NDArray[Any]
    begin: NDArray[Any]
    end: NDArray[Any]
    first: NDArray[Any]
    leaf: NDArray[Any]
    next: NDArray[Any]
    of_first: NDArray[Any]
    of_span: NDArray[Any]
    of_next: NDArray[Any]


@dataclass(frozen=True, eq=False)
class InductionScratch(Bundle):
    """Work arrays of `tree_induction`.

    ``histogram`` is empty if only sizes count. ``child_of_block`` has the child of every block, ``start`` and ``place`` are by
    child. ``order`` and ``key`` are by row. ``code``, ``classes`` and ``total`` are the records of a leaf by the codes that it
    has, by class and of all classes. ``side`` and ``other_side`` are by class.
    """

    histogram: NDArray[Any]
    child_of_block: NDArray[Any]
    start: NDArray[Any]
    place: NDArray[Any]
    order: NDArray[Any]
    key: NDArray[Any]
    code: NDArray[Any]
    classes: NDArray[Any]
    total: NDArray[Any]
    side: NDArray[Any]
    other_side: NDArray[Any]


@dataclass(frozen=True, eq=False)
class ThresholdNodes(Bundle):
    """The nodes of a tree of thresholds for `tree_spans`: by node the feature (-1: a leaf), the cut, the children.

    Codes whose rank in the feature is below the cut go left. ``missing_left``: values without a rank (-1) go left.
    """

    feature: NDArray[Any]
    cut: NDArray[Any]
    left: NDArray[Any]
    right: NDArray[Any]
    missing_left: NDArray[Any]


@dataclass(frozen=True, eq=False)
class FeatureRanks(Bundle):
    """The features of trees of thresholds: by feature its column, and the rank of every code from ``start`` on.

    Feature f of code c has the rank ``rank[start[f] + c]``; -1 for a missing value.
    """

    column: NDArray[Any]
    start: NDArray[Any]
    rank: NDArray[Any]


@dataclass(frozen=True, eq=False)
class PrivateDomain(Bundle):
    """The columns for `tree_spans`: whether each is public, and the possible values of private columns.

    A private column with ``by_rank`` has one feature: its values are the ranks from 0 to ``ranks - 1``, and perhaps missing.
    Other private columns have the codes ``first[c]`` to ``first[c + 1]`` of ``possible``.
    """

    public: NDArray[Any]
    by_rank: NDArray[Any]
    ranks: NDArray[Any]
    has_missing: NDArray[Any]
    first: NDArray[Any]
    possible: NDArray[Any]


@dataclass(frozen=True, eq=False)
class CutTable(Bundle):
    """The table for `cut_points`: by row its slot of every attribute [attribute, row], its records and their histogram.

    ``rows[0]`` is the number of rows. The slots of attribute j have the numbers from ``first[j]`` on; ``cut[s]`` says whether
    an interval begins at slot s. Attributes with a ``missing`` value have it in their last slot. ``word`` has the word of every
    slot; sums of words are the keys of groups. ``order`` has the rows by slot, for every attribute.
    """

    rows: NDArray[Any]
    slot: NDArray[Any]
    size: NDArray[Any]
    histogram: NDArray[Any]
    first: NDArray[Any]
    missing: NDArray[Any]
    word: NDArray[Any]
    order: NDArray[Any]


@dataclass(frozen=True, eq=False)
class CutRoom(Bundle):
    """Arrays that `cut_points` uses again: hash slots, and by row its key, its group and its place in a sorted order.

    By group: its records, their histogram, and a mark. ``parent`` and ``parent_size`` are the group of every row before a cut,
    and its records. ``cut`` is by slot of all attributes, ``word``, ``begins``, ``best``, ``back`` and the ``run_`` arrays are
    by slot of one; ``total`` is a histogram. ``cost`` and ``lost`` have, by the first and the last slot of an interval, the
    cost and the suppressed records. ``work[0]`` is the number of rows that were read.
    """

    hashed: NDArray[Any]
    key: NDArray[Any]
    group: NDArray[Any]
    start: NDArray[Any]
    place: NDArray[Any]
    size: NDArray[Any]
    histogram: NDArray[Any]
    marks: NDArray[Any]
    parent: NDArray[Any]
    parent_size: NDArray[Any]
    cut: NDArray[Any]
    word: NDArray[Any]
    begins: NDArray[Any]
    best: NDArray[Any]
    back: NDArray[Any]
    run_slot: NDArray[Any]
    run_size: NDArray[Any]
    run_histogram: NDArray[Any]
    total: NDArray[Any]
    cost: NDArray[Any]
    lost: NDArray[Any]
    work: NDArray[Any]


@dataclass(frozen=True, eq=False)
class DowncodingRoom(Bundle):
    """Work arrays of `downcoding`: groups, a stack of boxes, the current box, a point, and two values of every attribute."""

    near: NDArray[Any]
    stack_low: NDArray[Any]
    stack_high: NDArray[Any]
    low: NDArray[Any]
    high: NDArray[Any]
    point: NDArray[Any]
    seen: NDArray[Any]

    @classmethod
    def of(cls, groups: int, attributes: int) -> DowncodingRoom:
        """Room for so many groups. Each step on the way to a box removes the box of another group, and puts up to two boxes per
        attribute on the stack.
        """
        waiting = 2 * attributes * min(groups, MOST_STEPS) + 1
        return cls(
            np.empty(groups, np.int64),
            np.empty((waiting, attributes), np.int32),
            np.empty((waiting, attributes), np.int32),
            np.empty(attributes, np.int32),
            np.empty(attributes, np.int32),
            np.empty(attributes, np.int32),
            np.empty((attributes, 2), np.int32),
        )
