"""The contract tests with a package that adds methods, requirements, measures and an engine by entry points.

`make setup` installs the package of `tests/plugin` into `.venv/plugin`. It is on the path of another process only, so that the
other tests see the built-in entries alone.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
INSTALLED = Path(sys.prefix) / "plugin"
SCRIPT = """
import json, shoal
policy = shoal.Policy(quasi={"age": "numeric"}, keep=["id"], require=[{"example-cell-rule": 2}])
rows = [{"age": i // 3, "id": i} for i in range(12)]
release = shoal.anonymize(rows, policy, method="example-blocks", seed=1)
assert release.engine.name == "example-rows" and isinstance(release.frame, list)
release.save("release")
public = json.load(open("release/certificate.json"))["measures"]
assert public["example_largest"] == 3 and "example_widest" not in public
assert release.measures["example_widest"] == 0
print(release.certificate)
"""


def environment() -> dict[str, str]:
    """The environment of a process that finds the installed package."""
    assert (INSTALLED / "shoal_example").is_dir(), "make setup installs the package of tests/plugin"
    paths = [str(INSTALLED), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def test_the_contract_tests_pass_for_another_package() -> None:
    command = [sys.executable, "-m", "pytest", "tests/contract", "-k", "example", "-q", "-p", "no:randomly"]
    ran = subprocess.run(
        [*command, "-p", "no:cacheprovider", "--deselect", "tests/contract/test_plugin.py"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-4000:]
    passed = re.search(r"(\d+) passed", ran.stdout)
    assert passed and int(passed[1]) >= 30, ran.stdout[-1000:]


def test_entries_of_another_package_are_used_by_name(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert "example-cell-rule (hidden = 2): smallest group has 3 records, 3 required" in ran.stdout


def test_the_command_line_lists_entries_of_another_package(tmp_path: Path) -> None:
    listed, schema = (
        subprocess.run(
            [sys.executable, "-c", "from shoal.cli import main; main()", word],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
        )
        for word in ("methods", "schema")
    )
    assert "example-blocks" in listed.stdout and "example-flip" in listed.stdout, listed.stderr
    assert "example-cell-rule" in schema.stdout, schema.stderr
