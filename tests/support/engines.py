"""Data for the engines of the contract tests: engines of databases get their table from a real server."""

from __future__ import annotations

import functools
from typing import Any

import pyarrow as pa

from tests.support import postgres


def place(frame: Any, engine: str) -> Any:
    """Return a frame as data for an engine; skip the test where the database of the engine is absent."""
    if engine != "ibis":
        return frame
    server = postgres.require_server()
    table = frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(frame, preserve_index=False)
    return connect_ibis().table(server.upload(table))


@functools.cache
def connect_ibis() -> Any:
    """The Ibis connection of this process, which stays open until it ends."""
    return postgres.start().ibis()
