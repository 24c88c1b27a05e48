"""Certificates: identifiers, columns without a role, notes, and printed text."""

from __future__ import annotations

import json
from dataclasses import replace

import pandas as pd
import pytest

import shoal
from shoal.report import render_report

ROLES: dict[str, object] = {
    "identifiers": ["name"],
    "quasi": {"age": "numeric"},
    "sensitive": ["ill"],
    "target": "risk",
    "keep": ["ward"],
    "key": "number",
    "require": [shoal.KAnonymity(2)],
}


def build_table(**columns: object) -> pd.DataFrame:
    return pd.DataFrame({"ill": ["flu", "cold"], **{name: [value] * 2 for name, value in columns.items()}})


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize(
    ("columns", "identifiers", "unassigned"),
    [
        (["age", "risk", "ward"], (), ()),
        (["age_lo", "age_hi"], (), ()),
        (["age", "age_lo", "age_hi"], (), ("age_lo", "age_hi")),
        (["age", "age_hi"], (), ("age_hi",)),
        (["age", "ill_lo", "ward_lo"], (), ("ill_lo", "ward_lo")),
        (["age", "name"], ("name",), ()),
        (["number", "age", "name"], ("number", "name"), ()),
        (["age", "Name", " name", "name ", "town"], (), ("Name", " name", "name ", "town")),
    ],
    ids=str,
)
def test_a_certificate_lists_identifiers_and_columns_without_a_role(
    columns: list[str], identifiers: tuple[str, ...], unassigned: tuple[str, ...], engine: str
) -> None:
    table = build_table(**dict.fromkeys(columns, 1))
    certificate = shoal.check(table, ROLES, engine=engine)
    assert certificate.holds
    assert certificate.publishable is (not identifiers)
    assert (certificate.identifiers, certificate.unassigned) == (identifiers, unassigned)
    for name in (*identifiers, *unassigned):
        assert name in str(certificate)
    assert ("but identifiers are present" in str(certificate)) is bool(identifiers)
    plain = json.loads(certificate.to_json())
    assert plain["publishable"] is certificate.publishable
    assert (plain["identifiers"], plain["unassigned"]) == (list(identifiers), list(unassigned))


def test_a_table_that_fails_is_not_publishable() -> None:
    certificate = shoal.check(build_table(age=1), {**ROLES, "require": [shoal.KAnonymity(3)]})
    assert not certificate.holds and not certificate.publishable
    assert str(certificate).startswith("DOES NOT HOLD: ")


def test_figures_are_printed_with_units() -> None:
    frame = pd.DataFrame({"age": [1, 1, 2], "ill": ["flu", "cold", "flu"]})
    of = {"of": "ill"}
    require = [
        shoal.KAnonymity(2),
        shoal.LDiversity(2, **of),
        shoal.LDiversity(1.5, kind="entropy", **of),
        shoal.LDiversity(2, kind="recursive", c=3, **of),
        shoal.TCloseness(0.5, **of),
        shoal.ConfidenceBound(1, **of),
        shoal.BetaLikeness(0.5, **of),
        shoal.DeltaDisclosure(1, **of),
    ]
    policy = shoal.Policy(quasi={"age": "numeric"}, sensitive="ill", require=require)
    fails = "1 group with 1 record fails"
    head, *lines = str(shoal.check(frame, policy)).splitlines()
    assert head == "DOES NOT HOLD: 3 records in 2 groups"
    assert lines[: len(require)] == [
        f"  FAIL k-anonymity (k = 2): smallest group has 1 record, 2 required; {fails}",
        f"  FAIL l-diversity (l = 2, of = ill): worst group reaches 1 distinct value; {fails}",
        f"  FAIL l-diversity (l = 1.5, of = ill, kind = entropy): worst group reaches an entropy of log(1); {fails}",
        f"  FAIL l-diversity (l = 2, of = ill, kind = recursive, c = 3.0): worst group reaches a ratio of inf; {fails}",
        "  ok   t-closeness (t = 0.5, of = ill): worst group reaches a distance of 0.333333",
        "  ok   confidence-bound (c = 1.0, of = ill): worst group reaches a share of 1",
        "  ok   beta-likeness (beta = 0.5, of = ill): worst group reaches a relative gain of 0.5",
        f"  FAIL delta-disclosure (delta = 1.0, of = ill): worst group reaches a log ratio of inf; {fails}",
    ]


@pytest.mark.parametrize(("present", "absent"), [("age_lo", "age_hi"), ("age_hi", "age_lo")])
def test_one_of_two_range_columns_is_an_error_that_names_the_other(present: str, absent: str) -> None:
    with pytest.raises(
        shoal.PolicyError, match=rf"'age' is published as the columns 'age_lo' and 'age_hi', but '{absent}' is not"
    ):
        shoal.check(build_table(**{present: 1}), ROLES)


def test_an_end_of_a_range_cannot_have_the_name_of_an_identifier() -> None:
    frame = pd.DataFrame({"age": [1, 2, 3, 4], "age_lo": ["a", "b", "c", "d"]})
    for role in ("identifiers", "key"):
        policy = shoal.Policy(quasi={"age": "numeric"}, require=[shoal.KAnonymity(2)], **{role: "age_lo"})
        with pytest.raises(shoal.PolicyError, match="'age_lo' would have the name of another column"):
            shoal.anonymize(frame, policy, write="lo-hi")
        assert shoal.anonymize(frame, policy).certificate.publishable


@pytest.mark.parametrize("write", ["label", "lo-hi"])
@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_a_release_has_no_identifiers_and_no_column_without_a_role(write: str, engine: str) -> None:
    frame = pd.DataFrame({name: range(8) for name in ("name", "age", "risk", "ward", "number", "town", "age_lo")})
    release = shoal.anonymize(frame.assign(ill="flu"), ROLES, write=write, engine=engine)
    assert release.certificate.publishable
    assert (release.certificate.identifiers, release.certificate.unassigned) == ((), ())


def test_the_report_has_the_remarks_of_the_certificate() -> None:
    release = shoal.anonymize(build_table(age=1, risk=1, ward=1, number=1, name="x"), ROLES)
    facts = release.summary()
    assert "Every requirement holds." in render_report(facts, release.policy, owner=False)
    odd = replace(facts.certificate, identifiers=("name",), unassigned=("<town>",), notes=("Beware of it.",))
    page = render_report(replace(facts, certificate=odd), release.policy, owner=False)
    assert "Every requirement holds, but identifiers are present." in page
    for text in ("which no requirement protects: name", "which were not tested: &lt;town&gt;", "Beware of it."):
        assert f"{text}</li>" in page
