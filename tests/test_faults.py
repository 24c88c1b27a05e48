"""Faults: a full disk, a killed process, a changed source. No incomplete release, a clear error."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shoal
from tests.support.errors import everything
from tests.support.signals import RESTORE_SIGNALS

pytest.importorskip("duckdb")

ROWS = 1500
POLICY = """\
identifiers: [name]
quasi:
  age: numeric
  zip: {mask: right}
sensitive: [ill]
require:
- k-anonymity: %d
"""
PUBLIC = {"table.csv", "certificate.json", "policy.yaml", "report.html"}


def people(rows: int = ROWS, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "name": [f"Alice Miller {i}" for i in range(rows)],
            "age": rng.integers(18, 90, rows),
            "zip": rng.integers(47900, 47999, rows).astype(str),
            "ill": rng.choice(["flu", "cold", "gout"], rows),
        }
    )


def policy_of(k: int = 5) -> shoal.Policy:
    return shoal.Policy.parse(POLICY % k)


def hidden(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.name.startswith("."))


# Processes that end before their time

DRIVER = (
    RESTORE_SIGNALS
    + r"""
import json, os, pathlib, select, signal, sys, time
import pyarrow.compute, pyarrow.csv, pyarrow.parquet
import shoal, shoal.cli, shoal.datasets, shoal.engines.duckdb

shoal.anonymize(shoal.datasets.hospital(200, seed=1), shoal.datasets.hospital_policy(k=5))  # loads the kernels

def strike(number):
    os.kill(os.getpid(), number)

def child(job):
    os.chdir(job["folder"])
    for fd, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(job["said"] + "." + name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), fd)
    sys.argv = ["shoal", *job["arguments"]]
    number, left = job["signal"], [job["calls"]]
    if job["renames"]:
        replace, renames = pathlib.Path.replace, [job["renames"]]
        def counted(self, target):
            replace(self, target)
            renames[0] -= 1
            if not renames[0]:
                strike(number)
        pathlib.Path.replace = counted
    if job["calls"] is not None:
        def count(frame, event, argument):
            left[0] -= 1
            if not left[0]:
                sys.setprofile(None)
                strike(number)
        sys.setprofile(count)
    try:
        shoal.cli.main()
    finally:
        sys.setprofile(None)
        if job["calls"] is not None and job["calls"] < 0:
            pathlib.Path(job["said"] + ".calls").write_text(str(-left[0] + job["calls"]))

for line in sys.stdin:
    job, begun = json.loads(line), time.monotonic()
    pid = os.fork()
    if not pid:
        child(job)
    watch = os.pidfd_open(pid)
    if job["after"] is not None and not select.select([watch], [], [], job["after"])[0]:
        os.kill(pid, job["signal"])
    _, status = os.waitpid(pid, 0)
    os.close(watch)
    print(json.dumps({"status": os.waitstatus_to_exitcode(status), "seconds": time.monotonic() - begun}), flush=True)
