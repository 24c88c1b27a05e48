"""One DuckDB database for all contract tests of a worker: opening one costs a third of a small release.

Every session keeps a connection and temporary tables of its own. Functions belong to the database, so their names differ. The
tests of `tests/engines` open databases as users do.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import SimpleNamespace

import pytest


@pytest.fixture(scope="session", autouse=True)
def one_database() -> Iterator[None]:
    """Sessions connect to one database in memory."""
    duckdb = pytest.importorskip("duckdb")
    from shoal.engines.duckdb import session

    names = itertools.count()
    with duckdb.connect(config=session.OFFLINE) as database, pytest.MonkeyPatch.context() as patch:
        shared = SimpleNamespace(**{**vars(duckdb), "connect": lambda config: database.cursor()})
        patch.setattr(session, "_import_duckdb", lambda: shared)
        patch.setattr(session.Session, "new_name", lambda self, prefix: f"{prefix}_{next(names)}")
        yield
