"""CPU seconds of compilation from an empty folder of compiled code: the first use of every method, and everything.

`python -m benchmarks.compilation` prints a JSON object with the seconds by method, and those of `shoal compile` as
``everything``. `python -m benchmarks.compilation METHOD...` measures some methods only. The figure of a method is the CPU time
of its first release in a process minus that of its second one: a size requirement, or none for methods that group no records.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile

import shoal

EVERYTHING = "everything"
FIRST_USE = """
import json, sys, time
from shoal.cli import compilation
import shoal

name = sys.argv[1]
method, people = shoal.tables.METHODS.find(name), compilation.make_people()
taken = []
for policy in compilation.list_policies(name, {}):
    try:
        for _ in range(2):
            begin = time.process_time()
            method(policy).release(people, seed=1)
            taken.append(time.process_time() - begin)
        break
    except shoal.ShoalError:
        taken.clear()
print(json.dumps(taken[0] - taken[1]))
"""


def compilation(names: list[str]) -> dict[str, float]:
    """Return the CPU seconds of the compilation of each method, and of everything if no name is given."""
    found = {name: json.loads(_run(FIRST_USE, name)[1]) for name in names or shoal.tables.METHODS.names()}
    if not names:
        found[EVERYTHING] = _run("from shoal.cli import main; main()", "compile")[0]
    return found


def _run(program: str, *arguments: str) -> tuple[float, str]:
    """Run a Python program with an empty folder of compiled code; return its CPU seconds and its output."""
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env={**os.environ, "NUMBA_CACHE_DIR": folder},
            capture_output=True,
            text=True,
            check=False,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(arguments)} failed:\n{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


if __name__ == "__main__":
    print(json.dumps(compilation(sys.argv[1:])))
