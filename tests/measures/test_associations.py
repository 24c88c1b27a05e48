"""Quasi-sensitive associations of a table and of its release (Yang and Qiao, Definition 11 and section 7.3)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.engines import Engine, open_data
from shoal.measures import Associations, associations
from shoal.measures.association_search import Threshold, mine_corrected
from shoal.measures.corrected_supports import CorrectedSupports
from shoal.measures.support_estimates import count_randomized, find_selection
from tests.measures.test_supports import TABLE, make_policy, release_of
from tests.reference import associations as reference
from tests.support.adult import adult_of_the_paper
from tests.support.steps import needs_data
from tests.tables.test_random import RECORDS
from tests.tables.test_random import make_policy as policy_of_the_paper


@dataclass(frozen=True)
class StandIn:
    """A release with the parts that are read; ``sensitive`` is the second table of a bucketed release."""

    policy: shoal.Policy
    engine: Engine
    method: str = "anatomy"
    recoding: Any = None
    sensitive: Any = None

    @property
    def frame(self) -> Any:
        return self.engine.frame()


def as_texts(found: Associations) -> dict[str, set[str]]:
    parts = {"found": found.found, "lost": found.lost, "artificial": found.artificial}
    return {word: {str(one).partition("  ")[0] for one in part} for word, part in parts.items()}


def read_rows(table: pd.DataFrame) -> list[reference.Row]:
    return [{name: None if pd.isna(v) else str(v) for name, v in row.items()} for row in table.to_dict("records")]


def by_sides(found: Any) -> reference.Found:
    return {
        tuple(frozenset((i.column, i.value) for i in side) for side in (one.left, one.right)): (  # type: ignore[misc]
            pytest.approx(one.support),
            pytest.approx(one.confidence),
        )
        for one in found
    }


def test_the_associations_of_the_paper() -> None:
    """Section 5.1: Clerk -> Hypertension (75 %), 30-40 and Clerk -> Hypertension (67 %). A table is its own release."""
    policy = policy_of_the_paper(shoal.KAnonymity(1))
    same = StandIn(policy, open_data(RECORDS))
    found = associations(RECORDS, same, support=0.2, confidence=0.6)
    texts = {str(one) for one in found.found}
    assert "job=Clerk => disease=Hypertension  (support 30.0 %, confidence 75.0 %)" in texts
    assert "age=30-40, job=Clerk => disease=Hypertension  (support 20.0 %, confidence 66.7 %)" in texts
    assert found.recovered == 1 and not found.lost and not found.artificial


def test_found_lost_and_artificial_by_hand() -> None:
    before = pd.DataFrame({"sex": ["f"] * 4 + ["m"] * 4, "job": ["a", "a", "b", "b"] * 2, "ill": ["x"] * 4 + ["y"] * 4})
    after = before.assign(sex=["f"] * 4 + ["m"] * 2 + ["f"] * 2, job=["a"] * 4 + ["b"] * 4)
    quasi = {"sex": "categorical", "job": "categorical"}
    policy = shoal.Policy(quasi=quasi, sensitive=["ill"], require=[shoal.KAnonymity(1)])
    found = associations(before, StandIn(policy, open_data(after)), support=0.3, confidence=0.6)
    assert as_texts(found) == {
        "found": {"sex=f => ill=x"},
        "lost": {"sex=m => ill=y"},
        "artificial": {"job=a => ill=x", "job=b => ill=y", "job=a, sex=f => ill=x"},
    }
    assert found.recovered == 0.5 and found.total == (1, 1, 3)
    assert found.by_length == {1: (1, 1, 2), 2: (0, 0, 1)}
    assert found.values == (5, 1, 0), "m is not frequent any more"
    lines = str(found).splitlines()
    assert lines[0] == "1 of 2 associations found, 3 artificial" and lines[2].split() == ["1", "1", "1", "2"]
    assert found.to_dict()["result"] == ["found", "lost"] + ["artificial"] * 3 and "<table" in found._repr_html_()
    assert found.found[0].support == 0.5 and found.found[0].confidence == 1, "the figures of the original table"


@st.composite
def small_tables(draw: st.DrawFn) -> pd.DataFrame:
    row = st.tuples(*[st.sampled_from(["a", "b", None])] * 2, st.sampled_from(["a", "b", "c"]), st.sampled_from("xyz"))
    return pd.DataFrame(draw(st.lists(row, min_size=2, max_size=14)), columns=[*"pqr", "s"]).astype(object)


POLICY = shoal.Policy(quasi=dict.fromkeys("pqr", "categorical"), sensitive=["s"], require=[shoal.KAnonymity(1)])


@given(small_tables(), st.sampled_from([0.1, 0.25, 0.5]), st.sampled_from([0.1, 0.5, 0.75]))
def test_associations_of_plain_tables_are_those_of_the_definition(
    table: pd.DataFrame, support: float, confidence: float
) -> None:
    rows = read_rows(table)
    found = associations(table, StandIn(POLICY, open_data(table)), support=support, confidence=confidence)
    expected = reference.mine(rows, "pqr", "s", lambda v: reference.count_share(rows, v), support, confidence)
    assert by_sides(found.found) == expected and not found.lost and not found.artificial


@given(small_tables(), st.sampled_from([0.1, 0.25]), st.sampled_from([0.1, 0.4]), st.randoms(use_true_random=False))
def test_associations_of_bucketed_tables_are_expected_ones(
    table: pd.DataFrame, support: float, confidence: float, random: Any
) -> None:
    bucket = [random.randint(1, 3) for _ in range(len(table))]
    counted = table.assign(bucket=bucket).groupby(["bucket", "s"]).size().reset_index(name="count")
    release = StandIn(POLICY, open_data(table.drop(columns="s").assign(bucket=bucket)), sensitive=counted)
    found = associations(table, release, support=support, confidence=confidence)
    rows = read_rows(table)
    before = reference.mine(rows, "pqr", "s", lambda v: reference.count_share(rows, v), support, confidence)
    after = reference.mine(
        rows, "pqr", "s", lambda v: reference.expect_share(rows, bucket, "s", v), support, confidence
    )
    assert by_sides((*found.found, *found.lost)) == before
    assert by_sides(found.artificial) == {sides: after[sides] for sides in after.keys() - before.keys()}
    assert {*by_sides(found.found)} == before.keys() & after.keys()


def test_missing_sensitive_values_of_buckets_are_in_no_association() -> None:
    table = pd.DataFrame({"a": ["x"] * 12, "s": ["k", "l", None] * 4})
    policy = shoal.Policy(quasi={"a": "categorical"}, sensitive=["s"], require=[shoal.LDiversity(2, of="s")])
    release = shoal.anonymize(table, policy, method="anatomy", seed=1)
    found = associations(table, release, support=0.1, confidence=0.2)
    assert as_texts(found) == {"found": {"a=x => s=k", "a=x => s=l"}, "lost": set(), "artificial": set()}
    assert found.values == (3, 0, 0) and found.found[0].confidence == pytest.approx(1 / 3)


def test_a_bucket_breaks_an_association_and_values_stay() -> None:
    """All records are in one bucket: every association has the share of its sensitive value as its confidence."""
    table = TABLE[["sex", "job", "city", "ill"]]
    counted = table["ill"].value_counts().rename_axis("ill").reset_index(name="count").assign(bucket=1)
    release = StandIn(make_policy(), open_data(table.drop(columns="ill").assign(bucket=1)), sensitive=counted)
    found = associations(table, release, confidence=0.1)
    shares = table["ill"].value_counts(normalize=True).to_dict()
    assert found.artificial and found.values.lost == found.values.artificial == 0
    for one in found.artificial:
        assert one.confidence == pytest.approx(shares[next(iter(one.right)).value])


@pytest.mark.parametrize("replaced", [1, 2, 3])
def test_the_search_by_levels_finds_all_combinations(replaced: int) -> None:
    """The clipped supports of all combinations of values are computed, and compared with the thresholds."""
    release, least = release_of(attributes=replaced), Threshold(0.05, 0.3)
    operator = find_selection(release)
    assert operator is not None
    every = CorrectedSupports(operator, *count_randomized(release, operator, ["ill"]))
    table = every.published
    columns = [range(a, b) for a, b in zip(table.first[:-1].tolist(), table.first[1:].tolist(), strict=True)]
    values = [i for own in columns for i in own]
    chosen = [
        c
        for size in range(1, 5)
        for c in combinations(values, size)
        if len({int(table.column_of[i]) for i in c}) == size
    ]
    places = every.add(chosen)
    support = dict(zip(chosen, every.clipped[places].tolist(), strict=True))
    end = int(table.first[table.quasi])
    expected = {
        c
        for c, both in support.items()
        if c[0] < end <= c[-1] and both >= 0.05 and both / support[tuple(i for i in c if i < end)] >= 0.3
    }
    found = mine_corrected(CorrectedSupports(operator, *count_randomized(release, operator, ["ill"])), least)
    number = {item: i for i, item in enumerate(table.items)}
    mined = {tuple(sorted(number[i] for i in (*left, *right))) for left, right in found.associations}
    assert mined == expected and expected


def test_too_many_combinations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.measures.association_search.MOST", 20)
    with pytest.raises(shoal.PolicyError, match=r"more than 20 combinations have a support of at least 0\.01"):
        associations(TABLE, release_of(), support=0.01)


def test_correction_recovers_associations() -> None:
    release = release_of(attributes=2)
    corrected, as_is = (associations(TABLE, release, confidence=0.5, unbiased=u) for u in (True, False))
    assert corrected.recovered > as_is.recovered
    assert as_texts(as_is)["found"] <= as_texts(corrected)["found"]


def test_generalized_values_are_other_values() -> None:
    policy = shoal.Policy(
        quasi={"sex": "categorical", "job": {"taxonomy": {"ANY": {"hands": ["cook", "smith"], "head": ["vet"]}}}},
        sensitive=["ill"],
        require=[shoal.KAnonymity(5)],
    )
    release = shoal.anonymize(TABLE, policy, method="mondrian")
    found = associations(TABLE, release)
    labels = {v for name in ("sex", "job") for v in release.frame[name]}
    assert found.found and all(item.value in labels for one in found.found for item in one.left)
    assert found.recovered == 1, "the groups are large enough without generalization"
    coarse = StandIn(policy, open_data(TABLE.assign(job="*")))
    assert not any("job" in text for text in as_texts(associations(TABLE, coarse))["found"])


def test_numbers_are_compared_as_published() -> None:
    """The numbers of a column with decimals are published without them, where they are whole."""
    table = pd.DataFrame({"age": [20.0] * 50 + [30.5] * 50, "ill": ["x"] * 50 + ["y"] * 50})
    policy = shoal.Policy(quasi={"age": "numeric"}, sensitive=["ill"], require=[shoal.KAnonymity(5)])
    found = associations(table, shoal.anonymize(table, policy, method="mondrian"))
    assert as_texts(found) == {"found": {"age=20 => ill=x", "age=30.5 => ill=y"}, "lost": set(), "artificial": set()}


def test_several_sensitive_columns() -> None:
    policy = make_policy().model_copy(update={"sensitive": ("ill", "ward"), "require": (shoal.KAnonymity(1),)})
    found = associations(TABLE, StandIn(policy, open_data(TABLE)))
    assert {len(one.right) for one in found.found} == {1, 2}
    only = associations(TABLE, StandIn(policy, open_data(TABLE)), sensitive="ward")
    assert {item.column for one in only.found for item in one.right} == {"ward"}


def test_bad_input() -> None:
    release = release_of()
    for wrong in (TABLE, None, "table.csv"):
        with pytest.raises(shoal.DataError, match="associations needs the release of a table, as "):
            associations(TABLE, wrong)  # type: ignore[arg-type]
    with pytest.raises(shoal.PolicyError, match="support must be a share above 0 and at most 1, not 0"):
        associations(TABLE, release, support=0)
    with pytest.raises(shoal.PolicyError, match="confidence must be a share above 0 and at most 1, not 2"):
        associations(TABLE, release, confidence=2)
    with pytest.raises(shoal.PolicyError, match="sensitive names 'job', which is not released unchanged"):
        associations(TABLE, release, sensitive=["job"])
    with pytest.raises(shoal.PolicyError, match="column 'ill' is not in the table"):
        associations(TABLE.drop(columns="ill"), release)
    bare = shoal.Policy(quasi={"sex": "categorical"}, require=[shoal.KAnonymity(2)])
    with pytest.raises(shoal.PolicyError, match="the policy has no sensitive column"):
        associations(TABLE, shoal.anonymize(TABLE, bare, method="mondrian"))
    two = StandIn(
        make_policy(keep=["ward"]), open_data(TABLE.assign(bucket=1)), sensitive=TABLE[["ill"]].assign(bucket=1)
    )
    with pytest.raises(
        shoal.PolicyError, match="the buckets of the release show 'ill'; sensitive must name this column"
    ):
        associations(TABLE, two, sensitive="ward")


@needs_data
@pytest.mark.parametrize(("replaced", "least", "as_is"), [(1, 1.0, 0.58), (5, 0.7, 0.32)])
def test_adult_as_in_the_paper(replaced: int, least: float, as_is: float) -> None:
    """Support 8 %, confidence 15 %: 19 associations. The corrected supports recover more of them."""
    table, policy = adult_of_the_paper()
    release = shoal.anonymize(table, policy, method="random", attributes=replaced, seed=104)
    found = associations(table, release)
    assert found.total.found + found.total.lost == 19 and found.recovered >= least
    assert {length: sum(counts[:2]) for length, counts in found.by_length.items()} == {1: 4, 2: 7, 3: 6, 4: 2}
    assert associations(table, release, unbiased=False).recovered == pytest.approx(as_is, abs=0.06)
    assert np.isfinite([one.confidence for one in found.artificial]).all()
