"""Records as clusters see them: leftovers, merging and suppression by hand; the forest of boxes against a plain scan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal import kernels
from shoal.encoding.codes import Codes, encode_and_count
from shoal.engines import open_data
from shoal.engines.keyed_hash import KeyedHash
from shoal.engines.memory import list_record_cells
from shoal.kernels import interface
from shoal.kernels.boxes import weighted_loss
from shoal.kernels.interface import LOW, ClusterBox, ClusterCells
from shoal.pipeline.clustering import ClusteringInput, meet_requirements, suppress_or_merge
from tests.support.cases import Case, cases
from tests.support.kernels import compile_inner

DIVERSE = shoal.LDiversity(2, of="ill")


@dataclass(frozen=True)
class Line:
    """Records with one number each, in ascending order, so that records, cells and codes have the same order."""

    codes: Codes
    policy: shoal.Policy
    cell: np.ndarray

    @classmethod
    def of(
        cls,
        numbers: Sequence[float | None],
        ill: str | None = None,
        *require: object,
        suppress: float = 0.0,
        k: int = 2,
    ) -> Line:
        frame = pd.DataFrame({"x": pd.Series(numbers, dtype="Float64"), "ill": list(ill or "a" * len(numbers))})
        policy = shoal.Policy(
            quasi={"x": "numeric"}, sensitive="ill", require=[shoal.KAnonymity(k), *require], suppress=suppress
        )
        codes = encode_and_count(open_data(frame), policy)[0]
        cell = list_record_cells(codes.counts)
        assert sorted(cell) == cell.tolist()
        return cls(codes, policy, cell)

    @property
    def records(self) -> ClusteringInput:
        return ClusteringInput.of(self.codes, self.policy, np.ones(1))

    def merged(self, *group: int) -> list[int]:
        found = np.array(group, np.int32)
        self.records.merge_failing(self.cell, found)
        return found.tolist()

    def suppress_or_merge(self, *group: int) -> list[int]:
        given = np.array(group, np.int32)
        found = suppress_or_merge(self.records, self.policy, self.cell, given)
        assert given.tolist() == list(group)  # it is left as it was
        assert meet_requirements(self.codes, self.policy, self.cell, given, np.ones(1)).tolist() == found.tolist()
        return found.tolist()


# Records.


def test_records_are_the_counted_cells() -> None:
    line = Line.of([1, 1, 1, 4, None], "aabab", DIVERSE, k=3)
    records = line.records
    assert records.rows.tolist() == [[0], [0], [1], [2]]
    assert records.count.tolist() == [2, 1, 1, 1] and records.total == 5
    assert records.sensitive[records.label].tolist() == [[0], [1], [0], [1]]
    assert records.offset.tolist() == [0, 2] and records.k == 3
    some = records.select_cells(np.array([1, 3]))
    assert some.rows.tolist() == [[0], [2]] and some.total == 2 and some.sensitive[some.label].tolist() == [[1], [1]]


def test_columns_that_nothing_asks_for_do_not_count() -> None:
    records = Line.of([1, 2], "ab").records
    assert records.sensitive.shape == (1, 0) and records.label.tolist() == [0, 0] and records.offset.tolist() == [0]


def test_one_more_column_stands_behind_the_others() -> None:
    line = Line.of([1, 2, 3], "aba", DIVERSE)
    extra = np.array([2, 0, 2], np.int32)
    records = ClusteringInput.of(line.codes, line.policy, np.ones(1), extra_column=extra)
    assert records.sensitive[records.label].tolist() == [[0, 2], [1, 0], [0, 2]]
    assert records.offset.tolist() == [0, 2, 5]
    alone = ClusteringInput.of(
        Line.of([1, 2, 3]).codes, line.policy.model_copy(update={"require": ()}), np.ones(1), extra_column=extra
    )
    assert alone.sensitive[alone.label].tolist() == [[2], [0], [2]] and alone.offset.tolist() == [0, 3]


def test_a_table_of_equal_records_is_one_cell() -> None:
    records = Line.of([7] * 4).records
    assert records.rows.tolist() == [[0]] and records.count.tolist() == [4]


@pytest.mark.parametrize(
    ("group", "fails"),
    [
        ([0, 0, 1, 1, 1], [False, False]),
        ([0, 1, 1, 1, 1], [True, False]),
        ([0, 0, -1, 1, 1], [False, True]),  # b b
        ([2, 2, 2, 0, 0], [True, False, False]),  # a number without records fails nothing
        ([-1, -1, -1, -1, -1], []),
    ],
)
def test_groups_fail_on_their_own(group: list[int], fails: list[bool]) -> None:
    line = Line.of([1, 2, 3, 4, 5], "ababb", DIVERSE)
    assert line.records.find_failing(line.cell, np.array(group, np.int32)).tolist() == fails


def test_leftovers_go_where_they_cost_least() -> None:
    """3 joins {1, 2}, whose loss grows by 3 x 2 - 2 x 1 = 4, not {6, 7, 7}, whose loss would grow by 13; 10 joins those."""
    line = Line.of([1, 2, 3, 6, 7, 7, 10])
    group = np.array([0, 0, -1, 1, 1, 1, -1], np.int32)
    line.records.place_leftovers(line.cell, group, np.array([2, 6]), np.random.default_rng(1))
    assert group.tolist() == [0, 0, 0, 1, 1, 1, 1]


def test_leftovers_go_only_where_the_requirement_still_holds() -> None:
    """Half of {1, 2} may have a, no more; what fits nowhere stays alone."""
    half = shoal.ConfidenceBound(0.5, of="ill")
    line = Line.of([1, 2, 3, 8, 9, 10, 11], "abaabab", half)
    group = np.array([0, 0, -1, 1, 1, 1, 1], np.int32)
    line.records.place_leftovers(line.cell, group, np.array([2]), np.random.default_rng(1))
    assert group.tolist() == [0, 0, -1, 1, 1, 1, 1]


def test_of_equal_clusters_the_earlier_takes_a_leftover() -> None:
    line = Line.of([1, 2, 3, 4, 5])
    group = np.array([0, 0, -1, 1, 1], np.int32)
    line.records.place_leftovers(line.cell, group, np.array([2]), np.random.default_rng(1))
    assert group.tolist() == [0, 0, 0, 1, 1]


# Merging.


@pytest.mark.parametrize(
    ("numbers", "group", "merged"),
    [
        pytest.param([1, 2, 4, 8, 9], [0, 0, 1, 2, 2], [0, 0, 0, 2, 2], id="the nearer neighbour"),
        pytest.param([1, 2, 6, 8, 9], [0, 0, 1, 2, 2], [0, 0, 1, 1, 1], id="the union bears the lower number"),
        pytest.param([1, 2, 3, 4, 5], [0, 0, 1, 2, 2], [0, 0, 0, 2, 2], id="the earlier of equals"),
        pytest.param([0, 4, 5, 9, 10], [0, 0, 1, 2, 2], [0, 0, 0, 2, 2], id="the least increase, not the least union"),
        pytest.param([1, 2, 8, 9], [3, 5, 1, 1], [3, 3, 1, 1], id="two that fail"),
        pytest.param([1, 5, 9], [2, 1, 0], [0, 0, 0], id="of an odd number the last joins a pair"),
        pytest.param([1], [0], [0], id="nobody to merge with"),
        pytest.param([1, 2, 3, 4], [0, 0, 1, 1], [0, 0, 1, 1], id="nothing fails"),
        pytest.param([1, 2, 3, 4], [0, -1, 1, 1], [0, -1, 0, 0], id="who is in no group stays out"),
        pytest.param([1, 2, None], [0, 0, 1], [0, 0, 0], id="a missing number is far from all, yet joins"),
    ],
)
def test_what_fails_is_merged_at_the_least_cost(numbers: list[float], group: list[int], merged: list[int]) -> None:
    assert Line.of(numbers).merged(*group) == merged


def test_partners_whose_union_holds_come_first() -> None:
    """{3, 4} has only a, and so has {1, 2}; the union with {8, 9} is dearer, yet holds."""
    assert Line.of([1, 2, 3, 4, 8, 9], "abaaab", DIVERSE).merged(0, 0, 1, 1, 2, 2) == [0, 0, 0, 0, 2, 2]
    assert Line.of([1, 2, 3, 4, 8, 9], "aaaaab", DIVERSE).merged(0, 0, 1, 1, 2, 2) == [0, 0, 0, 0, 0, 0]


def test_where_no_union_holds_the_nearest_are_merged_first() -> None:
    three = shoal.LDiversity(3, of="ill")
    assert Line.of([1, 2, 3, 4, 8, 9], "aabbcc", three).merged(0, 0, 1, 1, 2, 2) == [0] * 6
    assert Line.of([1, 2, 3, 7, 8, 9], "aabbcc", three).merged(0, 0, 0, 1, 1, 2) == [0] * 6


def test_all_are_one_group_where_nothing_holds() -> None:
    assert Line.of([1, 2, 3, 4], "aaaa", DIVERSE).merged(0, 1, 2, 3) == [0, 0, 0, 0]


# Settling.


def test_groups_that_hold_stay() -> None:
    assert Line.of([1, 2, 8, 9], suppress=1.0).suppress_or_merge(1, 1, 0, 0) == [1, 1, 0, 0]


def test_what_fails_is_suppressed_within_the_allowance() -> None:
    numbers, group = [1, 2, 3, 8, 9], (0, 0, 1, 2, 2)
    assert Line.of(numbers, suppress=0.2).suppress_or_merge(*group) == [0, 0, -1, 2, 2]
    assert Line.of(numbers, suppress=0.19).suppress_or_merge(*group) == [0, 0, 0, 2, 2]
    assert Line.of(numbers).suppress_or_merge(*group) == [0, 0, 0, 2, 2]


def test_the_allowance_counts_records_and_not_groups() -> None:
    numbers, group = [1, 2, 8, 9, 10], (0, 0, 1, 1, 1)
    assert Line.of(numbers, "aaaab", DIVERSE, suppress=0.4).suppress_or_merge(*group) == [-1, -1, 1, 1, 1]
    assert Line.of(numbers, "aaaab", DIVERSE, suppress=0.2).suppress_or_merge(*group) == [0, 0, 0, 0, 0]


def test_rounding_does_not_take_the_allowance_away() -> None:
    """Three tenths of ten are three, though 0.3 x 10 may be a little less in floating point."""
    numbers = [*range(7), 20, 30, 40]
    group = (0, 0, 0, 0, 0, 0, 0, 1, 2, 3)
    assert Line.of(numbers, suppress=0.3).suppress_or_merge(*group) == [0] * 7 + [-1] * 3
    assert Line.of(numbers, suppress=0.1 * 3).suppress_or_merge(*group) == [0] * 7 + [-1] * 3


def test_not_everybody_is_suppressed() -> None:
    assert Line.of([1, 2, 3], suppress=1.0).suppress_or_merge(0, 1, 2) == [0, 0, 0]


def test_records_in_no_group_are_groups_that_fail() -> None:
    assert Line.of([1, 2, 8, 9], suppress=0.5).suppress_or_merge(0, 0, -1, -1) == [0, 0, -1, -1]
    assert Line.of([1, 2, 8, 9]).suppress_or_merge(0, 0, -1, -1) == [0, 0, 1, 1]
    assert Line.of([1, 2, 3, 9, 10]).suppress_or_merge(0, 0, -1, 1, 1) == [0, 0, 0, 1, 1]


def test_a_record_in_no_group_that_does_on_its_own_is_a_group() -> None:
    assert Line.of([1, 2, 3], k=1, suppress=1.0).suppress_or_merge(0, -1, -1) == [0, 1, 2]


@pytest.mark.parametrize(
    "relative",
    [
        shoal.TCloseness(0.3, of="ill"),
        shoal.BetaLikeness(1.0, of="ill"),
        shoal.DeltaDisclosure(1.0, of="ill"),
    ],
    ids=lambda r: r.name,
)
def test_nothing_is_suppressed_where_groups_are_compared_with_the_whole(relative: object) -> None:
    line = Line.of([1, 2, 3, 8, 9], "ababb", relative, suppress=1.0)
    found = line.suppress_or_merge(0, 0, 1, 2, 2)
    assert min(found) >= 0
    assert not line.records.find_failing(line.cell, np.array(found, np.int32)).any()


@given(case=cases(least=2, most=25), data=st.data())
def test_settled_groups_hold_or_are_one(case: Case, data: st.DataObject) -> None:
    codes = encode_and_count(open_data(case.frame), case.policy)[0]
    cell = np.repeat(np.arange(len(codes.counts.size), dtype=np.int32), codes.counts.size)
    group = np.array(data.draw(st.lists(st.integers(-1, 6), min_size=len(cell), max_size=len(cell))), np.int32)
    records = ClusteringInput.of(codes, case.policy, np.ones(len(codes.attributes)))
    found = suppress_or_merge(records, case.policy, cell, group)
    out = int((found < 0).sum())
    assert out <= case.policy.suppress * len(cell) + 1e-9 and out < len(cell)
    assert out == 0 or not any(r.relative for r in case.policy.require)
    assert not records.find_failing(cell, found).any() or len(set(found.tolist())) == 1
    for g in set(group[group >= 0].tolist()):  # groups are merged or suppressed, never parted
        assert len(set(found[group == g].tolist())) == 1


# The forest of boxes.

reset_box, extend_box, find_furthest, find_nearest = (
    compile_inner(getattr(kernels.neighbours, name))
    for name in ("reset_box", "extend_box", "find_furthest", "find_nearest")
)
reset_queues, take_record = (compile_inner(getattr(kernels.kmember, name)) for name in ("reset_queues", "take_record"))


@dataclass
class Forest:
    """Cells in a forest, of which records are taken one by one, and a box; asked as `kernels.kmember` asks."""

    records: ClusteringInput
    count: np.ndarray

    def __post_init__(self) -> None:
        records, m = self.records, self.records.rows.shape[1]
        self.labels = len(records.sensitive)
        cells = np.flatnonzero(self.count)
        self.forest = interface.Forest.allocate(cells, records.label, self.labels, records.keyed_rank, m)
        self.nodes = kernels.neighbours.build_forest(records.rows, self.forest, records.loss_tables)
        self.cells = ClusterCells(
            records.rows, self.count, records.label, records.sensitive, records.offset, np.zeros(0, np.int64)
        )
        self.box, self.version = ClusterBox.allocate(records.loss_tables), 0
        self.state, self.picks = np.array([0, 0, self.count.sum(), 0, len(cells)]), np.empty(self.count.sum(), np.int32)

    def surround(self, cell: int) -> None:
        reset_box(cell, self.records.rows, self.box)

    def start(self, seed: int) -> None:
        """A new cluster."""
        self.surround(seed)
        reset_queues(self.forest)
        self.version = 0

    def widen(self, cell: int) -> None:
        self.version += extend_box(cell, self.records.rows, self.box)

    def take(self, cell: int) -> None:
        take_record(cell, self.cells, self.forest, None, self.state, self.picks)

    def furthest(self) -> int:
        return int(find_furthest(self.forest, self.cells, self.box))

    def nearest(self, label: int) -> tuple[float, int] | None:
        """D and the cell of the nearest record that bears a label."""
        if not find_nearest(label, self.version, self.forest, self.cells, self.box):
            return None
        top = self.forest.queue_start[label]
        place = (int(self.forest.tag[top]) & int(LOW)) - len(self.forest.child)
        return float(self.forest.key[top]), int(self.forest.order[place])

    # The same by a plain scan.

    def joined(self, cell: int) -> float:
        total = 0.0
        for j, x in enumerate(self.records.rows[cell]):
            total += weighted_loss(j, min(self.box.low[j], x), max(self.box.high[j], x), self.box.loss_tables)
        return total

    def furthest_of_all(self) -> int:
        return min(np.flatnonzero(self.count).tolist(), key=lambda c: (-self.joined(c), self.records.keyed_rank[c]))

    def nearest_of_all(self, label: int) -> tuple[float, int] | None:
        left = [c for c in np.flatnonzero(self.count).tolist() if self.records.label[c] == label]
        return min(
            ((self.joined(c), c) for c in left), key=lambda one: (one[0], self.records.keyed_rank[one[1]]), default=None
        )


@st.composite
def forests(draw: st.DrawFn) -> Forest:
    """Numbers, trees, missing values, weights, labels; enough cells for nodes below nodes."""
    rows = draw(st.integers(1, 120))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values: dict[str, tuple[object, Sequence[object]]] = {
        "age": ("numeric", range(draw(st.integers(1, 12)))),
        "pay": ("numeric", rng.normal(size=300).tolist()),  # more codes than tables are made for
        "job": ({"taxonomy": {"A": {"B": {"C": ["a", "b"], "D": ["c"]}, "E": list("defg")}}}, list("abcdefg")),
        "sex": ("categorical", list("fmx")),
        "zip": ({"mask": "right"}, ["01234", "01235", "99", "47906"]),
    }
    names = draw(st.lists(st.sampled_from(list(values)), min_size=1, unique=True))
    frame = pd.DataFrame(
        {n: pd.Series([values[n][1][i] for i in rng.integers(0, len(values[n][1]), rows)]) for n in names}
    )
    holes = draw(st.sampled_from([0.0, 0.1, 0.6]))
    frame = frame.astype(object).mask(rng.random(frame.shape) < holes, None)
    frame["ill"] = rng.choice(list("abc")[: draw(st.integers(1, 3))], rows)
    policy = shoal.Policy(
        quasi={n: values[n][0] for n in names}, sensitive="ill", require=[shoal.LDiversity(1, of="ill")]
    )
    secret = draw(st.none() | st.integers(0, 9))
    codes = encode_and_count(open_data(frame), policy, hash=None if secret is None else KeyedHash.of(secret))[0]
    weights = np.array([draw(st.sampled_from([0.0, 0.25, 1 / 3, 1.0, 3.0])) for _ in names])
    records = ClusteringInput.of(codes, policy, weights)
    count = records.count.copy()
    count[rng.random(len(count)) < draw(st.sampled_from([0.0, 0.3]))] = 0  # were taken before it was planted
    count[-1] = max(count[-1], 1)
    return Forest(records, count)


@given(forest=forests(), data=st.data())
def test_the_furthest_is_that_of_a_plain_scan(forest: Forest, data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    while forest.count.any():
        forest.surround(int(rng.integers(len(forest.count))))  # the record itself may be gone
        found = forest.furthest()
        assert found == forest.furthest_of_all()
        left = np.flatnonzero(forest.count)
        for cell in [found, *rng.choice(left, min(3, len(left)), replace=False)]:
            if forest.count[cell]:
                forest.take(int(cell))


@given(forest=forests(), data=st.data())
def test_the_nearest_is_that_of_a_plain_scan(forest: Forest, data: st.DataObject) -> None:
    """Clusters grow by the nearest, of one label or another; now and then somebody else is taken away."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    grows = data.draw(st.booleans())
    while forest.count.any():
        seed = int(rng.choice(np.flatnonzero(forest.count)))
        forest.start(seed)
        forest.take(seed)
        for _ in range(int(rng.integers(1, 12))):
            asked = [i for i in range(forest.labels) if rng.random() < 0.7]
            found = {i: forest.nearest(i) for i in asked}
            assert found == {i: forest.nearest_of_all(i) for i in asked}
            cells = [one[1] for one in found.values() if one is not None]
            if not cells:
                continue
            cell = int(rng.choice(cells))
            forest.take(cell)
            if grows:
                forest.widen(cell)
            left = np.flatnonzero(forest.count)
            if len(left) and rng.random() < 0.2:
                forest.take(int(rng.choice(left)))


