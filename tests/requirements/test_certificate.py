"""What a certificate says beside the verdict on the requirements."""

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


def showing(**columns: object) -> pd.DataFrame:
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
    table = showing(**dict.fromkeys(columns, 1))
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
    certificate = shoal.check(showing(age=1), {**ROLES, "require": [shoal.KAnonymity(3)]})
    assert not certificate.holds and not certificate.publishable
    assert str(certificate).startswith("DOES NOT HOLD: ")


@pytest.mark.parametrize(("there", "lost"), [("age_lo", "age_hi"), ("age_hi", "age_lo")])
def test_one_of_two_columns_is_an_error_that_names_the_other(there: str, lost: str) -> None:
    with pytest.raises(
        shoal.PolicyError, match=rf"'age' is shown by 'age_lo' and 'age_hi' together, but '{lost}' is not"
    ):
        shoal.check(showing(**{there: 1}), ROLES)


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


def test_the_report_says_what_the_certificate_says() -> None:
    release = shoal.anonymize(showing(age=1, risk=1, ward=1, number=1, name="x"), ROLES)
    facts = release.summary()
    assert "Every requirement holds." in render_report(facts, release.policy, owner=False)
    odd = replace(facts.certificate, identifiers=("name",), unassigned=("<town>",), notes=("Beware of it.",))
    page = render_report(replace(facts, certificate=odd), release.policy, owner=False)
    assert "Every requirement holds, but identifiers are present." in page
    for text in ("which no requirement hides: name", "nothing was tested: &lt;town&gt;", "Beware of it."):
        assert f"{text}</li>" in page
