"""The engine for Spark: DataFrames, tables, and files that a cluster reads."""

from shoal.engines.spark.engine import SparkEngine

__all__ = ["SparkEngine"]
