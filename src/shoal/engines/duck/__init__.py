"""DuckDB behind the same methods: tables larger than memory."""

from shoal.engines.duck.engine import DuckEngine

__all__ = ["DuckEngine"]
