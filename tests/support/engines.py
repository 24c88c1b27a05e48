"""Engines in the contract tests: their marks, their data, and their frames. Some engines need a server."""

from __future__ import annotations

import functools
import os
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from tests.support import postgres
from tests.support.ways import list_engines

SERVERS = ("spark", "ibis")  # engines that need Java or a database server; see `make test-engines`


def each_engine(*, but: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """Run a test with every registered engine."""
    names = [name for name in list_engines() if name not in but]
    marked = [pytest.param(name, marks=pytest.mark.engines) if name in SERVERS else name for name in names]
    return pytest.mark.parametrize("engine", marked)


def list_running_engines() -> list[str]:
    """The engines that a test with all engines uses, the engine in memory first."""
    present = [] if not os.environ.get("SHOAL_TEST_ENGINES") else [n for n in SERVERS if explain_absence(n) is None]
    return [name for name in list_engines() if name not in SERVERS or name in present]


def explain_absence(engine: str) -> str | None:
    """Why an engine cannot run here; None where it can."""
    if engine == "spark":
        from tests.support.spark import find_obstacle

        return find_obstacle()
    return postgres.explain_absence() if engine == "ibis" else None


def place(frame: Any, engine: str) -> Any:
    """Return a frame as data for an engine; skip the test where the engine cannot run."""
    if engine == "spark":
        from tests.support.spark import require_spark

        require_spark()
    if engine != "ibis":
        return frame
    server = postgres.require_server()
    table = frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(frame, preserve_index=False)
    return connect_ibis().table(server.upload(table))


@functools.cache
def connect_ibis() -> Any:
    """The Ibis connection of this process, which stays open until it ends."""
    return postgres.start().ibis()


def to_pandas(frame: Any) -> pd.DataFrame:
    """Return the frame of a release as a frame of pandas."""
    if type(frame).__module__.startswith("ibis."):
        return frame.to_pyarrow().to_pandas()
    for method in ("to_df", "toPandas"):  # DuckDB, Spark
        if hasattr(type(frame), method):
            return pd.DataFrame(getattr(frame, method)())
    return pd.DataFrame(frame)
