"""Releases of tables: every method with its examples, all requirements, people, engines, and later rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

import shoal
from benchmarks.same_releases.outcomes import Outcome, read_folders, record
from shoal.pipeline.method import BucketingMethod, GroupingMethod, Method
from shoal.requirements import REQUIREMENTS, list_parameters
from shoal.tables import METHODS

SEED = 0x1CEB00DA_5EA5_0123456789ABCDEF
ROWS, LATER_ROWS = 400, 120
TREES: Mapping[str, Any] = shoal.datasets.hospital_policy().quasi
PLAIN = {"age": "numeric", "zip": {"mask": "right"}, "sex": "categorical", "education": TREES["education"]}
MIXED = {"admission": "date", "cost": "numeric", "country": {"balanced": 3}, "marital": TREES["marital"]}
FEW = {"age": "numeric", "sex": "categorical", "marital": TREES["marital"]}
AS_TREES: Mapping[str, Any] = {  # for methods that need a tree for every quasi-identifier
    "age": {"widths": [5, 10, 20, 40]},
    "admission": {"date": ["day", "month", "year"]},
    "cost": {"kind": "numeric", "balanced": 4},
}
FEWER = {"sex": "categorical"}  # people with equal histories
UNITS: Mapping[str, Any] = {
    "histories": {"column": "person", "knows": "history"},
    "pseudonyms": {"column": "person", "pseudonym": True},
}
REQUIRED = ("mondrian", "tds", "kmember")  # boxes, cuts and clusters, with every requirement
PARTS = {"engine": "duckdb", "combinations": 60}  # few combinations in memory: the table is divided into partitions
UNORDERED = "duckdb-condensation"  # DuckDB writes synthetic records in any order


class Case(NamedTuple):
    """A release to make; ``options`` are arguments of `shoal.anonymize` beside the parameters of the method."""

    name: str
    method: type[Method]
    parameters: Mapping[str, Any]
    policy: shoal.Policy
    options: Mapping[str, Any]


def make_patients(rows: int, seed: int) -> pa.Table:
    """The hospital table, with ages, people of one or two records, and each record's own k."""
    table = shoal.datasets.hospital(rows, seed=seed, kind="pyarrow")
    age = pc.subtract(2026, pc.year(table["birth"]))
    person = pa.array([f"{seed}-{i * 7 % (rows * 2 // 3)}" for i in range(rows)])
    own = pa.array([None if i % 3 else 2 + i % 6 for i in range(rows)])
    return table.append_column("age", age).append_column("person", person).append_column("own_k", own)


def list_cases() -> dict[str, Case]:
    """All releases by name, with the methods, parameters and requirements of the registries."""
    return {case.name: case for case in (*_list_methods(), *_list_requirements())}


def _list_methods() -> Iterator[Case]:
    values = [shoal.KAnonymity(3), shoal.LDiversity(2, of="diagnosis")]
    for method in METHODS:
        mixed = {} if _find_requirements(method) else {"require": values}
        common = method.list_common_examples() if issubclass(method, GroupingMethod) else ()
        for example in (*method.examples, *_name_columns(method), *common):
            yield _make_case("plain", method, example, PLAIN)
        for example in method.examples:
            yield _make_case("mixed", method, example, MIXED, target="occupation", suppress=0.25, **mixed)
            yield _make_case("people", method, example, FEW, unit="person")
        for name, unit in UNITS.items():
            yield _make_case(name, method, method.examples[0], FEWER, unit=unit, suppress=0.9)
        yield _make_case("duckdb", method, method.examples[0], PLAIN, {"engine": "duckdb"})
        yield _make_case("partitions", method, method.examples[0], PLAIN, PARTS)


def _list_requirements() -> Iterator[Case]:
    """Every requirement with methods that can guarantee it."""
    for kind in REQUIREMENTS:
        of = {"of": "diagnosis"} if "of" in [field.name for field in list_parameters(kind)] else {}
        for example in kind.examples:
            given = {name: ["Stroke"] if name == "values" else value for name, value in example.items()}
            text = "-".join([kind.name, *(f"{name}={value}" for name, value in given.items())])
            for name in ("random",) if kind.tested_on == "operator" else REQUIRED:
                yield _make_case(text, METHODS.find(name), {}, FEW, require=[kind(**given, **of)])