"""
)


@dataclass(frozen=True)
class Ran:
    status: int
    seconds: float
    err: str
    calls: int


class Driver:
    """Runs the command line in a fork of a process that has loaded everything, and ends it at a given moment."""

    def __init__(self, process: subprocess.Popen[str], said: Path) -> None:
        assert process.stdin and process.stdout
        self.into: IO[str] = process.stdin
        self.out: IO[str] = process.stdout
        self.said = said

    def __call__(
        self,
        folder: Path,
        *arguments: str,
        calls: int | None = None,
        after: float | None = None,
        renames: int = 0,
        signal: int = signal.SIGKILL,
    ) -> Ran:
        given = {"calls": calls, "after": after, "renames": renames, "signal": int(signal), "said": str(self.said)}
        self.into.write(json.dumps({"folder": str(folder), "arguments": arguments, **given}) + "\n")
        self.into.flush()
        found = json.loads(self.out.readline())
        counted = self.said.with_name("said.calls")
        number = int(counted.read_text()) if calls is not None and calls < 0 and counted.exists() else 0
        return Ran(found["status"], found["seconds"], self.said.with_name("said.err").read_text(), number)


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    said = tmp_path_factory.mktemp("said") / "said"
    command = [sys.executable, "-c", DRIVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Driver(process, said)
        assert process.stdin
        process.stdin.close()


@dataclass(frozen=True)
class Place:
    """A folder with a table, policies, and copies of the two releases that may be made of it."""

    folder: Path
    old: str
    new: str
    seconds: float
    calls: int

    def restore(self, here: Path, *releases: str) -> None:
        """Put copies of a release where it is made, or nothing."""
        for name in ("release", "release.owner"):
            shutil.rmtree(here / name, ignore_errors=True)
            for k in releases:
                shutil.copytree(self.folder / f"{k}-{name}", here / name)

    def moments(self, number: int, seed: int) -> Iterator[Any]:
        """Half of them after so many calls of functions, some of these near the end, half after so much time."""
        rng = np.random.default_rng(seed)
        calls = [*rng.uniform(0.0, 1.0, number // 4), *rng.uniform(0.9, 1.0, number // 4)]
        yield from ({"calls": int(share * self.calls) + 1} for share in calls)
        yield from ({"after": float(share * self.seconds)} for share in rng.uniform(0.0, 1.0, number - len(calls)))


@pytest.fixture(scope="module")
def place(drive: Driver, tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("place")
    people(300).to_csv(folder / "table.csv", index=False)
    made = []
    for k in (5, 7):
        (folder / f"policy{k}.yaml").write_text(POLICY % k)
        ran = drive(folder, *arguments(k, "--force"))
        assert ran.status == 0, ran
        made.append(str(fingerprint_of(folder / "release")))
        for name in ("release", "release.owner"):
            shutil.copytree(folder / name, folder / f"{k}-{name}")
    counted = drive(folder, *arguments(7, "--force"), calls=-1)
    assert counted.status == 0 and counted.calls > 1000, counted
    assert made[0] != made[1]
    assert hidden(folder) == []
    return Place(folder, made[0], made[1], ran.seconds, counted.calls)


@pytest.fixture
def here(place: Place, tmp_path: Path) -> Path:
    for file in ("table.csv", "policy5.yaml", "policy7.yaml"):
        shutil.copy(place.folder / file, tmp_path)
    return tmp_path


def arguments(k: int = 5, *more: str, out: str | Path = "release") -> tuple[str, ...]:
    return ("anonymize", "table.csv", "-p", f"policy{k}.yaml", "-o", str(out), "--engine", "duckdb", "-q", *more)


def fingerprint_of(folder: Path) -> str | None:
    """Of a release that is whole, None where there is none; anything else fails the test."""
    if not folder.exists():
        return None
    assert {p.name for p in folder.iterdir()} == PUBLIC
    certificate = json.loads((folder / "certificate.json").read_text())
    assert hashlib.sha256((folder / "table.csv").read_bytes()).hexdigest() == certificate["sha256"]
    checked = shoal.check(folder / "table.csv", folder / "policy.yaml")
    assert checked.holds
    assert checked.fingerprint == certificate["fingerprint"]
    return str(certificate["fingerprint"])


def owners_of(folder: Path) -> str | None:
    """The release that an owner's folder belongs to."""
    if not folder.exists():
        return None
    assert (folder / "recoding.json").is_file()
    return str(json.loads((folder / "ledger.json").read_text())["fingerprint"])


def swept(drive: Driver, here: Path) -> None:
    """The next run succeeds, and removes what others left of their work."""
    assert drive(here, *arguments(7, "--force")).status == 0
    assert fingerprint_of(here / "release") == owners_of(here / "release.owner")
    assert not [name for name in hidden(here) if name.startswith(".shoal-")]


def test_a_run_that_is_killed_leaves_no_half_release(drive: Driver, place: Place, here: Path) -> None:
    killed, stale = 0, 0
    for moment in place.moments(25, seed=1):
        ran = drive(here, *arguments(5), **moment)
        assert ran.status in (0, -signal.SIGKILL), ran
        found, owner = fingerprint_of(here / "release"), owners_of(here / "release.owner")
        assert found in (place.old, None)
        assert found is None or owner == found
        killed, stale = killed + (ran.status != 0), max(stale, len(hidden(here)))
        place.restore(here)
    assert killed >= 10
    assert stale
    swept(drive, here)


def agree(here: Path, place: Place) -> str | None:
    """The old release or the new one, whole; where there is none, the old one is in a hidden folder."""
    found, owner = fingerprint_of(here / "release"), owners_of(here / "release.owner")
    assert found in (place.old, place.new, None)
    assert owner in (place.old, place.new, None)
    if found is None:
        put = [p for name in hidden(here) for p in (here / name).glob("old-*")]
        kept = [fingerprint_of(p) for p in put if (p / "certificate.json").is_file()]
        assert place.old in kept
    assert None in (found, owner) or found == owner  # never the table of one with the recoding of the other
    return found


