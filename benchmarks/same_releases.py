"""Releases of every method on Adult and the hospital table, to compare two versions of Shoal.

Run ``python -m benchmarks.same_releases write FOLDER`` on the earlier version and
``python -m benchmarks.same_releases compare FOLDER`` on the later one. The comparison makes the same releases with the same
seeds and compares fingerprints, certificates, measures and all files that programs read. Texts for readers (``notes``) may
differ. The later version also opens the owner folders that the earlier one wrote.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import shoal

SEED = 0x1CEB00DA_5EA5_0123456789ABCDEF
RUNS: list[tuple[str, dict[str, Any]]] = [
    ("mondrian", {}),
    ("mondrian", {"cut": "median"}),
    ("mondrian", {"cut": "target"}),
    ("mondrian", {"relaxed": True, "cut": "median"}),
    ("mondrian", {"ends": "cut"}),
    ("mondrian", {"write": "lo-hi"}),
    ("mondrian", {"write": "midpoint"}),
    ("mondrian", {"write": "set"}),
    ("mondrian", {"write": "mean"}),
    ("mondrian", {"improve": True}),
    ("tds", {}),
    ("tds", {"ends": "tight"}),
    ("bottom-up", {}),
    ("agglomerative", {}),
    ("agglomerative", {"direction": "bottom-up", "part": 2000}),
    ("kmember", {}),
    ("kmember", {"part": 2000}),
    ("kmember", {"diversity": "equal"}),
    ("kmember", {"improve": True, "max_size": 30}),
    ("knn", {}),
    ("mdav", {}),
    ("mdav", {"write": "median"}),
    ("condensation", {}),
]
TREES: list[tuple[str, dict[str, Any]]] = [
    ("bottom-up", {}),
    ("bottom-up", {"ends": "tight"}),
    ("tds", {}),
    ("mondrian", {}),
]
PARTS = {"engine": "duckdb", "combinations": 3000}
TEXTS = ("notes", "text")  # sentences for readers
UNORDERED = "duckdb-condensation"  # DuckDB writes synthetic records in any order; the fingerprint covers the rows
FILES = ("certificate.json", "ledger.json", "groups.json", "recoding.json", "policy.yaml")


def adult() -> tuple[Any, shoal.Policy]:
    """Adult without missing values, with an entropy requirement beside k-anonymity."""
    trees = shoal.datasets.adult_taxonomies()
    names = ("age", "workclass", "education", "marital-status", "occupation", "race", "sex", "native-country")
    quasi = {name: {"taxonomy": trees[name]} if name in trees else "numeric" for name in names}
    quasi["age"] = "numeric"
    policy = shoal.Policy(
        quasi=quasi,
        sensitive=["hours-per-week"],
        target="income",
        require=[shoal.KAnonymity(10), shoal.LDiversity(2, of="hours-per-week")],
        suppress=0.02,
    )
    return shoal.datasets.adult(kind="pandas").iloc[:12_000], policy


def hospital() -> tuple[Any, shoal.Policy]:
    """The hospital table with its own policy."""
    return shoal.datasets.hospital(8_000, seed=3, kind="pandas"), shoal.datasets.hospital_policy(k=5)


def adult_tree() -> tuple[Any, shoal.Policy]:
    """Adult with a tree for its numbers, which bottom-up generalization needs."""
    frame, policy = adult()
    numbers = {"age": {"widths": [5, 10, 20]}}
    trees = shoal.datasets.adult_taxonomies()
    names = [name for name in policy.quasi if name in trees and name not in numbers]
    quasi = {**numbers, **{name: {"taxonomy": trees[name]} for name in names}}
    return frame, shoal.Policy(quasi=quasi, target="income", require=[shoal.KAnonymity(10)])


TABLES = {"adult": adult, "adult_tree": adult_tree, "hospital": hospital}
ENGINES = {"memory": RUNS, "duckdb": [("mondrian", {}), ("tds", {}), ("kmember", {}), ("condensation", {})]}


def runs() -> Iterator[tuple[str, Any, shoal.Policy, str, dict[str, Any]]]:
    """The name of each release, its table, policy, method and parameters."""
    for name, table in TABLES.items():
        frame, policy = table()
        for engine, chosen in ENGINES.items():
            for method, parameters in TREES if name == "adult_tree" else chosen:
                options = "-".join(f"{k}={v}" for k, v in parameters.items())
                yield f"{name}-{engine}-{method}-{options}", frame, policy, method, {"engine": engine, **parameters}
        whole = policy.model_copy(update={"require": [shoal.KAnonymity(10)]})
        yield f"{name}-parts-mondrian", frame, whole, "mondrian", PARTS
        yield f"{name}-parts-tds", frame, whole, "tds", PARTS


def state(public: Path) -> dict[str, Any]:
    """The content of all files of a release that programs read."""
    found: dict[str, Any] = {}
    for folder in (public, public.with_name(public.name + ".owner")):
        for path in sorted(folder.rglob("*")):
            place = str(path.relative_to(public.parent))
            if path.name in FILES:
                text = path.read_text()
                found[place] = text if path.suffix == ".yaml" else without_texts(json.loads(text))
                if UNORDERED in place and path.name == "certificate.json":
                    del found[place]["sha256"]
            elif path.is_file() and path.suffix != ".html" and UNORDERED not in place:
                found[place] = hashlib.sha256(path.read_bytes()).hexdigest()
            elif path.is_file():
                found[place] = "present"
    return found


def without_texts(value: Any) -> Any:
    """JSON without the sentences for readers."""
    if isinstance(value, dict):
        return {key: "text" if key in TEXTS else without_texts(inner) for key, inner in value.items()}
    return [without_texts(inner) for inner in value] if isinstance(value, list) else value


def release_all(folder: Path) -> dict[str, Any]:
    """Make and save every release; an error counts as the result of its run."""
    states: dict[str, Any] = {}
    for name, frame, policy, method, parameters in runs():
        print(name, flush=True)
        try:
            release = shoal.anonymize(frame, policy, method=method, seed=SEED, **parameters)
        except shoal.ShoalError as error:
            states[name] = {"error": type(error).__name__}
            continue
        release.save(folder / name)
        states[name] = {
            "measures": release.measures,
            "fingerprint": release.certificate.fingerprint,
            "certificate": without_texts(release.certificate.to_dict()),
            **state(folder / name),
        }
    return json.loads(json.dumps(states))


def later_releases(folder: Path, out: Path) -> dict[str, Any]:
    """Release other records by the saved recodings, and the same records again by their secret seeds."""
    states: dict[str, Any] = {}
    census = shoal.datasets.adult(kind="pandas").iloc[12_000:15_000]
    later = {
        "adult": census,
        "adult_tree": census,
        "hospital": shoal.datasets.hospital(3_000, seed=9),
    }
    for owner in sorted(folder.glob("*.owner")):
        name = owner.name.removesuffix(".owner")
        table = name.split("-")[0]
        policy = shoal.Policy.load(owner / "policy.yaml")
        policy = policy.model_copy(update={"suppress": 1.0})
        try:
            release = shoal.anonymize(later[table], policy, recoding=owner / "recoding.json")
            release.save(out / f"later-{name}")
            states[f"later-{name}"] = state(out / f"later-{name}")
        except shoal.ShoalError as error:
            states[f"later-{name}"] = {"error": type(error).__name__}
        if name.endswith("-memory-kmember-"):
            again = shoal.anonymize(TABLES[table]()[0], policy, method="kmember", secret=owner)
            states[f"again-{name}"] = {"fingerprint": again.certificate.fingerprint}
    return json.loads(json.dumps(states))


def differences(before: Any, after: Any, place: str = "") -> Iterator[str]:
    """The places where two states differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from differences(before.get(key), after.get(key), f"{place}/{key}")
    elif before != after:
        yield f"{place}: {str(before)[:80]} -> {str(after)[:80]}"


def main() -> None:
    """Write the releases of this version, or compare it with another one's."""
    job, folder = sys.argv[1], Path(sys.argv[2])
    if job == "write":
        folder.mkdir(parents=True)
        states = release_all(folder / "releases")
        with tempfile.TemporaryDirectory() as out:
            states |= later_releases(folder / "releases", Path(out))
        (folder / "states.json").write_text(json.dumps(states))
        return
    before = json.loads((folder / "states.json").read_text())
    with tempfile.TemporaryDirectory() as out:
        after = release_all(Path(out) / "releases") | later_releases(folder / "releases", Path(out))
    found = list(differences(before, after))
    print(*found, sep="\n")
    print(f"{len(after)} runs, {sum('error' not in run for run in after.values())} releases, {len(found)} differences")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
