"""Work folders of killed processes are removed, those of running processes are kept, and no release is lost."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal import work_folder
from shoal.work_folder import PREFIX, WorkFolder, sweep

fcntl = pytest.importorskip("fcntl")

PLACES = {"owner": "out.owner", "public": "out"}


class Killed(BaseException):
    """Simulates the end of the process."""


def die(work: WorkFolder) -> None:
    """Leave a work folder as a killed process does: unlocked, not removed."""
    detached = work.remove.detach()
    assert detached is not None
    os.close(detached[2][1])


def fill(folder: Path, content: str) -> None:
    folder.mkdir()
    (folder / "file").write_text(content)


def state(parent: Path) -> dict[str, str]:
    """The content of every folder, including hidden folders."""
    return {str(p.relative_to(parent)): p.read_text() for p in parent.rglob("file")}


@contextlib.contextmanager
def killed_after(renames: int) -> Iterator[None]:
    """End the process after this number of renames; the caller simulates the clean-up."""
    real, left = os.replace, renames

    def replace(*given: Any) -> None:
        nonlocal left
        if not left:
            raise Killed
        real(*given)
        left -= 1

    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Killed):
        patch.setattr(os, "replace", replace)
        yield


def exchange_until(parent: Path, renames: int) -> Path:
    """An exchange that is killed after so many renames."""
    work = WorkFolder(parent)
    for name in PLACES:
        fill(work.path / name, "new")
    with killed_after(renames):
        work.exchange(PLACES)
    die(work)
    return work.path


OLD = {"out/file": "old", "out.owner/file": "old"}
NEW = {"out/file": "new", "out.owner/file": "new"}


@pytest.mark.parametrize("again", range(5))
@pytest.mark.parametrize("renames", range(5))
@pytest.mark.parametrize("before", [["out", "out.owner"], ["out"], ["out.owner"], []], ids=str)
def test_a_half_exchange_is_undone_and_a_whole_one_is_kept(
    before: list[str], renames: int, again: int, tmp_path: Path
) -> None:
    """Also where the run that undoes it is killed after some renames."""
    for name in before:
        fill(tmp_path / name, "old")
    old = state(tmp_path)
    work = exchange_until(tmp_path, renames)
    with killed_after(again):
        sweep(tmp_path)
    seen = {state(tmp_path).get(name) for name in OLD} - {None}
    assert len(seen) <= 1 or len(before) < 2  # never the table of one beside the recoding of the other
    sweep(tmp_path)
    assert state(tmp_path) == (NEW if renames >= 2 + len(old) else old)
    assert not work.exists()


def test_an_interrupted_exchange_is_undone_by_its_owner(tmp_path: Path) -> None:
    for name in PLACES.values():
        fill(tmp_path / name, "old")
    for renames in range(4):
        work = WorkFolder(tmp_path)
        for name in PLACES:
            fill(work.path / name, "new")
        with killed_after(renames):
            work.exchange(PLACES)
        work.remove()
        assert state(tmp_path) == OLD
        assert not work.path.exists()


def test_a_folder_that_cannot_be_moved_back_is_kept(tmp_path: Path) -> None:
    """Somebody else took the place: neither theirs nor the old release is lost."""
    for name in PLACES.values():
        fill(tmp_path / name, "old")
    work = exchange_until(tmp_path, 2)
    fill(tmp_path / "out", "theirs")
    sweep(tmp_path)
    sweep(tmp_path)
    assert state(tmp_path)["out/file"] == "theirs"
    assert state(tmp_path)[f"{work.name}/old-public/file"] == "old"
    shutil.rmtree(tmp_path / "out")
    sweep(tmp_path)
    assert state(tmp_path) == OLD


def test_links_in_the_places_are_moved_not_followed(tmp_path: Path) -> None:
    fill(tmp_path / "elsewhere", "old")
    for name in PLACES.values():
        (tmp_path / name).symlink_to("elsewhere")
    for renames in range(4):
        exchange_until(tmp_path, renames)
        sweep(tmp_path)
        assert state(tmp_path) == {"elsewhere/file": "old"}
        assert all((tmp_path / name).readlink() == Path("elsewhere") for name in PLACES.values())


@pytest.mark.parametrize("content", ["", "{", '{"owner": "ou', "\udcff"])
def test_a_journal_that_was_not_written_to_its_end(content: str, tmp_path: Path) -> None:
    fill(tmp_path / "out", "old")
    work = WorkFolder(tmp_path)
    fill(work.path / "public", "new")
    (work.path / work_folder.JOURNAL).write_bytes(content.encode(errors="surrogateescape"))
    die(work)
    sweep(tmp_path)
    assert state(tmp_path) == {"out/file": "old"}
    assert not work.path.exists()


def test_a_folder_is_private_and_goes_with_its_owner(tmp_path: Path) -> None:
    work = WorkFolder(tmp_path)
    assert work.path.stat().st_mode & 0o777 == 0o700
    del work
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_only_dead_folders_of_this_user_are_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "precious", "thesis")
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path / "precious")
    (tmp_path / f"{PREFIX}file").write_text("")
    alive, dead, tricky = (WorkFolder(tmp_path) for _ in range(3))
    die(dead)
    die(tricky)
    (tricky.path / work_folder.LOCK).unlink()
    (tricky.path / work_folder.LOCK).symlink_to(tmp_path / "precious" / "file")
    with monkeypatch.context() as patch:
        patch.setattr(os, "getuid", lambda: 12345)
        sweep(tmp_path)
        assert dead.path.exists()
    sweep(tmp_path)
    assert alive.path.exists() and not dead.path.exists()
    kept = {"precious", f"{PREFIX}link", f"{PREFIX}file", alive.path.name, tricky.path.name}
    assert {p.name for p in tmp_path.iterdir()} == kept
    assert state(tmp_path)["precious/file"] == "thesis"


def test_an_empty_folder_of_a_killed_program_is_swept(tmp_path: Path) -> None:
    """It was killed before it could lock."""
    (tmp_path / f"{PREFIX}0").mkdir()
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


# Several programs at once


def before_locking(patch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    """Do something between the opening of the next lock and its locking."""
    real = work_folder._acquire

    def acquire(file: int, *, wait: bool) -> None:
        patch.setattr(work_folder, "_acquire", real)
        act()
        real(file, wait=wait)

    patch.setattr(work_folder, "_acquire", acquire)


def test_a_sweep_that_locked_a_removed_folder_spares_the_next_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run sweeps while another is about to, and a third makes a folder of the same name."""
    folder = tmp_path / f"{PREFIX}0"
    folder.mkdir()
    locks: list[int | None] = []

    def interfere() -> None:
        sweep(tmp_path)
        assert not folder.exists()
        fill(folder, "raw")
        locks.append(work_folder._lock(folder, wait=True))

    before_locking(monkeypatch, interfere)
    sweep(tmp_path)
    assert state(folder) == {"file": "raw"}
    assert locks and locks[0] is not None
    os.close(locks[0])


