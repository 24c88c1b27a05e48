"""Supports of combinations of values, estimated from a randomized release."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

import shoal
from shoal.measures import Supports, supports
from shoal.measures.corrected_supports import CorrectedSupports, Inverse
from shoal.measures.counted_values import Combination, CountedValues
from shoal.recoding import SelectionOperator
from tests.recoding.test_selection import draw, make_operator, tables
from tests.reference import selection as reference

QUASI = ("sex", "job", "city")


def make_table(n: int = 2000, seed: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    job = (sex + (rng.random(n) < 0.3)) % 3
    ill = np.where(rng.random(n) < 0.7, job, rng.integers(0, 3, n))
    texts = {"sex": np.array(["f", "m"])[sex], "job": np.array(["cook", "smith", "vet"])[job]}
    city = np.array(["Oslo", "Rome"])[rng.integers(0, 2, n)]
    return pd.DataFrame({**texts, "city": city, "ill": np.array(["no", "flu", "cold"])[ill], "ward": sex})


def make_policy(**given: Any) -> shoal.Policy:
    return shoal.Policy(quasi=dict.fromkeys(QUASI, "categorical"), sensitive=["ill"], **given)


TABLE = make_table()


def release_of(table: pd.DataFrame = TABLE, attributes: int = 1, **given: Any) -> shoal.Release:
    return shoal.anonymize(table, make_policy(), method="random", attributes=attributes, seed=5, **given)


def count_values(rows: np.ndarray, operator: SelectionOperator, others: np.ndarray | None = None) -> CountedValues:
    """Codes as counted values; ``others`` are the codes of one column that is not changed."""
    columns = [rows[:, j] for j in range(rows.shape[1])] + ([] if others is None else [others])
    sizes = [len(s) for s in operator.shares] + ([] if others is None else [int(others.max()) + 1])
    names = [f"q{j}" for j in range(len(columns))]
    labels = [tuple(map(str, range(size))) for size in sizes]
    return CountedValues.number(names, labels, columns, np.ones(len(rows), np.int64), rows.shape[1])


@given(tables())
def test_weights_invert_the_expected_supports(given: tuple[np.ndarray, int, list[Fraction]]) -> None:
    """The weighted sum of the expected published supports is the original support, for every combination that has weights."""
    rows, replaced, probabilities = given
    m, originals = rows.shape[1], [tuple(r) for r in rows.tolist()]
    operator = make_operator(rows, replaced, probabilities)
    for length in range(m + 1):
        for attributes in combinations(range(m), length):
            weight = Inverse(operator).weigh(attributes)
            stays = 1 - sum(probabilities[j] for j in attributes) if replaced == 1 else m - replaced >= length
            assert (weight is not None) == bool(stays)
            if weight is None:
                continue
            values = {j: int(rows[0, j]) for j in attributes}
            total = 0.0
            for removed in range(2**length):
                kept = {j: values[j] for i, j in enumerate(attributes) if not removed >> i & 1}
                drawn = np.prod([operator.shares[j][values[j]] for j in attributes if j not in kept])
                expected = reference.expect_support(originals, kept, probabilities, replaced)
                total += weight[removed] * drawn * float(expected)
            assert total == pytest.approx((rows[:, attributes] == rows[0, attributes]).all(axis=1).mean())


@pytest.mark.parametrize(
    ("replaced", "p"), [(1, None), (1, [0.6, 0.3, 0.1, 0.0]), (2, None), (3, None), (4, None)], ids=str
)
def test_estimates_have_no_bias_and_the_stated_error(replaced: int, p: list[float] | None) -> None:
    """Over 300 releases, for every length with an estimate: the mean within five standard errors, and the stated error.

    The variance over the releases has a standard error of its own, so it is compared with a tolerance.
    """
    rng, releases = np.random.default_rng(1), 300
    first = rng.integers(0, 2, 400)
    rows = np.stack([first, first ^ (rng.random(400) < 0.2), rng.integers(0, 3, 400), first], axis=1).astype(np.int32)
    ill = np.where(rng.random(400) < 0.6, first, 1 - first).astype(np.int32)
    operator = make_operator(rows, replaced, p)
    wanted = list_combinations(count_values(rows, operator, ill), rows[0], int(ill[0]))
    true = count_values(rows, operator, ill).count(wanted) / 400
    estimates, errors = np.zeros((releases, len(wanted))), np.zeros((releases, len(wanted)))
    for seed in range(releases):
        published = count_values(draw(operator, rows, seed), operator, ill)
        found = CorrectedSupports(operator, published, operator.shares)
        at = found.add(wanted)
        estimates[seed], errors[seed] = found.unbiased[at], found.error[at]
    quasi = np.array([sum(v < count_values(rows, operator, ill).first[4] for v in c) for c in wanted])
    if p is None:
        assert (np.isnan(estimates).any(axis=0) == (quasi > 4 - replaced)).all()
    exists = ~np.isnan(estimates).any(axis=0)
    assert exists.any() and (np.isnan(errors).any(axis=0) == ~exists).all()
    spread = estimates[:, exists].std(axis=0, ddof=1)
    assert (np.abs(estimates[:, exists].mean(axis=0) - true[exists]) <= 5 * spread / releases**0.5 + 1e-12).all()
    stated = (errors[:, exists] ** 2).mean(axis=0) ** 0.5
    assert spread == pytest.approx(stated, rel=5 * (1 / (2 * releases)) ** 0.5, abs=1e-9)


def list_combinations(table: CountedValues, row: np.ndarray, other: int) -> list[Combination]:
    """All combinations of values of one row and one value of the last column."""
    values = [int(table.first[j] + v) for j, v in enumerate(row)]
    quasi = [c for length in range(len(values) + 1) for c in combinations(values, length)]
    return [c for q in quasi for c in (q, (*q, int(table.first[len(row)]) + other)) if c]


def test_one_estimate_by_hand() -> None:
    """One of two attributes is replaced: raw = support / 2 + P / 2 times the support of the rest, and so on."""
    found = supports(release_of(), [{"sex": "m", "ill": "flu"}])
    frame, m = release_of().frame, 3
    raw = ((frame["sex"] == "m") & (frame["ill"] == "flu")).mean()
    expected = (raw - (TABLE["sex"] == "m").mean() / m * (TABLE["ill"] == "flu").mean()) / (1 - 1 / m)
    assert found.raw[0] == raw and found.unbiased[0] == pytest.approx(expected)
    assert abs(found.unbiased[0] - ((TABLE["sex"] == "m") & (TABLE["ill"] == "flu")).mean()) < 4 * found.error[0]
    assert found.combinations == ({"sex": "m", "ill": "flu"},) and found.length.tolist() == [1]


def test_raw_supports_are_those_of_the_table_and_clipped_ones_do_not_grow() -> None:
    release = release_of(attributes=2)
    found = supports(release, support=0.02)
    assert len(found) > 40 and found.raw.min() >= 0.02
    by_values = {frozenset(c.items()): share for c, share in zip(found.combinations, found.clipped, strict=True)}
    for i, c in enumerate(found.combinations):
        assert found.raw[i] == pytest.approx(
            np.logical_and.reduce([release.frame[n] == v for n, v in c.items()]).mean()
        )
        assert np.isnan(found.unbiased[i]) == (found.length[i] > 1) == np.isnan(found.error[i])
        for left_out in c.items():
            rest = frozenset(c.items()) - {left_out}
            assert 0 <= found.clipped[i] <= (by_values[rest] if rest else 1)
    assert (found.clipped <= np.where(np.isnan(found.unbiased), found.raw, found.unbiased.clip(0)) + 1e-12).all()
    alone = supports(release, [c for c in found.combinations if len(c) == 3])
    assert alone.clipped.tolist() == [s for s, c in zip(found.clipped, found.combinations, strict=True) if len(c) == 3]


def test_the_frequent_combinations_are_those_of_the_miner() -> None:
    release = release_of()
    mined = shoal.models.mine_itemsets(release.frame, support=0.05, columns=[*QUASI, "ill"], max_size=3)
    found = supports(release, support=0.05, longest=3)
    assert {frozenset(c.items()) for c in found.combinations} == {
        frozenset((item.column, item.value) for item in mined[s]) for s in range(len(mined))
    }
    assert "ill" not in set().union(*supports(release, support=0.05, sensitive=()).combinations)


def test_a_result_as_columns_and_as_text() -> None:
    found = supports(release_of(attributes=2), [{"sex": "f"}, {"sex": "f", "job": "cook"}])
    assert isinstance(found, Supports) and len(found) == 2
    columns = found.to_dict()
    assert [*columns] == ["combination", "length", "raw", "unbiased", "clipped", "error"]
    assert len(pd.DataFrame(columns)) == 2 and columns["combination"][1] == {"sex": "f", "job": "cook"}
    lines = str(found).splitlines()
    assert lines[0] == "2 combinations of 2,000 records" and lines[3].split()[2:4] == ["–", "–"]
    assert "… and" in str(supports(release_of())) and "<table" in found._repr_html_()


def test_numbers_and_missing_values() -> None:
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"age": rng.integers(20, 60, 900).astype(float), "sex": rng.choice(["f", "m", None], 900)})
    table["ill"] = rng.choice([0.5, 1.0], 900)
    table["age"] += 0.25
    policy = shoal.Policy(quasi={"age": "numeric", "sex": "categorical"}, sensitive=["ill"])
    release = shoal.anonymize(table, policy, method="random", attributes=1, seed=2)
    label = release.frame["age"].iloc[0]
    found = supports(release, [{"age": label}, {"sex": None}, {"ill": 0.5}, {"ill": 1}])
    assert found.raw[0] == (release.frame["age"] == label).mean()
    assert found.raw[1] == release.frame["sex"].isna().mean()
    assert found.raw[2] == found.unbiased[2] == (table["ill"] == 0.5).mean() and found.error[2] == 0
    assert found.raw[3] == (table["ill"] == 1).mean()
    assert abs(found.unbiased[1] - table["sex"].isna().mean()) < 4 * found.error[1]
    assert set(release.frame["age"]) <= set(table["age"]), "numbers are published exactly"


def test_the_engine_does_not_matter() -> None:
    one = supports(release_of(), support=0.05)
    other = supports(release_of(engine="duckdb"), support=0.05)
    assert one.combinations == other.combinations
    np.testing.assert_array_equal(one.unbiased, other.unbiased)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([{}], "a combination must have values by column, such as {'sex': 'value'}, not {}"),
        (["sex"], "a combination must have values by column"),
        ([{"sexx": "m"}], "column 'sexx' is not in the table (did you mean 'sex'?). Correct the name."),
        ([{"sex": "x"}], "column 'sex' has no value 'x'. Write the value as the released table does."),
        ([{"ill": 3}], "column 'ill' has no value 3"),
        ([{"ill": 10**400}], "column 'ill' has no whole number of more than 308 digits. Correct the value."),
        ([{"ill": 2j}], "column 'ill' has no value 2j"),
        (5, "combinations is a list of mappings from columns to values, not 5."),
        ([{"name": "Ann"}], "column 'name' is an identifier, which is not released"),
    ],
)
def test_wrong_combinations(given: Any, text: str) -> None:
    table = TABLE.assign(name=[f"n{i}" for i in range(len(TABLE))])
    policy = make_policy(identifiers=["name"])
    release = shoal.anonymize(table, policy, method="random", attributes=1, seed=5)
    with pytest.raises(shoal.DataError) as caught:
        supports(release, given)
    assert text in str(caught.value)


def test_too_long_a_combination() -> None:
    rows = np.zeros((5, 18), np.int32)
    operator = make_operator(rows)
    found = CorrectedSupports(operator, count_values(rows, operator), operator.shares)
    with pytest.raises(shoal.DataError, match="a combination has 17 values; supports of combinations of at most 16"):
        found.add([tuple(range(17))])


def test_other_releases_are_refused() -> None:
    policy = shoal.Policy(quasi=dict.fromkeys(QUASI, "categorical"), sensitive=["ill"], require=[shoal.KAnonymity(2)])
    with pytest.raises(shoal.DataError, match="made by 'mondrian', which changes no values at random"):
        supports(shoal.anonymize(TABLE, policy, method="mondrian"))
    diverse = policy.model_copy(update={"require": (shoal.LDiversity(2, of="ill"),)})
    for form in ("buckets", "permuted"):
        with pytest.raises(shoal.DataError, match="made by 'anatomy', which separates sensitive values from records"):
            supports(shoal.anonymize(TABLE, diverse, method="anatomy", form=form, seed=1))
    for wrong in (TABLE, None, "table.csv"):
        with pytest.raises(shoal.DataError, match="supports needs the release of a table, as "):
            supports(wrong)  # type: ignore[arg-type]
    with pytest.raises(shoal.PolicyError, match="longest must be at least 1, not 0"):
        supports(release_of(), longest=0)
    with pytest.raises(shoal.PolicyError, match="sensitive names 'sex', which is not released unchanged"):
        supports(release_of(), sensitive="sex")
    with pytest.raises(shoal.PolicyError, match="support must be a share above 0"):
        supports(release_of(), support=0)
