"""Anatomy: its buckets, its two forms, and the policies that it refuses."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal import kernels
from shoal.tables.anatomy import fill_buckets
from tests.reference.anatomy import take_largest
from tests.support.steps import DATA, needs_data

DISEASES = ["flu", "cold", "gout", "angina"]


def people(rows: int = 120, seed: int = 0) -> pd.DataFrame:
    chance = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": chance.integers(20, 30, rows),
            "sex": chance.choice(["f", "m", None], rows),
            "score": chance.normal(0, 1, rows).round(3),
            "disease": chance.permutation(np.resize(DISEASES, rows)),
            "note": [f"n{i}" for i in range(rows)],
        }
    )


def make_policy(*require: Any, **given: Any) -> shoal.Policy:
    quasi = {"age": "numeric", "sex": "categorical", "score": "numeric"}
    given = {"quasi": quasi, "sensitive": ["disease"], "keep": ["note"], **given}
    given["accept"] = dict.fromkeys(given["keep"], "a test")
    return shoal.Policy(require=list(require) or [shoal.LDiversity(3, of="disease")], **given)


@given(counts=st.lists(st.integers(1, 9), min_size=1, max_size=7), width=st.integers(1, 5))
def test_the_kernel_takes_as_many_records_as_the_reference(counts: list[int], width: int) -> None:
    """Among values with equal counts any may be taken, so buckets are compared by what is left."""
    counts = sorted(counts, reverse=True)
    left = np.array(counts, np.int64)
    taken = kernels.buckets.take_largest(left, width)
    buckets, rest = take_largest(counts, width)
    assert len(taken) == len(buckets) and sorted(left.tolist()) == sorted(rest)
    assert all(len(set(row)) == width for row in taken.tolist())
    assert Counter(taken.reshape(-1).tolist()) == Counter({v: n - left[v] for v, n in enumerate(counts) if n > left[v]})


@given(values=st.lists(st.integers(0, 5), min_size=4, max_size=60), seed=st.integers(0, 99))
def test_buckets_have_different_values_and_few_records_remain(values: list[int], seed: int) -> None:
    value = np.array(values, np.int32)
    records = np.bincount(value)
    widest = len(value) // records.max()
    for width in range(1, widest + 1):
        bucket = fill_buckets(value, records, width, np.random.default_rng(seed))
        table = pd.DataFrame({"bucket": bucket, "value": value})
        assert not table.duplicated().any(), "every value of a bucket occurs once"
        assert table.groupby("bucket").size().min() >= width
        assert len(value) - width * (bucket.max() + 1) <= width - 1, "at most l - 1 records are added to full buckets"


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_the_two_tables_are_the_original_but_for_the_link(engine: str) -> None:
    table = people()
    release = shoal.anonymize(table, make_policy(), method="anatomy", engine=engine)
    records, values = (f if engine == "memory" else f.df() for f in (release.frame, release.sensitive))
    assert list(records) == ["age", "sex", "score", "note", "bucket"] and list(values) == ["bucket", "disease", "count"]
    kept = records.set_index("note").loc[table["note"]].reset_index()
    for column in ("age", "sex", "score"):
        assert [*kept[column].fillna("")] == [*table[column].fillna("")]
    true = Counter(zip(kept["bucket"], table["disease"], strict=True))
    assert true == {(b, d): n for b, d, n in values.itertuples(index=False)}
    assert set(records["bucket"]) == set(range(1, release.certificate.groups + 1))
    assert release.certificate.smallest == records["bucket"].value_counts().min() >= 3
    assert release.measures["reconstruction_error"] == pytest.approx(
        brute_force_error(kept["bucket"], table["disease"])
    )
    assert release.measures["smallest"] == 1, "measures of risk are those of the published quasi-identifiers"


def brute_force_error(bucket: pd.Series, disease: pd.Series) -> float:
    errors = []
    for number, own in zip(bucket, disease, strict=True):
        shares = disease[bucket.to_numpy() == number].value_counts(normalize=True)
        errors.append(sum((shares.get(d, 0) - (d == own)) ** 2 for d in DISEASES))
    return float(np.mean(errors))


def test_the_order_of_the_tables_does_not_reveal_the_link() -> None:
    """Rows of a bucket and their values in the order of both frames are right as often as by chance."""
    table = people(3000, seed=2)
    release = shoal.anonymize(table, make_policy(), method="anatomy")
    records = release.frame.assign(true=table["disease"], place=release.frame.groupby("bucket").cumcount())
    values = release.sensitive.loc[release.sensitive.index.repeat(release.sensitive["count"])]
    values = values.assign(place=values.groupby("bucket").cumcount())
    guess = records.merge(values, on=["bucket", "place"])
    assert len(guess) == 3000
    assert (guess["true"] == guess["disease"]).mean() == pytest.approx(1 / 3, abs=0.04)


def test_saved_tables_are_audited_and_can_be_checked(tmp_path: Path) -> None:
    policy = make_policy()
    release = shoal.anonymize(people(), policy, method="anatomy")
    for form in ("csv", "parquet"):
        folder = release.save(tmp_path / form, format=form)
        written = json.loads((folder / "certificate.json").read_text())
        assert sorted(written["sha256"]) == [f"sensitive.{form}", f"table.{form}"] and written["evidence"] == "buckets"
        found = shoal.check(folder / f"table.{form}", folder / "policy.yaml", sensitive=folder / f"sensitive.{form}")
        assert found.publishable and found.fingerprint == release.certificate.fingerprint == written["fingerprint"]
    table = pd.read_csv(tmp_path / "csv" / "table.csv")
    assert list(table["note"]) != sorted(table["note"], key=lambda n: int(n[1:]))
    with pytest.raises(shoal.DataError, match="'disease' is not in the table, but 'bucket' is"):
        shoal.check(tmp_path / "csv" / "table.csv", policy)


def test_a_check_finds_tables_that_do_not_belong_together() -> None:
    policy = make_policy()
    release = shoal.anonymize(people(), policy, method="anatomy")
    records, values = release.frame, release.sensitive
    with pytest.raises(shoal.DataError, match="do not belong together: they differ in the records of 1 bucket"):
        shoal.check(records.drop(index=0), policy, sensitive=values)
    with pytest.raises(shoal.DataError, match="'count' must hold whole numbers"):
        shoal.check(records, policy, sensitive=values.assign(count=0.5))
    with pytest.raises(shoal.DataError, match="column 'count' is not in the table"):
        shoal.check(records, policy, sensitive=values.drop(columns="count"))
    same = values.assign(disease="flu").groupby(["bucket", "disease"], as_index=False).sum()
    assert not shoal.check(records, policy, sensitive=same).holds
    linked = shoal.check(records.assign(disease="flu"), policy, sensitive=values)
    assert linked.holds and not linked.publishable, "the table of records shows a sensitive column"


def test_values_are_shuffled_within_buckets() -> None:
    table = people(3000, seed=1)
    both = [
        shoal.anonymize(table, make_policy(), method="anatomy", form=f, seed=2**70) for f in ("buckets", "permuted")
    ]
    bucket, permuted = both[0].frame["bucket"], both[1].frame
    assert both[1].sensitive is None and list(permuted) == ["age", "sex", "score", "disease", "note"]
    pairs = [Counter(zip(bucket, frame["disease"], strict=True)) for frame in (table, permuted)]
    assert pairs[0] == pairs[1]
    assert (permuted["disease"] == table["disease"]).mean() == pytest.approx(1 / 3, abs=0.04)
    assert "does not show the buckets" in str(both[1].certificate)


@needs_data
def test_adult_occupation_allows_seven_and_entropy_ten() -> None:
    table = pd.read_csv(DATA / "train.csv", na_values="?").dropna()
    quasi = dict.fromkeys(("age", "sex", "race"), "categorical")

    def run(l: float, kind: str) -> shoal.Release:  # noqa: E741
        require = [shoal.LDiversity(l, of="occupation", kind=kind)]
        policy = shoal.Policy(quasi=quasi, sensitive=["occupation"], require=require)
        return shoal.anonymize(table, policy, method="anatomy", seed=2**70)

    assert run(7, "distinct").certificate.smallest == 7
    for l in (8, 20):  # noqa: E741
        with pytest.raises(shoal.RequirementNotMet, match="largest possible l is 7"):
            run(l, "distinct")
    assert run(5, "entropy").certificate.groups == run(5, "distinct").certificate.groups
    for l in (8, 10):  # noqa: E741
        finding = run(l, "entropy").certificate.findings[0]
        assert finding.holds and finding.reached >= l and finding.groups > 100
    with pytest.raises(shoal.RequirementNotMet, match="entropy"):
        run(11, "entropy")


def test_missing_sensitive_values_are_a_value() -> None:
    table = people().assign(disease=lambda t: t["disease"].where(t["disease"] != "angina", None))
    release = shoal.anonymize(table, make_policy(), method="anatomy", seed=2**70)
    values = release.sensitive
    missing = values[values["disease"].isna()]
    assert missing["count"].sum() == table["disease"].isna().sum() and missing["count"].max() == 1
    permuted = shoal.anonymize(table, make_policy(), method="anatomy", form="permuted", seed=2**70)
    assert permuted.frame["disease"].isna().sum() == table["disease"].isna().sum()


def test_numbers_stay_numbers() -> None:
    table = people().assign(disease=lambda t: t["disease"].map({d: i for i, d in enumerate(DISEASES)}))
    release = shoal.anonymize(table, make_policy(), method="anatomy")
    assert release.sensitive["disease"].dtype == np.int64 and release.frame["age"].dtype == np.int64


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (make_policy(shoal.KAnonymity(3)), "cannot guarantee k-anonymity"),
        (make_policy(shoal.LDiversity(2, of="disease"), shoal.KAnonymity(3)), "cannot guarantee k-anonymity"),
        (make_policy(shoal.AlphaKAnonymity(0.5, 3, of="disease")), "cannot guarantee alpha-k-anonymity"),
        (make_policy(shoal.Posterior(0.5)), "requirement for randomizing methods"),
        (make_policy(sensitive=["disease", "note"], keep=[]), "the policy has disease, note"),
        (make_policy(unit="note", keep=[]), "several records of a person"),
    ],
)
def test_policies_that_buckets_cannot_serve(policy: shoal.Policy, message: str) -> None:
    with pytest.raises(shoal.PolicyError, match=message):
        shoal.anonymize(people(), policy, method="anatomy")


def test_wrong_forms_and_names() -> None:
    with pytest.raises(shoal.PolicyError, match="unknown value 'shuffled' for 'form'"):
        shoal.anonymize(people(), make_policy(), method="anatomy", form="shuffled")
    named = people().rename(columns={"note": "bucket"})
    with pytest.raises(shoal.PolicyError, match="second column 'bucket'"):
        shoal.anonymize(named, make_policy(keep=["bucket"]), method="anatomy")


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_tiny_tables(rows: int) -> None:
    table = people(rows).assign(disease=DISEASES[:rows])
    for l in range(1, rows + 1):  # noqa: E741
        release = shoal.anonymize(table, make_policy(shoal.LDiversity(l, of="disease")), method="anatomy")
        assert release.certificate.smallest >= l and len(release.frame) == rows
    with pytest.raises(shoal.PolicyError, match="requires groups of at least"):
        shoal.anonymize(table, make_policy(shoal.LDiversity(rows + 1, of="disease")), method="anatomy")


def test_queries_and_associations_are_estimated_by_bucket() -> None:
    """The two tables and their expected answers; the permuted table is read as it is."""
    table = people(400).drop(columns=["score", "note"])
    policy = make_policy(quasi={"age": "numeric", "sex": "categorical"}, keep=[])
    release = shoal.anonymize(table, policy, method="anatomy", seed=2**70)
    records, values = release.frame, release.sensitive
    query = {"age": [21, 22, 25], "disease": ["flu", "gout"]}
    found = shoal.measures.query_error(table, release, [query])
    matching = records[records["age"].isin(query["age"])].groupby("bucket").size()
    flu = values[values["disease"].isin(query["disease"])].groupby("bucket")["count"].sum()
    size = records.groupby("bucket").size()
    assert found.estimate[0] == pytest.approx((matching * flu / size).sum())
    assert found.answers[0] == (table["age"].isin(query["age"]) & table["disease"].isin(query["disease"])).sum()
    linked = shoal.measures.associations(table, release, support=0.02, confidence=0.2)
    assert linked.total.found + linked.total.lost > 0
    permuted = shoal.anonymize(table, policy, method="anatomy", form="permuted", seed=2**70)
    direct = shoal.measures.query_error(table, permuted, [query])
    asked = permuted.frame["age"].isin(query["age"]) & permuted.frame["disease"].isin(query["disease"])
    assert direct.estimate[0] == asked.sum()


@pytest.mark.parametrize("kind", ["pandas", "polars", "csv"])
def test_equal_quasi_identifiers_do_not_reveal_values_by_the_order_of_both_tables(kind: str, tmp_path: Path) -> None:
    """The rows of the second table are sorted by bucket and value, whatever the order of the input."""
    table = people(300, seed=3).drop(columns=["score", "note"])
    policy = make_policy(quasi={"age": "numeric", "sex": "categorical"}, keep=[])
    table.to_csv(tmp_path / "table.csv", index=False)
    data = {"pandas": table, "polars": pl.from_pandas(table), "csv": tmp_path / "table.csv"}[kind]
    values = shoal.anonymize(data, policy, method="anatomy", seed=2**70).sensitive
    values = values.to_pandas() if kind == "polars" else values
    assert values.equals(values.sort_values(["bucket", "disease"]).reset_index(drop=True))


def test_a_check_finds_linking_columns_of_the_second_table() -> None:
    release = shoal.anonymize(people(), make_policy(), method="anatomy")
    policy = make_policy(identifiers=["name"])
    found = shoal.check(release.frame, policy, sensitive=release.sensitive.assign(name="Bob", age=1, room=2))
    assert found.holds and not found.publishable
    assert set(found.identifiers) == {"name", "age"} and found.unassigned == ("room",)
    with pytest.raises(shoal.PolicyError, match="'age' is not in the table"):
        shoal.check(release.frame.drop(columns="age"), policy, sensitive=release.sensitive)
    with pytest.raises(shoal.PolicyError, match="several records of a person"):
        shoal.check(release.frame, make_policy(unit="note", keep=[]), sensitive=release.sensitive)
    with pytest.raises(shoal.DataError, match="needed in the table of sensitive values"):
        shoal.check(release.sensitive.assign(age=1, sex="f", score=1), policy, sensitive=release.frame)


def test_normalized_and_large_values() -> None:
    spelled = people().assign(disease=lambda t: t["disease"].where(t.index % 2 == 0, t["disease"].str.upper() + " "))
    release = shoal.anonymize(spelled, make_policy(normalize=["disease"]), method="anatomy")
    assert shoal.check(release.frame, make_policy(normalize=["disease"]), sensitive=release.sensitive).holds
    numbers = dict(zip(DISEASES, [2**60, 2**60 + 1, -(2**62), 2**63 - 1], strict=True))
    large = people().assign(disease=lambda t: t["disease"].map(numbers))
    values = shoal.anonymize(large, make_policy(), method="anatomy").sensitive
    assert set(values["disease"]) == set(numbers.values())
    with pytest.raises(shoal.DataError, match="whole numbers"):
        shoal.check(release.frame, make_policy(), sensitive=release.sensitive.assign(count="1" + "0" * 20))


def test_texts_of_the_release() -> None:
    release = shoal.anonymize(people(), make_policy(suppress=0.1), method="anatomy")
    assert "120 records in 40 buckets" in str(release.certificate)
    assert any("'suppress' of the policy has no effect" in note for note in release.notes)
    with pytest.raises(shoal.PolicyError, match="second column 'bucket'"):
        shoal.anonymize(people().assign(bucket=1), make_policy(identifiers=["bucket"]), method="anatomy")
    with pytest.raises(shoal.PolicyError, match="no requirement; require l-diversity of 'disease'"):
        shoal.anonymize(people(), shoal.Policy(quasi={"age": "numeric"}, sensitive=["disease"]), method="anatomy")


@pytest.mark.parametrize("by", [[], ["sex"]], ids=["plain", "partitioned"])
def test_a_folder_of_files(by: list[str], tmp_path: Path) -> None:
    """The tables of a folder are folders; the digests name every file."""
    table = people(200, seed=4).assign(sex=lambda t: t["sex"].fillna("x"))
    source = tmp_path / "source"
    pq.write_to_dataset(pa.Table.from_pandas(table, preserve_index=False), source, partition_cols=by)
    release = shoal.anonymize(source, make_policy(), method="anatomy", engine="duckdb")
    folder = release.save(tmp_path / "out", format="parquet")
    written = json.loads((folder / "certificate.json").read_text())["sha256"]
    assert {name.partition("/")[0] for name in written} == {"table.parquet", "sensitive.parquet"}
    assert all((folder / name).is_file() for name in written)
    found = shoal.check(folder / "table.parquet", make_policy(), sensitive=folder / "sensitive.parquet")
    assert found.publishable and found.fingerprint == release.certificate.fingerprint
