"""Work folders: private folders beside a release or in a temporary place, which never outlive their use.

A work folder holds raw data or a recoding. It is locked while its owner uses it and removed afterwards; if its owner was
killed, the next run that works in the same place removes it. `WorkFolder.exchange` moves folders out of it to their places. A
journal in the work folder makes that safe: whoever removes the folder, owner or next run, first undoes a half exchange.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import stat
import sys
import tempfile
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

PREFIX = ".shoal-work-"
LOCK, JOURNAL, OLD = "lock", "journal.json", "old-"


class WorkFolder:
    """A new folder (mode 700) in ``parent``, locked by this process until ``remove`` is called or the program ends.

    On a file system without locks the folder is removed by its owner, but not by the next run if the owner was killed.
    """

    def __init__(self, parent: Path) -> None:
        sweep(parent)
        prefix = f"{PREFIX}{secrets.token_hex(8)}"
        try:
            lock = None
            while lock is None:  # another run may sweep the folder before it is locked
                self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
                lock = _lock(self.path, wait=True)
            self.remove = weakref.finalize(self, _remove, self.path, lock, os.getpid())
        except BaseException:  # an interrupt may come before the name of the folder is known here
            for folder in parent.glob(f"{prefix}*"):
                shutil.rmtree(folder, ignore_errors=True)
            raise

    def exchange(self, places: Mapping[str, str]) -> None:
        """Move the folders of these names to their places beside this one; folders that are there move in here.

        The last folder is the one that others see: the old one goes first and the new one comes last, so nobody sees it
        beside a folder of another release.
        """
        (self.path / JOURNAL).write_text(json.dumps(places), encoding="utf-8")
        moves = _moves(self.path, places)
        for _, place, old in reversed(moves):
            if os.path.lexists(place):
                place.replace(old)
        for new, place, _ in moves:
            new.replace(place)


def sweep(parent: Path) -> None:
    """Remove the work folders of this user whose owners died; a half exchange is undone first."""
    with suppress(OSError):
        for folder in parent.glob(f"{PREFIX}*"):
            with suppress(OSError):
                if _is_own(folder) and (lock := _lock(folder, wait=False)) is not None:
                    try:
                        _clear(folder)
                    finally:
                        _unlock(folder, lock)


def _is_own(folder: Path) -> bool:
    """Whether this is a folder, not a link to one, and of this user."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and (sys.platform == "win32" or found.st_uid == os.getuid())


def _lock(folder: Path, *, wait: bool) -> int | None:
    """Lock a folder by a file in it; None if the folder was removed before it was locked.

    The file that is locked must be the one in the folder: a lock on a removed file protects nothing, since there may be
    another folder of the same name with an owner of its own.
    """
    file, lock = folder / LOCK, None
    try:
        lock = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        unlockable = (OSError,) if wait else ()  # where files cannot be locked, no other run can lock this one either
        with suppress(*unlockable):
            _acquire(lock, wait=wait)
        if os.path.samestat(os.fstat(lock), os.lstat(file)):
            found, lock = lock, None
            return found
    except FileNotFoundError:
        pass
    finally:
        if lock is not None:
            os.close(lock)
    return None


def _acquire(file: int, *, wait: bool) -> None:
    """Lock an open file for this process; OSError if another one holds it, or if files cannot be locked here."""
    if sys.platform == "win32":
        msvcrt.locking(file, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def _unlock(folder: Path, lock: int) -> None:
    os.close(lock)
    if sys.platform == "win32":  # a file that is open cannot be removed there
        with suppress(OSError):
            (folder / LOCK).unlink()
            folder.rmdir()


def _remove(folder: Path, lock: int, owner: int) -> None:
    if os.getpid() != owner:  # a forked child leaves the folder to its parent
        return
    try:
        for _ in range(2):  # once more after an interrupt
            with suppress(KeyboardInterrupt, OSError):
                _clear(folder)
    finally:
        _unlock(folder, lock)


def _clear(folder: Path) -> None:
    """Undo a half exchange and remove the folder; it stays if the exchange cannot be undone."""
    if _undo(folder):
        shutil.rmtree(folder, ignore_errors=True)


def _undo(folder: Path) -> bool:
    """Put everything back where an exchange was interrupted; whether the folder may be removed then."""
    journal = folder / JOURNAL
    try:
        moves = _moves(folder, json.loads(journal.read_text(encoding="utf-8")))
    except FileNotFoundError:  # no exchange began, or it was undone before
        return True
    except ValueError:  # the journal was not written to its end, so nothing was moved
        moves = []
    if moves and not os.path.lexists(moves[-1][0]):  # the last folder is in its place: the exchange is complete
        return True
    for new, place, _ in reversed(moves):
        if not os.path.lexists(new) and os.path.lexists(place):
            place.replace(new)
    for _, place, old in moves:
        if os.path.lexists(old) and not os.path.lexists(place):
            old.replace(place)
    if any(folder.glob(f"{OLD}*")):  # something else has taken the place of an old folder: keep both
        return False
    journal.unlink()  # before any folder is removed, which would look like a folder that was moved
    return True


def _moves(folder: Path, places: Mapping[str, str]) -> list[tuple[Path, Path, Path]]:
    """Of every exchanged folder: where it was written, its place, and where the old one goes."""
    return [(folder / name, folder.parent / place, folder / f"{OLD}{name}") for name, place in places.items()]
