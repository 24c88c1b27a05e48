"""People instead of records: every method x requirement x engine, recounted by plain pandas."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.errors import PolicyError
from tests.reference.requirements import passes
from tests.support.cases import Case, as_rows, cases, covers, lists_of, raws_of, released, suited
from tests.support.engines import SLOW, each_engine, place, to_pandas
from tests.support.outcomes import Outcome, counted
from tests.support.pairs import Row, cover_pairs
from tests.support.ways import each_of, list_engines, list_labelled, list_needs, list_requirements, list_styles

WAYS = [way for way in list_labelled() if "no unit" not in list_needs(*way)]
MERGING = ("mondrian", "kmember")
MONTHS = [("mondrian", {}), ("kmember", {}), ("bottom-up", {})]
QUASI = {
    "age": {"kind": "numeric", "widths": [5, 20]},
    "city": {"taxonomy": {"*": {"North": ["Oulu", "Turku"], "South": ["Rome", "Bari"]}}},
    "day": {"kind": "numeric", "widths": [10, 50]},
}

ways = each_of(WAYS)


def visits(people: int, *, most: int = 4, seed: int = 0) -> pd.DataFrame:
    """A table of visits: every person has one to ``most`` records; the city and the age of a person rarely change."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), rng.integers(1, most + 1, people))
    city = np.array(["Oulu", "Turku", "Rome", "Bari"])[rng.integers(0, 4, people)][who]
    moved = rng.random(len(who)) < 0.1
    frame = pd.DataFrame(
        {
            "person": [f"p{i:04d}" for i in who],
            "age": rng.integers(20, 80, people)[who],
            "city": np.where(moved, "Rome", city),
            "day": rng.integers(0, 100, len(who)),
            "illness": rng.choice(["flu", "cold", "gout", "ache"], len(who), p=[0.4, 0.3, 0.2, 0.1]),
            "note": [f"n{i}" for i in range(len(who))],
        }
    )
    return frame.sample(frac=1, random_state=seed).reset_index(drop=True)


def policy_of(require: Sequence[Any], **more: Any) -> shoal.Policy:
    given = {
        "quasi": QUASI,
        "sensitive": ["illness"],
        "keep": ["note"],
        "accept": {"note": "a test"},
        "unit": "person",
        **more,
    }
    return shoal.Policy(require=require, **given)


def who(frame: pd.DataFrame, column: str = "person") -> list[object]:
    """The person of every record; a record without a value is a person of its own."""
    return [("nobody", i) if pd.isna(v) else v for i, v in enumerate(frame[column])]


def holds_for_people(table: pd.DataFrame, policy: shoal.Policy, people: list[object], columns: list[str]) -> bool:
    """Every requirement, recounted by people: `nunique` of the unit, and different pairs of person and value."""
    counted_table = table.assign(person_=people)
    return all(_holds(counted_table, requirement, list(requirement.on or columns)) for requirement in policy.require)


def _holds(table: pd.DataFrame, requirement: Any, columns: list[str]) -> bool:
    if requirement.of is None:
        sizes = table.groupby(columns, dropna=False, observed=True)["person_"].nunique()
        return bool((sizes >= requirement.least).all())

    def pairs(rows: pd.DataFrame) -> list[str | None]:
        values = [None if pd.isna(v) else v for v in rows[requirement.of]]
        return [value for _, value in set(zip(rows["person_"], values, strict=True))]

    everyone, all_people = pairs(table), table["person_"].nunique()
    groups = [rows for _, rows in table.groupby(columns, dropna=False, observed=True)]
    return all(passes(requirement, pairs(g), everyone, g["person_"].nunique(), all_people) for g in groups)


@st.composite
def cases_of_people(draw: st.DrawFn) -> Case:
    """A case of the contract tests, with a person for every record; some records have none."""
    case = draw(cases(least=6))
    people = [f"p{i}" for i in range(12)]
    people += [None] * draw(st.sampled_from([0, 12]))
    frame = case.frame.assign(person=draw(lists_of(people, len(case.frame))))
    return Case(
        frame, case.policy.model_copy(update={"unit": shoal.Policy(quasi={"x": "numeric"}, unit="person").unit})
    )


