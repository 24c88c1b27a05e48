"""The Spark engine: the same releases as in memory, from Spark's DataFrames, tables and folders."""

from __future__ import annotations

import datetime
import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.cli.program import run_program
from shoal.engines.spark.sources import to_arrow_type
from shoal.spark import build_program
from tests.support.spark import require_spark

pytestmark = pytest.mark.engines

SEED = 7
ROWS = 240


@pytest.fixture(scope="module")
def spark() -> Any:
    return require_spark()


def table(rows: int = ROWS) -> pa.Table:
    """Records with odd column names, missing values, empty texts, dates, and people with several records."""
    draw = random.Random(5)
    day = datetime.date(1960, 1, 1)
    return pa.table(
        {
            "age": pa.array([draw.randrange(20, 50) for _ in range(rows)], pa.int32()),
            'a.b `c`"': [draw.choice(["F", "M", "", None]) for _ in range(rows)],
            "born": [day + datetime.timedelta(draw.randrange(9000)) for _ in range(rows)],
            "ill": [draw.choice(["flu", "cold", "x"]) for _ in range(rows)],
            "k0": [draw.choice([0.5, -0.0, 0.0, float("nan"), None]) for _ in range(rows)],
            "g": [draw.choice(["p", "q"]) for _ in range(rows)],
            "who": [draw.choice(["Bo", "bo ", None, *(f"p{i}" for i in range(60))]) for _ in range(rows)],
        }
    )


QUASI = {"age": "numeric", 'a.b `c`"': "categorical", "born": {"date": ["day", "month", "year", "decade"]}}
KEPT = ["k0", "g"]  # the names of helper columns


def policy(**changes: Any) -> shoal.Policy:
    given: dict[str, Any] = {"quasi": QUASI, "sensitive": ["ill"], "keep": KEPT, "require": [shoal.KAnonymity(4)]}
    return shoal.Policy(**{**given, "identifiers": ["who"], **changes})


def rows_of(frame: Any) -> Counter[tuple[str, ...]]:
    """The rows as a multiset of texts."""
    arrow = (
        frame
        if isinstance(frame, pa.Table)
        else frame.toArrow()
        if hasattr(frame, "toArrow")
        else frame.to_arrow_table()
    )
    missing = (None, "")
    return Counter(
        tuple("" if v in missing or v != v else str(v + 0.0) if isinstance(v, float) else str(v) for v in row.values())
        for row in arrow.to_pylist()
    )


def assert_same(one: shoal.Release, other: shoal.Release) -> None:
    assert rows_of(other.frame) == rows_of(one.frame)
    assert other.certificate == one.certificate
    assert repr(dict(other.measures)) == repr(dict(one.measures))
    assert other.dropped == one.dropped


UNIT = {"identifiers": [], "unit": {"column": "who", "knows": "record"}}
WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "strict": ({"method": "mondrian"}, {}),
    "divided cells": ({"method": "kmember"}, {"quasi": {"age": "numeric"}}),
    "suppressed": ({"method": "tds"}, {"suppress": 0.2}),
    "people": ({"method": "mondrian", "cut": "median", "relaxed": True}, UNIT),
    "pseudonyms": ({"method": "tds"}, {**UNIT, "unit": {"column": "who", "knows": "record", "pseudonym": True}}),
    "operator": ({"method": "random", "attributes": 1}, {"require": []}),
    "synthetic": ({"method": "condensation"}, {"quasi": {"age": "numeric"}}),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_dataframe_is_released_as_in_memory(spark: Any, way: str) -> None:
    parameters, changes = WAYS[way]
    memory = shoal.anonymize(table(), policy(**changes), seed=SEED, **parameters)
    frame = spark.createDataFrame(table()).repartition(3)
    found = shoal.anonymize(frame, policy(**changes), seed=SEED, **parameters)
    assert type(found.frame).__module__.startswith("pyspark.sql.")
    assert_same(memory, found)
    assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"


@pytest.mark.parametrize("method", ["mondrian", "kmember"])
def test_the_workers_search_partitions_as_one_process_does(spark: Any, method: str) -> None:
    given = {"method": method, "seed": SEED, "combinations": 60}
    duck = shoal.anonymize(table(), policy(), engine="duckdb", **given)
    found = [shoal.anonymize(spark.createDataFrame(table()).repartition(n), policy(), **given) for n in (1, 5)]
    assert duck.certificate.parts > 2
    for release in found:
        assert_same(duck, release)


