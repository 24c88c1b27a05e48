"""Names of the columns that link the two tables of a bucketed release."""

from __future__ import annotations

BUCKET = "bucket"  # in both tables
COUNT = "count"  # in the table of sensitive values: the records of the bucket with the value