@ways
@given(case=cases_of_people())
@counted
def test_release_holds_for_people_and_covers(case: Case, method: str, parameters: dict[str, Any]) -> Outcome:
    case = suited(case, method, parameters)
    release = released(case.of_kind("pyarrow"), method, parameters)
    if release is None:
        return "not met"
    frame = to_pandas(release.frame)
    kept = raws_of(case, frame)
    assert "person" not in frame
    assert list(frame["note"]) == list(kept["note"])
    people, quasi, certificate = who(kept), list(case.policy.quasi), release.certificate
    assert holds_for_people(frame, case.policy, people, quasi)
    sizes = frame.assign(person_=people).groupby(quasi, dropna=False, observed=True)["person_"].nunique()
    assert (certificate.people, certificate.smallest_people) == (len(set(people)), sizes.min())
    assert certificate.evidence == "people" and certificate.publishable
    assert release.measures["risk_max"] == 1 / sizes.min()
    for column, given_quasi in case.policy.quasi.items():
        for raw, label in zip(kept[column], frame[column], strict=True):
            assert covers(label, raw, given_quasi), (column, raw, label)
    released_rows = case.frame["note"].isin(kept["note"]).tolist()
    before = who(case.frame)
    lost = {person for person, is_released in zip(before, released_rows, strict=True) if not is_released}
    here = {person for person, is_released in zip(before, released_rows, strict=True) if is_released}
    assert (certificate.people_with_suppressed, certificate.people_suppressed) == (len(lost), len(lost - here))
    return None


def test_labels_cover_records_that_join_the_vote_of_their_person() -> None:
    seen = ["2024-02-29T23:59:59"] * 14 + ["2024-03-01T10:20:30", *["2024-03-01"] * 4, "2023-12-31T08:00:00"]
    frame = pd.DataFrame({"seen": seen, "person": ["p0"] * 15 + ["p1", "p2", "p3", "p4", "p5"]})
    policy = shoal.Policy(quasi={"seen": "date"}, unit="person", require=[shoal.KAnonymity(3)])
    for seed in range(10):
        release = shoal.anonymize(frame, policy, method="mondrian", cut="median", relaxed=True, ends="cut", seed=seed)
        for raw, label in zip(seen, release.frame["seen"], strict=True):
            assert covers(label, raw, policy.quasi["seen"]), (seed, raw, label)


@functools.cache
def list_runs() -> list[Row]:
    """All pairs of methods, each with its first example, requirements and engines that need no server."""
    first = [way for number, way in enumerate(WAYS) if way[0] not in [name for name, _ in WAYS[:number]]]
    return cover_pairs({"way": first, "requirement": list_requirements("illness"), "engine": list_engines()})


@each_engine()
@pytest.mark.parametrize("requirement", list_requirements("illness"), ids=str)
def test_every_requirement_and_engine(requirement: Any, engine: str) -> None:
    chosen = [run["way"] for run in list_runs() if (run["requirement"], run["engine"]) == (requirement, engine)]
    if engine not in list_engines():
        chosen = [("mondrian", {}), ("kmember", {}), ("tds", {})]
    if engine in SLOW:  # one method for each requirement
        chosen = [chosen[list_requirements("illness").index(requirement) % len(chosen)]]
    assert chosen
    frame = visits(60)
    for method, parameters in chosen:
        policy = policy_of([shoal.KAnonymity(3), requirement], suppress=0.2)
        case = suited(Case(frame, policy), method, parameters)
        data = place(case.of_kind("pyarrow").frame, engine)
        try:
            release = shoal.anonymize(data, case.policy, method=method, engine=engine, **parameters)
        except shoal.RequirementNotMet:
            assert method not in MERGING, (
                parameters
            )  # these merge groups, and one group of everybody meets every example
            continue
        table = to_pandas(release.frame)
        kept = frame.set_index("note").loc[table["note"]].reset_index()
        assert holds_for_people(table, case.policy, who(kept), list(QUASI)), (method, parameters)