def test_a_run_that_is_killed_leaves_the_earlier_release_or_the_new_one(
    drive: Driver, place: Place, here: Path
) -> None:
    place.restore(here, "5")
    for moment in place.moments(25, seed=2):
        ran = drive(here, *arguments(7, "--force"), **moment)
        assert ran.status in (0, -signal.SIGKILL), ran
        if agree(here, place) != place.old:
            place.restore(here, "5")
    swept(drive, here)


@pytest.mark.parametrize("renames", [1, 2, 3, 4])
def test_killed_between_the_two_folders(drive: Driver, place: Place, here: Path, renames: int) -> None:
    """The narrowest place: folders are exchanged one after another."""
    place.restore(here, "5")
    assert drive(here, *arguments(7, "--force"), renames=renames).status == -signal.SIGKILL
    agree(here, place)
    assert hidden(here)
    assert drive(here, *arguments(7, out="other")).status == 0
    assert hidden(here) == []
    assert fingerprint_of(here / "release") == owners_of(here / "release.owner") == [place.old, place.new][renames == 4]
    swept(drive, here)


@pytest.mark.parametrize("renames", [1, 2, 3])
def test_a_release_that_was_moved_away_is_not_overwritten_unasked(
    drive: Driver, place: Place, here: Path, renames: int
) -> None:
    place.restore(here, "5")
    assert drive(here, *arguments(7, "--force"), renames=renames).status == -signal.SIGKILL
    ran = drive(here, *arguments(7))
    assert ran.status == 2 and "--force" in ran.err, ran
    assert fingerprint_of(here / "release") == owners_of(here / "release.owner") == place.old
    assert hidden(here) == []


def test_the_next_run_in_the_same_place_leaves_nothing_of_one_that_was_killed(
    drive: Driver, place: Place, here: Path
) -> None:
    """Whatever engine it has, and wherever it writes."""
    stale = 0
    for share in (0.9, 0.95, 0.98, 0.99):
        drive(here, *arguments(5), calls=int(share * place.calls))
        stale += bool(hidden(here))
        assert drive(here, *arguments(7, "--force", out="other"), "--engine", "memory").status == 0
        assert hidden(here) == []
        assert fingerprint_of(here / "release") in (place.old, None)
        place.restore(here)
    assert stale


def test_a_run_that_is_asked_to_end_leaves_nothing(drive: Driver, place: Place, here: Path) -> None:
    before, ended = {p.name for p in here.iterdir()}, 0
    for moment in place.moments(8, seed=3):
        ran = drive(here, *arguments(5), signal=signal.SIGTERM, **moment)
        assert ran.status in (0, 143, -signal.SIGTERM), ran  # the last before it took over the handling of signals
        assert "Alice" not in ran.err
        if fingerprint_of(here / "release"):  # it was done already
            assert owners_of(here / "release.owner") == place.old
            place.restore(here)
        else:
            ended += ran.status == 143
        assert {p.name for p in here.iterdir()} == before, moment
    assert ended >= 2


