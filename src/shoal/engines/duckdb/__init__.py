"""The DuckDB engine, for tables larger than memory."""

from shoal.engines.duckdb.engine import DuckEngine

__all__ = ["DuckEngine"]