@pytest.mark.parametrize(("method", "write"), [(m, w) for m in ("mondrian", "kmember", "tds") for w in list_styles(m)])
def test_every_way_of_writing(method: str, write: str, tmp_path: Path) -> None:
    frame, policy = visits(80), policy_of([shoal.KAnonymity(4)])
    release = shoal.anonymize(frame, policy, method=method, write=write)
    release.save(tmp_path / "out")
    table = pd.read_csv(tmp_path / "out" / "table.csv", dtype=str, keep_default_na=False)
    assert "person" not in table
    labels = [c for c in table.columns if c not in ("illness", "note")]
    people = frame.set_index("note").loc[table["note"], "person"].tolist()
    assert (
        table.assign(person=people).groupby(labels)["person"].nunique().min()
        == release.certificate.smallest_people
        >= 4
    )


@ways
def test_engines_agree(method: str, parameters: dict[str, Any]) -> None:
    assert len(fingerprints_of(method, parameters, list_engines())) == 1


@pytest.mark.engines
@ways
def test_a_database_agrees(method: str, parameters: dict[str, Any]) -> None:
    assert len(fingerprints_of(method, parameters, ["memory", "ibis"])) == 1


def fingerprints_of(method: str, parameters: dict[str, Any], engines: Sequence[str]) -> set[str]:
    """The fingerprints of the releases of some engines."""
    frame = visits(50, seed=3)
    frame.loc[::9, "person"] = None
    policy = policy_of([shoal.KAnonymity(3), shoal.LDiversity(2, of="illness")], target="illness", suppress=0.1)
    case = suited(Case(frame, policy), method, parameters).of_kind("pyarrow")
    return {
        shoal.anonymize(
            place(case.frame, e), case.policy, method=method, engine=e, **parameters
        ).certificate.fingerprint
        for e in engines
    }


@ways
def test_one_record_per_person_gives_the_verdict_of_records(method: str, parameters: dict[str, Any]) -> None:
    frame = visits(60).drop_duplicates("person")
    for k, met in ((3, True), (len(frame) + 1, False)):
        for unit in ("person", None):
            policy = policy_of([shoal.KAnonymity(k)], unit=unit, target="illness")
            case = suited(Case(frame, policy), method, parameters).of_kind("pyarrow")
            if met:
                assert shoal.anonymize(case.frame, case.policy, method=method, **parameters).certificate.holds
            else:
                with pytest.raises((shoal.RequirementNotMet, PolicyError)):
                    shoal.anonymize(case.frame, case.policy, method=method, **parameters)


@each_engine()
@pytest.mark.parametrize("pseudonym", [False, True])
@each_of(MONTHS)
def test_months_count_people_over_all_releases(
    method: str, parameters: dict[str, Any], pseudonym: bool, engine: str, tmp_path: Path
) -> None:
    frame = visits(90, seed=5)
    unit = {"column": "person", "pseudonym": pseudonym, "knows": "record"}
    policy = policy_of([shoal.KAnonymity(4), shoal.LDiversity(2, of="illness")], unit=unit)
    later = policy.model_copy(update={"suppress": 0.9})
    parts = [frame.iloc[rows] for rows in np.array_split(np.arange(len(frame)), 3)]
    first = shoal.anonymize(place(parts[0], engine), policy, method=method, engine=engine, **parameters)
    first.save(tmp_path / "1", format="csv")
    for month in (2, 3):
        recoding = tmp_path / f"{month - 1}.owner"
        given = place(parts[month - 1], engine)
        release = shoal.anonymize(given, later, recoding=recoding, nearest=True, engine=engine)
        assert release.certificate.evidence == "union"
        release.save(tmp_path / str(month), format="csv")
    tables = [pd.read_csv(tmp_path / str(month) / "table.csv", dtype=str) for month in (1, 2, 3)]
    union = pd.concat(tables, ignore_index=True)
    people = frame.set_index("note").loc[union["note"], "person"].tolist()
    assert holds_for_people(union, policy, people, list(QUASI))
    sizes = union.assign(person_=people).groupby(list(QUASI))["person_"].nunique()
    assert sizes.min() == release.certificate.smallest_people
    if pseudonym:  # a person has the same pseudonym in every month
        assert len(set(zip(people, union["person"], strict=True))) == len(set(people)) == union["person"].nunique()
    else:
        owner = (tmp_path / "3.owner" / "groups.json").read_text()
        assert not any(person in owner for person in frame["person"])


