"""Parts of the comparison of two versions; `python -m benchmarks.same_releases` runs it."""

from __future__ import annotations

from pathlib import Path

import shoal
from benchmarks.same_releases.outcomes import compare, read_folders, record, to_plain
from benchmarks.same_releases.table_cases import describe_release, list_cases, make_patients, release_later
from shoal.tables import METHODS


def test_every_example_of_every_method_is_compared() -> None:
    cases = list_cases()
    for method in METHODS:
        examples = [dict(case.parameters) for case in cases.values() if case.method is method]
        assert all(dict(example) in examples for example in method.examples)
    units = {case.policy.unit.knows for case in cases.values() if case.policy.unit is not None}
    assert units == {"record", "history"}


def test_differences_name_the_place_and_both_values() -> None:
    before = {"a": {"x": 1, "rows": ["u", "v", "w", "x", "y"]}, "gone": 1}
    after = {"a": {"x": 2, "rows": ["U", "V", "W", "X", "y", "z"]}, "new": 1}
    assert list(compare(before, before)) == []
    assert list(compare(before, after)) == [
        '/a/rows[0]: "u" -> "U"',
        '/a/rows[1]: "v" -> "V"',
        '/a/rows[2]: "w" -> "W"',
        "/a/rows: 1 more entries differ",
        "/a/rows: 5 entries -> 6 entries",
        "/a/x: 1 -> 2",
        "/gone: only in the earlier version",
        "/new: only in the later version",
    ]
    (long,) = compare({"text": "a" * 500}, {"text": "a" * 400 + "b" * 100})
    assert "b" * 50 in long and len(long) < 250
    assert list(compare({"x": 1}, {"x": True}))


def test_a_release_and_its_later_rows_are_the_same_in_another_folder(tmp_path: Path) -> None:
    patients, case = make_patients(120, 3), list_cases()["plain-mondrian"]
    found = []
    for name in ("one", "two"):
        folder = tmp_path / name
        release = shoal.anonymize(patients, case.policy, method="mondrian", seed=2**70)
        outcomes = {"release": describe_release(release, folder / "releases" / "plain-mondrian")}
        outcomes |= release_later(tmp_path / "one" / "releases", folder / "later")
        found.append(to_plain(outcomes, {folder: "FOLDER"}))
    assert list(compare(*found)) == [] and "later-plain-mondrian" in found[0]
    table = tmp_path / "two" / "releases" / "plain-mondrian" / "table.csv"
    table.write_text(table.read_text().replace("Female", "female", 1))
    changed = {**found[1]["release"], **read_folders(table.parent)}
    (difference,) = compare(found[0]["release"], to_plain(changed, {}))
    assert difference.startswith("/table.csv[") and "female" in difference


def test_errors_are_outcomes() -> None:
    assert record(lambda: shoal.Policy(quasi={"age": "numerc"}))["error"] == "PolicyError"