def test_a_partition_that_fails_is_named(spark: Any) -> None:
    asked = policy(require=[shoal.LDiversity(3, of="ill")], quasi={"age": "numeric", "born": QUASI["born"]}, suppress=0)
    rare = table().set_column(3, "ill", pa.array(["flu"] * (ROWS - 3) + ["cold"] * 2 + ["x"]))
    with pytest.raises(shoal.RequirementNotMet, match=r"in partition \d of \d") as failed:
        shoal.anonymize(spark.createDataFrame(rare), asked, combinations=60, seed=SEED)
    with pytest.raises(shoal.RequirementNotMet) as alone:
        shoal.anonymize(rare, asked, engine="duckdb", combinations=60, seed=SEED)
    assert str(failed.value) == str(alone.value)


def test_a_saved_release_is_a_folder_of_files_in_an_order_of_their_own(spark: Any, tmp_path: Path) -> None:
    """Neither the partitions nor the order of the source have an influence on the bytes."""
    contents = []
    for n, rows in ((1, table()), (4, table().take(list(range(ROWS))[::-1]))):
        release = shoal.anonymize(spark.createDataFrame(rows).repartition(n), policy(), seed=SEED)
        release.save(tmp_path / f"out{n}")
        files = sorted((tmp_path / f"out{n}" / "table.parquet").rglob("*"))
        assert [file.name for file in files] == ["part-00000.parquet"]
        contents.append(pq.read_table(files[0]))
        checked = shoal.check(tmp_path / f"out{n}" / "table.parquet", policy(), engine="spark")
        assert checked.fingerprint == release.certificate.fingerprint
        assert shoal.check(tmp_path / f"out{n}" / "table.parquet", policy()).fingerprint == checked.fingerprint
    assert contents[0].equals(contents[1])


def test_a_partitioned_folder_is_released_partitioned(spark: Any, tmp_path: Path) -> None:
    named = table().append_column("year", pa.array([f"0{i % 3}" for i in range(ROWS)]))
    plain = named.drop_columns(['a.b `c`"'])
    pq.write_to_dataset(plain, tmp_path / "in", partition_cols=["year"])
    asked = policy(quasi={"age": "numeric"}, keep=["year", "k0"], identifiers=["who", "born", "g"])
    release = shoal.anonymize(tmp_path / "in", asked, engine="spark", seed=SEED)
    release.save(tmp_path / "out")
    folder = tmp_path / "out" / "table.parquet"
    assert sorted(path.name for path in folder.iterdir()) == ["year=00", "year=01", "year=02"]
    memory = shoal.anonymize(plain, asked, seed=SEED)
    assert memory.certificate == release.certificate
    assert shoal.check(folder, asked, engine="duckdb").fingerprint == memory.certificate.fingerprint


def test_hidden_columns_are_not_in_the_files(spark: Any, tmp_path: Path) -> None:
    release = shoal.anonymize(spark.createDataFrame(table()), policy(**UNIT), seed=SEED)
    release.save(tmp_path / "out")
    (file,) = (tmp_path / "out" / "table.parquet").iterdir()
    assert "who" not in pq.read_schema(file).names
    assert "who" not in release.frame.columns


def test_csv_files_are_those_of_the_engine_in_memory(spark: Any, tmp_path: Path) -> None:
    memory = shoal.anonymize(table(), policy(), seed=SEED)
    found = shoal.anonymize(spark.createDataFrame(table()), policy(), seed=SEED)
    for name, release in (("memory", memory), ("spark", found)):
        release.save(tmp_path / name, format="csv")
    one, other = ((tmp_path / name / "table.csv").read_text(encoding="utf-8") for name in ("memory", "spark"))
    assert sorted(one.splitlines()) == sorted(other.splitlines())


def test_names_that_differ_only_by_case_are_refused(spark: Any) -> None:
    both = pa.table({"Age": [1, 2], "age": [1, 2]})
    with pytest.raises(shoal.EngineError, match=r"'Age' and 'age', which differ only by case\. Rename one"):
        shoal.check(both, policy(), engine="spark")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(shoal.EngineError, match="'Age' and 'age'"):
            shoal.check(spark.createDataFrame(both), policy())
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_instants_are_published_in_utc(spark: Any) -> None:
    moment = datetime.datetime(2024, 5, 1, 23, 30)
    kinds = {"instant": pa.timestamp("us", "UTC"), "local": pa.timestamp("us")}
    given = pa.table({"age": [1, 1, 2, 2], **{name: pa.array([moment] * 4, kind) for name, kind in kinds.items()}})
    frame = spark.createDataFrame(given).selectExpr("age", "instant", "TIMESTAMP_NTZ '2024-05-01 23:30:00' AS local")
    quasi = {"age": "numeric", "instant": {"date": ["day", "month"]}}
    asked = shoal.Policy(quasi=quasi, keep=["local"], require=[shoal.KAnonymity(2)])
    release = shoal.anonymize(frame, asked, seed=SEED)
    assert release.certificate.fingerprint == shoal.anonymize(given, asked, seed=SEED).certificate.fingerprint
    assert any("published in UTC" in note and "Asia/Tokyo" in note for note in release.notes)