def histories(table: pd.DataFrame, people: Sequence[object], columns: Sequence[str]) -> Counter[object]:
    """The number of people with each multiset of published labels."""
    labels = table[list(columns)].astype(str).agg("|".join, axis=1)
    return Counter(tuple(sorted(of)) for _, of in labels.groupby(list(people)))


@each_engine()
@pytest.mark.parametrize("method", ["tds", "bottom-up", "optimal"])
@pytest.mark.parametrize("suppress", [0.0, 0.15])
def test_histories_are_searched_by_global_recoding(method: str, engine: str, suppress: float) -> None:
    frame = visits(300, most=2)
    unit = {"column": "person", "pseudonym": True}
    policy = policy_of([shoal.KAnonymity(4)], unit=unit, suppress=suppress)
    release = shoal.anonymize(place(frame, engine), policy, method=method, engine=engine)
    table = to_pandas(release.frame)
    found = histories(table, table["person"].tolist(), list(QUASI))
    assert min(found.values()) == release.certificate.smallest_history >= 4
    assert len(found) > 3  # more than the numbers of records
    raw = frame.set_index("note").loc[table["note"], "person"].tolist()
    assert len(set(zip(raw, table["person"], strict=True))) == len(set(raw))


def test_histories_of_other_methods_are_audited_and_suppressed() -> None:
    frame = visits(300, most=2)
    unit = {"column": "person", "knows": "history"}
    with pytest.raises(
        shoal.RequirementNotMet, match="the smallest group of people with equal histories has 1"
    ) as error:
        shoal.anonymize(frame, policy_of([shoal.KAnonymity(3)], unit=unit))
    assert error.value.certificate.smallest_history == 1
    release = shoal.anonymize(frame, policy_of([shoal.KAnonymity(3)], unit=unit, suppress=0.95))
    people = frame.set_index("note").loc[release.frame["note"], "person"].tolist()
    assert min(histories(release.frame, people, list(QUASI)).values()) == release.certificate.smallest_history >= 3
    assert release.certificate.people_suppressed > 0


def test_a_unit_with_missing_values() -> None:
    frame = visits(50)
    frame.loc[::4, "person"] = None
    release = shoal.anonymize(frame, policy_of([shoal.KAnonymity(4)]))
    missing = int(frame["person"].isna().sum())
    assert release.certificate.people == frame["person"].nunique() + missing
    assert any(f"{missing} records have no value of the unit 'person'" in note for note in release.certificate.notes)
    hidden = shoal.anonymize(
        frame, policy_of([shoal.KAnonymity(4)], unit={"column": "person", "pseudonym": True, "knows": "record"})
    )
    assert hidden.frame["person"].nunique() == release.certificate.people  # a pseudonym of its own for each of them


def test_more_people_than_there_are() -> None:
    frame = visits(30)
    with pytest.raises(shoal.RequirementNotMet, match=r"the whole table as one group reaches 30 people"):
        shoal.anonymize(frame, policy_of([shoal.KAnonymity(31)]))


@pytest.mark.parametrize("role", ["quasi", "sensitive", "keep", "target", "key"])
def test_the_unit_has_no_other_role(role: str) -> None:
    given = {"quasi": {"person": "categorical", **QUASI}} if role == "quasi" else {role: "person"}
    if role in ("sensitive", "keep"):
        given = {role: ["person"], "accept": {}}
    with pytest.raises(PolicyError, match="is both the unit and"):
        policy_of([shoal.KAnonymity(3)], **given)
    assert policy_of([shoal.KAnonymity(3)], identifiers=["person"]).hidden_columns == ("person",)


