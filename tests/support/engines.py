"""Engines in the contract tests: their marks, their data, and their frames. Some engines need a server."""

from __future__ import annotations

import functools
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from tests.support import postgres
from tests.support.spark import require_spark
from tests.support.ways import list_engines, list_server_engines

SLOW = ("spark",)  # seconds even for a small table: tests with many cases take some of them

each_server_engine = pytest.mark.parametrize("engine", list_server_engines())


def each_engine() -> pytest.MarkDecorator:
    """Run a test with every registered engine."""
    servers = [pytest.param(name, marks=pytest.mark.engines) for name in list_server_engines()]
    return pytest.mark.parametrize("engine", [*list_engines(), *servers])


def place(frame: Any, engine: str) -> Any:
    """Return a frame as data for an engine; skip the test where the engine cannot run."""
    if engine == "spark":
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
    if hasattr(type(frame), "toArrow"):  # Spark, whose own conversion warns with pandas 3
        return frame.toArrow().to_pandas()
    if hasattr(type(frame), "to_df"):  # DuckDB
        return frame.to_df()
    return frame.to_pandas() if hasattr(type(frame), "to_pandas") else pd.DataFrame(frame)