@given(forest=forests(), data=st.data())
def test_a_forest_holds_every_cell_once(forest: Forest, data: st.DataObject) -> None:
    built = forest.forest
    order, span, child, parent = built.order, built.span[: forest.nodes], built.child, built.parent
    first_turn, root, heap, leaf, turn = built.first_rank, built.root, built.queue_start, built.leaf, built.rank
    cells, label = np.flatnonzero(forest.count), forest.records.label
    assert sorted(order) == cells.tolist()
    assert np.array_equal(root >= 0, np.isin(np.arange(forest.labels), label[cells]))
    assert heap[-1] == len(order) + forest.nodes
    assert (parent[root[root >= 0]] == -1).all()
    for node, (begin, end) in enumerate(span):
        assert begin < end and first_turn[node] == turn[order[begin:end]].min()
        assert len(set(label[order[begin:end]])) == 1
        if child[node] >= 0:
            one, other = span[child[node]], span[child[node] + 1]
            assert (begin, one[1], end) == (one[0], other[0], other[1])
            assert parent[child[node]] == parent[child[node] + 1] == node
        else:
            assert (leaf[order[begin:end]] == node).all()
    check_boxes(forest)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    for cell in rng.permutation(cells):
        for _ in range(forest.count[cell]):
            forest.take(int(cell))
        check_boxes(forest)