def test_check_needs_the_unit() -> None:
    frame, policy = visits(60), policy_of([shoal.KAnonymity(3)])
    release = shoal.anonymize(frame, policy)
    unknown = shoal.check(release.frame, policy)
    assert not unknown.holds and not unknown.publishable
    assert "people cannot be counted: column person is not in the table" in str(unknown)
    assert shoal.check(release.frame, policy, records=True).publishable
    beside = release.frame.assign(person=frame["person"])
    raw = shoal.check(beside, policy)
    assert raw.holds and not raw.publishable and raw.smallest_people == release.certificate.smallest_people
    linkable = policy_of([shoal.KAnonymity(3)], unit={"column": "person", "pseudonym": True, "knows": "record"})
    shown = shoal.anonymize(frame, linkable)
    assert shoal.check(shown.frame, linkable).publishable
    assert not set(shown.frame["person"]) & set(frame["person"])


@each_engine()
@pytest.mark.parametrize("role", ["identifiers", "none", "key"])
def test_repeated_people_without_a_unit_are_noted(role: str, engine: str) -> None:
    frame = visits(60)
    given = {"identifiers": ["person"]} if role == "identifiers" else {"key": "person"} if role == "key" else {}
    policy = policy_of([shoal.KAnonymity(5)], unit=None, **given)
    release = shoal.anonymize(place(frame, engine), policy, engine=engine)
    table = to_pandas(release.frame)
    people = frame.set_index("note").loc[table["note"], "person"].tolist()
    fewest = table.assign(person=people).groupby(list(QUASI))["person"].nunique().min()
    note = next(note for note in release.notes if "seems to name people" in note)
    assert f"some group has only {fewest} different value" in note and "unit: person" in note
    assert "person" not in table


def test_a_small_table_of_repeated_people_is_noted() -> None:
    frame = pd.DataFrame({"name": ["Ada", "Ada", "Ada", "Ben", "Cleo"], "age": [30, 30, 30, 50, 50]})
    policy = shoal.Policy(identifiers=["name"], quasi={"age": "numeric"}, require=[shoal.KAnonymity(2)])
    assert any("some group has only 1 different value of 'name'" in n for n in shoal.anonymize(frame, policy).notes)


@pytest.mark.parametrize("method", ["mondrian", "kmember"])
def test_names_that_repeat_by_chance_are_not_noted(method: str) -> None:
    frame, policy = shoal.datasets.hospital(3_000, seed=3, kind="pandas"), shoal.datasets.hospital_policy(5)
    assert frame["name"].duplicated().any()
    assert not any("seems to name people" in note for note in shoal.anonymize(frame, policy, method=method).notes)
    surnames = frame.assign(name=frame["name"].str.split().str[-1])
    assert surnames["name"].nunique() * 5 < len(frame)
    assert not any("seems to name people" in note for note in shoal.anonymize(surnames, policy, method=method).notes)
    twice = pd.concat([frame, frame.assign(diagnosis=frame["diagnosis"].to_numpy()[::-1])])
    assert any("seems to name people" in note for note in shoal.anonymize(twice, policy, method=method).notes)


def test_the_certificate_and_the_files(tmp_path: Path) -> None:
    frame = visits(60)
    release = shoal.anonymize(frame, policy_of([shoal.KAnonymity(4)], identifiers=["person"], suppress=0.1))
    release.save(tmp_path / "out")
    public = "".join(path.read_text() for path in (tmp_path / "out").iterdir())
    assert not any(person in public for person in frame["person"])
    assert '"evidence": "people"' in public and '"smallest_people"' in public and "different people" in public
    assert as_rows(
        shoal.anonymize(frame, policy_of([shoal.KAnonymity(4)], identifiers=["person"], suppress=0.1)).frame
    ) == as_rows(release.frame)


# Later months, names and spellings


