"""The Python example of the README runs on the base install, without pandas, polars and DuckDB."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import shoal

README = Path(__file__).resolve().parents[2] / "README.md"
BLOCKED = """
import sys


class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pandas", "polars", "duckdb"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Blocked())
"""


def test_the_python_example_needs_no_extra(tmp_path: Path) -> None:
    found = re.search(r"```python\n(.*?)```\s*```text\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    code, expected = found.groups()
    ran = subprocess.run(
        [sys.executable, "-c", f"{BLOCKED}{code}\nassert not {{'pandas', 'polars', 'duckdb'}} & set(sys.modules)"],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(shoal.__file__).parents[1]), "PYTHONIOENCODING": "utf-8"},
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == expected


def test_the_readme_says_how_to_install() -> None:
    text = README.read_text(encoding="utf-8")
    assert "pip install ." in text and "make setup" in text and "'shoal[" not in text
