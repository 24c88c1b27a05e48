"""Write the outcomes of this version, or compare them with the outcomes of an earlier version."""

from __future__ import annotations

import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.same_releases.model_cases import load_models, release_models
from benchmarks.same_releases.outcomes import Outcome, compare, to_plain
from benchmarks.same_releases.table_cases import release_later, release_tables
from benchmarks.same_releases.text_cases import list_texts

USAGE = "python -m benchmarks.same_releases write|compare FOLDER"


def make_outcomes(made: Path, earlier: Path) -> dict[str, Outcome]:
    """All outcomes of this version, with files in the folder ``made``; later rows use the files of ``earlier``."""
    parts: dict[str, Callable[[], dict[str, Outcome]]] = {
        "releases": lambda: release_tables(made / "releases"),
        "later rows": lambda: release_later(earlier / "releases", made / "later"),
        "models": lambda: release_models(made / "models"),
        "saved models": lambda: load_models(earlier / "models"),
        "texts": lambda: list_texts(earlier / "releases", made),
    }
    found: dict[str, Outcome] = {}
    for name, make in parts.items():
        begin, outcomes = time.process_time(), make()
        errors = sum("error" in outcome for outcome in outcomes.values())
        print(f"{name}: {len(outcomes)} cases, {errors} errors, {time.process_time() - begin:.0f} CPU s", flush=True)
        found |= outcomes
    return found


def main() -> None:
    """Write the outcomes of this version, or compare it with another one."""
    if len(sys.argv) != 3 or sys.argv[1] not in ("write", "compare"):
        sys.exit(USAGE)
    job, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    warnings.simplefilter("ignore")
    if job == "write":
        folder.mkdir(parents=True)
        outcomes = to_plain(make_outcomes(folder, folder), {folder: "FOLDER"})
        (folder / "outcomes.json").write_text(json.dumps(outcomes, ensure_ascii=False))
        return
    with tempfile.TemporaryDirectory() as out:
        made = Path(out).resolve()
        outcomes = to_plain(make_outcomes(made, folder), {made: "FOLDER", folder: "FOLDER"})
    before: dict[str, Any] = json.loads((folder / "outcomes.json").read_text())
    found = list(compare(before, outcomes))
    print(*found, sep="\n")
    print(f"{len(outcomes)} cases, {len(found)} differences")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