def check_boxes(forest: Forest) -> None:
    """Every node knows how many cells are left below it, and its box is tight around them."""
    order, box, below = forest.forest.order, forest.forest.box, forest.forest.remaining
    for node, (begin, end) in enumerate(forest.forest.span[: forest.nodes]):
        left = [c for c in order[begin:end] if forest.count[c] > 0]
        assert below[node] == len(left)
        if left:
            rows = forest.records.rows[left]
            assert box[node].tolist() == [*rows.min(axis=0), *rows.max(axis=0)]


def test_many_equal_rows_of_no_weight_are_divided_all_the_same() -> None:
    """Nothing tells them apart, so nodes are halved; of equals the earliest is the furthest and the nearest."""
    frame = pd.DataFrame({"x": range(50)})
    policy = shoal.Policy(quasi={"x": "numeric"}, require=[shoal.KAnonymity(2)])
    codes = encode_and_count(open_data(frame), policy)[0]
    records = ClusteringInput.of(codes, policy, np.zeros(1))
    forest = Forest(records, records.count.copy())
    forest.start(30)
    assert forest.furthest() == 0 and forest.nearest(0) == (0.0, 0)
    forest.take(0)
    assert forest.furthest() == 1 and forest.nearest(0) == (0.0, 1)


@pytest.mark.parametrize("scale", [1.0, 1e8])
def test_of_corners_that_are_equally_far_the_earlier_is_found(scale: float) -> None:
    """Seen from the middle both corners are as far, to the last bit; the later one has the label that is asked first."""
    names = list("abcde")
    frame = pd.DataFrame([[0] * 5 + ["y"], [1] * 5 + ["y"], [2] * 5 + ["x"]], columns=[*names, "ill"])
    policy = shoal.Policy(
        quasi=dict.fromkeys(names, "numeric"), sensitive="ill", require=[shoal.LDiversity(1, of="ill")]
    )
    codes = encode_and_count(open_data(frame), policy)[0]
    for seed in range(20):
        records = ClusteringInput.of(codes, policy, scale * np.random.default_rng(seed).random(5))
        forest = Forest(records, records.count.copy())
        forest.surround(1)
        assert forest.joined(0) == forest.joined(2)
        assert forest.furthest() == forest.furthest_of_all() == 0
