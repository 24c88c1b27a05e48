"""Incremental releases: new records get the earlier recoding and are tested together with earlier releases."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import shoal
from shoal.pipeline.incremental import select_new_groups
from shoal.recoding import STYLES
from shoal.release.ledger import Ledger
from shoal.requirements.groups import Groups
from shoal.tables import TopDownSpecialization
from tests.reference.each import Each
from tests.reference.requirements import passes as plain
from tests.support.cases import Case, as_rows, cases, covers, holds, suited
from tests.support.outcomes import Outcome, counted

METHODS = {"boxes": ("mondrian", {}), "cut": ("tds", {}), "assignment": ("kmember", {})}
kinds = pytest.mark.parametrize("kind", METHODS)

OCTOBER = pd.DataFrame(
    {
        "age": [21, 24, 22, 33, 31, 35, 47, 41, 45, 58, 52, 55],
        "sex": list("ffffffmmmmmm"),
        "ill": ["flu", "cold", "gout"] * 4,
    }
)
POLICY = shoal.Policy(
    quasi={"age": {"kind": "numeric", "boundaries": [20, 30, 40, 50, 60]}, "sex": "categorical"},
    sensitive="ill",
    require=[shoal.KAnonymity(3), shoal.LDiversity(2, of="ill")],
)


def people(*rows: tuple[Any, ...]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=["age", "sex", "ill"])


def saved(release: shoal.Release, folder: Path) -> Path:
    """The recoding in the owner folder of a release."""
    return release.save(folder).with_name(f"{folder.name}.owner") / "recoding.json"


@pytest.fixture
def recoding(tmp_path: Path) -> Path:
    """October, anonymized: one group for every ten years and sex."""
    release = shoal.anonymize(OCTOBER, POLICY)
    assert release.certificate.groups == 4
    return saved(release, tmp_path / "october")


def released(recoding: Path) -> pd.DataFrame:
    """The table that was released with a recoding."""
    return pd.read_csv(recoding.parent.with_name(recoding.parent.name.removesuffix(".owner")) / "table.csv", dtype=str)


def allowing(share: float, **more: Any) -> shoal.Policy:
    return POLICY.model_copy(update={"suppress": share, **more})


# ---- a second month


def test_new_records_hide_among_those_released_before(recoding: Path, tmp_path: Path) -> None:
    november = shoal.anonymize(people((23, "f", "flu"), (44, "m", "angina")), recoding=recoding)
    certificate = november.certificate
    assert as_rows(november.frame) == [("[20, 30)", "f", "flu"), ("[40, 50)", "m", "angina")]
    assert not shoal.check(november.frame, POLICY).holds
    assert certificate.holds and certificate.evidence == "union"
    assert (certificate.records, certificate.groups, certificate.smallest) == (2, 4, 3)
    assert "the table alone may hold smaller groups" in str(certificate)
    assert november.measures["smallest"] == 1 and november.measures["records"] == 2 and "ncp" not in november.measures
    assert november.policy == POLICY and "2 records in 4 groups" in repr(november)


def test_what_is_saved_serves_the_month_after(recoding: Path, tmp_path: Path) -> None:
    november = shoal.anonymize(people((23, "f", "flu"), (25, "f", "cold")), recoding=str(recoding))
    owner = saved(november, tmp_path / "november").parent
    names = {"recoding.json", "policy.yaml", "ledger.json", "groups.json", "report.html"}
    assert {p.name for p in owner.iterdir()} == names
    assert (owner / "recoding.json").read_bytes() == recoding.read_bytes()
    first = json.loads((recoding.parent / "ledger.json").read_text())["fingerprint"]
    ledger = json.loads((owner / "ledger.json").read_text())
    assert ledger["earlier"] == [first] and ledger["method"] == "recoding"
    statement = json.loads((tmp_path / "november" / "certificate.json").read_text())
    assert statement["evidence"] == "union" and statement["records"] == 2 and statement["measures"]["smallest"] == 2
    page = (tmp_path / "november" / "report.html").read_text()
    assert "released before" in page and "Information kept" not in page
    december = shoal.anonymize(people((29, "f", "gout")), recoding=owner / "recoding.json")
    counted = Ledger.load(saved(december, tmp_path / "december"))
    assert counted.releases == (first, ledger["fingerprint"], december.certificate.fingerprint)
    assert dict(zip(counted.rows(), counted.groups.size.tolist(), strict=True))["[20, 30)", "f"] == 6


def test_the_ledger_holds_no_raw_value(recoding: Path, tmp_path: Path) -> None:
    november = shoal.anonymize(people((23, "f", "flu"), (25, "f", "cold")), recoding=recoding)
    text = (saved(november, tmp_path / "november").parent / "groups.json").read_text()
    found = json.loads(text)
    assert {label for column in found["columns"] for label in column["labels"]} == {
        *("[20, 30)", "[30, 40)", "[40, 50)", "[50, 60)", "f", "m")
    }


def test_a_table_changed_after_its_check_is_refused(recoding: Path, tmp_path: Path) -> None:
    november = shoal.anonymize(people((23, "f", "flu"), (44, "m", "flu")), recoding=recoding)
    november.frame.loc[0, "age"] = "23"
    with pytest.raises(shoal.RequirementNotMet, match="differ from what was audited"):
        november.save(tmp_path / "november")
    assert not (tmp_path / "november").exists() and not (tmp_path / "november.owner").exists()


@pytest.mark.parametrize("write", STYLES)
def test_every_way_of_writing_joins_its_groups(tmp_path: Path, write: str) -> None:
    """Also numbers whose text is not that of a whole number: 1e+10."""
    frame = pd.DataFrame({"pay": [1e10, 3e10, 5e10, 7e10] * 2, "sex": list("ffmm") * 2})
    policy = shoal.Policy(quasi={"pay": "numeric", "sex": "categorical"}, require=[shoal.KAnonymity(4)])
    recoding = saved(shoal.anonymize(frame, policy, write=write), tmp_path / "october")
    november = shoal.anonymize(frame[:2], recoding=recoding)
    assert november.certificate.groups == 2 and november.certificate.smallest == 4
    saved(november, tmp_path / "november")


# ---- suppressed new records


def test_too_many_suppressed_records_are_refused_with_reasons(recoding: Path) -> None:
    new = people((23, "f", "flu"), (99, "m", "flu"), (23, "x", "flu"), (23, "y", "flu"), (44, "f", "flu"))
    with pytest.raises(shoal.RequirementNotMet) as caught:
        shoal.anonymize(new, recoding=recoding)
    told = str(caught.value)
    assert "4 of 5 new records would have to be suppressed, and the policy allows 0" in told
    assert "2 with a value that is not in the recoding, such as 'x' in column 'sex'" in told and "'y'" not in told
    assert "2 outside every box" in told
    assert "Raise 'suppress'" in told and "use the nearest box (nearest=True, --nearest)" in told


def test_the_allowance_is_a_share_of_the_new_records(recoding: Path) -> None:
    new = people((23, "f", "flu"), (25, "f", "flu"), (44, "m", "flu"), (99, "m", "flu"))
    with pytest.raises(shoal.RequirementNotMet, match=r"1 of 4 new records .* allows 0"):
        shoal.anonymize(new, allowing(0.24), recoding=recoding)
    november = shoal.anonymize(new, allowing(0.25), recoding=recoding)
    assert november.certificate.suppressed == 1 and november.certificate.records == 3
    assert november.measures["suppressed"] == 1 and len(november.frame) == 3


def test_nothing_left_is_no_release(recoding: Path) -> None:
    with pytest.raises(shoal.RequirementNotMet, match="the new record cannot be released"):
        shoal.anonymize(people((99, "m", "flu")), allowing(1.0), recoding=recoding)


def test_the_nearest_box_takes_what_no_box_holds(recoding: Path) -> None:
    new = people((99, "m", "flu"), (23, "x", "flu"))
    november = shoal.anonymize(new, recoding=recoding, nearest=True)
    before = set(released(recoding)[["age", "sex"]].itertuples(index=False, name=None))
    assert len(november.frame) == 2 and {row[:2] for row in as_rows(november.frame)} <= before
    assert november.parameters["nearest"] is True


def test_a_new_combination_needs_a_crowd_of_its_own(tmp_path: Path) -> None:
    """A cut has room for combinations that nobody had before."""
    recoding = saved(shoal.anonymize(OCTOBER, POLICY, method="tds"), tmp_path / "october")
    young = [(age, "m", ill) for age, ill in ((22, "flu"), (25, "cold"), (28, "gout"))]
    with pytest.raises(shoal.RequirementNotMet, match=r"2 in groups that fail k-anonymity \(k = 3\)"):
        shoal.anonymize(people(*young[:2], (23, "f", "flu")), recoding=recoding)
    november = shoal.anonymize(people(*young, (23, "f", "flu")), recoding=recoding)
    assert november.certificate.groups == 5 and november.certificate.records == 4
    alike = [(age, "m", "flu") for age in (22, 25, 28)]
    with pytest.raises(shoal.RequirementNotMet, match="3 in groups that fail"):
        shoal.anonymize(people(*alike, (23, "f", "flu")), recoding=recoding)


def test_a_missing_value_is_no_way_out(tmp_path: Path) -> None:
    for method in ("mondrian", "tds"):
        recoding = saved(shoal.anonymize(OCTOBER, POLICY, method=method), tmp_path / method)
        new = people((23, "f", "flu"), (24, None, "cold"), (26, "f", "cold"))
        with pytest.raises(shoal.RequirementNotMet, match="1 of 3 new records"):
            shoal.anonymize(new, recoding=recoding)
        november = shoal.anonymize(new, allowing(0.4), recoding=recoding)
        assert november.certificate.suppressed == 1 and set(november.frame["sex"]) == {"f"}


@pytest.mark.parametrize("kind", ["boxes", "cut", "assignment"])
def test_what_was_suppressed_stays_suppressed(tmp_path: Path, kind: str) -> None:
    odd = people(*OCTOBER.itertuples(index=False), (70, "x", "flu"))
    quasi = {"age": {"kind": "numeric", "boundaries": [20, 30, 40, 50, 60, 80]}, "sex": "categorical"}
    policy = shoal.Policy(quasi=quasi, sensitive="ill", require=POLICY.require, suppress=0.08)
    method = TopDownSpecialization(policy) if kind == "cut" else Each(policy, by="sex", tree=kind == "boxes")
    release = method.release(odd)
    assert release.recoding.kind == kind and release.certificate.suppressed == 1
    recoding = saved(release, tmp_path / "october")
    crowd = [(70, "x", ill) for ill in ("flu", "cold", "gout")]
    policy = policy.model_copy(update={"suppress": 0.5})
    november = shoal.anonymize(people(*crowd, *OCTOBER[1:].itertuples(index=False)), policy, recoding=recoding)
    assert november.certificate.suppressed == 3 and set(november.frame["sex"]) == {"f", "m"}
    with pytest.raises(shoal.RequirementNotMet, match="3 in groups whose records were suppressed before"):
        shoal.anonymize(people(*crowd, (24, "f", "flu"), (24, "f", "cold")), policy, recoding=recoding)


def test_leaving_out_goes_on_until_nothing_changes() -> None:
    """Two new men of ninety fail by age and sex; without them too few are ninety, so the new women go as well."""
    old = [(age, sex, "flu", 3) for age in ("20", "80") for sex in "fm"]
    new = [("90", "f", "flu", 3), ("90", "m", "flu", 2), ("20", "f", "flu", 1)]
    require = [shoal.KAnonymity(3), shoal.KAnonymity(5, on=["age"])]
    fixed = np.arange(7) < 4
    assert select_new_groups(grouped([*old, *new]), require, fixed).tolist() == [True] * 4 + [False, False, True]
    assert select_new_groups(grouped([*old, *new]), require[1:], fixed).all()


# ---- every requirement, on the union


def test_diversity_is_that_of_both_months(recoding: Path) -> None:
    """New records alone have one illness; with those before there are three."""
    november = shoal.anonymize(people((23, "f", "flu"), (24, "f", "flu")), recoding=recoding)
    assert november.certificate.findings[1].reached == 3
    strict = allowing(0.0, require=(shoal.KAnonymity(3), shoal.ConfidenceBound(0.5, of="ill")))
    with pytest.raises(shoal.RequirementNotMet, match=r"2 in groups that fail .*confidence-bound"):
        shoal.anonymize(people((23, "f", "flu"), (24, "f", "flu"), (33, "f", "cold")), strict, recoding=recoding)


def test_new_records_that_shift_the_whole_break_what_was_released(recoding: Path) -> None:
    """The new groups are close to the new whole table, so no suppression lets the old group pass, which has no new records."""
    loose = allowing(1.0, require=(shoal.TCloseness(0.3, of="ill"),))
    flood = people(*[(age, sex, "flu") for age, sex in ((23, "f"), (33, "f"), (44, "m"))] * 20)
    with pytest.raises(
        shoal.RequirementNotMet, match="1 group with 3 records of earlier releases, which cannot"
    ) as caught:
        shoal.anonymize(flood, loose, recoding=recoding)
    assert "The new records change the distribution" in str(caught.value) and caught.value.certificate.holds is False


def test_a_policy_that_earlier_releases_fail_is_an_error(recoding: Path) -> None:
    strict = allowing(0.0, require=(shoal.KAnonymity(4),))
    with pytest.raises(shoal.RequirementNotMet, match="earlier releases did not meet this requirement"):
        shoal.anonymize(people((23, "f", "flu")), strict, recoding=recoding)
    full = people(*[(age, sex, "flu") for age, sex in ((23, "f"), (33, "f"), (44, "m"), (55, "m"))])
    assert shoal.anonymize(full, strict, recoding=recoding).certificate.smallest == 4


def test_a_column_that_was_not_counted_cannot_be_asked_of(tmp_path: Path) -> None:
    release = shoal.anonymize(OCTOBER, allowing(0.0, require=(shoal.KAnonymity(3),)))
    recoding = saved(release, tmp_path / "october")
    with pytest.raises(shoal.DataError, match="does not count the values of 'ill'"):
        shoal.anonymize(people((23, "f", "flu")), POLICY, recoding=recoding)


# ---- who might be fooled


def test_the_same_rows_are_not_released_twice(recoding: Path, tmp_path: Path) -> None:
    with pytest.raises(shoal.DataError, match=r"these records were released before.*Pass only records that are new"):
        shoal.anonymize(OCTOBER.sample(frac=1, random_state=1), recoding=recoding)
    new = people((23, "f", "flu"), (25, "f", "cold"))
    second = saved(shoal.anonymize(new, recoding=recoding), tmp_path / "november")
    with pytest.raises(shoal.DataError, match="these records were released before"):
        shoal.anonymize(new[::-1], recoding=second)
    assert len(shoal.anonymize(new[:1], recoding=second).frame) == 1  # some of the records may come again


def test_a_ledger_of_another_release_is_refused(recoding: Path, tmp_path: Path) -> None:
    other = saved(shoal.anonymize(OCTOBER[["age", "ill"]], without_sex()), tmp_path / "other")
    shutil.copy(other.parent / "groups.json", recoding.parent / "groups.json")
    with pytest.raises(shoal.DataError, match="belongs to another recoding"):
        shoal.anonymize(people((23, "f", "flu")), recoding=recoding)
    (recoding.parent / "groups.json").unlink()
    with pytest.raises(shoal.DataError, match="there is no ledger"):
        shoal.anonymize(people((23, "f", "flu")), recoding=recoding)


def without_sex(**more: Any) -> shoal.Policy:
    return shoal.Policy(quasi={"age": POLICY.quasi["age"]}, sensitive="ill", require=[shoal.KAnonymity(3)], **more)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (without_sex(), "column 'sex' is a quasi-identifier in the recoding, but not in the policy"),
        (without_sex(keep=["sex"]), "column 'sex' is a quasi-identifier in the recoding, but not in the policy"),
        (
            allowing(0.0, sensitive=(), require=(shoal.KAnonymity(3),)),
            "column 'ill' is released unchanged in the recoding",
        ),
        (allowing(0.0, missing=("", "?")), "the text '\\?' means a missing value in the policy, but not"),
        (
            shoal.Policy(quasi={"age": "categorical", "sex": "categorical"}, sensitive="ill", require=POLICY.require),
            "column 'age' is categorical in the policy and numeric in the recoding",
        ),
    ],
)
def test_a_policy_of_other_columns_is_refused(recoding: Path, policy: shoal.Policy, words: str) -> None:
    with pytest.raises(shoal.PolicyError, match=words):
        shoal.anonymize(people((23, "f", "flu")), policy, recoding=recoding)


@pytest.mark.parametrize("column", ["age", "sex", "ill"])
def test_a_column_that_new_records_lack_is_named(recoding: Path, column: str) -> None:
    with pytest.raises(shoal.PolicyError, match=f"column '{column}' is not in the table; choose from"):
        shoal.anonymize(people((23, "f", "flu")).drop(columns=column), recoding=recoding)


def test_an_empty_table_is_refused(recoding: Path) -> None:
    with pytest.raises(shoal.DataError, match="the table is empty"):
        shoal.anonymize(OCTOBER[:0], recoding=recoding)


def test_synthetic_records_have_no_recoding_for_later_data(tmp_path: Path) -> None:
    release = shoal.anonymize(OCTOBER, allowing(0.0, require=(shoal.KAnonymity(3),)), method="condensation", seed=1)
    recoding = saved(release, tmp_path / "october")
    assert not (recoding.parent / "groups.json").exists()
    with pytest.raises(shoal.DataError, match="a synthesis cannot be applied to later data"):
        shoal.anonymize(people((23, "f", "flu")), recoding=recoding)


@pytest.mark.parametrize("given_", [{"method": "tds"}, {"seed": 1}, {"write": "set"}, {"improve": True}])
def test_what_the_recoding_settles_cannot_be_asked_again(recoding: Path, given_: dict[str, Any]) -> None:
    (name,) = given_
    with pytest.raises(shoal.PolicyError, match=f"'{name}' cannot be combined with 'recoding'"):
        shoal.anonymize(people((23, "f", "flu")), recoding=recoding, **given_)


def test_what_goes_with_a_recoding_alone() -> None:
    with pytest.raises(shoal.PolicyError, match="'policy' is missing"):
        shoal.anonymize(OCTOBER)
    with pytest.raises(shoal.PolicyError, match="'nearest' can only be used with 'recoding'"):
        shoal.anonymize(OCTOBER, POLICY, nearest=True)


# ---- engines


@pytest.mark.parametrize("limit", [None, 8], ids=["whole", "parts"])
def test_another_engine_gives_the_same(recoding: Path, tmp_path: Path, limit: int | None) -> None:
    pytest.importorskip("duckdb")
    rng = np.random.default_rng(7)
    ages, sexes = rng.integers(18, 62, 60), rng.choice(list("fmx"), 60)
    new = people(*zip(ages.tolist(), sexes.tolist(), rng.choice(["flu", "cold", "gout"], 60).tolist(), strict=True))
    new.to_parquet(tmp_path / "new.parquet")
    here = shoal.anonymize(new, allowing(0.9), recoding=recoding)
    there = shoal.anonymize(
        tmp_path / "new.parquet", allowing(0.9), recoding=recoding, engine="duckdb", combinations=limit
    )
    assert there.certificate == here.certificate and 0 < here.certificate.suppressed < 60
    one, other = (saved(r, tmp_path / name) for r, name in ((here, "here"), (there, "there")))
    assert (one.parent / "groups.json").read_bytes() == (other.parent / "groups.json").read_bytes()


def test_a_recoding_in_parts_serves_later_rows(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    rng = np.random.default_rng(3)
    frames = [
        people(*zip(rng.integers(20, 60, n), rng.choice(list("fm"), n), rng.choice(["flu", "cold"], n), strict=True))
        for n in (300, 80)
    ]
    frames[0].to_parquet(tmp_path / "old.parquet")
    policy = allowing(0.9, require=(shoal.KAnonymity(5),))
    october = shoal.anonymize(tmp_path / "old.parquet", policy, engine="duckdb", combinations=30)
    assert october.recoding.kind == "parts"
    november = shoal.anonymize(frames[1], recoding=saved(october, tmp_path / "october"))
    again = saved(november, tmp_path / "november")
    tables = [pd.read_parquet(tmp_path / "october" / "table.parquet"), pd.read_csv(tmp_path / "november" / "table.csv")]
    union = shoal.check(pd.concat([t.astype(str) for t in tables], ignore_index=True), policy)
    assert union.holds and nameless(union) == list(november.certificate.findings)
    december = shoal.anonymize(frames[1][:40], recoding=again)
    assert december.certificate.records + december.certificate.suppressed == 40
    tables.append(december.frame)
    assert shoal.check(pd.concat([t.astype(str) for t in tables], ignore_index=True), policy).holds


def nameless(certificate: shoal.Certificate) -> list[Any]:
    """The findings without the worst group, which may be in an earlier table."""
    return [replace(finding, worst={}) for finding in certificate.findings]


# ---- slow twins


def grouped(rows: list[tuple[str, str, str, int]]) -> Groups:
    """Groups in the order of the rows, equal ones apart; each row is age, sex, illness and how many."""
    ages, sexes, ills = (sorted({r[j] for r in rows}) for j in range(3))
    return Groups(
        ("age", "sex"),
        ("ill",),
        np.array([(ages.index(a), sexes.index(s)) for a, s, _, _ in rows], np.int32),
        np.arange(len(rows) + 1),
        np.array([[ills.index(i)] for _, _, i, _ in rows], np.int32),
        np.array([n for *_, n in rows]),
        (len(ills),),
        (tuple(ills),),
    )


entries = st.tuples(
    st.sampled_from(["20", "30"]), st.sampled_from("fm"), st.sampled_from(["flu", "cold"]), st.integers(1, 4)
)
REQUIRED = [
    shoal.KAnonymity(3),
    shoal.KAnonymity(5, on=["age"]),
    shoal.LDiversity(2, of="ill"),
    shoal.LDiversity(2, of="ill", on=["sex"]),
    shoal.TCloseness(0.3, of="ill"),
    shoal.BetaLikeness(0.8, of="ill"),
]


@given(
    st.lists(entries, max_size=8),
    st.lists(entries, min_size=1, max_size=8),
    st.sets(st.sampled_from(range(6)), min_size=1),
)
def test_the_fixed_point_is_that_of_plain_pandas(
    old: list[tuple[str, str, str, int]], new: list[tuple[str, str, str, int]], chosen: set[int]
) -> None:
    """No new record stays in a group that fails, and leaving out began with those that fail with all records."""
    require = [REQUIRED[i] for i in sorted(chosen)]
    rows = [*old, *new]
    fixed = np.arange(len(rows)) < len(old)
    kept = select_new_groups(grouped(rows), require, fixed)
    assert kept[fixed].all()
    stay = build_frame(rows, kept, fixed)
    for requirement in require:
        for columns, part in groups_by(stay, requirement):
            if part["new"].any():
                assert passes(part, stay, requirement), (columns, requirement)
    everyone = build_frame(rows, np.ones(len(rows), bool), fixed)
    policy = shoal.Policy(quasi=dict.fromkeys(("age", "sex"), "categorical"), sensitive="ill", require=require)
    if holds(everyone, policy):
        assert kept.all()


def build_frame(rows: list[tuple[str, str, str, int]], kept: np.ndarray, fixed: np.ndarray) -> pd.DataFrame:
    listed = [(a, s, i, not f) for (a, s, i, n), k, f in zip(rows, kept, fixed, strict=True) if k for _ in range(n)]
    return pd.DataFrame(listed, columns=["age", "sex", "ill", "new"])


def groups_by(frame: pd.DataFrame, requirement: Any) -> Any:
    return frame.groupby(list(requirement.on or ("age", "sex")))


def passes(part: pd.DataFrame, whole: pd.DataFrame, requirement: Any) -> bool:
    """Whether one group passes, asked by the plain code of the tests."""
    if isinstance(requirement, shoal.KAnonymity):
        return len(part) >= requirement.k
    return bool(plain(requirement, list(part["ill"]), list(whole["ill"])))


@kinds
@given(case=cases(least=6), share=st.sampled_from([0.0, 0.3, 1.0]), nearest=st.booleans(), data=st.data())
@counted
def test_the_union_of_published_tables_holds(
    case: Case, kind: str, share: float, nearest: bool, data: st.DataObject
) -> Outcome:
    """Release one month, then another by its recoding: both tables as one meet every requirement, counted by plain pandas."""
    method, parameters = METHODS[kind]
    case = suited(case, method, parameters)
    at = data.draw(st.integers(3, len(case.frame) - 1))
    first, second = case.frame[:at], case.frame[at:]
    try:
        october = shoal.anonymize(first, case.policy, method=method, **parameters)
    except shoal.ShoalError:
        assume(False)
    policy = case.policy.model_copy(update={"suppress": share})
    with tempfile.TemporaryDirectory() as folder:
        recoding = saved(october, Path(folder) / "october")
        try:
            november = shoal.anonymize(second, policy, recoding=recoding, nearest=nearest)
        except (shoal.RequirementNotMet, shoal.DataError):
            return "not met"
        counted = Ledger.load(saved(november, Path(folder) / "november"))
    union = pd.concat([october.frame, november.frame], ignore_index=True)
    assert holds(union, policy)
    check = shoal.check(union, policy)
    assert nameless(check) == list(november.certificate.findings) and check.groups == november.certificate.groups
    assert check.smallest == november.certificate.smallest and check.records == counted.groups.records
    assert len(november.frame) == november.certificate.records
    assert len(second) - len(november.frame) == november.certificate.suppressed <= share * len(second) + 1e-9
    if not nearest:
        raw = second[second["note"].isin(november.frame["note"])]
        for name, quasi in policy.quasi.items():
            for value, label in zip(raw[name], november.frame[name], strict=True):
                assert covers(label, value, quasi), (name, value, label)
    return None


@given(case=cases(least=4))
@counted
def test_the_same_month_again_is_never_released(case: Case) -> Outcome:
    """Boxes give the same table again, which the chain has."""
    try:
        october = shoal.anonymize(case.frame, case.policy)
    except shoal.RequirementNotMet:
        return "not met"
    with tempfile.TemporaryDirectory() as folder:
        recoding = saved(october, Path(folder) / "october")
        with pytest.raises(shoal.DataError, match="released before"):
            shoal.anonymize(case.frame, recoding=recoding)
    return None


def test_a_release_that_others_go_on_from_is_not_overwritten_by_them(tmp_path: Path) -> None:
    policy = shoal.Policy(quasi={"q": "categorical", "p": "categorical"}, require=[shoal.KAnonymity(2)])
    rows = [("x", "p")] * 4 + [("y", "q")] * 4
    shoal.anonymize(pd.DataFrame(rows, columns=["q", "p"]), policy, method="tds").save(tmp_path / "oct")
    two = pd.DataFrame([("x", "p")] * 2, columns=["q", "p"])
    shoal.anonymize(two, recoding=tmp_path / "oct.owner").save(tmp_path / "nov")
    more = shoal.anonymize(two.head(1), recoding=tmp_path / "nov.owner" / "recoding.json")
    for folder in ("oct", "nov"):
        with pytest.raises(shoal.EngineError, match="belongs to an earlier release") as caught:
            more.save(tmp_path / folder, overwrite=True)
        assert "use the recoding of the release before it" in str(caught.value)
    assert not more.certificate.findings[0].worst  # whoever gets this table alone learns nothing of the others
    more.save(tmp_path / "dec")
