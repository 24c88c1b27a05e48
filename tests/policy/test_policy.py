"""The policy in its two forms, its round trip, and errors that name the key, the line and the choices."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import yaml
from hypothesis import given

import shoal
from shoal import DataError, KAnonymity, LDiversity, Policy, PolicyError, TCloseness
from shoal.engines import Schema
from tests.support.case_files import check_lines
from tests.support.json_schema import fits
from tests.support.strategies import policies

EXAMPLE = """\
# policy.yaml
identifiers: [name]
quasi:
  age: numeric
  hours-per-week: {kind: numeric, bounds: [1, 99]}
  education: {taxonomy: education.yaml}      # nested YAML; or CSV, one row per leaf, one column per level, no header
  zip: {mask: right}                         # 47906, 4790*, 479**, …
  birth: {date: [day, month, year, decade]}
  sex: categorical
sensitive: [disease]
target: income
keep: [ward]
missing: ["", "?"]
require:
  - k-anonymity: 10
  - k-anonymity: {k: 50, on: [zip, birth]}   # several quasi-identifiers, each with its own threshold
  - l-diversity: {l: 3, of: disease, kind: entropy}
  - t-closeness: {t: 0.2, of: disease}
suppress: 0.02                               # at most this share of the records may be suppressed; 0 by default
"""

EDUCATION = {"ANY": {"School": ["Primary", "Secondary"], "University": ["Bachelor", "Master"]}}
NESTED = "ANY:\n  School: [Primary, Secondary]\n  University: [Bachelor, Master]\n"
PATHS = "Primary,School,ANY\nSecondary,School,ANY\nBachelor,University,ANY\nMaster,University,ANY\n"

AGE = "quasi:\n  age: numeric\nsensitive: [disease]\n"
FRAME = pd.DataFrame({"age": [20, 30, 40, 50], "sex": [*"FMFM"], "disease": [*"abab"], "ward": [*"1122"]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "policy.yaml").write_text(EXAMPLE, encoding="utf-8")
    (tmp_path / "education.yaml").write_text(NESTED, encoding="utf-8")
    (tmp_path / "education.csv").write_text(PATHS, encoding="utf-8")
    return tmp_path


def in_python(tree: Any) -> Policy:
    return Policy(
        identifiers=["name"],
        quasi={
            "age": "numeric",
            "hours-per-week": {"kind": "numeric", "bounds": [1, 99]},
            "education": {"taxonomy": tree},
            "zip": {"mask": "right"},
            "birth": {"date": ["day", "month", "year", "decade"]},
            "sex": "categorical",
        },
        sensitive=["disease"],
        target="income",
        keep=["ward"],
        missing=["", "?"],
        require=[
            KAnonymity(10),
            KAnonymity(50, on=["zip", "birth"]),
            LDiversity(3, of="disease", kind="entropy"),
            TCloseness(0.2, of="disease"),
        ],
        suppress=0.02,
    )


def brief(value: object) -> str:
    return str(value).replace("\n", " / ") if isinstance(value, str) else "-"


def refused(text: str) -> str:
    with pytest.raises(PolicyError) as error:
        Policy.parse(textwrap.dedent(text), name="policy.yaml")
    return str(error.value)


# The two forms


def test_the_file_of_the_design(folder: Path) -> None:
    policy = Policy.load(folder / "policy.yaml")
    assert policy.identifiers == ("name",)
    assert list(policy.quasi) == ["age", "hours-per-week", "education", "zip", "birth", "sex"]
    assert [q.kind for q in policy.quasi.values()] == [
        *("numeric", "numeric", "categorical", "categorical", "date", "categorical")
    ]
    assert policy.quasi["hours-per-week"].bounds == (1, 99)
    assert policy.quasi["education"].taxonomy == shoal.Taxonomy.from_nested(EDUCATION)
    assert policy.quasi["zip"].mask == "right"
    assert policy.quasi["birth"].date == ("day", "month", "year", "decade")
    assert policy.sensitive == ("disease",)
    assert policy.target == "income"
    assert policy.keep == ("ward",)
    assert policy.missing == ("", "?")
    assert policy.suppress == 0.02
    assert policy.require == (
        KAnonymity(10),
        KAnonymity(50, on=("zip", "birth")),
        LDiversity(3, of="disease", kind="entropy"),
        TCloseness(0.2, of="disease"),
    )
    assert policy.unchanged_columns == ("disease", "ward", "income")
    assert policy.tested_columns == ("disease",)


def test_the_python_form_is_equal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = Policy.load(folder / "policy.yaml")
    tree = shoal.Taxonomy.from_nested(EDUCATION)
    for given_tree in (EDUCATION, tree, folder / "education.yaml", str(folder / "education.yaml")):
        assert in_python(given_tree) == loaded
    monkeypatch.chdir(folder)
    assert in_python("education.yaml") == loaded
    assert in_python(["Primary", "Master"]).quasi["education"].taxonomy == shoal.Taxonomy.flat(["Primary", "Master"])


def test_a_taxonomy_in_csv(folder: Path) -> None:
    (folder / "policy.yaml").write_text(EXAMPLE.replace("education.yaml", "education.csv"), encoding="utf-8")
    tree = Policy.load(str(folder / "policy.yaml")).quasi["education"].taxonomy
    assert tree is not None
    assert tree.to_nested() == {"*": EDUCATION["ANY"]}


def test_every_line_of_the_example_alone() -> None:
    for line in ("age: numeric", "age: {kind: numeric, bounds: [1, 99]}", "age: {bounds: [1, 99]}", "age: date"):
        assert Policy.parse(f"quasi:\n  {line}\n").quasi["age"].kind == ("date" if "date" in line else "numeric")
    for line in ("k-anonymity: 10", "k-anonymity: {k: 10}", "k-anonymity: {k: 10, on: age}"):
        (requirement,) = Policy.parse(f"{AGE}require:\n  - {line}\n").require
        assert isinstance(requirement, KAnonymity)
        assert requirement.k == 10


def test_left_out_parts_have_their_defaults() -> None:
    policy = Policy.parse("quasi: {age: numeric}")
    assert (policy.identifiers, policy.sensitive, policy.target, policy.keep) == ((), (), None, ())
    assert (policy.missing, policy.require, policy.suppress) == (("",), (), 0.0)
    assert policy == Policy(quasi={"age": "numeric"})
    assert (
        Policy.parse("quasi: {age: numeric}\nkeep:\nmissing:\nsuppress:\n") == policy
    )  # an empty key is like a missing key
    assert policy != "quasi: {age: numeric}"


def test_a_single_name_needs_no_list() -> None:
    policy = Policy.parse("identifiers: name\nquasi: {age: numeric}\nsensitive: disease\nkeep: ward\nmissing: '?'\n")
    assert (policy.identifiers, policy.sensitive, policy.keep, policy.missing) == (
        *(("name",), ("disease",), ("ward",)),
        ("?",),
    )


def test_scalars_in_the_file_are_text() -> None:
    policy = Policy.parse("quasi: {007: {taxonomy: {ANY: [NO, 007, 12:30, 1e3]}}}\nmissing: [-9, NO]\nkeep: [12:30]\n")
    assert policy.quasi["007"].taxonomy == shoal.Taxonomy.from_nested({"ANY": ["NO", "007", "12:30", "1e3"]})
    assert policy.missing == ("-9", "NO")
    assert policy.keep == ("12:30",)


def test_null_in_a_taxonomy_is_text_as_in_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "tree.yaml").write_text("ANY: [null, NULL, a]", encoding="utf-8")
    apart = shoal.Taxonomy.load(tmp_path / "tree.yaml")
    inside = Policy.parse("quasi: {x: {taxonomy: {ANY: [null, NULL, a]}}}").quasi["x"].taxonomy
    assert inside == apart
    assert apart.leaves == ("null", "NULL", "a")


def test_a_target_is_a_purpose_not_a_role() -> None:
    sensitive = Policy(quasi={"age": "numeric"}, sensitive=["disease"], target="disease")
    assert sensitive.unchanged_columns == ("disease",)
    quasi = Policy(quasi={"age": "numeric", "sex": "categorical"}, target="sex")
    assert quasi.unchanged_columns == ()
    keep = Policy(quasi={"age": "numeric"}, keep=["ward"], target="ward")
    assert keep.unchanged_columns == ("ward",)
    diverse = Policy(quasi={"age": "numeric"}, target="income", require=[LDiversity(2, of="income")])
    assert diverse.tested_columns == ("income",)


def test_a_requirement_of_a_target_that_is_quasi() -> None:
    """A column that forms the groups cannot be sensitive within them."""
    with pytest.raises(shoal.PolicyError, match="'sex', which is no sensitive column"):
        Policy(
            quasi={"age": "numeric", "sex": "categorical"},
            target="sex",
            require=[KAnonymity(2), LDiversity(2, of="sex")],
        )


def test_readings_follow_the_kinds(folder: Path) -> None:
    policy = Policy.load(folder / "policy.yaml")
    kinds = {column: policy.raw_reading(column).kind for column in ("age", "education", "zip", "birth", "disease")}
    assert kinds == {"age": "number", "education": "text", "zip": "text", "birth": "date", "disease": "text"}
    assert policy.raw_reading("age").missing == ("", "?")


# Round trip


@given(policies())
def test_yaml_round_trip(policy: Policy) -> None:
    text = policy.to_yaml()
    again = Policy.parse(text)
    assert again == policy
    assert again.to_yaml() == text
    assert again.require == policy.require
    assert again.quasi == policy.quasi
    assert list(again.quasi) == list(policy.quasi)
    assert Policy(**policy.to_dict()) == policy


def test_save_and_load(folder: Path) -> None:
    policy = Policy.load(folder / "policy.yaml")
    policy.save(folder / "elsewhere.yaml")
    (folder / "education.yaml").unlink()  # a saved policy needs no other file
    assert Policy.load(folder / "elsewhere.yaml") == policy


def test_a_public_policy_omits_derived_trees() -> None:
    made = shoal.Taxonomy.flat(["Alice's job", "clerk"])
    policy = Policy(quasi={"job": {"taxonomy": made}, "education": {"taxonomy": EDUCATION}})
    assert "Alice" in policy.to_yaml()
    assert "Alice" not in policy.to_yaml(public=True)
    assert policy.to_dict(public=True)["quasi"] == {"job": "categorical", "education": {"taxonomy": EDUCATION}}


DERIVED = shoal.Taxonomy.balanced({"Alice": 1, "clerk": 2, "miner": 1, "nurse": 2}, fanout=2)


def test_a_policy_made_from_the_parts_of_a_derived_tree_does_not_publish_it(tmp_path: Path) -> None:
    nested = DERIVED.to_nested()

    def make(tree: Any) -> Policy:
        close = TCloseness(0.5, of="work", distance="hierarchical", taxonomy=tree)
        return Policy(quasi={"job": {"taxonomy": tree}}, sensitive="work", require=[close])

    policy = make(nested)
    content = policy.to_dict()
    reused = Policy(quasi=content["quasi"], sensitive="work", require=content["require"])
    dumped = [Policy(**policy.model_dump(exclude_none=True, mode=mode)) for mode in ("python", "json")]
    for other in (policy, make({"Job": nested["*"]}), reused, *dumped, Policy.parse(policy.to_yaml())):
        assert "Alice" in other.to_yaml() and other.to_dict()["derived"] == ["job", "work"]
        assert "Alice" not in other.to_yaml(public=True)


def test_every_form_of_a_tree_can_be_listed_under_derived(tmp_path: Path) -> None:
    (tmp_path / "jobs.yaml").write_text("ANY: [Alice, clerk]\n")
    for tree in ("{ANY: [Alice, clerk]}", "[Alice, clerk]", "jobs.yaml"):
        text = (
            f"quasi: {{job: {{taxonomy: {tree}}}}}\n"
            "sensitive: work\n"
            f"require: [t-closeness: {{t: 0.5, of: work, distance: hierarchical, taxonomy: {tree}}}]\n"
            "derived: [job, work]\n"
        )
        assert "Alice" not in Policy.parse(text, folder=tmp_path).to_yaml(public=True)
    with pytest.raises(PolicyError, match=r"line 1: there is no file 'none.yaml' in the folder"):
        Policy.parse("quasi: {job: {taxonomy: none.yaml}}\nderived: job\n", folder=tmp_path)


def test_a_policy_cannot_be_changed() -> None:
    policy = Policy(quasi={"age": "numeric"})
    with pytest.raises(ValueError, match="frozen"):
        policy.suppress = 0.5  # type: ignore[misc]


# JSON Schema


def test_the_schema_accepts_what_the_loader_accepts() -> None:
    schema = Policy.model_json_schema()
    assert set(schema["properties"]) == {
        *(
            "identifiers",
            "quasi",
            "sensitive",
            "target",
            "keep",
            "accept",
            "key",
            "unit",
            "truly_sensitive",
            "read",
            "missing",
            "normalize",
            "require",
            "suppress",
        )
    }
    example = yaml.safe_load(EXAMPLE)
    parts = {**example, "quasi": {}}
    assert fits(parts, schema, schema)
    for column, body in example["quasi"].items():
        assert fits({**parts, "quasi": {column: body}}, schema, schema), (column, body)
    assert fits({"quasi": {}, "sensitive": "disease"}, schema, schema)  # a single name needs no list


def test_the_schema_refuses_what_the_loader_refuses() -> None:
    def check(wrong: dict[str, Any]) -> None:
        schema = Policy.model_json_schema()
        assert not fits(wrong, schema, schema)
        with pytest.raises(PolicyError):
            Policy(**wrong)

    check_lines(Path(__file__).with_name("wrong_keys.jsonl"), check)


# Errors of the policy in itself


def test_an_error_names_key_line_and_choices() -> None:
    def check(text: str, said: list[str]) -> None:
        message = refused(text)
        assert message.startswith("policy.yaml")
        for part in said:
            assert part in message

    check_lines(Path(__file__).with_name("policy_errors.jsonl"), check)


def test_a_column_twice_in_a_role_does_not_have_two_roles() -> None:
    assert "two roles" not in refused("identifiers: [name, name]\nquasi: {age: numeric}\n")


@pytest.mark.parametrize(
    ("given", "place", "text"),
    [
        ({"quasy": {}}, ("quasy",), "did you mean 'quasi'?"),
        ({"quasi": {"age": "numerik"}}, ("quasi", "age"), "did you mean 'numeric'?"),
        ({"quasi": {"age": "numeric"}, "keep": ["age"]}, ("keep", 0), "two roles"),
        ({"quasi": {"age": "numeric"}, "suppress": 1.01}, ("suppress",), "a share from 0 to 1"),
        ({"require": [KAnonymity(3, on=["age"])]}, ("require", 0), "no quasi-identifier"),
        ({"require": [3]}, ("require", 0), "k-anonymity: 10"),
        ({"quasi": {"age": "numeric"}, "require": [{"k-anonymity": {"k": 3, "on": 5}}]}, ("require", 0), "on"),
    ],
    ids=str,
)
def test_errors_in_python_know_their_place(given: dict[str, Any], place: tuple[str | int, ...], text: str) -> None:
    with pytest.raises(PolicyError) as error:
        Policy(**given)
    assert error.value.place == place
    assert text in str(error.value)
    assert "line" not in str(error.value)


def test_k_below_one_in_python() -> None:
    for k in (0, -1, True, 1.5, None):
        with pytest.raises(PolicyError, match="k must be"):
            KAnonymity(k)  # type: ignore[arg-type]
    assert KAnonymity(np.int64(3)).k == 3


def test_a_file_that_is_absent_or_in_another_encoding(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="no policy file"):
        Policy.load(tmp_path / "none.yaml")
    (tmp_path / "policy.yaml").write_bytes("quasi: {größe: numeric}".encode("latin-1"))
    with pytest.raises(PolicyError, match="cannot read the policy"):
        Policy.load(tmp_path / "policy.yaml")
    (tmp_path / "policy.yaml").write_bytes("quasi: {größe: numeric}".encode("utf-8-sig"))
    assert list(Policy.load(tmp_path / "policy.yaml").quasi) == ["größe"]


# Errors of a policy with a table


def policy_of(**more: Any) -> Policy:
    return Policy(**{"quasi": {"age": "numeric", "sex": "categorical"}, "require": [KAnonymity(2)], **more})


def test_a_policy_that_fits() -> None:
    release = shoal.anonymize(FRAME, policy_of(sensitive="disease", target="disease"))
    assert release.frame.columns.tolist() == ["age", "sex", "disease"]
    assert release.dropped == ("ward",)


def test_too_few_records_for_a_requirement() -> None:
    policy_of(require=[KAnonymity(4)]).check_schema(Schema(("age", "sex"), 4))
    with pytest.raises(PolicyError, match="at least 5 records, but the table has 4"):
        policy_of(require=[KAnonymity(5)]).check_schema(Schema(("age", "sex"), 4))
    with pytest.raises(PolicyError, match="at least 5 records, but the table has 4"):
        shoal.anonymize(FRAME, policy_of(require=[KAnonymity(5)]))
    with pytest.raises(PolicyError, match=r"policy, line 5: l-diversity requires .* at least 9"):
        shoal.anonymize(FRAME, Policy.parse(AGE + "require:\n- l-diversity: {l: 9, of: disease}\n"))
    assert not shoal.check(FRAME, policy_of(require=[KAnonymity(5)])).holds  # an audit reports the failure


def test_no_requirement() -> None:
    with pytest.raises(PolicyError, match="no requirement; choose from 'k-anonymity'"):
        shoal.anonymize(FRAME, policy_of(require=[]))
    with pytest.raises(PolicyError, match="no requirement"):
        shoal.check(FRAME, policy_of(require=[]))


def test_no_quasi_identifier() -> None:
    with pytest.raises(PolicyError, match="no quasi-identifier"):
        shoal.anonymize(FRAME, Policy(require=[KAnonymity(2)]))


@pytest.mark.parametrize("empty", [FRAME[:0], pl.from_pandas(FRAME)[:0], pa.Table.from_pandas(FRAME)[:0]], ids=type)
def test_an_empty_table(empty: Any) -> None:
    with pytest.raises(DataError, match="table is empty"):
        shoal.anonymize(empty, policy_of())
    with pytest.raises(DataError, match="table is empty"):
        shoal.check(empty, policy_of())


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("age,sex\n", encoding="utf-8")
    with pytest.raises(DataError, match="table is empty"):
        shoal.anonymize(tmp_path / "table.csv", policy_of())


def test_names_that_occur_twice(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("age,sex,age\n1,F,2\n", encoding="utf-8")
    tables = [
        pd.DataFrame([[1, "F", 2]], columns=["age", "sex", "age"]),
        pa.table([[1], ["F"], [2]], names=["age", "sex", "age"]),
        tmp_path / "table.csv",
    ]
    for table in tables:
        with pytest.raises(DataError, match=r"more than once.*'age'"):
            shoal.anonymize(table, policy_of())
        with pytest.raises(DataError, match=r"more than once.*'age'"):
            shoal.check(table, policy_of())


def test_text_in_a_numeric_column() -> None:
    frame = pd.DataFrame({"age": ["1", "2", *"abcdefg"], "sex": "F"})
    with pytest.raises(DataError) as error:
        shoal.anonymize(frame, policy_of())
    assert "column 'age'" in str(error.value)
    assert "'a', 'b', 'c', 'd', 'e' and 2 more." in str(error.value)
    release = shoal.anonymize(frame, policy_of(missing=[*"abcdefg"]))
    assert release.certificate.records == 9


def test_values_that_a_taxonomy_misses_or_bounds_exclude() -> None:
    tree = {"ANY": {"A": ["F"]}}
    with pytest.raises(DataError, match="column 'sex' contains values that are not in the taxonomy: 'M'"):
        shoal.anonymize(FRAME, policy_of(quasi={"sex": {"taxonomy": tree}}))
    with pytest.raises(DataError, match="column 'age' holds values outside its bounds 25 to 45: '20', '50'"):
        shoal.anonymize(FRAME, policy_of(quasi={"age": {"bounds": [25, 45]}}))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("quasi:\n  aeg: numeric\n  sex: categorical\nrequire: [k-anonymity: 2]\n", ["line 2", "mean 'age'?"]),
        (AGE + "keep: [ward,\n  wards]\nrequire: [k-anonymity: 2]\n", ["line 5", "'wards'", "did you mean 'ward'?"]),
        (AGE + "target: diseases\nrequire: [k-anonymity: 2]\n", ["line 4", "'diseases'", "mean 'disease'?"]),
        (AGE + "identifiers: name\nrequire: [k-anonymity: 2]\n", ["line 4", "'name'", "choose from 'age', 'sex'"]),
    ],
    ids=brief,
)
def test_a_column_that_is_not_in_the_table(text: str, said: list[str]) -> None:
    with pytest.raises(PolicyError) as error:
        shoal.anonymize(FRAME, Policy.parse(text, name="policy.yaml"))
    for part in said:
        assert part in str(error.value)


def test_a_column_that_is_not_in_the_table_in_python() -> None:
    policy = policy_of(quasi={"age": "numeric", "sexx": "categorical"})
    with pytest.raises(PolicyError, match=r"'sexx' is not in the table; .*did you mean 'sex'") as error:
        shoal.anonymize(FRAME, policy)
    assert error.value.place == ("quasi", "sexx")
    with pytest.raises(PolicyError, match="'sexx' is not in the table"):
        shoal.check(FRAME, policy)


def test_no_column_of_the_policy_is_in_the_table() -> None:
    """The names may be values of a file without a header line, so none is quoted."""
    with pytest.raises(PolicyError, match="none of the columns of the policy is in the table") as error:
        shoal.anonymize(FRAME, policy_of(quasi={"sexx": "categorical"}))
    assert not [name for name in FRAME.columns if f"'{name}'" in str(error.value)]


def test_a_check_requires_only_the_columns_it_needs() -> None:
    policy = policy_of(identifiers=["name"], keep=["room"], target="income", sensitive=["disease"])
    assert shoal.check(FRAME[["age", "sex"]], policy).records == 4
    two = FRAME[["sex"]].assign(age_lo=20, age_hi=50)  # a quasi-identifier may be published as two columns
    assert shoal.check(two, policy).smallest == 2


@pytest.mark.parametrize(
    ("key", "given"),
    [
        ("identifiers", {"identifiers": ["\ud800"]}),
        ("quasi", {"quasi": {"\ud800": "numeric"}}),
        ("sensitive", {"sensitive": "\ud800"}),
        ("target", {"target": "a\udfff"}),
        ("keep", {"keep": ("\ud800",)}),
        ("key", {"key": "\ud800"}),
        ("missing", {"missing": ["?", "\ud800"]}),
        ("missing", {"missing": {"\ud800"}}),
        ("truly_sensitive", {"sensitive": ["ill"], "truly_sensitive": {"ill": ["\ud800"]}}),
        ("require", {"sensitive": ["ill"], "require": [shoal.ConfidenceBound(0.5, of="ill", values=["\ud800"])]}),
        ("quasi", {"quasi": {"age": {"taxonomy": {"ANY": {"\ud800": ["a", "b"]}}}}}),
        ("quasi", {"quasi": {"age": {"taxonomy": ["a", "\ud800"]}}}),
    ],
)
def test_a_lone_surrogate_is_refused(key: str, given: dict[str, Any]) -> None:
    """No file could contain the policy."""
    with pytest.raises(PolicyError, match=rf"'{key}.*valid Unicode, without lone surrogates, unlike '.*\\ud") as caught:
        Policy(**given)
    assert caught.value.place[0] == key