def _find_requirements(method: type[Method]) -> list[Any]:
    """The requirements for a method that guarantees no k-anonymity; empty for other methods."""
    if "operator" in method.tests:
        return [shoal.Posterior(1.0)]
    return [shoal.LDiversity(3, of="diagnosis")] if issubclass(method, BucketingMethod) else []


def _name_columns(method: type[Method]) -> list[Mapping[str, Any]]:
    """The examples of the parameters that take a value by column, or the name of a column."""
    first, column = method.examples[0], next(iter(PLAIN))
    by_column = [{**first, name: {column: value}} for name, value in method.column_examples.items()]
    return [*by_column, *({**first, name: "own_k"} for name in method.column_names)]


def _make_case(
    table: str,
    method: type[Method],
    parameters: Mapping[str, Any],
    quasi: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
    **given: Any,
) -> Case:
    """A release with a policy that the method can serve, with everything that its parameters need."""
    needs = method.list_needs(parameters)
    policy = {
        "identifiers": ["name"],
        "quasi": {name: AS_TREES.get(name, q) for name, q in quasi.items()} if "trees" in needs else quasi,
        "sensitive": ["diagnosis"],
        "truly_sensitive": {"diagnosis": ["Tuberculosis", "Stroke"]} if "truly sensitive" in needs else {},
        "target": "occupation" if "target" in needs else None,
        "suppress": 0.1,
        "require": _find_requirements(method) or [shoal.KAnonymity(4)],
        **given,
    }
    policy |= {"suppress": 0.0} if "no suppression" in needs else {}
    policy |= {"unit": None} if "no unit" in needs else {}
    name = "-".join([table, method.name, *(f"{name}={value}" for name, value in parameters.items())])
    return Case(_make_file_name(name), method, parameters, shoal.Policy(**policy), options or {})


def _make_file_name(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-_=.," else "" for c in text)


def release_tables(folder: Path) -> dict[str, Outcome]:
    """Make and save every release."""
    patients = make_patients(ROWS, 3)
    return {name: record(partial(_release, case, patients, folder)) for name, case in list_cases().items()}


def _release(case: Case, patients: pa.Table, folder: Path) -> Outcome:
    release = shoal.anonymize(
        patients, case.policy, method=case.method.name, seed=SEED, **case.options, **case.parameters
    )
    return describe_release(release, folder / case.name)


def describe_release(release: shoal.Release, public: Path) -> Outcome:
    """Save a release, and describe its files and what Python shows of it."""
    release.save(public)
    found = {
        "measures": dict(release.measures),
        "certificate": release.certificate.to_dict(),
        "text": str(release).splitlines(),
        "summary": str(release.summary()).splitlines(),
        **read_folders(public),
    }
    if public.name.startswith(UNORDERED):
        found["table.csv"].sort()
        found["certificate.json"].pop("sha256")
    return found


def release_later(folder: Path, out: Path) -> dict[str, Outcome]:
    """Release other records by the recodings in saved owner folders, and the same records again by their secret seeds."""
    later, found = make_patients(LATER_ROWS, 9), {}
    for owner in sorted(folder.glob("*.owner")):
        name = owner.name.removesuffix(".owner")
        policy = shoal.Policy.load(owner / "policy.yaml").model_copy(update={"suppress": 1.0})
        recoding = owner / "recoding.json"
        if recoding.exists():
            found[f"later-{name}"] = record(partial(_release_later, later, policy, recoding, out / f"later-{name}"))
            found[f"apply-{name}"] = record(partial(_apply, recoding, later))
        if name in ("plain-kmember", "plain-mdav", "people-tds"):
            again = shoal.anonymize(make_patients(ROWS, 3), policy, method=name.partition("-")[2], secret=owner)
            found[f"again-{name}"] = {"fingerprint": again.certificate.fingerprint}
    return found


def _release_later(later: pa.Table, policy: shoal.Policy, recoding: Path, public: Path) -> Outcome:
    return describe_release(shoal.anonymize(later, policy, recoding=recoding), public)


def _apply(recoding: Path, later: pa.Table) -> Outcome:
    table = shoal.load_recoding(recoding).apply(later, nearest=True)
    return {"columns": table.schema.names, "rows": [str(tuple(row.values())) for row in table.to_pylist()]}