def test_the_people_of_untested_columns_are_those_of_the_ledger(tmp_path: Path) -> None:
    """A sensitive column that no requirement tests is counted, but not in the ledger."""
    unit = {"column": "who", "knows": "history"}
    policy = shoal.Policy(quasi={"age": "numeric"}, sensitive=["ill"], unit=unit, require=[shoal.KAnonymity(2)])
    first = pd.DataFrame({"who": [f"a{i}" for i in range(12)], "age": [20] * 6 + [40] * 6, "ill": "flu"})
    shoal.anonymize(first, policy).save(tmp_path / "m1")
    ill = ["flu", "flu", "cold", "flu", "flu"]
    later = pd.DataFrame({"who": ["b1", "b0", "b1", "b2", "b2"], "age": [20, 20, 20, 20, 40], "ill": ill})
    with pytest.raises(shoal.RequirementNotMet, match="by histories: smallest group has 1 person"):
        shoal.anonymize(later, policy, recoding=tmp_path / "m1.owner")


@pytest.mark.parametrize("seed", range(6))
def test_later_figures_are_those_of_pandas(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    policy = shoal.Policy(
        quasi={"age": "numeric"},
        sensitive=["ill"],
        keep=["id"],
        accept={"id": "a test"},
        unit="who",
        require=[shoal.KAnonymity(2)],
    )

    def month(number: int, rows: int) -> pd.DataFrame:
        who = [f"p{i}" for i in rng.integers(0, 15, rows)]
        ages, ills = rng.integers(20, 40, rows) // 10 * 10, rng.choice(["flu", "cold", "gout"], rows)
        return pd.DataFrame({"who": who, "age": ages, "ill": ills, "id": [f"{number}-{i}" for i in range(rows)]})

    months = [month(1, 40), month(2, 20)]
    first = shoal.anonymize(months[0], policy)
    first.save(tmp_path / "1")
    second = shoal.anonymize(months[1], policy, recoding=tmp_path / "1.owner", nearest=True)
    union = pd.concat([first.frame, second.frame])
    people = pd.concat(months).set_index("id").loc[union["id"], "who"].tolist()
    sizes = union.assign(who=people).groupby("age")["who"].nunique()
    assert second.certificate.smallest_people == sizes.min()
    assert second.certificate.people == len(set(people[len(first.frame) :]))
    assert second.certificate.people_with_suppressed == second.certificate.people_suppressed == 0


@pytest.mark.parametrize("change", ["pseudonym", "column", "none"])
def test_the_unit_of_later_months_is_the_same(change: str, tmp_path: Path) -> None:
    frame = visits(60)
    policy = policy_of([shoal.KAnonymity(3)])
    shoal.anonymize(frame, policy).save(tmp_path / "1")
    unit = {"pseudonym": {"column": "person", "pseudonym": True, "knows": "record"}, "column": "who", "none": None}[
        change
    ]
    other = policy.model_copy(update={"unit": unit})
    with pytest.raises(PolicyError, match="the same person could count twice"):
        shoal.anonymize(frame.rename(columns={"person": "who"}), other, recoding=tmp_path / "1.owner", nearest=True)


@each_engine()
def test_records_without_a_person_have_pseudonyms_of_their_own(engine: str, tmp_path: Path) -> None:
    unit = {"column": "who", "pseudonym": True, "knows": "record"}
    policy = shoal.Policy(quasi={"age": "numeric"}, sensitive=["ill"], unit=unit, require=[shoal.KAnonymity(2)])
    for number, who in enumerate((["A", "B", None, None], [None, None, "C"], [None, None])):
        frame = pd.DataFrame({"who": who, "age": 20, "ill": "flu"})
        given = {"recoding": tmp_path / f"{number - 1}.owner"} if number else {}
        release = shoal.anonymize(place(frame, engine), policy, engine=engine, **given)
        assert any("no value of the unit" in note for note in release.certificate.notes) or number
        release.save(tmp_path / str(number), format="csv")
    tables = pd.concat([pd.read_csv(tmp_path / str(n) / "table.csv") for n in range(3)])
    assert tables["who"].nunique() == 9
    assert release.certificate.smallest_people == 9


def test_pseudonyms_of_partitions_differ() -> None:
    frame = pd.DataFrame({"who": [None] * 400, "age": np.arange(400) % 97, "zip": np.arange(400) % 31})
    unit = {"column": "who", "pseudonym": True, "knows": "record"}
    policy = shoal.Policy(quasi={"age": "numeric", "zip": "numeric"}, unit=unit, require=[shoal.KAnonymity(3)])
    release = shoal.anonymize(frame, policy, engine="duckdb", combinations=60)
    assert release.certificate.parts > 1
    assert release.certificate.people == release.frame.to_df()["who"].nunique() == 400


def test_check_refuses_names_instead_of_pseudonyms() -> None:
    unit = {"column": "person", "pseudonym": True, "knows": "record"}
    frame, policy = visits(60), policy_of([shoal.KAnonymity(3)], unit=unit)
    release = shoal.anonymize(frame, policy)
    assert shoal.check(release.frame, policy).publishable
    assert shoal.check(release.frame.assign(person=frame["person"]), policy).identifiers == ("person",)
    assert "person" not in release.dropped


@each_engine()
def test_columns_with_the_names_of_published_ends(engine: str) -> None:
    frame = pd.DataFrame({"age_lo": [f"N{i % 15}" for i in range(60)], "age": [i % 20 for i in range(60)]})
    given: dict[str, Any] = {"quasi": {"age": "numeric"}, "require": [shoal.KAnonymity(2)]}
    release = shoal.anonymize(place(frame, engine), shoal.Policy(**given), write="lo-hi", engine=engine)
    assert list(release.engine.schema().names) == ["age_lo", "age_hi"]
    assert "N" not in str(to_pandas(release.frame))
    with pytest.raises(PolicyError, match="would have the name of another column"):
        shoal.anonymize(place(frame, engine), shoal.Policy(**given, unit="age_lo"), write="lo-hi", engine=engine)


def test_exclusive_boxes_are_refused() -> None:
    with pytest.raises(PolicyError, match="exclusive=True is not possible with a unit"):
        shoal.anonymize(visits(60), policy_of([shoal.KAnonymity(3)]), method="peel", exclusive=True)


def test_a_suppressed_vote_stands_for_few_records() -> None:
    """The search suppresses a vote, but the person has more records than the policy allows to suppress."""
    frame = pd.DataFrame(
        {"who": [f"p{i}" for i in range(40)] + ["Zoe"] * 40, "age": [20 + i % 10 for i in range(40)] + [99] * 40}
    )
    policy = shoal.Policy(quasi={"age": "numeric"}, unit="who", require=[shoal.KAnonymity(3)], suppress=0.1)
    release = shoal.anonymize(frame, policy, method="peel", spend=True)
    assert release.certificate.holds and release.certificate.suppressed <= 8


def test_the_risk_is_that_of_the_attacker() -> None:
    policy = policy_of([shoal.KAnonymity(4)], unit={"column": "person", "pseudonym": True})
    release = shoal.anonymize(visits(300, most=2), policy, method="tds")
    assert (
        release.measures["risk_max"]
        == 1 / release.certificate.smallest_history
        > 1 / release.certificate.smallest_people
    )
    assert release.measures["smallest_history"] == release.certificate.smallest_history


def test_spellings_of_a_name_are_one_person() -> None:
    frame = pd.DataFrame({"who": ["Ada", "ada ", "17", 17.0, "Ben", "Cleo"], "age": 20})
    policy = shoal.Policy(quasi={"age": "numeric"}, unit="who", require=[shoal.KAnonymity(4)])
    assert shoal.anonymize(frame, policy).certificate.people == 4


def test_units_are_checked() -> None:
    assert shoal.Unit("p", pseudonym=True).knows == "history"
    for wrong in ({"column": 3}, {"column": ""}, {"column": "p", "knows": "x"}, {"columns": "p"}, {}):
        with pytest.raises(PolicyError):
            shoal.Unit(**wrong)
    with pytest.raises(PolicyError, match="did you mean 'column'"):
        shoal.Policy(quasi=QUASI, unit={"colum": "p"})
    assert policy_of([shoal.KAnonymity(3)]).model_copy(update={"unit": "who"}).unit_column == "who"
