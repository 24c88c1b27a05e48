"""Texts: SQL queries, help, output of commands, and errors for wrong policies, parameters and files."""

from __future__ import annotations

import contextlib
import io
import shlex
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import click
import pyarrow as pa
import pyarrow.csv
from typer.main import get_command

import shoal
from benchmarks.same_releases.outcomes import Outcome, read_folders, record
from benchmarks.same_releases.table_cases import FEW, PLAIN, SEED, list_cases, make_patients
from shoal.cli import app, main
from shoal.pipeline.method import Method, list_constructor_parameters
from shoal.policy import Policy, QuasiIdentifier, parse_policy
from shoal.requirements import REQUIREMENTS, list_parameters
from shoal.sql import DIALECTS, check_query, dbt_package, recoding_query
from shoal.tables import METHODS

COMMANDS = Path(__file__).with_name("commands.txt")
WIDTH = {"COLUMNS": "120", "NO_COLOR": "1"}  # of all output
VALUES: tuple[Any, ...] = (
    5,
    -1,
    1.5,
    True,
    None,
    "x",
    "",
    [],
    ["a"],
    [1],
    {},
    {"a": 1},
    {"a": ["b"]},
    float("nan"),
    10**30,
)
PARAMETERS: tuple[Any, ...] = (-1, "x", [], {"nobody": 1}, float("nan"))
BASE: Mapping[str, Any] = {"quasi": {"age": "numeric"}, "sensitive": ["s"], "require": [{"k-anonymity": 2}]}
FILES = {  # wrong and right files for the commands
    "policy.yaml": "quasi: {age: numeric, sex: categorical}\nsensitive: [diagnosis]\nrequire: {k-anonymity: 3}\nsuppress: 0.3",
    "people.yaml": "quasi: {age: numeric, sex: categorical}\nunit: person\nsuppress: 0.3\nrequire: {k-anonymity: 3}\n",
    "strict.yaml": "quasi: {age: numeric, sex: categorical}\nrequire: {k-anonymity: 5000}\n",
    "free.yaml": "quasi: {age: numeric}\n",
    "anatomy.yaml": "quasi: {age: numeric}\nsensitive: [diagnosis]\nrequire: {l-diversity: {l: 2, of: diagnosis}}\n",
    "typo.yaml": "quasi: {age: numerc}\nrequire: {k-anonymty: 3}\n",
    "absent.yaml": "quasi: {height: numeric}\nrequire: {k-anonymity: 3}\n",
    "broken.yaml": "quasi: {age: [numeric\n",
    "list.yaml": "- a\n- b\n",
    "empty.yaml": "",
    "empty.csv": "",
    "header.csv": "age,sex,diagnosis\n",
    "twice.csv": "age,age\n1,2\n",
    "ragged.csv": "age,sex,diagnosis\n1,f,flu\n2,m\n",
    "quotes.csv": 'age,sex,diagnosis\n1,"f,flu\n2,m,flu\n',
    "words.csv": "age,sex,diagnosis\nold,f,flu\n2,m,flu\n",
    "german.csv": "age;sex;diagnosis\n1,5;f;flu\n2,5;m;flu\n3,5;f;flu\n",
    "broken.parquet": "no parquet",
    "broken.json": "{",
    "tree.yaml": "ANY: {Ill: [flu, cold], Hurt: [burn]}\n",
}


def list_texts(releases: Path, out: Path) -> dict[str, Outcome]:
    """All texts; recodings are those of releases that an earlier version wrote."""
    with mock.patch.dict("os.environ", WIDTH):
        return {
            **_write_queries(releases),
            **_show_help(),
            **_run_commands(out),
            **{f"wrong-policy-{name}": record(partial(_parse, given)) for name, given in _list_policies()},
            **_refuse_parameters(),
        }


def _write_queries(releases: Path) -> dict[str, Outcome]:
    """Queries of checks and of recodings in all dialects."""
    cases = list_cases()
    policies = {name: case.policy for name, case in cases.items() if not name.startswith(("plain", "people-", "parti"))}
    unlike = {policy.to_yaml(): (name, policy) for name, policy in policies.items()}
    found: dict[str, Outcome] = {"dbt-package": {name: text.splitlines() for name, text in dbt_package().items()}}
    firsts = [f"{table}-{method.name}" for table in ("plain", "mixed", "people") for method in METHODS]
    styles = [f"plain-mondrian-write={style}" for style in ("lo-hi", "midpoint", "set", "mean")]
    for dialect in DIALECTS:
        for name, policy in unlike.values():
            found[f"check-{dialect}-{name}"] = record(partial(_write_check, policy, dialect))
        for name in (*firsts, *styles):
            recoding = releases / f"{name}.owner" / "recoding.json"
            if recoding.exists():
                found[f"recoding-{dialect}-{name}"] = record(partial(_write_recoding, recoding, dialect))
    return found


def _write_check(policy: Policy, dialect: str) -> list[str]:
    return check_query(policy, dialect=dialect, records=policy.unit is not None).splitlines()