# The disk is full


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of eight megabytes."""
    if os.getuid() != 0:
        pytest.skip("only root can mount a small disk")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["/bin/mount", "-t", "tmpfs", "-o", "size=8m", "none", place], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    yield place
    gc.collect()
    subprocess.run(["/bin/umount", "-l", place], check=True)


def leave(disk: Path, free: int) -> None:
    """Fill the disk until so many bytes are free."""
    (disk / "ballast").unlink(missing_ok=True)
    there = os.statvfs(disk)
    (disk / "ballast").write_bytes(bytes(max(there.f_bavail * there.f_frsize - free, 0)))


@pytest.mark.parametrize(("source", "parts"), [("csv", False), ("frame", False), ("parquet", True)])
def test_a_full_disk_ends_with_an_error_and_no_half_release(
    disk: Path, tmp_path: Path, source: str, parts: bool
) -> None:
    """At whatever step it fills: while the source is read, put aside, released, or saved."""
    frame = people(20_000)
    data: Any = frame
    if source == "csv":
        frame.to_csv(data := tmp_path / "table.csv", index=False)
    elif source == "parquet":
        frame.to_parquet(data := tmp_path / "table.parquet", index=False)
    failed, saved = 0, 0
    for free in (0, 1 << 14, 1 << 16, 1 << 17, 1 << 18, 3 << 17, 1 << 19, 8 << 20):
        leave(disk, free)
        limits = {"combinations": 3000} if parts else {}
        try:
            release = shoal.anonymize(data, policy_of(20), engine="duckdb", temp=disk, **limits)
            release.save(disk / "release")
            shutil.rmtree(disk / "release.owner")
            shutil.rmtree(disk / "release")
            saved += 1
        except shoal.EngineError as error:
            failed += 1
            told = str(error)
            assert "full" in told or "No space left" in told, told
            assert "Alice" not in everything(error)
            assert not (disk / "release").exists() and not (disk / "release.owner").exists()
            del error
        release = None
        gc.collect()
        assert hidden(disk) == [], free
    assert failed >= 3
    assert saved


def test_a_full_disk_on_the_command_line(disk: Path, drive: Driver, here: Path) -> None:
    leave(disk, 1 << 14)
    ran = drive(here, *arguments(5, out=disk / "release"))
    assert ran.status == 2, ran
    assert "No space left" in ran.err or "full" in ran.err, ran
    assert sorted(p.name for p in disk.iterdir()) == ["ballast"]


# The source changes


def same_values(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([frame, frame.iloc[:7]])


def other_values(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(age=frame["age"] + 100, name="Alice Miller's sister")


def fewer(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.iloc[: len(frame) // 2]


CHANGES: dict[str, Callable[[Path], object]] = {
    "more records": lambda file: same_values(people()).to_parquet(file, index=False),
    "other values": lambda file: other_values(people()).to_parquet(file, index=False),
    "fewer records": lambda file: fewer(people()).to_parquet(file, index=False),
    "other columns": lambda file: people()[["name", "age"]].to_parquet(file, index=False),
    "gone": lambda file: file.unlink(),
    "cut off": lambda file: os.truncate(file, 1000),
    "empty": lambda file: os.truncate(file, 0),
    "another file in its place": lambda file: (
        other_values(people()).to_parquet(file.with_name("new"), index=False),
        file.with_name("new").rename(file),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("step", [1, 3])
def test_a_source_that_changes_while_it_is_read_is_not_released(change: str, step: int, tmp_path: Path) -> None:
    """At the first and third thing that is told of the reading: nothing was put aside yet."""
    people().to_parquet(tmp_path / "table.parquet", index=False)
    told: list[str] = []

    def progress(stage: str, done: int, total: int) -> None:
        told.append(stage)
        if stage == "reading" and told.count("reading") == step:
            CHANGES[change](tmp_path / "table.parquet")

    with pytest.raises(shoal.DataError, match="changed") as caught:
        shoal.anonymize(tmp_path / "table.parquet", policy_of(), engine="duckdb", progress=progress)
    assert "Alice" not in everything(caught.value)


@pytest.mark.parametrize("kind", ["csv", "parquet", "folder"])
@pytest.mark.parametrize("stage", ["reading", "writing", "checking"])
def test_a_source_that_grows_is_refused_or_was_read_before(kind: str, stage: str, tmp_path: Path) -> None:
    """Never a release of which a part is new: an error, or the release of what was there at first."""
    frame = people()
    file = tmp_path / "data" / f"table.{'csv' if kind == 'csv' else 'parquet'}"
    file.parent.mkdir()

    def write(content: pd.DataFrame) -> None:
        content.to_csv(file, index=False) if kind == "csv" else content.to_parquet(file, index=False)

    def progress(found: str, done: int, total: int) -> None:
        if found == stage and done == total:
            write(same_values(frame))

    write(frame)
    expected = shoal.anonymize(frame, policy_of()).certificate.fingerprint
    data = file.parent if kind == "folder" else file
    try:
        release = shoal.anonymize(data, policy_of(), engine="duckdb", progress=progress)
    except shoal.DataError as error:
        assert "changed" in str(error)
    else:
        assert release.certificate.fingerprint == expected
        release.save(tmp_path / "release")
        assert pq.read_table(tmp_path / "release" / "table.parquet").num_rows == len(frame) if kind != "csv" else True


def test_a_relation_is_read_as_it_is(tmp_path: Path) -> None:
    """What happens to the tables behind it later does not matter."""
    import duckdb

    connection = duckdb.connect()
    connection.register("given", pa.Table.from_pandas(people(), preserve_index=False))
    connection.execute("CREATE TABLE people AS SELECT * FROM given")
    connection.unregister("given")

    def progress(stage: str, done: int, total: int) -> None:
        if stage == "reading" and not done:
            connection.execute("DELETE FROM people WHERE age > 30")

    release = shoal.anonymize(connection.table("people"), policy_of(), progress=progress)
    assert release.certificate == shoal.anonymize(people(), policy_of()).certificate
