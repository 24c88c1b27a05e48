"""The engine for tables in databases, by a connection string or an Ibis table."""

from shoal.engines.databases.engine import DatabaseEngine

__all__ = ["DatabaseEngine"]