def _write_recoding(recoding: Path, dialect: str) -> list[str]:
    return recoding_query(shoal.load_recoding(recoding), dialect=dialect, table="ward.patients").splitlines()


def _show_help() -> dict[str, Outcome]:
    """The help of every command."""
    found = {}
    waiting: list[tuple[tuple[str, ...], Any]] = [((), get_command(app))]
    while waiting:
        words, command = waiting.pop()
        found["-".join(["help", *words])] = run_command([*words, "--help"])
        if isinstance(command, click.Group) or hasattr(command, "commands"):
            waiting += [((*words, name), inner) for name, inner in command.commands.items()]
    return found


def run_command(arguments: list[str]) -> Outcome:
    """Run `shoal` in this process: its exit status and its output."""
    out, err, status = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch.object(sys, "argv", ["shoal", *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            status = int(ended.code or 0)
    return {"status": status, "out": out.getvalue().splitlines(), "err": err.getvalue().splitlines()}


def _run_commands(out: Path) -> dict[str, Outcome]:
    """The commands of ``commands.txt`` one after another, in a folder with right and wrong files."""
    folder = out / "commands"
    folder.mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "binary.csv").write_bytes(bytes(range(256)))
    columns = ["age", "sex", "education", "diagnosis", "person"]
    for name, rows, seed in (("patients.csv", 200, 3), ("later.csv", 60, 9)):
        pa.csv.write_csv(make_patients(rows, seed).select(columns), folder / name)
    found = {}
    with contextlib.chdir(folder):
        for line in COMMANDS.read_text().splitlines():
            if line and not line.startswith("#"):
                name = f"shoal {line}"
                found[f"{name} (again)" if name in found else name] = run_command(shlex.split(line))
        for public in sorted(path for path in Path().glob("out-*") if (path.parent / f"{path.name}.owner").exists()):
            found[f"folder {public}"] = read_folders(public)
    return found


def _list_policies() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Policies with every value of a list at every place; most are wrong."""
    for value in VALUES:
        for key in (*Policy.model_fields, "other"):
            yield f"{key}={value}", {**BASE, key: value}
        for key in (*QuasiIdentifier.model_fields, "other"):
            yield f"quasi.age.{key}={value}", {**BASE, "quasi": {"age": {key: value}}}
        for key in ("column", "pseudonym", "knows", "other"):
            yield f"unit.{key}={value}", {**BASE, "unit": {"column": "p", key: value}}
        yield f"quasi.age={value}", {**BASE, "quasi": {"age": value}}
        for kind in REQUIREMENTS:
            yield f"{kind.name}={value}", {**BASE, "require": [{kind.name: value}]}
            for key in (*(field.name for field in list_parameters(kind)), "other"):
                yield f"{kind.name}.{key}={value}", {**BASE, "require": [{kind.name: {**kind.examples[0], key: value}}]}


def _parse(given: Mapping[str, Any]) -> str:
    return str(parse_policy(given))


def _refuse_parameters() -> dict[str, Outcome]:
    """Every parameter of every method with wrong values, and every method with policies that lack something."""
    table = make_patients(40, 3)
    found = {}
    cases = list_cases()
    for method in METHODS:
        first = "-".join([method.name, *(f"{name}={value}" for name, value in method.examples[0].items())])
        policy = cases[f"people-{first}"].policy.model_copy(update={"unit": None})
        for name in list_constructor_parameters(method):
            for value in PARAMETERS if name != "policy" else ():
                given = {**method.examples[0], name: value}
                found[f"wrong-{method.name}-{name}={value}"] = record(partial(_try, method, policy, given, table))
        found[f"wrong-{method.name}-other"] = record(partial(_try, method, policy, {"other": 1}, table))
        for name, lacking in _list_lacking().items():
            for example in method.examples:
                text = "-".join(f"{key}={value}" for key, value in example.items())
                found[f"lacking-{name}-{method.name}-{text}"] = record(partial(_try, method, lacking, example, table))
    return found


def _list_lacking() -> dict[str, Policy]:
    """Policies that lack what some methods need."""
    return {
        "roles": Policy(quasi=FEW, require=[shoal.KAnonymity(2)], suppress=0.2),
        "requirements": Policy(quasi=FEW, sensitive=["diagnosis"]),
        "people": Policy(quasi=PLAIN, unit="person", sensitive=["diagnosis"], require=[shoal.KAnonymity(500)]),
        "operators": Policy(quasi=FEW, sensitive=["diagnosis"], require=[shoal.Posterior(0.01)]),
        "rounding": Policy(quasi={"age": {"kind": "numeric", "round": 5}}, require=[shoal.KAnonymity(2)]),
    }


def _try(method: type[Method], policy: Policy, parameters: Mapping[str, Any], table: pa.Table) -> str:
    shoal.anonymize(table, policy, method=method.name, seed=SEED, **parameters)
    return "no error"