def test_frames_and_files_are_released_as_one_file(spark: Any, tmp_path: Path) -> None:
    moments = pa.array(
        [datetime.datetime(2024, 3, 30, 23, i % 60) for i in range(ROWS)], pa.timestamp("us", "Europe/Berlin")
    )
    given = table().append_column("seen", moments)
    asked = policy(keep=[*KEPT, "seen"], accept={"seen": "a test"})
    memory = shoal.anonymize(given, asked, seed=SEED)
    found = shoal.anonymize(given, asked, engine="spark", seed=SEED)
    assert found.certificate == memory.certificate
    found.save(tmp_path / "out", format="parquet")
    assert pq.read_schema(tmp_path / "out" / "table.parquet").field("seen").type == moments.type
    assert shoal.check(tmp_path / "out", asked).fingerprint == memory.certificate.fingerprint


def test_later_rows_are_recoded(spark: Any) -> None:
    first, later = table().slice(0, 180), table().slice(180)
    asked = policy(quasi={name: QUASI[name] for name in list(QUASI)[:2]}, identifiers=["who", "born"])
    recoded = [
        shoal.anonymize(given[0], asked, method="tds", seed=SEED).recoding.apply(given[1])
        for given in ((first, later), (spark.createDataFrame(first), spark.createDataFrame(later)))
    ]
    assert rows_of(recoded[1]) == rows_of(recoded[0])


def test_a_machine_without_java_gets_a_clear_error(tmp_path: Path) -> None:
    program = "import shoal; shoal.engines.open_data({'a': [1]}, shoal.engines.Resources(engine='spark'))"
    calm = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**calm, "PATH": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert "Spark cannot start Java. Install Java 17 or later" in done.stderr


KINDS = {
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "decimal(10,2)": pa.decimal128(10, 2),
    "string": pa.string(),
    "string collate UNICODE_CI": pa.string(),
    "varchar(3)": pa.string(),
    "interval day to second": pa.string(),
    "time(6)": pa.string(),
    "bigint": pa.int64(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_types_of_spark_as_arrow_types(kind: str) -> None:
    assert to_arrow_type(kind) == KINDS[kind]


def test_nested_types_are_refused_only_where_they_are_used(spark: Any) -> None:
    frame = spark.sql("SELECT id % 2 AS age, array(id) AS tags, 'Ä' COLLATE UNICODE_CI AS text FROM range(4)")
    asked = shoal.Policy(quasi={"age": "numeric"}, require=[shoal.KAnonymity(2)])
    assert shoal.anonymize(frame, asked, seed=SEED).certificate.holds
    with pytest.raises(shoal.DataError, match=r"column 'tags' holds list.* values, which cannot be grouped"):
        shoal.anonymize(frame, shoal.Policy(quasi={"age": "numeric"}, keep=["tags"], require=[shoal.KAnonymity(2)]))


CLUSTER = """
import json, os, signal, sys, threading
from pathlib import Path
from tests.engines.test_spark import policy, table
from tests.support.spark import start
import shoal

spark = start("local-cluster[2,1,1024]")
context, killed = spark.sparkContext, []


def executors():
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().split(b"\\0")
        except OSError:  # the process ended meanwhile
            continue
        if context.applicationId.encode() in words and any(w.endswith(b"CoarseGrainedExecutorBackend") for w in words):
            yield int(place.parent.name)


def kill_one(searching, ended):
    searching.wait()
    while not ended.wait(0.02):  # until a stage of the search has a running task
        stages = map(context.statusTracker().getStageInfo, context.statusTracker().getActiveStageIds())
        if any(stage and stage.numActiveTasks for stage in stages):
            killed.append(min(executors()))
            os.kill(killed[0], signal.SIGKILL)
            return


searching, ended = threading.Event(), threading.Event()
threading.Thread(target=kill_one, args=(searching, ended), daemon=True).start()
release = shoal.anonymize(
    spark.createDataFrame(table()).repartition(6), policy(), method="kmember", combinations=60, seed=7,
    progress=lambda stage, done, total: searching.set() if stage == "parts" else None,
)
ended.set()
found = {"killed": len(killed), "fingerprint": release.certificate.fingerprint, "parts": release.certificate.parts}
print(json.dumps(found), flush=True)
"""


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="finds the processes of the workers in /proc")
def test_a_killed_worker_changes_nothing(spark: Any) -> None:
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", CLUSTER],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    alone = shoal.anonymize(
        table(), policy(), method="kmember", engine="duckdb", combinations=60, seed=SEED
    ).certificate
    assert found == {"killed": 1, "fingerprint": alone.fingerprint, "parts": alone.parts}


