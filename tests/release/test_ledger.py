"""The ledger: stored counts of released tables, their union, and the check of their recoding."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.engines import open_data
from shoal.formats import checked_json
from shoal.release import AuditedTable
from shoal.release.ledger import Ledger, digest

POLICY = shoal.Policy(
    quasi={"age": "categorical", "sex": "categorical"},
    sensitive=["ill", "grade"],
    require=[shoal.KAnonymity(1), shoal.LDiversity(1, of="ill"), shoal.LDiversity(1, of="grade")],
)
cells = st.tuples(
    st.sampled_from(["[1, 2]", "3", "10", "*", None]),
    st.sampled_from(["f", "m", None]),
    st.sampled_from(["flu", "cold", None]),
    st.sampled_from(["9", "10", "100", None]),
)


def table(rows: list[tuple[str | None, ...]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["age", "sex", "ill", "grade"], dtype=object)


def ledger_of(rows: list[tuple[str | None, ...]], name: str = "one") -> Ledger:
    view = AuditedTable.of(open_data(table(rows)), POLICY)
    return Ledger.of(view.groups, view.labels, name)


def tally(ledger: Ledger) -> dict[tuple[str | None, ...], int]:
    """Every row and how often it occurs; each is told once."""
    groups = ledger.groups
    found: dict[tuple[str | None, ...], int] = {}
    for cell, group in enumerate(groups.group_of_cell):
        secret = [groups.labels[j][code] for j, code in enumerate(groups.sensitive_codes[cell])]
        row = (*ledger.rows()[group], *secret)
        assert row not in found
        found[row] = int(groups.cell_size[cell])
    return found


@given(st.lists(cells, min_size=1, max_size=20), st.lists(cells, min_size=1, max_size=20))
def test_a_union_counts_the_groups_of_both_tables(
    one: list[tuple[str | None, ...]], other: list[tuple[str | None, ...]]
) -> None:
    union = ledger_of(one).union(ledger_of(other, "other"))
    whole = ledger_of([*one, *other])
    assert tally(union) == tally(whole)
    assert union.groups.labels == whole.groups.labels  # the order that distances go by
    assert len(union.groups.quasi) == len(whole.groups.quasi)
    assert union.releases == ("one", "other")


@given(st.lists(cells, min_size=1, max_size=20))
def test_json_keeps_everything(rows: list[tuple[str | None, ...]]) -> None:
    ledger = ledger_of(rows)
    again = Ledger.from_json(ledger.to_json())
    assert again.to_json() == ledger.to_json()
    assert tally(again) == tally(ledger) and again.releases == ledger.releases


def test_long_arrays_are_packed_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = ledger_of([("3", "f", "flu", "9"), ("3", "m", "flu", "10"), ("*", "m", None, "9")])
    plain = tally(ledger)
    monkeypatch.setattr(checked_json, "LONGEST_LIST", 2)
    text = ledger.to_json()
    assert "packed" in text and tally(Ledger.from_json(text)) == plain


def test_selecting_fewer_sensitive_columns_merges_cells() -> None:
    rows = [("3", "f", "flu", "9"), ("3", "f", "flu", "10"), ("3", "f", "cold", "9")]
    fewer = ledger_of(rows).select_sensitive(["ill"])
    assert tally(fewer) == {("3", "f", "flu"): 2, ("3", "f", "cold"): 1}
    assert tally(fewer.select_sensitive([])) == {("3", "f"): 3}


def test_what_was_not_counted_cannot_be_asked_for() -> None:
    with pytest.raises(shoal.DataError, match="does not count the values of 'grade'"):
        ledger_of([("3", "f", "flu", "9")]).select_sensitive(["ill"]).select_sensitive(["grade"])


def test_tables_with_other_columns_are_not_put_together() -> None:
    mine = ledger_of([("3", "f", "flu", "9")])
    policy = POLICY.model_copy(update={"quasi": {"age": POLICY.quasi["age"]}})
    view = AuditedTable.of(open_data(table([("3", "f", "flu", "9")])), policy)
    with pytest.raises(shoal.DataError, match="column 'sex' is published in only one"):
        mine.union(Ledger.of(view.groups, view.labels, "other"))


def test_columns_in_another_order_are_put_together() -> None:
    rows = [("3", "f", "flu", "9"), ("10", "m", "cold", "9")]
    turned = POLICY.model_copy(update={"quasi": dict(reversed(POLICY.quasi.items()))})
    view = AuditedTable.of(open_data(table(rows)), turned)
    assert tally(ledger_of(rows).union(Ledger.of(view.groups, view.labels, "b"))) == tally(ledger_of([*rows, *rows]))


# ---- the file


@pytest.fixture
def owner(tmp_path: Path) -> Path:
    frame = pd.DataFrame({"age": [1, 1, 2, 2], "sex": list("ffmm"), "ill": ["flu", "cold"] * 2, "grade": [1, 2, 1, 2]})
    release = shoal.anonymize(frame, POLICY.model_copy(update={"require": (shoal.KAnonymity(2),)}))
    folder = release.save(tmp_path / "release")
    return folder.with_name("release.owner")


def test_a_saved_ledger_counts_the_table_and_knows_its_recoding(owner: Path) -> None:
    ledger = Ledger.load(owner / "recoding.json")
    table = pd.read_csv(owner.with_name("release") / "table.csv", dtype=str)
    expected = table.groupby(["age", "sex"]).size().to_dict()
    assert tally(ledger) == expected and ledger.groups.sensitive == ()
    assert ledger.recoding == digest((owner / "recoding.json").read_text())
    assert list(ledger.releases) == [json.loads((owner / "ledger.json").read_text())["fingerprint"]]


def test_a_ledger_that_is_not_there(owner: Path) -> None:
    (owner / "groups.json").unlink()
    with pytest.raises(shoal.DataError, match=r"no ledger 'groups\.json' beside the recoding"):
        Ledger.load(owner / "recoding.json")


def test_a_ledger_of_another_recoding(owner: Path) -> None:
    file = owner / "recoding.json"
    file.write_text(file.read_text().replace('"span": 1.0', '"span": 2.0'))
    with pytest.raises(shoal.DataError, match="belongs to another recoding"):
        Ledger.load(file)


TORN = [
    ("records", [1]),
    ("records", [1, 0]),
    ("groups", [[0, 0], [7, 0]]),
    ("groups", [[0, 0], [-1, 0]]),
    ("groups", [[0, 0]]),
    ("values", [[0, 0], [0, 9]]),
    ("start", [0, 2]),
    ("start", [0, 1, 1]),
    ("columns", 3),
]


def test_a_damaged_ledger_is_named(owner: Path) -> None:
    whole = json.loads(ledger_of([("3", "f", "flu", "9"), ("*", "m", None, "9")]).to_json())
    for text in ("", "{", "[]", "3", "{}", *(json.dumps({**whole, name: value}) for name, value in TORN)):
        (owner / "groups.json").write_text(text)
        with pytest.raises(shoal.DataError, match=r"groups\.json' is damaged"):
            Ledger.load(owner / "recoding.json")


def test_codes_are_those_of_the_labels() -> None:
    ledger = ledger_of([("10", "m", "flu", "100"), ("3", "f", "cold", "9")])
    assert ledger.labels["age"] == ("3", "10") and ledger.groups.labels[1] == ("9", "100")
    assert np.array_equal(ledger.groups.size, [1, 1])
