"""A test of a file of cases reports every line that fails, and fails without cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.case_files import check_lines


def check(text: str, number: int) -> None:
    with pytest.raises(ValueError, match="invalid"):
        int(text)
    assert number == 1


def test_every_line_that_fails_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text('["a", 1]\n# comment\n\n["2", 1]\n["b", 3]\n["c"]\n')
    with pytest.raises(AssertionError) as caught:
        check_lines(file, check)
    message = str(caught.value)
    assert "3 of 4 lines fail" in message and "line 1:" not in message
    assert all(f"cases.jsonl, line {number}:" in message for number in (4, 5, 6))


def test_a_file_without_cases_fails(tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_text("# nothing\n")
    with pytest.raises(AssertionError, match="has no cases"):
        check_lines(tmp_path / "cases.jsonl", check)