# Jobs


def run_job(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the job as `spark-submit` does, in a process of its own."""
    paths = os.pathsep.join(sys.path)
    given = {
        "PYTHONPATH": paths,
        "PYSPARK_SUBMIT_ARGS": "--conf spark.ui.enabled=false --master local[1] pyspark-shell",
    }
    return subprocess.run(
        [sys.executable, "-m", "shoal.spark", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **given, **environment},
    )


def test_a_job_releases_files_and_logs_its_stages(spark: Any, tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "table.parquet")
    (tmp_path / "policy.yaml").write_text(policy().to_yaml(), encoding="utf-8")
    out = tmp_path / "out"
    given = ["--policy", str(tmp_path / "policy.yaml"), "--out", str(out), "--seed", str(SEED)]
    done = run_job(str(tmp_path / "table.parquet"), *given, "--log", "json", "--quiet")
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith('{"time"')]
    assert {line["stage"] for line in lines if line["event"] == "stage ended"} >= {"reading", "writing", "checking"}
    assert lines[-1]["event"] == "released" and lines[-1]["rows"] == ROWS and lines[-1]["holds"]
    assert all(line["memory_mb"] > 0 and line["seconds"] >= 0 for line in lines)
    certificate = json.loads((out / "certificate.json").read_text(encoding="utf-8"))
    assert certificate["fingerprint"] == shoal.anonymize(table(), policy(), seed=SEED).certificate.fingerprint


@pytest.fixture
def stored(spark: Any) -> Any:
    """A table of Spark's catalog."""
    plain = table().rename_columns(["age", "sex", *table().column_names[2:]])
    spark.createDataFrame(plain).write.saveAsTable("raw_people")
    yield plain
    for name in ("raw_people", "released_people"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def run_here(*arguments: str) -> int | str | None:
    """Run the job in this process, and return its exit status."""
    with pytest.raises(SystemExit) as ended:
        run_program(lambda: build_program()(args=list(arguments)))
    return ended.value.code


def test_a_job_reads_a_table_and_saves_a_table(spark: Any, stored: pa.Table, tmp_path: Path, capsys: Any) -> None:
    asked = policy(quasi={"age": "numeric", "sex": "categorical"}, identifiers=["who", "born"])
    (tmp_path / "policy.yaml").write_text(asked.to_yaml(), encoding="utf-8")
    given = ["--policy", str(tmp_path / "policy.yaml"), "--seed", str(SEED), "--quiet", "--out"]
    saved = ["--save-table", "released_people"]
    assert run_here("raw_people", *given, str(tmp_path / "out"), *saved) == 0
    memory = shoal.anonymize(stored, asked, seed=SEED)
    assert rows_of(spark.table("released_people")) == rows_of(memory.frame)
    shown = spark.sql("SHOW TABLES").collect()
    assert [row.tableName for row in shown if row.tableName.startswith("released")] == ["released_people"]
    assert run_here("raw_people", *given, str(tmp_path / "again"), *saved) == 2
    assert "the table 'released_people' already exists" in capsys.readouterr().err
    several = ("--method", "anatomy", "--save-table", "other_people")
    assert run_here("no_such_table", *given, str(tmp_path / "again"), *several) == 2
    assert "the release of anatomy is not one table" in " ".join(capsys.readouterr().err.split())
    assert run_here("no_such_table", *given, str(tmp_path / "again")) == 2
    assert "no table 'no_such_table'" in capsys.readouterr().err
    strict = policy(quasi={"age": "numeric"}, require=[shoal.LDiversity(4, of="ill")])
    (tmp_path / "policy.yaml").write_text(strict.to_yaml(), encoding="utf-8")
    assert run_here("raw_people", *given, str(tmp_path / "again")) == 1
    assert not (tmp_path / "again").exists()
