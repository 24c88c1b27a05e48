"""The secret seed of a release: its source, where it is stored, and when it is reused."""

from __future__ import annotations

import gc
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import shoal
from shoal.cli import main
from shoal.pipeline.method import BucketingMethod, GroupingMethod
from shoal.secret import load_seed
from shoal.tables import METHODS


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets that differ from release to release, as they do outside of tests."""
    numbers = iter(range(2**100, 2**100 + 10_000))
    monkeypatch.setattr("shoal.pipeline.run.new_seed", lambda: next(numbers))


def people(rows: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame({"age": rng.integers(20, 30, rows), "sex": rng.choice(["f", "m"], rows), "ill": range(rows)})


def policy(k: int = 3) -> shoal.Policy:
    quasi = {"age": {"kind": "numeric", "balanced": 3}, "sex": "categorical"}
    return shoal.Policy(quasi=quasi, sensitive=["ill"], require=[shoal.KAnonymity(k)])


def seed_in(owner: Path) -> int:
    return int(json.loads((owner / "ledger.json").read_text())["seed"])


def table_in(folder: Path) -> bytes:
    return (folder / "table.csv").read_bytes()


def test_it_comes_from_the_operating_system() -> None:
    code = "import shoal.secret; print(shoal.secret.new_seed())"
    seeds = {int(subprocess.check_output([sys.executable, "-c", code])) for _ in range(2)}
    assert len(seeds) == 2 and max(seeds) > 2**64


@pytest.mark.parametrize("method", METHODS.names())
def test_every_method_takes_a_seed_and_keeps_it_with_the_owner(method: str, tmp_path: Path) -> None:
    seed = 2**100 + 12345
    require: list[Any] = [shoal.KAnonymity(3)]
    if not issubclass(METHODS.find(method), GroupingMethod):
        of = policy().sensitive[0]
        require = [
            shoal.LDiversity(2, of=of) if issubclass(METHODS.find(method), BucketingMethod) else shoal.Posterior(0.9)
        ]
    asked = policy().model_copy(update={"require": tuple(require)})
    first, again = (shoal.anonymize(people(), asked, method=method, seed=seed) for _ in range(2))
    assert first.certificate.fingerprint == again.certificate.fingerprint
    first.save(tmp_path / "out")
    assert seed_in(tmp_path / "out.owner") == seed
    for file in (tmp_path / "out").iterdir():
        assert str(seed).encode() not in file.read_bytes()
    assert str(seed) not in repr(first)


@pytest.mark.parametrize("method", ["kmember", "knn", "mdav", "condensation"])
def test_another_secret_gives_another_grouping(method: str, fresh: None) -> None:
    first, second = (shoal.anonymize(people(), policy(), method=method) for _ in range(2))
    assert first.certificate.fingerprint != second.certificate.fingerprint


@pytest.mark.parametrize("wrong", [-1, 1.5, "7", True, 2**5000])
def test_a_seed_is_a_whole_number(wrong: Any) -> None:
    with pytest.raises(shoal.PolicyError, match="the seed must be a whole number of at least 0"):
        shoal.anonymize(people(), policy(), seed=wrong)


def test_a_small_seed_is_called_guessable(tmp_path: Path) -> None:
    release = shoal.anonymize(people(), policy(), seed=2**64 - 1)
    assert any("guessable; for tests only" in note for note in release.notes)
    assert not any("guessable" in note for note in shoal.anonymize(people(), policy(), seed=2**64).notes)
    release.save(tmp_path / "out")
    assert "guessable; for tests only" in (tmp_path / "out.owner" / "report.html").read_text()
    assert b"guessable" not in b"".join(f.read_bytes() for f in (tmp_path / "out").iterdir())


def test_the_owner_is_warned_to_publish_one_release(tmp_path: Path) -> None:
    release = shoal.anonymize(people(), policy(), seed=2**64)
    assert any("Publish only one release of these records" in note for note in release.notes)
    assert release.notes == release.summary().notes
    release.save(tmp_path / "out")
    assert "Publish only one release" in (tmp_path / "out.owner" / "report.html").read_text()
    assert "Publish only one release" not in (tmp_path / "out" / "report.html").read_text()


def test_overwriting_a_release_uses_its_secret_again(tmp_path: Path, fresh: None) -> None:
    shoal.anonymize(people(), policy(), method="kmember").save(tmp_path / "out")
    seed, table = seed_in(tmp_path / "out.owner"), table_in(tmp_path / "out")
    second = shoal.anonymize(people(), policy(), method="kmember")
    before = second.frame
    assert second.seed != seed
    second.save(tmp_path / "out", overwrite=True)
    assert second.seed == seed == seed_in(tmp_path / "out.owner")
    assert table_in(tmp_path / "out") == table
    assert not second.frame.equals(before)  # the object is the release that was saved
    assert second.certificate.fingerprint == shoal.check(second.frame, policy()).fingerprint


@pytest.mark.parametrize("kind", ["frame", "CSV file", "CSV folder", "Parquet file", "relation"])
def test_overwriting_works_after_the_frame_was_read_from_duckdb(kind: str, tmp_path: Path, fresh: None) -> None:
    """The input stays available while the release can be made again; then its files are removed."""
    duckdb = pytest.importorskip("duckdb")
    (tmp_path / "folder").mkdir()
    for name in ("file.csv", "folder/a.csv"):
        people().to_csv(tmp_path / name, index=False)
    people().to_parquet(tmp_path / "file.parquet")
    data = {
        "frame": people(),
        "CSV file": tmp_path / "file.csv",
        "CSV folder": tmp_path / "folder",
        "Parquet file": tmp_path / "file.parquet",
        "relation": duckdb.connect().from_df(people()),
    }[kind]
    options: dict[str, Any] = {"method": "kmember", "engine": "duckdb", "temp": tmp_path / "temp"}
    shoal.anonymize(data, policy(), **options).save(tmp_path / "out", format="csv")
    seed, table = seed_in(tmp_path / "out.owner"), table_in(tmp_path / "out")
    second = shoal.anonymize(data, policy(), **options)
    frame = second.frame
    before = frame.fetchall()
    second.save(tmp_path / "out", format="csv", overwrite=True)
    assert second.seed == seed and table_in(tmp_path / "out") == table
    assert len(second.frame.fetchall()) == len(before)
    assert frame.fetchall() == before  # the user may still hold the first relation
    third = shoal.anonymize(data, policy(), **options)
    kept = third.frame
    files = set((tmp_path / "temp").rglob("*.parquet"))
    del third
    gc.collect()
    removed = files - set((tmp_path / "temp").rglob("*.parquet"))
    assert len(removed) == (kind != "Parquet file") and len(kept.fetchall()) == len(before)
    assert (tmp_path / "file.parquet").exists()


def test_another_policy_or_a_given_seed_is_a_release_of_its_own(tmp_path: Path, fresh: None) -> None:
    shoal.anonymize(people(), policy(), method="kmember").save(tmp_path / "out")
    seed = seed_in(tmp_path / "out.owner")
    shoal.anonymize(people(), policy(4), method="kmember").save(tmp_path / "out", overwrite=True)
    assert seed_in(tmp_path / "out.owner") != seed
    shoal.anonymize(people(), policy(4), method="kmember", seed=2**90).save(tmp_path / "out", overwrite=True)
    assert seed_in(tmp_path / "out.owner") == 2**90


@pytest.mark.parametrize(
    ("name", "content"),
    [("ledger.json", content) for content in (b"", b"{}", b"[", b'{"seed": "no"}', b"\xff")]
    + [("policy.yaml", content) for content in (b"", b"[", b"seed: no", b"\xff", None)],
)
def test_a_damaged_release_is_not_overwritten_with_a_new_secret(
    name: str, content: bytes | None, tmp_path: Path, fresh: None
) -> None:
    shoal.anonymize(people(), policy(), method="kmember").save(tmp_path / "out")
    seed, table = seed_in(tmp_path / "out.owner"), table_in(tmp_path / "out")
    file = tmp_path / "out.owner" / name
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    second = shoal.anonymize(people(), policy(), method="kmember")
    with pytest.raises(shoal.DataError, match=rf"out.owner/{name}' is damaged.*Repair this file.*--secret"):
        second.save(tmp_path / "out", overwrite=True)
    assert table_in(tmp_path / "out") == table
    given = shoal.anonymize(people(), policy(), method="kmember", seed=seed)
    given.save(tmp_path / "out", overwrite=True)
    assert table_in(tmp_path / "out") == table and seed_in(tmp_path / "out.owner") == seed


def test_a_release_without_an_owner_folder_can_be_overwritten(tmp_path: Path) -> None:
    shoal.anonymize(people(), policy(), method="kmember").save(tmp_path / "out")
    shutil.rmtree(tmp_path / "out.owner")
    shoal.anonymize(people(), policy(), method="kmember").save(tmp_path / "out", overwrite=True)
    assert (tmp_path / "out.owner" / "ledger.json").is_file()


def test_a_secret_is_used_again_for_another_folder(tmp_path: Path, fresh: None) -> None:
    shoal.anonymize(people(), policy(), method="kmember").save(tmp_path / "one")
    second = shoal.anonymize(people(), policy(), method="kmember", secret=tmp_path / "one.owner")
    second.save(tmp_path / "two")
    assert table_in(tmp_path / "one") == table_in(tmp_path / "two")


def test_a_secret_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(shoal.DataError, match="owner folder of a saved release"):
        shoal.anonymize(people(), policy(), secret=tmp_path)
    (tmp_path / "ledger.json").write_text('{"seed": "no"}')
    with pytest.raises(shoal.ShoalError):
        shoal.anonymize(people(), policy(), secret=tmp_path)
    (tmp_path / "ledger.json").write_text("[" * 100_000)
    with pytest.raises(shoal.DataError, match="contains no secret"):
        shoal.anonymize(people(), policy(), secret=tmp_path)
    with pytest.raises(shoal.PolicyError, match="cannot be combined"):
        shoal.anonymize(people(), policy(), secret=tmp_path, seed=1)


def test_later_rows_go_on_with_the_secret(tmp_path: Path) -> None:
    shoal.anonymize(people(), policy(), seed=2**99).save(tmp_path / "one")
    later = shoal.anonymize(people().assign(ill=7), recoding=tmp_path / "one.owner" / "recoding.json")
    assert later.seed == 2**99


def test_the_command_line_reuses_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first run is a process of its own: its secret comes from the operating system, not from the settings of the tests."""
    people().to_csv(tmp_path / "people.csv", index=False)
    policy().save(tmp_path / "policy.yaml")
    given = (tmp_path / "people.csv", "-p", tmp_path / "policy.yaml", "-m", "kmember")
    command = [str(Path(sys.executable).with_name("shoal")), "anonymize", *map(str, given)]

    def anonymize(*more: str | Path) -> str:
        monkeypatch.setattr(sys, "argv", [*command, *map(str, more)])
        with pytest.raises(SystemExit) as caught:
            main()
        assert not caught.value.code
        return capsys.readouterr().out

    said = subprocess.check_output([*command, "-o", str(tmp_path / "a")], text=True)
    assert "Publish only one release" in said
    table = table_in(tmp_path / "a")
    anonymize("-o", tmp_path / "a", "--force")
    assert table_in(tmp_path / "a") == table
    anonymize("-o", tmp_path / "b", "--secret", tmp_path / "a.owner")
    assert table_in(tmp_path / "b") == table
    assert "guessable; for tests only" in anonymize("-o", tmp_path / "c", "--seed", "5")


def test_a_large_ledger_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ledger.json").write_text('{"seed": 1}')
    assert load_seed(tmp_path) == 1
    monkeypatch.setattr("shoal.secret.LONGEST", 5)
    with pytest.raises(shoal.DataError, match=r"ledger\.json.*contains no secret"):
        load_seed(tmp_path)