def test_a_folder_that_is_removed_before_it_is_locked_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_locking(monkeypatch, lambda: shutil.rmtree(next(tmp_path.iterdir())))
    work = WorkFolder(tmp_path)
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [work.path]


def test_a_folder_that_is_removed_before_its_lock_is_opened_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = tempfile.mkdtemp, []

    def make(**given: Any) -> str:
        calls.append(real(**given))
        if len(calls) == 1:
            sweep(tmp_path)
        return str(calls[-1])

    monkeypatch.setattr(tempfile, "mkdtemp", make)
    work = WorkFolder(tmp_path)
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [work.path]
    assert len(calls) == 2


@pytest.mark.parametrize("step", ["tempfile.mkdtemp", "shoal.work_folder._acquire", "weakref.finalize"])
def test_an_interrupt_during_creation_leaves_no_folder(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, _, name = step.rpartition(".")
    real = getattr(importlib.import_module(module), name)

    def interrupted(*given: Any, **more: Any) -> Any:
        real(*given, **more)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            WorkFolder(tmp_path)
    assert list(tmp_path.iterdir()) == []


MANY = """
import sys
from pathlib import Path
from shoal.work_folder import WorkFolder
print("ready", flush=True)
sys.stdin.readline()
for number in range(300):
    work = WorkFolder(Path(sys.argv[1]))
    (work.path / "file").write_text(str(number))
    inner = WorkFolder(Path(sys.argv[1]))
    assert (work.path / "file").read_text() == str(number)
    assert inner.path.is_dir()
    inner.remove()
    work.remove()
    assert not work.path.exists()
"""


def test_many_programs_share_a_place(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MANY, str(tmp_path)]
    with contextlib.ExitStack() as stack:
        running = [
            stack.enter_context(
                subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                )
            )
            for _ in range(3)
        ]
        for process in running:
            assert process.stdout and process.stdout.readline() == "ready\n"
        for process in running:
            assert process.stdin
            process.stdin.write("\n")
            process.stdin.flush()
        for process in running:
            _, err = process.communicate()
            assert process.returncode == 0, err
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without locks, folders are created and removed, and no run removes a folder that it cannot lock."""

    def unsupported(*_: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    work = WorkFolder(tmp_path)
    sweep(tmp_path)
    assert work.path.is_dir()
    work.remove()
    assert list(tmp_path.iterdir()) == []


def test_it_loads_and_locks_without_fcntl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, whose module for locks takes other arguments."""
    stand_in: Any = types.ModuleType("msvcrt")
    stand_in.LK_LOCK, stand_in.LK_NBLCK = 1, 2
    modes = {1: fcntl.LOCK_EX, 2: fcntl.LOCK_EX | fcntl.LOCK_NB}
    stand_in.locking = lambda file, mode, size: fcntl.flock(file, modes[mode])
    monkeypatch.setitem(sys.modules, "msvcrt", stand_in)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    spec = importlib.util.spec_from_file_location("windows_workfolder", work_folder.__file__)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    alive, dead = module.WorkFolder(tmp_path), module.WorkFolder(tmp_path)
    die(dead)
    module.sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [alive.path]
    alive.remove()
    assert list(tmp_path.iterdir()) == []
