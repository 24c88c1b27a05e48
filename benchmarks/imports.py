"""CPU seconds until Shoal is ready: `import shoal`, `shoal --version`, and short commands on 100 rows from a warm cache.

`python -m benchmarks.imports` prints the medians as a JSON object. Python writes no bytecode if PYTHONDONTWRITEBYTECODE is set,
and then compiles Shoal at every start, which no user sees. So the processes here run without that variable.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

RUNS = 7
MAIN = "from shoal.cli import main; main()"
PROGRAMS = {
    "python": ["pass"],
    "numpy, pydantic": ["import numpy, pydantic"],
    "import shoal": ["import shoal"],
    "--version": [MAIN, "--version"],
    "--help": [MAIN, "--help"],
    "policy": ["import shoal; shoal.Policy"],
    "check": [MAIN, "check", "table.csv", "--policy", "policy.yaml"],
    "anonymize": [MAIN, "anonymize", "table.csv", "--policy", "policy.yaml", "--out", "out", "--force", "--quiet"],
}
POLICY = "quasi:\n  age: numeric\n  sex: categorical\nrequire:\n  - k-anonymity: 5\n"


def imports() -> dict[str, float]:
    """Return the CPU seconds of each program: the median of seven runs after one that is not counted."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [f"{20 + i * 7 % 60},{'fm'[i % 2]}" for i in range(100)]
        Path(folder, "table.csv").write_text("\n".join(["age,sex", *rows]) + "\n", encoding="utf-8")
        Path(folder, "policy.yaml").write_text(POLICY, encoding="utf-8")
        measured = {name: [_run(program, folder) for _ in range(RUNS + 1)][1:] for name, program in PROGRAMS.items()}
    return {name: statistics.median(seconds) for name, seconds in measured.items()}


def _run(program: list[str], folder: str) -> float:
    """Run a Python program in a process of its own, and return its user and system seconds."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", *program], cwd=folder, env=variables, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):  # 1: the table does not meet the policy
        sys.exit(f"{program} failed:\n{done.stderr.decode()}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    print(json.dumps(imports()))
