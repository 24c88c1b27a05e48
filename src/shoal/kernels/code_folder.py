"""The folder of compiled kernels, whose name depends on all that compiled code depends on."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PLAIN = "SHOAL_PLAIN_KERNELS"  # see `vectorized_boxes`
PREFIX = "shoal-"
KEPT = 3  # folders of other versions, such as those of a second environment or of the branch before
IN_USE = 3600  # seconds; a folder that was used later may still be in use


@cache
def find(given: str, compiler: str) -> Path:
    """The folder of the compiled code of these sources and this compiler; it exists.

    It is in the folder ``given`` (NUMBA_CACHE_DIR), else beside the sources, else in the cache folder of the user, wherever
    files can be written; else it lasts as long as this process. Folders of other versions that were not used for long are
    removed.
    """
    name = PREFIX + digest_sources(compiler)
    for parent in _list_parents(given):
        folder = parent / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "used").touch()
        except OSError:
            continue
        _remove_others(folder)
        return folder
    folder = Path(tempfile.mkdtemp(prefix="shoal-compiled-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def digest_sources(compiler: str) -> str:
    """A digest of the sources of all kernels, the chosen loops, the version of Python and the compiler."""
    digest = hashlib.sha256(repr((compiler, sys.version, os.environ.get(PLAIN))).encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        content = source.read_bytes()
        digest.update(f"{source.name} {len(content)} ".encode() + content)
    return digest.hexdigest()[:20]


def _list_parents(given: str) -> Iterator[Path]:
    if given:
        yield Path(given)
    yield Path(__file__).parent / "__pycache__"
    try:
        home = Path.home()
    except RuntimeError:  # this user has no home
        return
    if sys.platform == "win32":
        yield Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "shoal" / "compiled"
    elif sys.platform == "darwin":
        yield home / "Library" / "Caches" / "shoal"
    else:
        yield Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "shoal"


def _remove_others(folder: Path) -> None:
    """Remove the folders of other versions, except the last used ones."""
    used = []
    for other in folder.parent.glob(f"{PREFIX}*"):
        try:
            used.append(((other / "used").stat().st_mtime, other))
        except OSError:
            continue  # another process removes or makes it
    others = sorted((last, other) for last, other in used if other != folder)
    for last, other in others[:-KEPT]:
        if time.time() - last > IN_USE:
            shutil.rmtree(other, ignore_errors=True)
