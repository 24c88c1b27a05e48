"""The polish of groups: the loss falls or stays, the requirement holds, nobody's record is lost; recounted by plain code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import shoal
from shoal.encoding.attributes import Attribute
from shoal.encoding.codes import Codes, encode_and_count
from shoal.engines import open_data
from shoal.engines.keyed_hash import KeyedHash
from shoal.engines.memory import list_record_cells
from shoal.pipeline import local_search, run
from shoal.pipeline.clustering import ClusteringInput
from shoal.pipeline.local_search import Improvement, improve_groups
from shoal.recoding.partitioned import Parts
from shoal.requirements import combine_limits
from tests.conftest import SECRET
from tests.reference.losses import interval_loss
from tests.reference.requirements import passes
from tests.support.cases import Case, as_rows, cases, covers, holds, recount, released, stayed, suited
from tests.support.outcomes import Outcome, counted
from tests.support.ways import each_of

Given = dict[str, Any]
WAYS: list[tuple[str, Given]] = [
    ("mondrian", {"cut": "gain"}),
    ("mondrian", {"cut": "median"}),
    ("mondrian", {"cut": "median", "relaxed": True}),
    ("kmember", {}),
    ("knn", {}),
    ("mdav", {"write": "label"}),
    ("tds", {}),
    ("bottom-up", {}),
]
UNWEIGHTED = ("tds", "bottom-up")
IN_THE_CONTRACT = [("mondrian", {"cut": "gain"}), ("kmember", {}), ("tds", {})]


# The loss, worked out slowly.


@dataclass(frozen=True)
class Ruler:
    """The codes of every record, by its note, and how much each attribute counts."""

    attributes: tuple[Attribute, ...]
    codes: Mapping[object, Sequence[int]]
    weights: Mapping[str, float]

    @classmethod
    def of(cls, case: Case, weights: Mapping[str, float] | None = None) -> Ruler:
        codes = encode_and_count(open_data(case.frame), case.policy)[0]
        rows = codes.quasi[codes.combination[list_record_cells(codes.counts)]].tolist()
        return cls(codes.attributes, dict(zip(case.frame["note"], rows, strict=True)), weights or {})

    def loss(self, groups: Iterator[Sequence[object]] | Sequence[Sequence[object]]) -> float:
        """The loss of groups of notes, summed over records and attributes."""
        total = 0.0
        for notes in groups:
            columns = zip(*(self.codes[note] for note in notes), strict=True)
            spread = [
                self.weights.get(a.name, 1.0) * interval_loss(a, min(column), max(column))
                for a, column in zip(self.attributes, columns, strict=True)
            ]
            total += len(notes) * sum(spread)
        return total

    def of_release(self, case: Case, release: shoal.Release) -> float:
        """The loss of the groups that a stranger sees: those with equal labels are as wide together as alone."""
        seen = release.frame.groupby(list(case.policy.quasi), dropna=False, observed=True)["note"]
        return self.loss([list(notes) for _, notes in seen])


def both(case: Case, method: str, parameters: Given) -> tuple[shoal.Release, shoal.Release]:
    """The release as it was and as it is improved; an improvement never makes a requirement impossible."""
    plain = released(case, method, parameters)
    better = released(case, method, {**parameters, "improve": True})
    assert (plain is None) == (better is None)
    assume(plain is not None and better is not None)
    return plain, better


def check_loss(case: Case, plain: shoal.Release, better: shoal.Release, weights: Mapping[str, float]) -> None:
    ruler = Ruler.of(case, weights)
    before, after = ruler.of_release(case, plain), ruler.of_release(case, better)
    assert after <= before + 1e-9
    gained = (before - after) / before if before > 0 else 0.0
    assert better.measures["improved"] == pytest.approx(gained, abs=1e-9)
    assert better.measures["improved"] >= 0.0
    assert "improved" not in plain.measures
    if not weights:
        assert better.measures["ncp"] <= plain.measures["ncp"] + 1e-9


def check_release(case: Case, plain: shoal.Release, better: shoal.Release) -> None:
    """The same records stay as before, what they say covers what they are, and the requirement holds."""
    assert holds(better.frame, case.policy)
    assert better.certificate.holds
    assert better.certificate.smallest == recount(better.frame, list(case.policy.quasi)).min()
    assert better.certificate.suppressed == plain.certificate.suppressed
    kept = ["note", "illness"]
    raw = stayed(case, better)
    assert better.frame[kept].fillna("").values.tolist() == plain.frame[kept].fillna("").values.tolist()
    assert better.frame[kept].fillna("").values.tolist() == raw[kept].fillna("").values.tolist()
    for column, quasi in case.policy.quasi.items():
        for value, label in zip(raw[column], better.frame[column], strict=True):
            assert covers(label, value, quasi), (column, value, label)


# Every method.


@each_of(WAYS)
@given(data=st.data(), case=cases())
def test_the_loss_falls_and_the_requirement_holds(
    data: st.DataObject, case: Case, method: str, parameters: Given
) -> None:
    case = suited(case, method)
    weights: dict[str, float] = {}
    if method not in UNWEIGHTED and data.draw(st.booleans()):
        weight = st.sampled_from([0.0, 0.25, 1 / 3, 1.0, 3.0])
        weights = data.draw(st.fixed_dictionaries({}, optional=dict.fromkeys(case.policy.quasi, weight)))
        parameters = {**parameters, "weights": weights}
    plain, better = both(case, method, parameters)
    check_loss(case, plain, better, weights)
    check_release(case, plain, better)


@each_of([way for way in WAYS if way not in IN_THE_CONTRACT])
@given(case=cases(), seed=st.integers(0, 2**32 - 1))
@counted
def test_the_order_of_rows_does_not_matter(case: Case, method: str, parameters: Given, seed: int) -> Outcome:
    case = suited(case, method)
    parameters = {**parameters, "improve": True}
    order = np.random.default_rng(seed).permutation(len(case.frame))
    first = released(case, method, parameters)
    shuffled = released(Case(case.frame.iloc[order], case.policy), method, parameters)
    assert (first is None) == (shuffled is None)
    if first is None or shuffled is None:
        return "not met"
    assert as_rows(first.frame) == as_rows(shuffled.frame)
    assert first.measures["improved"] == shuffled.measures["improved"]
    return None


@each_of(WAYS)
@given(data=st.data(), case=cases(least=6))
@counted
def test_no_group_grows_beyond_the_most(data: st.DataObject, case: Case, method: str, parameters: Given) -> Outcome:
    case = suited(case, method)
    made = shoal.tables.METHODS.find(method)(case.policy, **parameters)
    codes = encode_and_count(open_data(case.frame), case.policy, extra=made.extra_columns(), hash=KeyedHash.of(SECRET))[
        0
    ]
    k = combine_limits(case.policy.require, codes.distribution).least
    most = data.draw(st.none() | st.integers(k, 3 * k))
    release = released(case, method, {**parameters, "improve": True, "max_size": most})
    if release is None:
        return "not met"
    if release.measures["improved"] == 0.0:
        return "not improved"
    assert holds(release.frame, case.policy)
    place = release.recoding
    sizes = np.bincount(place.group[place.group >= 0], place.count[place.group >= 0]).astype(int).tolist()
    before = made.decide(codes, rng=np.random.default_rng(SECRET), progress=lambda *_: None).size().tolist()
    check_sizes(before, sizes, len(case.frame) if most is None else most)
    assert min(sizes) >= k
    return None


def check_sizes(before: Sequence[int], after: Sequence[int], most: int) -> None:
    """What is larger than ``most`` was so before: it may shrink or be cut, and nothing joins it."""
    assert max(after) <= max(most, *before)
    assert sum(s for s in after if s > most) <= sum(s for s in before if s > most)


@each_of(IN_THE_CONTRACT)
@given(case=cases(least=8))
def test_small_tasks_give_the_same_groups(case: Case, method: str, parameters: Given) -> None:
    better = released(case, method, {**parameters, "improve": True})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_search, "CHUNK", 2)
        other = released(case, method, {**parameters, "improve": True})
    assert (better is None) == (other is None)
    assert better is None or other is None or as_rows(better.frame) == as_rows(other.frame)


# Any groups at all.


@dataclass(frozen=True)
class Start:
    """Records in some groups: what the search begins with."""

    codes: Codes
    policy: shoal.Policy
    weights: np.ndarray
    cell: np.ndarray
    group: np.ndarray
    most: int

    @property
    def records(self) -> ClusteringInput:
        return ClusteringInput.of(self.codes, self.policy, self.weights)

    def run(self) -> Improvement:
        return improve_groups(self.records, self.cell, self.group, self.most, lambda done: None)

    def groups(self, group: np.ndarray) -> list[list[int]]:
        return [np.flatnonzero(group == g).tolist() for g in np.unique(group[group >= 0])]

    def loss(self, members: Sequence[int]) -> float:
        rows = self.codes.quasi[self.codes.combination[self.cell[list(members)]]]
        spread = [
            w * interval_loss(a, int(rows[:, j].min()), int(rows[:, j].max()))
            for j, (a, w) in enumerate(zip(self.codes.attributes, self.weights, strict=True))
        ]
        return len(members) * sum(spread)

    def total(self, group: np.ndarray) -> float:
        return sum(map(self.loss, self.groups(group)))

    def fits(self, members: Sequence[int]) -> bool:
        """Whether a group meets every requirement on its own."""
        return bool(members) and all(
            passes(r, self._values(r.of, members), self._values(r.of, range(len(self.cell))))
            for r in self.policy.require
        )

    def _values(self, of: str | None, members: Sequence[int]) -> list[str | None]:
        if of is None:
            return [None] * len(members)
        place = [s.name for s in self.codes.sensitive].index(of)
        labels = self.codes.sensitive[place].labels
        return [labels[c] for c in self.codes.counts.sensitive[self.cell[list(members)], place]]


@st.composite
def starts(draw: st.DrawFn, *, least: int = 2, most: int = 30, out: bool = True) -> Start:
    """Groups by chance, merged until each meets the requirement; some records may be in none of them."""
    case = draw(cases(least=least, most=most))
    codes = encode_and_count(open_data(case.frame), case.policy)[0]
    weights = np.array([draw(st.sampled_from([0.0, 0.5, 1.0, 1.0, 3.0])) for _ in codes.attributes])
    cell = np.repeat(np.arange(len(codes.counts.size), dtype=np.int32), codes.counts.size)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    parts = draw(st.integers(1, len(cell)))
    group = rng.integers(0, parts, len(cell)).astype(np.int32)
    records = ClusteringInput.of(codes, case.policy, weights)
    if out and draw(st.booleans()):
        group[rng.random(len(cell)) < 0.2] = -1
    records.merge_failing(cell, group)
    size = draw(st.integers(records.k, 3 * records.k))
    start = Start(codes, case.policy, weights, cell, group, size)
    assume((group >= 0).any() and all(map(start.fits, start.groups(group))))
    return start


@given(start=starts())
def test_any_groups_get_no_worse(start: Start) -> None:
    found = start.run()
    before, after = start.total(start.group), start.total(found.group)
    assert found.before == pytest.approx(before) and found.after == pytest.approx(after)
    assert after <= before + 1e-9
    assert all(map(start.fits, start.groups(found.group)))
    assert np.array_equal(found.group < 0, start.group < 0)
    sizes = [[len(g) for g in start.groups(group)] for group in (start.group, found.group)]
    check_sizes(*sizes, start.most)


@given(start=starts(most=20))
def test_in_the_end_no_record_wants_to_move(start: Start) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_search, "LEAST_GAIN", 0.0)  # rounds go on until nothing is gained
        group = start.run().group
    groups = start.groups(group)
    for g in groups:
        for record in g:
            rest = [i for i in g if i != record]
            if not start.fits(rest):
                continue
            for other in groups:
                if other is not g and len(other) < start.most and start.fits([*other, record]):
                    now = start.loss(g) + start.loss(other)
                    assert start.loss(rest) + start.loss([*other, record]) >= now - 1e-6


def partitions(members: Sequence[int]) -> Iterator[list[list[int]]]:
    """All ways to put some records into groups."""
    if not members:
        yield []
        return
    for rest in partitions(members[1:]):
        yield [[members[0]], *rest]
        for i, group in enumerate(rest):
            yield [*rest[:i], [members[0], *group], *rest[i + 1 :]]


@given(start=starts(most=6, out=False))
def test_the_best_of_all_groupings_is_never_beaten(start: Start) -> None:
    found = start.run()
    possible = [p for p in partitions(range(len(start.cell))) if all(map(start.fits, p))]
    best = min(sum(map(start.loss, p)) for p in possible)
    assert best - 1e-9 <= found.after <= found.before + 1e-9


# By hand.


def on_a_line(groups: Sequence[Sequence[float]], most: int, *more: object, **secrets: Sequence[object]) -> Start:
    """Records with one number each, in groups; k is 2, and the loss of a group is its size times its width."""
    numbers = [x for group in groups for x in group]
    frame = pd.DataFrame({"x": numbers, **secrets})
    wide = max(numbers) - min(numbers)
    policy = shoal.Policy(quasi={"x": "numeric"}, sensitive=list(secrets), require=[shoal.KAnonymity(2), *more])
    codes = encode_and_count(open_data(frame), policy)[0]
    row = list_record_cells(codes.counts)
    order = np.argsort(row, kind="stable")
    group = np.repeat(np.arange(len(groups), dtype=np.int32), [len(g) for g in groups])[order]
    return Start(codes, policy, np.array([float(wide)]), row[order].astype(np.int32), group, most)


def shown(start: Start, found: Improvement) -> list[list[float]]:
    position = start.codes.attributes[0].position[start.codes.quasi[start.codes.combination[start.cell], 0]]
    return sorted(sorted(position[g].tolist()) for g in start.groups(found.group))


@pytest.mark.parametrize(
    ("groups", "most", "better", "before", "after"),
    [
        pytest.param([[0, 1, 10], [11, 12]], 3, [[0, 1], [10, 11, 12]], 32, 8, id="move"),
        pytest.param([[0, 10], [1, 11]], 2, [[0, 1], [10, 11]], 40, 4, id="swap"),
        pytest.param([[0, 10], [1, 2], [11, 12]], 3, [[0, 1, 2], [10, 11, 12]], 24, 12, id="dissolve"),
        pytest.param([[0, 1, 10, 11]], 3, [[0, 1], [10, 11]], 44, 4, id="split"),
    ],
)
def test_the_obvious_step_is_found(
    groups: list[list[float]], most: int, better: list[list[float]], before: float, after: float
) -> None:
    start = on_a_line(groups, most)
    found = start.run()
    assert shown(start, found) == better
    assert (found.before, found.after) == (pytest.approx(before), pytest.approx(after))
    assert found.relative_gain == pytest.approx(1 - after / before)


@pytest.mark.parametrize(
    ("groups", "most", "ill"),
    [
        pytest.param([[0, 1, 10], [11, 12]], 2, "abcde", id="the other group is full"),
        pytest.param([[0, 10], [11, 12]], 3, "abcd", id="the own group would be too small"),
        pytest.param([[0, 1, 10], [11, 12]], 3, "aabab", id="the own group would have one value"),
        pytest.param([[0, 10], [1, 11]], 2, "abab", id="both groups would have one value"),
        pytest.param([[0, 1, 10, 11]], 3, "aaab", id="one half would have one value"),
        pytest.param([[0, 1, 10]], 3, "abc", id="one half would be too small"),
        pytest.param([[0, 0], [5, 5]], 4, "abab", id="nothing is lost as it is"),
    ],
)
def test_a_step_that_is_not_allowed_is_not_made(groups: list[list[float]], most: int, ill: str) -> None:
    start = on_a_line(groups, most, shoal.LDiversity(2, of="ill"), ill=list(ill))
    found = start.run()
    assert shown(start, found) == sorted(groups)
    assert found.relative_gain == 0.0


def test_groups_stay_where_one_relies_on_another_that_looks_the_same() -> None:
    """One of the two groups of zeros is too small; whoever looks at the release counts them together."""
    start = on_a_line([[0], [0, 0], [1, 9], [2, 10]], 3)
    found = start.run()
    assert np.array_equal(found.group, start.group) and found.relative_gain == 0.0


@pytest.mark.parametrize(
    ("groups", "better", "after"),
    [
        pytest.param(
            [[0, 1, 2, 20, 21], [19, 22, 23]], [[0, 1, 2], [19, 20, 21], [22, 23]], 14, id="two leave together"
        ),
        pytest.param([[0, 10, 20, 30], [1, 11, 21, 31]], [[0, 1], [10, 11], [20, 21], [30, 31]], 8, id="pairs"),
        pytest.param([[0, 0, 0, 9], [0, 9, 9]], [[0, 0, 0, 0], [9, 9, 9]], 0, id="equal records"),
    ],
)
def test_several_records_move_together(groups: list[list[float]], better: list[list[float]], after: float) -> None:
    start = on_a_line(groups, 9)
    found = start.run()
    assert shown(start, found) == better and found.after == pytest.approx(after)


def test_an_entry_is_divided() -> None:
    """Two of three equal records can leave their group, which needs the third."""
    start = on_a_line([[0, 5, 5, 5], [5, 5]], 9)
    found = start.run()
    assert shown(start, found) == [[0, 5], [5, 5, 5, 5]] and found.after == pytest.approx(10)


def test_records_in_no_group_stay_there() -> None:
    start = on_a_line([[0, 10], [1, 11], [5, 5]], 2)
    group = np.where(start.group == 2, -1, start.group).astype(np.int32)
    found = improve_groups(start.records, start.cell, group, 2, lambda done: None)
    assert np.array_equal(found.group < 0, group < 0)
    assert found.after == pytest.approx(4)


def test_no_groups_at_all() -> None:
    start = on_a_line([[0, 10]], 2)
    found = improve_groups(start.records, start.cell, np.full(2, -1, np.int32), 2, lambda done: None)
    assert found.group.tolist() == [-1, -1] and (found.before, found.after, found.relative_gain) == (0.0, 0.0, 0.0)


def test_the_progress_reaches_all_records() -> None:
    start = on_a_line([[x, x + 10] for x in range(9)], 3)
    told: list[int] = []
    improve_groups(start.records, start.cell, start.group, 3, told.append)
    assert len(told) >= 3 and told == sorted(told) and told[-1] == 18


# The parameters.


FRAME = pd.DataFrame({"age": [20, 30, 21, 31, 22, 32], "sex": list("fmfmfm")})
POLICY = shoal.Policy(quasi={"age": "numeric", "sex": "categorical"}, require=[shoal.KAnonymity(3)])


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"improve": True, "max_size": 2}, "max_size must be at least 3, not 2"),
        ({"improve": True, "max_size": 3.5}, "max_size must be a whole number"),
        ({"improve": True, "max_size": True}, "max_size must be a whole number"),
        ({"max_size": 5}, "max_size has an effect only with improve=True"),
        ({"improve": False, "max_size": 5}, "max_size has an effect only with improve=True"),
        ({"improve": True, "seconds": -1}, "'seconds' must be at least 0, not -1"),
        ({"improve": True, "seconds": "long"}, "seconds must be a number"),
        ({"improve": "yes"}, "improve must be true or false, not 'yes'"),
        ({"improve": 1}, "improve must be true or false, not 1"),
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["mondrian", "kmember", "knn", "mdav", "tds"])
def test_wrong_parameters_are_refused(method: str, parameters: Given, text: str) -> None:
    with pytest.raises(shoal.PolicyError, match=text):
        shoal.anonymize(FRAME, POLICY, method=method, **parameters)


@pytest.mark.parametrize("method", ["mondrian", "bottom-up", "kmember", "knn", "mdav", "condensation"])
def test_a_time_limit_needs_a_local_search(method: str) -> None:
    with pytest.raises(shoal.PolicyError, match="seconds has an effect only with improve=True"):
        shoal.anonymize(FRAME, POLICY, method=method, seconds=5)


@pytest.mark.parametrize("method", ["mondrian", "kmember", "tds"])
def test_without_time_the_groups_stay(method: str) -> None:
    frame, policy = shoal.datasets.hospital(300, seed=5, kind="pandas"), shoal.datasets.hospital_policy(4)
    plain = shoal.anonymize(frame, policy, method=method)
    release = shoal.anonymize(frame, policy, method=method, improve=True, **({} if method == "tds" else {"seconds": 0}))
    assert release.certificate.holds
    if method != "tds":  # its own search ends too
        assert release.measures["improved"] == 0.0 and release.frame.equals(plain.frame)


def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    frame, policy = shoal.datasets.hospital(300, seed=5, kind="pandas"), shoal.datasets.hospital_policy(4)
    one, other = (shoal.anonymize(frame, policy, improve=True, **more) for more in ({}, {"seconds": 1e6}))
    assert one.frame.equals(other.frame) and other.parameters["seconds"] == 1e6


@pytest.mark.parametrize("given", [0, None, ""])
def test_only_true_and_false_are_taken(given: object) -> None:
    with pytest.raises(shoal.PolicyError, match=f"improve must be true or false, not {given!r}"):
        shoal.anonymize(FRAME, POLICY, improve=given)


def test_the_run_does_not_matter() -> None:
    frame, policy = shoal.datasets.hospital(300, seed=5, kind="pandas"), shoal.datasets.hospital_policy(4)
    one, other = (shoal.anonymize(frame, policy, method="knn", improve=True) for _ in range(2))
    assert one.frame.equals(other.frame) and one.measures == other.measures
    assert one.measures["improved"] > 0.1


def test_the_number_of_threads_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    frame, policy = shoal.datasets.hospital(300, seed=5, kind="pandas"), shoal.datasets.hospital_policy(4)
    monkeypatch.setattr(local_search, "CHUNK", 9)
    releases = []
    for cores in (1, 2, 3):
        monkeypatch.setattr(local_search.threads, "CORES", cores)
        releases.append(shoal.anonymize(frame, policy, method="kmember", improve=True))
    assert releases[0].frame.equals(releases[1].frame) and releases[0].frame.equals(releases[2].frame)


def test_groups_grow_as_far_as_max_size_says() -> None:
    """Five records lie together, and five others: pairs alone would have to mix them."""
    frame = pd.DataFrame({"age": [0, 1, 2, 3, 4, 50, 51, 52, 53, 54], "sex": list("fffffmmmmm")})
    policy = shoal.Policy(quasi={"age": "numeric", "sex": "categorical"}, require=[shoal.KAnonymity(2)])

    def sizes(**parameters: object) -> list[int]:
        release = shoal.anonymize(frame, policy, method="mdav", write="label", improve=True, **parameters)
        return sorted(recount(release.frame, ["age", "sex"]).tolist())

    assert sizes() == sizes(max_size=3) == [2, 2, 3, 3]
    assert sizes(max_size=2) == [2, 2, 2, 2, 2]


@pytest.mark.parametrize("scale", [2.0**-40, 2.0**20])
def test_only_the_proportions_of_the_weights_count(scale: float) -> None:
    frame, policy = shoal.datasets.hospital(300, seed=5, kind="pandas"), shoal.datasets.hospital_policy(4)
    one, other = (
        shoal.anonymize(frame, policy, improve=True, weights=dict.fromkeys(policy.quasi, weight))
        for weight in (1, scale)
    )
    assert other.measures["improved"] == pytest.approx(one.measures["improved"])
    assert one.frame.equals(other.frame)


def test_the_parameters_are_told_in_the_release() -> None:
    release = shoal.anonymize(FRAME, POLICY, method="kmember", improve=True, max_size=4)
    assert release.parameters["improve"] is True and release.parameters["max_size"] == 4


@each_of(IN_THE_CONTRACT)
@given(case=cases(least=8))
def test_neighbourhoods_are_searched_one_by_one(case: Case, method: str, parameters: Given) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_search, "MOST_TOGETHER", 2)
        patch.setattr(local_search, "PIECE", 2)
        plain, better = both(case, method, parameters)
        reverse = released(Case(case.frame.iloc[::-1], case.policy), method, {**parameters, "improve": True})
    check_loss(case, plain, better, {})
    check_release(case, plain, better)
    assert reverse is not None and as_rows(reverse.frame) == as_rows(better.frame)


# As published.


def test_groups_stay_if_equal_labels_make_them_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A union of passing groups may fail a requirement that is not monotone: the groups are tested again as published."""
    frame, policy = shoal.datasets.hospital(300, seed=5, kind="pandas"), shoal.datasets.hospital_policy(4)
    plain = shoal.anonymize(frame, policy)
    monkeypatch.setattr(shoal.KAnonymity, "monotone", False)
    monkeypatch.setattr(shoal.tables.Mondrian, "refuse_non_monotone", lambda self: None)
    assert shoal.anonymize(frame, policy, improve=True).measures["improved"] > 0.0
    real, calls = run.select_passing_groups, []

    def fail_after_the_search(groups: Any, require: Any) -> Any:
        calls.append(len(groups.start))
        return real(groups, require) & (len(calls) == 1)

    monkeypatch.setattr(run, "select_passing_groups", fail_after_the_search)
    release = shoal.anonymize(frame, policy, improve=True)
    assert len(calls) == 2 and release.measures["improved"] == 0.0
    assert release.frame.equals(plain.frame)


def test_the_figure_is_reported_for_partitions(tmp_path: Any) -> None:
    """The gain of all partitions together, and the same for every number of threads."""
    frame = shoal.datasets.hospital(400, seed=5, kind="pandas")
    frame.to_parquet(tmp_path / "table.parquet")
    policy = shoal.datasets.hospital_policy(4)
    given: Given = {"engine": "duckdb", "combinations": 150, "seed": 3}
    plain = shoal.anonymize(tmp_path / "table.parquet", policy, **given)
    better = shoal.anonymize(tmp_path / "table.parquet", policy, improve=True, **given)
    assert isinstance(plain.recoding, Parts) and isinstance(better.recoding, Parts)
    assert "improved" not in plain.measures
    assert better.measures["improved"] == pytest.approx(1 - better.measures["ncp"] / plain.measures["ncp"])
    assert better.measures["improved"] > 0.01
