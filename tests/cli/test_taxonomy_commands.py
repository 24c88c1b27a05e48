"""`shoal taxonomy`: show, make and check taxonomies; exit statuses 0, 1 and 2."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.cli import main
from shoal.taxonomy import Taxonomy

TABLE = "age,job,zip,born\n20,clerk,47901,1985-05-30\n21,nurse,47902,1990-01-01\n36,clerk,12345,\n?,pilot,47901,1985-06-01\n"
JOBS = "ANY:\n  Office: [clerk, manager]\n  Field:\n    Air: [pilot]\n"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`shoal taxonomy` with arguments, in a folder with a table and a taxonomy: exit status, output and errors."""
    (tmp_path / "table.csv").write_text(TABLE, encoding="utf-8")
    (tmp_path / "jobs.yaml").write_text(JOBS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["shoal", "taxonomy", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        said = capsys.readouterr()
        return int(caught.value.code or 0), said.out, said.err

    return call


def test_show(run: Run) -> None:
    code, out, err = run("show", "jobs.yaml")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "ANY",
        "  Office",
        "    clerk",
        "    manager",
        "  Field",
        "    Air",
        "      pilot",
        "",
        "3 leaves, height 3",
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["zip", "--mask", "right"], {"4790*": ["47901", "47902"]}),
        (["born", "--date", "day,month,year"], {"1985": {"1985-05": ["1985-05-30"], "1985-06": ["1985-06-01"]}}),
        (["age", "--widths", "5,20", "--missing", "?"], {"[20, 40)": {"[20, 25)": ["20", "21"], "[35, 40)": ["36"]}}),
        (["age", "--widths", "10", "--origin", "1", "--missing", "?"], {"[11, 21)": ["20"], "[21, 31)": ["21"]}),
        (["age", "--boundaries", "18,30", "--missing", "?"], {"[18, 30)": ["20", "21"], "[30, inf)": ["36"]}),
        (["age", "--boundaries", "18,30", "--boundaries", "18", "--missing", "?"], {"[30, inf)": ["36"]}),
        (["job", "--balanced", "2"], {"{nurse … pilot}": ["nurse", "pilot"]}),
        (["age", "--balanced", "2", "--numeric", "--missing", "?"], {"[21, 36]": ["21", "36"]}),
    ],
    ids=" ".join,
)
def test_make(run: Run, arguments: list[str], expected: dict[str, object]) -> None:
    code, out, err = run("make", "table.csv", *arguments)
    assert (code, err) == (0, "")
    Path("printed.yaml").write_text(out, encoding="utf-8")
    tree = Taxonomy.load("printed.yaml")
    assert tree.derived  # a taxonomy that was redirected to a file is not published either
    for name in ("tree.yaml", "tree.csv"):
        code, out, err = run("make", "table.csv", *arguments, "--out", name)
        assert (code, err) == (0, "")
        assert out == f"{name}: {tree.size} leaves, height {tree.height[0]}\n"
        assert Taxonomy.load(name) == tree and Taxonomy.load(name).derived
    assert expected.items() <= found(tree.to_nested()).items()
    missing = [a for a in arguments[1:] if a == "?"]
    assert run("check", "tree.csv", "table.csv", arguments[0], *(["--missing", "?"] if missing else []))[0] == 0


def found(nested: object) -> dict[str, object]:
    """Every branch by its label."""
    if isinstance(nested, list):
        return {k: v for part in nested for k, v in found(part).items()}
    if isinstance(nested, dict):
        return nested | {k: v for part in nested.values() for k, v in found(part).items()}
    return {}


def test_check(run: Run) -> None:
    code, out, err = run("check", "jobs.yaml", "table.csv", "job")
    assert (code, err) == (1, "")
    assert out.splitlines() == ["1 value not in the taxonomy:", "  nurse (1 record)", *unused()]
    code, out, _ = run("check", "jobs.yaml", "table.csv", "job", "--missing", "nurse")
    assert (code, out.splitlines()) == (0, ["0 values not in the taxonomy", *unused()])
    Path("many.yaml").write_text(
        f"ANY: [clerk, nurse, pilot, {', '.join(f'x{i}' for i in range(30))}]", encoding="utf-8"
    )
    code, out, _ = run("check", "many.yaml", "table.csv", "job")
    assert (code, out.splitlines()[-1], len(out.splitlines())) == (0, "  and 10 more", 23)


def unused() -> list[str]:
    return ["1 leaf without records:", "  manager"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "none.yaml"], "cannot read the taxonomy 'none.yaml'"),
        (["make", "table.csv", "age"], "exactly one of the options --mask, --date, --widths, --boundaries, --balanced"),
        (["make", "table.csv", "zip", "--mask", "right", "--balanced", "2"], "exactly one of"),
        (["make", "table.csv", "zip", "--mask", "middle"], "choose from 'right', 'left'"),
        (["make", "table.csv", "age", "--widths", "5,x"], "--widths: each entry must be a number, not 'x'"),
        (["make", "table.csv", "age", "--balanced", "1"], "error: 'balanced' is the number of children per node"),
        (["make", "table.csv", "zip", "--mask", "right", "--origin", "3"], "'origin' needs 'widths'"),
        (
            ["make", "table.csv", "zip", "--mask", "right", "--numeric"],
            "'mask' needs a column of the kind 'categorical'",
        ),
        (["make", "table.csv", "age", "--widths", "5,12", "--missing", "?"], "12 is no multiple of 5"),
        (["make", "table.csv", "age", "--widths", "5"], "holds text: '?'"),
        (["make", "table.csv", "agee", "--widths", "5"], "did you mean 'age'?"),
        (["make", "none.csv", "age", "--widths", "5"], "no file 'none.csv'"),
        (["make", "table.csv", "zip", "--mask", "right", "-o", "table.csv"], "would overwrite the input"),
        (["make", "table.csv", "zip", "--mask", "right", "-o", "jobs.yaml"], "already exists"),
        (["make", "table.csv", "zip", "--mask", "right", "-o", "tree.json"], "must end in .yaml or .csv"),
        (["make", "table.csv", "zip", "--mask", "right", "-o", "none/tree.csv"], "cannot write"),
        (["check", "jobs.yaml", "table.csv", "jobs"], "did you mean 'job'?"),
        (
            ["check", "jobs.yaml", "table.csv", "job", *(f"--missing={j}" for j in ("clerk", "nurse", "pilot"))],
            "no values",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_input(run: Run, arguments: list[str], words: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert words in " ".join(err.split()) and "quasi." not in err.split("needs")[0]
    assert {p.name for p in Path().iterdir()} == {"table.csv", "jobs.yaml"}
    assert Path("jobs.yaml").read_text(encoding="utf-8") == JOBS


def test_force_overwrites(run: Run) -> None:
    assert run("make", "table.csv", "zip", "--mask", "right", "-o", "jobs.yaml", "--force")[0] == 0
    assert Taxonomy.load("jobs.yaml").leaves == ("12345", "47901", "47902")
