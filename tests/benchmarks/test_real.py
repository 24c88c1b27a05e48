"""The runner of `python -m benchmarks.real`, with a generated table and without further packages."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

import shoal
from benchmarks import real
from benchmarks.real import Run


def make_rows(rows: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "age (years)": rng.integers(20, 80, rows),
            "city": rng.choice(["Ulm", "Bonn", "Kiel"], rows),
            "person": [f"p{i // 2}" for i in range(rows)],
        }
    )


def make_policy(k: int = 5, **more: object) -> shoal.Policy:
    quasi = {"age (years)": "numeric", "city": "categorical"}
    return shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(k)], **more)


def test_a_release_in_its_own_process_is_one_line() -> None:
    run = real.measure_run("people", make_rows(), make_policy(), "mondrian")
    assert (run.result, run.rows, run.quasi, run.suppressed) == ("ok", 60, 2, 0), run
    assert run.smallest is not None and run.smallest >= 5
    assert run.kept is not None and 0 < run.kept < 100
    words = run.format().split()
    assert words[:4] == ["people", "60", "2", "mondrian"] and words[-1] == "ok"


def test_a_release_that_does_not_finish_is_a_timeout() -> None:
    run = real.measure_run("people", make_rows(), make_policy(), "mondrian", limit=0.01)
    assert (run.result, run.kept, run.note) == ("timeout", None, "not finished after 0.01 s")
    assert run.format().endswith("timeout  not finished after 0.01 s")


def test_an_error_of_shoal_is_refused_with_its_message() -> None:
    found = real.release_once(make_rows(), make_policy(k=61), "mondrian")
    assert found["result"] == "refused" and found["note"].startswith("PolicyError: k-anonymity requires groups"), found


def test_a_process_that_fails_otherwise_is_a_defect() -> None:
    found = real.run_child([sys.executable, "-c", "raise ValueError('no remedy')"], limit=60)
    assert found == {"result": "DEFECT", "note": "ValueError: no remedy"}
    assert real.run_child([sys.executable, "-c", "raise SystemExit(3)"], limit=60)["note"] == "exit status 3"


def test_k_is_counted_from_the_published_table() -> None:
    published = pd.DataFrame({"a": ["x", "x", None, None, None], "b": 1})
    assert real.count_smallest(published, ["a", "b"]) == 2
    assert real.count_smallest(published, ["a", "b"], pd.Series([7, 7, 1, 2, 3])) == 1


def test_a_unit_is_counted_in_people() -> None:
    found = real.release_once(make_rows(), make_policy(unit="person"), "mondrian")
    assert found["result"] == "ok" and found["smallest"] >= 5


def test_a_published_k_below_the_required_k_is_a_defect(monkeypatch) -> None:
    monkeypatch.setattr(real, "count_smallest", lambda *given: 4)
    found = real.release_once(make_rows(), make_policy(), "mondrian")
    assert (found["result"], found["note"]) == ("DEFECT", "k must be 5")


def test_the_last_line_counts_the_results() -> None:
    runs = [Run("a", 9, 2, "knn", result) for result in ("ok", "timeout", "refused", "refused", "DEFECT")]
    assert real.summarize(runs) == (
        "5 runs of 1 tables: 1 timeouts (lost), 2 refused with a message, 1 defects (failures without a remedy)."
    )
