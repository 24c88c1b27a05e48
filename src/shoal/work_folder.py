"""Work folders: private temporary folders beside a release or in a temporary directory.

A work folder contains raw data or a recoding. The process that created it locks it while in use and removes it afterwards. If
that process was killed, the next run in the same parent folder removes the work folder. `WorkFolder.exchange` moves folders
from the work folder to their final paths and records the moves in a journal. Before a work folder is removed, an incomplete
exchange is undone.
"""

from __future__ import annotations

import importlib
import json
import os
import secrets
import shutil
import stat
import tempfile
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any


def _import(name: str) -> Any:
    """A module for file locks, or None: POSIX systems have ``fcntl``, Windows has ``msvcrt``, others have neither."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


fcntl, msvcrt = _import("fcntl"), _import("msvcrt")
PREFIX = ".shoal-work-"
LOCK, JOURNAL, OLD = "lock", "journal.json", "old-"


class WorkFolder:
    """A new folder (mode 700) in ``parent``, locked by this process until ``remove`` is called or the program ends.

    On a system or file system without locks, this process still removes the folder, but no later run does so if this process
    was killed.
    """

    def __init__(self, parent: Path) -> None:
        sweep(parent)
        prefix = f"{PREFIX}{secrets.token_hex(8)}"
        try:
            lock = None
            while lock is None:  # another run may remove the folder before it is locked
                self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
                lock = _lock(self.path, wait=True)
            self.remove = weakref.finalize(self, _remove, self.path, lock, os.getpid())
        except BaseException:  # an interrupt may come before ``self.path`` is set
            for folder in parent.glob(f"{prefix}*"):
                shutil.rmtree(folder, ignore_errors=True)
            raise

    def exchange(self, places: Mapping[str, str], commit: Callable[[], None] | None = None) -> None:
        """Move folders, by name, to these names beside the work folder; folders with those names move into the work folder.

        The last folder is the public folder. Its old version is moved away first and its new version is moved last, so that
        readers never see it beside a folder of another release. ``commit`` is called before this last move, to publish what
        belongs to the folders and is elsewhere; if it fails, the exchange is incomplete.
        """
        (self.path / JOURNAL).write_text(json.dumps(places), encoding="utf-8")
        moves = _moves(self.path, places)
        for _, place, old in reversed(moves):
            if os.path.lexists(place):
                place.replace(old)
        *others, last = moves
        for new, place, _ in others:
            new.replace(place)
        if commit is not None:
            commit()
        last[0].replace(last[1])


def sweep(parent: Path) -> None:
    """Remove this user's work folders whose processes have ended; undo incomplete exchanges first."""
    with suppress(OSError):
        for folder in parent.glob(f"{PREFIX}*"):
            with suppress(OSError):
                if _is_own(folder) and (lock := _lock(folder, wait=False)) is not None:
                    try:
                        _clear(folder)
                    finally:
                        _unlock(folder, lock)


def _is_own(folder: Path) -> bool:
    """Whether the path is a folder of this user and not a symbolic link."""
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and (not hasattr(os, "getuid") or status.st_uid == os.getuid())


def _lock(folder: Path, *, wait: bool) -> int | None:
    """Lock a folder by a file in it; None if the folder was removed before it was locked.

    The locked file must be the file that is in the folder now. A lock on a removed file protects nothing, because another
    process may have created a folder of the same name.
    """
    file, lock = folder / LOCK, None
    try:
        lock = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        unlockable = (OSError,) if wait else ()  # without file locks, no other run can lock this file either
        with suppress(*unlockable):
            _acquire(lock, wait=wait)
        if os.path.samestat(os.fstat(lock), os.lstat(file)):
            acquired, lock = lock, None
            return acquired
    except FileNotFoundError:
        pass
    finally:
        if lock is not None:
            os.close(lock)
    return None


def _acquire(file: int, *, wait: bool) -> None:
    """Lock an open file for this process; OSError if another process holds the lock or the system has no locks."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    elif msvcrt is not None:
        msvcrt.locking(file, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
    else:
        raise OSError("this system has no file locks")


def _unlock(folder: Path, lock: int) -> None:
    os.close(lock)
    if fcntl is None:  # Windows cannot remove an open file
        with suppress(OSError):
            (folder / LOCK).unlink()
            folder.rmdir()


def _remove(folder: Path, lock: int, owner: int) -> None:
    if os.getpid() != owner:  # only the parent of a forked child removes the folder
        return
    try:
        for _ in range(2):  # try again after an interrupt
            with suppress(KeyboardInterrupt, OSError):
                _clear(folder)
    finally:
        _unlock(folder, lock)


def _clear(folder: Path) -> None:
    """Undo an incomplete exchange and remove the folder. Keep the folder if the exchange cannot be undone."""
    if _undo(folder):
        shutil.rmtree(folder, ignore_errors=True)


def _undo(folder: Path) -> bool:
    """Undo an interrupted exchange. Return whether the folder may be removed."""
    journal = folder / JOURNAL
    try:
        moves = _moves(folder, json.loads(journal.read_text(encoding="utf-8")))
    except FileNotFoundError:  # no exchange was started, or it was already undone
        return True
    except ValueError:  # the journal is incomplete, so nothing was moved
        moves = []
    if moves and not os.path.lexists(moves[-1][0]):  # the last folder was moved: the exchange is complete
        return True
    for new, place, _ in reversed(moves):
        if not os.path.lexists(new) and os.path.lexists(place):
            place.replace(new)
    for _, place, old in moves:
        if os.path.lexists(old) and not os.path.lexists(place):
            old.replace(place)
    if any(folder.glob(f"{OLD}*")):  # another folder now has the name of an old folder: keep both
        return False
    journal.unlink()  # remove it first: a removed folder would look like a moved folder
    return True


def _moves(folder: Path, places: Mapping[str, str]) -> list[tuple[Path, Path, Path]]:
    """For every exchanged folder: its path in the work folder, its final path, and the path for the old folder."""
    return [(folder / name, folder.parent / place, folder / f"{OLD}{name}") for name, place in places.items()]
