"""One DuckDB database for all contract tests of a worker: opening one costs a third of a small release.

Every session keeps a connection and temporary tables of its own. Functions belong to the database, so their names differ. The
tests of `tests/engines` open databases as users do.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture(scope="package", autouse=True)
def one_database() -> Iterator[None]:
    """Sessions connect to one database in memory."""
    duckdb = pytest.importorskip("duckdb")
    from shoal.engines.duckdb import session

    names = itertools.count()
    with duckdb.connect(config=session.OFFLINE) as database, pytest.MonkeyPatch.context() as patch:

        def connect(*given: Any, **options: Any) -> Any:
            """A connection to the one database, unless a file is opened."""
            return duckdb.connect(*given, **options) if given or set(options) - {"config"} else database.cursor()

        shared = SimpleNamespace(**{**vars(duckdb), "connect": connect})
        patch.setattr(session, "_import_duckdb", lambda: shared)
        patch.setattr(session.Session, "new_name", lambda self, prefix: f"{prefix}_{next(names)}")
        yield
