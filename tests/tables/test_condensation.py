"""Condensation: the groups behind the drawn records, recounted by plain pandas; what is drawn, kept, said and saved."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal import cli, kernels
from shoal.pipeline.publication import Publication, RecodedTable
from shoal.requirements import PersonalizedK, TableDistribution, combine_limits
from shoal.requirements.groups import Groups
from shoal.tables import Condensation
from tests.support.cases import Case, as_rows, cases, covers, holds
from tests.support.kernels import compile_inner
from tests.support.outcomes import Outcome, counted

SIGMAS = 5.0


class Watched(Condensation):
    """Condensation that shows the table by which its groups are counted."""

    counted: pd.DataFrame

    def publication(self) -> Publication:
        watched = super().publication()
        apply = watched.apply

        def watch(*given: Any) -> RecodedTable:
            made = apply(*given)
            self.counted = made.counted_table.frame()
            return made

        watched.apply = watch
        return watched


def condensed(frame: pd.DataFrame, policy: shoal.Policy, **more: Any) -> tuple[shoal.Release, pd.Series]:
    """A release, and the group of every released record."""
    seed = more.pop("seed", 1)
    method = Watched(policy, **more)
    release = method.release(frame, seed=seed)
    return release, method.counted[next(iter(policy.quasi))]


def people(rows: int = 200, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, rows)
    return pd.DataFrame(
        {
            "age": age,
            "income": (age * 1000 + rng.normal(0, 9000, rows)).round(2),
            "city": rng.choice(["Oulu", "Rome", "Bari"], rows),
            "born": pd.to_datetime("1950-01-01") + pd.to_timedelta(rng.integers(0, 20_000, rows), unit="D"),
            "ill": rng.choice(["flu", "cold", "gout"], rows),
            "note": [f"n{i}" for i in range(rows)],
        }
    )


QUASI = {"age": "numeric", "income": "numeric", "city": "categorical", "born": "date"}


def policy_of(k: int = 5, *more: Any, **other: Any) -> shoal.Policy:
    given: dict[str, Any] = {"quasi": QUASI, "sensitive": "ill", "keep": ["note"], "accept": {"note": "a test"}}
    return shoal.Policy(**{**given, **other}, require=[shoal.KAnonymity(k), *more])


# what holds


@given(case=cases())
@counted
def test_the_groups_behind_the_records_hold_when_recounted(case: Case) -> Outcome:
    method = Watched(case.policy)
    try:
        release = method.release(case.frame, seed=3)
    except shoal.RequirementNotMet:  # then even one group for all does not do
        assert not holds(case.frame.assign(**dict.fromkeys(case.policy.quasi, "*")), case.policy)
        return "not met"
    counted, frame = method.counted, release.frame
    assert holds(counted, case.policy)
    group = counted[next(iter(case.policy.quasi))]
    assert release.certificate.holds and release.certificate.evidence == "groups"
    assert release.certificate.smallest == group.value_counts().min() == release.recoding.size.min()
    assert release.certificate.groups == group.nunique() == release.measures["classes"]
    assert len(frame) + release.certificate.suppressed == len(case.frame)
    raw = case.frame[case.frame["note"].isin(frame["note"])]
    for column in ("note", "illness"):  # confidential and kept columns stay with their rows, here and there
        assert list(frame[column].fillna("")) == list(raw[column].fillna("")) == list(counted[column].fillna(""))
    return None


@given(case=cases())
@counted
def test_what_is_drawn_lies_within_the_group_and_the_table(case: Case) -> Outcome:
    method = Watched(case.policy)
    try:
        release = method.release(case.frame, seed=3)
    except shoal.RequirementNotMet:
        return "not met"
    raw = case.frame[case.frame["note"].isin(release.frame["note"])].reset_index(drop=True)
    groups = method.counted[next(iter(case.policy.quasi))]
    for name, quasi in case.policy.quasi.items():
        for g, drawn in release.frame[name].groupby(groups):
            members = raw[name][groups == g]
            assert members.isna().any() or not drawn.isna().any()
            assert not members.isna().all() or drawn.isna().all()
            there = drawn.dropna()
            if quasi.widths is not None:  # the finest intervals are drawn
                assert all(any(covers(label, value, quasi) for value in members.dropna()) for label in there)
                continue
            if quasi.kind == "categorical":
                assert set(there) <= set(members.dropna())
            elif len(there):
                low, high = quasi.bounds or (raw[name].dropna().min(), raw[name].dropna().max())
                assert low <= there.min() and there.max() <= high
            if members.nunique(dropna=False) == 1 and len(there):
                assert set(there) <= set(members)
    return None


def test_a_requirement_on_some_attributes_looks_at_the_same_groups() -> None:
    policy = policy_of(4, shoal.KAnonymity(9, on=["city"]), shoal.LDiversity(2, of="ill", on=["born", "city"]))
    release, group = condensed(people(), policy)
    assert group.value_counts().min() >= 9
    assert [f.reached for f in release.certificate.findings] == [9, 9, 2]


def test_l_diversity_holds_in_every_group() -> None:
    frame = people()
    frame["ill"] = np.where(np.arange(len(frame)) % 10, "flu", frame["ill"])
    release, group = condensed(frame, policy_of(3, shoal.LDiversity(2, of="ill")))
    assert frame["ill"].groupby(group).nunique().min() >= 2
    assert release.certificate.findings[1].reached == 2


def test_the_certificate_says_that_the_table_is_not_the_evidence() -> None:
    policy = policy_of()
    release = shoal.anonymize(people(), policy, method="condensation", seed=1)
    note = "they were generated from groups that meet the requirements, but the table does not show these groups"
    assert f"the records are synthetic; {note}" in str(release.certificate)
    content = json.loads(release.certificate.to_json())
    assert content["evidence"] == "groups" and content["findings"][0]["worst"] == {}
    alone = shoal.check(release.frame, policy)
    assert not alone.holds and alone.evidence == "table" and alone.smallest == 1
    assert alone.fingerprint == release.certificate.fingerprint


def test_the_nearest_row_is_a_persons_own_no_more_often_than_one_in_k() -> None:
    rows, k = 2_000, 5
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(rows, 2)), columns=["a", "b"])
    quasi = dict.fromkeys("ab", "numeric")
    release = shoal.anonymize(
        frame, shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(k)]), method="condensation", seed=1
    )
    apart = np.abs(frame.to_numpy()[:, None] - release.frame.to_numpy()[None]).sum(axis=2)
    found = (apart.argmin(axis=1) == np.arange(rows)).mean()
    assert found <= 1 / k + SIGMAS * np.sqrt((1 / k) * (1 - 1 / k) / rows)


# what is drawn


def test_means_and_covariances_approach_those_of_the_table() -> None:
    rows = 20_000
    rng = np.random.default_rng(0)
    values = rng.normal(size=(rows, 3)) @ np.array([[3.0, 1.0, 0.0], [0.0, 2.0, 1.5], [0.0, 0.0, 0.4]])
    frame = pd.DataFrame(values, columns=list("abc")).assign(d=rng.choice(["x", "y"], rows, p=[0.9, 0.1]))
    quasi = {**{name: {"bounds": [-100, 100]} for name in "abc"}, "d": "categorical"}
    release = shoal.anonymize(
        frame, shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(10)]), method="condensation", seed=1
    )
    drawn, sd = release.frame[list("abc")].to_numpy(), values.std(axis=0)
    # Draws vary around the groups' means with the variances within groups, which are smaller than those of the table.
    assert (np.abs(drawn.mean(axis=0) - values.mean(axis=0)) <= SIGMAS * sd / np.sqrt(rows)).all()
    reach = np.abs(drawn - values.mean(axis=0)).max(axis=0)
    error = 2 * SIGMAS * np.outer(reach, sd) / np.sqrt(rows)
    assert (np.abs(np.cov(drawn.T) - np.cov(values.T)) <= error).all()
    assert release.measures["mean_shift"] < SIGMAS / np.sqrt(rows)
    assert release.measures["deviation_shift"] < 0.02 and release.measures["correlation_shift"] < 0.02
    assert release.measures["share_shift"] < SIGMAS * np.sqrt(0.09 / rows)
    figures = np.abs(drawn.mean(axis=0) - values.mean(axis=0)) / sd
    assert release.measures["mean_shift"] == pytest.approx(figures.mean())
    correlations = [np.corrcoef(v.T)[np.triu_indices(3, 1)] for v in (values, drawn)]
    assert release.measures["correlation_shift"] == pytest.approx(np.abs(correlations[0] - correlations[1]).mean())


def test_identical_records_are_given_back_as_they_were() -> None:
    frame = pd.concat([people(3)] * 6)
    policy = shoal.Policy(quasi={**QUASI, "age": {"boundaries": [20, 40]}}, require=[shoal.KAnonymity(6)])
    release = shoal.anonymize(frame, policy, method="condensation", seed=1)
    assert as_rows(release.frame) == as_rows(frame[list(QUASI)].assign(born=frame["born"].dt.strftime("%Y-%m-%d")))
    assert (
        release.measures["mean_shift"] == release.measures["correlation_shift"] == release.measures["share_shift"] == 0
    )


def test_as_many_records_as_k_make_one_group() -> None:
    release, group = condensed(people(12), policy_of(12))
    assert group.nunique() == 1 and release.certificate.groups == 1 and len(release.frame) == 12
    with pytest.raises(shoal.PolicyError, match="but the table has 12"):
        condensed(people(12), policy_of(13))


@pytest.mark.parametrize("names", [["age"], ["city"], ["born"], ["gone"], ["gone", "city"], ["age", "gone"]])
def test_few_attributes(names: list[str]) -> None:
    frame = people(40).assign(gone=None)
    quasi = {name: {**QUASI, "gone": "numeric"}[name] for name in names}
    release, group = condensed(frame, policy_of(quasi=quasi))
    assert group.value_counts().min() >= 5 and len(release.frame) == 40
    assert "gone" not in names or release.frame["gone"].isna().all()
    assert ("share_shift" in release.measures) == ("city" in names)


def test_columns_keep_their_kind() -> None:
    frame = people()
    release, _ = condensed(frame, policy_of())
    assert list(release.frame.columns) == [*QUASI, "ill", "note"]
    assert release.frame["age"].dtype == np.int64
    assert (release.frame["income"].round(2) == release.frame["income"]).all()
    assert release.frame["born"].map(lambda text: re.fullmatch(r"\d{4}-\d\d-\d\d", text) is not None).all()
    assert release.frame["age"].between(frame["age"].min(), frame["age"].max()).all()
    assert not release.frame["income"].isin(frame["income"]).all()


def test_missing_values_come_with_their_share() -> None:
    rows = 4_000
    frame = people(rows)
    frame["age"] = frame["age"].where(np.arange(rows) % 4 > 0)
    frame["city"] = frame["city"].where(np.arange(rows) % 5 > 0)
    release, _ = condensed(frame, policy_of(10))
    for name, share in (("age", 0.25), ("city", 0.2)):
        assert abs(release.frame[name].isna().mean() - share) <= SIGMAS * np.sqrt(share * (1 - share) / rows)


# chance


@given(case=cases(), seed=st.integers(0, 2**32 - 1))
def test_row_order_and_index_do_not_matter_for_a_seed(case: Case, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(case.frame))
    shuffled = case.frame.iloc[order].set_axis(np.full(len(order), 7), axis=0)
    found = []
    for frame in (case.frame, shuffled):
        try:
            found.append(as_rows(shoal.anonymize(frame, case.policy, method="condensation", seed=seed).frame))
        except shoal.RequirementNotMet:
            found.append([])
    assert found[0] == found[1]


def test_every_kind_of_frame_gives_the_same_release() -> None:
    frame, policy = people(), policy_of()
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    first = shoal.anonymize(frame, policy, method="condensation", seed=1)
    for other, kind in ((arrow, pa.Table), (pl.from_arrow(arrow), pl.DataFrame)):
        second = shoal.anonymize(other, policy, method="condensation", seed=1)
        assert isinstance(second.frame, kind)
        assert second.certificate.fingerprint == first.certificate.fingerprint


def test_the_seed_is_a_secret_that_the_owner_can_use_again() -> None:
    frame, policy = people(), policy_of()
    first, second = (shoal.anonymize(frame, policy, method="condensation", seed=2**100 + i) for i in range(2))
    assert first.certificate.fingerprint != second.certificate.fingerprint
    again = shoal.anonymize(frame, policy, method="condensation", seed=first.seed)
    assert again.certificate.fingerprint == first.certificate.fingerprint
    assert str(first.seed) not in repr(first) and str(first.seed) not in first.certificate.to_json()


# each record's own k


def wishes(rows: int, every: int, k: object) -> list[object]:
    return [k if i % every == 0 else None for i in range(rows)]


def test_every_record_lies_in_a_group_as_large_as_its_own_k() -> None:
    frame = people(300)
    frame["wish"] = np.random.default_rng(1).choice([1, 5, 12, 30], len(frame), p=[0.4, 0.4, 0.15, 0.05])
    release, group = condensed(frame, policy_of(3), own_k="wish")
    size = group.map(group.value_counts())
    assert (size.to_numpy() >= frame["wish"].to_numpy()).all() and size.min() >= 3
    assert (size < 12).any()  # who asks for little is not made to hide with the others
    assert "wish" not in release.frame and "wish" in release.dropped
    finding = release.certificate.findings[-1]
    assert (finding.requirement, finding.holds) == ("own-k", True)
    assert finding.reached == (size.to_numpy() / frame["wish"].to_numpy()).min()
    assert [r.name for r in release.policy.require] == ["k-anonymity"]


@given(case=cases(secrets=False, least=4), data=st.data())
def test_own_k_holds_whatever_is_asked(case: Case, data: st.DataObject) -> None:
    rows = len(case.frame)
    wish = data.draw(st.lists(st.sampled_from([None, "1", "2", "4"]), min_size=rows, max_size=rows))
    frame = case.frame.assign(wish=wish)
    method = Watched(case.policy, own_k="wish")
    release = method.release(frame, seed=1)
    group = method.counted[next(iter(case.policy.quasi))]
    size = group.map(group.value_counts())
    asked = frame[frame["note"].isin(release.frame["note"])]["wish"].fillna("1").astype(int)
    assert (size.to_numpy() >= asked.to_numpy()).all()


@given(st.lists(st.integers(0, 6), min_size=4, max_size=4))
def test_own_k_is_asked_alike_inside_and_outside(count: list[int]) -> None:
    """Values 2, 5, 9 and missing: the kernel in the search, `test` on finished groups."""
    own, labels = PersonalizedK("wish"), ("2", "5", "9", None)
    cells = np.flatnonzero(count)
    groups = Groups(
        ("a",),
        ("wish",),
        np.zeros((1, 1), np.int32),
        np.array([0, len(cells)]),
        cells[:, None].astype(np.int32),
        np.array(count)[cells],
        (4,),
        (labels,),
    )
    arrays = combine_limits([own], TableDistribution(("wish",), (4,), np.zeros(4), (labels,))).arrays()
    total, histogram = sum(count), np.array(count, np.int64)
    asked = max([k for k, n in zip((2, 5, 9, 0), count, strict=True) if n], default=0)
    if total:
        assert kernels.limits.holds(total, histogram, arrays) == own.test(groups).ok[0] == (total >= asked)
    lacking = compile_inner(kernels.limits.shortfall)(total, histogram, arrays)
    assert lacking == pytest.approx(max(0.0, 1 - total / asked) if asked else 0.0)


def test_own_k_holds_after_the_polish() -> None:
    frame = people(200).assign(wish=wishes(200, 20, 15))
    rough, _ = condensed(frame, policy_of(4), own_k="wish")
    fine, group = condensed(frame, policy_of(4), own_k="wish", improve=True)
    assert fine.measures["il"] < rough.measures["il"]
    assert (group.map(group.value_counts())[::20] >= 15).all()


def test_a_column_of_wishes_that_the_policy_keeps_is_released() -> None:
    frame = people(60).assign(wish=wishes(60, 10, 8))
    release, group = condensed(frame, policy_of(3, keep=["note", "wish"]), own_k="wish")
    assert list(release.frame["wish"].fillna(0)) == list(frame["wish"].fillna(0))
    assert (group.map(group.value_counts())[::10] >= 8).all()


def test_texts_for_missing_are_no_wish() -> None:
    frame = people(60).assign(wish=[{0: "8", 1: "?"}.get(i % 10, "") for i in range(60)])
    release, group = condensed(frame, policy_of(3, missing=["?"]), own_k="wish")
    size = group.map(group.value_counts())
    assert len(release.frame) == 60 and (size[::10] >= 8).all()
    assert size.min() < 8  # the others have no wish


@pytest.mark.parametrize("value", ["many", "2.5", "-3", "0", 0, 2.5])
def test_a_wish_that_is_no_whole_number_is_named(value: object) -> None:
    frame = people(20).assign(wish=pd.Series([value, *[5] * 19], dtype=object).astype(str))
    with pytest.raises(shoal.DataError, match=f"column 'wish' must hold whole numbers.*{value}"):
        condensed(frame, policy_of(3), own_k="wish")


def test_a_wish_beyond_the_table_cannot_be_met() -> None:
    frame = people(20).assign(wish=wishes(20, 10, 21))
    with pytest.raises(
        shoal.RequirementNotMet, match="'wish' requires a group of 21 records, but the table has 20 records"
    ):
        condensed(frame, policy_of(3), own_k="wish")


def test_faults_in_the_parameters_are_named() -> None:
    frame = people(20)
    with pytest.raises(shoal.PolicyError, match="'wisch' is not in the table"):
        condensed(frame, policy_of(3), own_k="wisch")
    with pytest.raises(shoal.PolicyError, match="own_k names the quasi-identifier 'age'"):
        condensed(frame, policy_of(3), own_k="age")
    with pytest.raises(shoal.PolicyError, match="own_k must be the name of a column"):
        condensed(frame, policy_of(3), own_k=3)
    with pytest.raises(shoal.PolicyError, match="write='midpoint' is not possible"):
        condensed(frame, policy_of(3), write="midpoint")


# what leaves, and what must not


def test_saving_keeps_the_statistics_with_the_owner(tmp_path: Path) -> None:
    frame, policy = people(), policy_of()
    release = shoal.anonymize(frame, policy, method="condensation", seed=123456789)
    folder = release.save(tmp_path / "release")
    assert sorted(p.name for p in folder.iterdir()) == ["certificate.json", "policy.yaml", "report.html", "table.csv"]
    public = {p.name: p.read_text(encoding="utf-8") for p in folder.iterdir()}
    certificate = json.loads(public["certificate.json"])
    assert certificate["evidence"] == "groups" and certificate["fingerprint"] == release.certificate.fingerprint
    assert set(certificate["measures"]) <= {
        "records",
        "suppressed",
        "classes",
        "smallest",
        "average",
        "risk_max",
        "risk_mean",
    }
    assert "are synthetic" in public["report.html"] and "were tested after" not in public["report.html"]
    assert "123456789" not in "".join(public.values()) and "covariance" not in "".join(public.values())
    owner = tmp_path / "release.owner"
    assert json.loads((owner / "ledger.json").read_text(encoding="utf-8"))["seed"] == 123456789
    recoding = shoal.recoding.load_recoding(owner / "recoding.json")
    assert recoding.kind == "synthesis" and recoding.size.sum() == len(frame)
    assert "standard deviations" in (owner / "report.html").read_text(encoding="utf-8")
    with pytest.raises(shoal.DataError, match="later data"):
        release.recoding.apply(frame)


def test_the_saved_rows_follow_neither_the_input_nor_the_groups(tmp_path: Path) -> None:
    frame, policy = people(), policy_of()
    texts = []
    for number, rows in enumerate((frame, frame.iloc[::-1])):
        release = shoal.anonymize(rows, policy, method="condensation", seed=1)
        texts.append((release.save(tmp_path / str(number)) / "table.csv").read_text(encoding="utf-8"))
    assert texts[0] == texts[1]
    saved = pd.read_csv(tmp_path / "0" / "table.csv")
    _, group = condensed(frame, policy)
    place = dict(zip(frame["note"], group, strict=True))
    beside = np.mean([place[a] == place[b] for a, b in zip(saved["note"], saved["note"][1:], strict=False)])
    assert beside < 0.15  # by chance about 1 in 40 stand beside one of their group
    assert list(saved["note"]) != list(frame["note"])


def test_a_table_that_changed_on_its_way_is_not_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = shoal.anonymize(people(), policy_of(), method="condensation", seed=1)
    other = shoal.anonymize(people(), policy_of(), method="condensation", seed=2)
    monkeypatch.setattr(
        type(release.engine), "write", lambda _, path, form, **given: _write(other, path, form, **given)
    )
    with pytest.raises(shoal.RequirementNotMet, match="differ from what was audited"):
        release.save(tmp_path / "release")
    assert not (tmp_path / "release").exists()


def _write(release: shoal.Release, path: Path, form: str, **options: bool) -> None:
    release.frame.to_csv(path, index=False)


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame, policy = people().assign(wish=wishes(200, 20, 11)), policy_of()
    frame.to_csv(tmp_path / "people.csv", index=False)
    policy.save(tmp_path / "policy.yaml")
    words = [
        "anonymize",
        str(tmp_path / "people.csv"),
        "-p",
        str(tmp_path / "policy.yaml"),
        "-o",
        str(tmp_path / "out"),
    ]
    cli.app([*words, "-m", "condensation", "--seed", "5", "--set", "own_k=wish"], standalone_mode=False)
    said = capsys.readouterr().out
    assert "own-k (of = wish)" in said and "the records are synthetic" in said and "correlations" in said
    saved = pd.read_csv(tmp_path / "out" / "table.csv")
    assert len(saved) == 200 and "wish" not in saved
