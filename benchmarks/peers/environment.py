"""The environments of the peers, created on first use: their version pins conflict with Shoal's, and with one another."""

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
INSTALL_LIMIT = 900.0  # seconds


@cache
def python(group: str = "") -> Path | None:
    """Return the Python of an environment, or None with the reason on stderr if it cannot be created.

    The environment is created again when its requirements change. A failure is not retried in the same run.

    Parameters
    ----------
    group: empty for peers that release tables (`.bench-venv`), or `minimization` (`.bench-venv-minimization`).
    """
    suffix = f"-{group}" if group else ""
    home = ROOT / f".bench-venv{suffix}"
    requirements = HERE / f"requirements{suffix.replace('-', '_')}.txt"
    executable = home / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    stamp = home / "installed.txt"  # a copy of the requirements, written last
    if stamp.exists() and executable.exists() and stamp.read_text() == requirements.read_text():
        return executable
    log = home / "install.log"
    pip = [str(executable), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        make = [sys.executable, "-m", "venv", "--clear", str(home)]
        subprocess.run(make, check=True, capture_output=True, timeout=INSTALL_LIMIT)
        with log.open("w") as output:
            install = [*pip, "--requirement", str(requirements)]
            subprocess.run(install, check=True, stdout=output, stderr=output, timeout=INSTALL_LIMIT)
    except (OSError, subprocess.SubprocessError) as error:
        where = f"; see {log.relative_to(ROOT)}" if log.exists() else ""
        _print_error(f"Cannot create the environment of the peers ({_find_reason(error)}){where}.")
        return None
    stamp.write_text(requirements.read_text())
    return executable


def run(
    case: str,
    csv: Path | str,
    *,
    k: int | None = None,
    quasi: Sequence[str] | None = None,
    sensitive: str | None = None,
    support: float | None = None,
    timeout: float = 300.0,
) -> dict[str, Any] | None:
    """Return the JSON object of one case of `run.py`, or None with the reason on stderr if it fails or times out.

    Parameters
    ----------
    case: `anonypy-mondrian`, `anonypyx-mondrian`, `anonypyx-mdav`, `pycanon-k`, `pycanon-klt` or
        `mlxtend-fpgrowth`.
    csv: a file without missing values; with the column `income` for the Mondrian cases.
    k: the smallest group of a Mondrian case.
    quasi: the quasi-identifiers, or the columns to be mined (default: eight columns of Adult).
    sensitive: the sensitive column (default: `income`).
    support: the least share of the records of an itemset.
    timeout: seconds for the whole script, including import and reading.
    """
    executable = python()
    if executable is None:
        return None
    command = [str(executable), str(HERE / "run.py"), case, str(csv)]
    if k is not None:
        command += ["--k", str(k)]
    if quasi is not None:
        command += ["--quasi", *quasi]
    if sensitive is not None:
        command += ["--sensitive", sensitive]
    if support is not None:
        command += ["--support", str(support)]
    return _run(case, command, timeout)


def minimize(
    train: Path | str,
    test: Path | str,
    columns: Sequence[str],
    *,
    agreement: bool,
    keep: float,
    timeout: float = 1800.0,
) -> dict[str, Any] | None:
    """Return the JSON object of `minimize.py`, or None with the reason on stderr if it fails or times out."""
    executable = python("minimization")
    if executable is None:
        return None
    command = [str(executable), str(HERE / "minimize.py"), str(train), str(test), *columns, "--keep", str(keep)]
    return _run("minimize", command + ["--agreement"] * agreement, timeout)


def _run(case: str, command: Sequence[str], timeout: float) -> dict[str, Any] | None:
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=timeout)
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        _print_error(f"Case {case} has no result: {_find_reason(error)}.")
        return None
    return result


def _find_reason(error: Exception) -> str:
    """Return one line: the time limit, the last line of the process on stderr, or the error itself."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"not finished after {error.timeout:g} s"
    if isinstance(error, subprocess.CalledProcessError):
        lines = _text(error.stderr).strip().splitlines()
        return lines[-1] if lines else f"exit status {error.returncode}"
    if isinstance(error, (ValueError, IndexError)):
        return "no JSON on its last line"
    return str(error)


def _text(output: str | bytes | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


def _print_error(reason: str) -> None:
    print(f"benchmarks: {reason}", file=sys.stderr)
