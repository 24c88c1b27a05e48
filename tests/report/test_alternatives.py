"""The note on a method that keeps more information: which releases get it, and where its figures come from."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import shoal
from shoal.report.alternatives import ALTERNATIVES, Alternative, find_alternative

PAGE = Path(__file__).resolve().parents[2] / "docs" / "choose-method.md"
PATIENTS = shoal.datasets.hospital(600, seed=3, kind="pandas")
MARK = "the median of six measured tables"
QUASI = {"zip": {"mask": "right"}, "sex": "categorical"}


def policy_of(*require: Any) -> shoal.Policy:
    return shoal.Policy(quasi=QUASI, sensitive="diagnosis", require=require)


def notes_of(policy: shoal.Policy, data: Any = PATIENTS, **given: Any) -> tuple[str, ...]:
    return tuple(n for n in shoal.anonymize(data, policy, seed=2**64, **given).notes if MARK in n)


def read_alternatives() -> dict[int, Alternative]:
    """The methods and their medians in the table on the page."""
    part = re.search(r"<!-- made: alternatives -->(.*?)<!-- end -->", PAGE.read_text(encoding="utf-8"), re.S)
    assert part
    rows = re.findall(r"^\| (\d+) \| (\S+) \| (\d+) \|", part[1], re.M)
    return {int(k): Alternative(method, int(middle) / 100) for k, method, middle in rows}


def test_code_and_page_have_the_same_figures() -> None:
    assert read_alternatives() == dict(ALTERNATIVES)


@pytest.mark.parametrize("k", [2, 7, 150])
def test_mondrian_names_the_method_that_keeps_more(k: int) -> None:
    found = find_alternative(k)
    assert found
    (note,) = notes_of(policy_of(shoal.KAnonymity(k)))
    assert note.startswith(f"{found.method} with improve=True loses about {found.reduction:.0%} less information")
    assert "later rows need nearest=True" in note


@pytest.mark.parametrize("given", [{"improve": True}, {"method": "kmember"}, {"engine": "duckdb"}], ids=str)
def test_other_releases_have_no_note(given: dict[str, Any]) -> None:
    assert notes_of(policy_of(shoal.KAnonymity(5)), **given) == ()


def test_partitions_have_no_note() -> None:
    release = shoal.anonymize(PATIENTS, policy_of(shoal.KAnonymity(5)), engine="duckdb", combinations=200, seed=2**64)
    assert release.certificate.parts > 1 and not any(MARK in n for n in release.notes)


def test_requirements_and_sizes_that_were_not_measured_have_no_note() -> None:
    assert notes_of(policy_of(shoal.KAnonymity(5), shoal.LDiversity(2, of="diagnosis"))) == ()
    assert notes_of(policy_of(shoal.KAnonymity(5, on=["zip"]))) == ()
    assert notes_of(policy_of(shoal.KAnonymity(5)), PATIENTS.head(200)) == ()
    assert notes_of(policy_of(shoal.KAnonymity(400))) == ()
    assert notes_of(policy_of(shoal.KAnonymity(5)), PATIENTS.assign(zip="12345", sex="F")) == ()
    assert notes_of(policy_of(shoal.KAnonymity(5)).model_copy(update={"suppress": 0.1})) == ()
    assert notes_of(policy_of(shoal.KAnonymity(5)), write="set") == ()
    assert notes_of(policy_of(shoal.KAnonymity(5)), objective="il") == ()


def test_the_note_is_for_the_owner_only(tmp_path: Path) -> None:
    release = shoal.anonymize(PATIENTS, policy_of(shoal.KAnonymity(5)), seed=2**64)
    release.save(tmp_path / "out")
    (note,) = (n for n in release.summary().notes if MARK in n)
    assert note in html.unescape((tmp_path / "out.owner" / "report.html").read_text(encoding="utf-8"))
    assert MARK.encode() not in b"".join(file.read_bytes() for file in (tmp_path / "out").iterdir())


CITIES = pd.DataFrame({"city": [f"city {i % 60}" for i in range(1200)], "age": [20 + i * 7 % 61 for i in range(1200)]})


def category_notes(frame: pd.DataFrame, city: Any = "categorical", **given: Any) -> tuple[str, ...]:
    policy = shoal.Policy(quasi={"city": city, "age": "numeric"}, require=[shoal.KAnonymity(5)])
    return tuple(n for n in shoal.anonymize(frame, policy, seed=2**64, **given).notes if "categories without" in n)


def test_mondrian_names_categories_of_which_little_is_kept() -> None:
    (note,) = category_notes(CITIES)
    assert "of the information of column 'city'" in note and "agglomerative" in note and "balanced: 4" in note


def test_categories_that_every_method_loses_or_that_are_kept_have_no_note() -> None:
    rare = CITIES.assign(city=[f"city {i // 2}" for i in range(1200)])
    assert category_notes(rare) == ()
    assert category_notes(CITIES, {"balanced": 4}) == ()
    assert category_notes(CITIES, method="agglomerative") == ()
    assert category_notes(CITIES.assign(age=30)) == ()
