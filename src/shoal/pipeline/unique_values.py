"""Values that occur once in columns that are published unchanged: whoever knows such a value finds the record."""

from __future__ import annotations

from shoal.engines import AS_PUBLISHED, Engine
from shoal.errors import PolicyError
from shoal.formats.dates import parse_date
from shoal.formats.numbers import parse_number
from shoal.policy import Policy

LEAST_RECORDS = 20  # smaller tables are not refused
MOST_UNIQUE = 0.9  # the share of the non-missing values of a kept text column that may occur once
SAMPLE = 1000  # values that decide whether a column has texts


def note_unique_values(engine: Engine, policy: Policy) -> tuple[str, ...]:
    """A note with the number of values that occur once in each unchanged column.

    Raises `PolicyError` for a text column under ``keep`` in which nearly every value occurs once, unless the policy allows it.
    """
    found = []
    for column in policy.unchanged_columns:
        once, records = engine.count_once(column), engine.summarize(column).records
        if not once:
            continue
        found.append(f"{column}: {once:,} of {records:,} values")
        is_kept = column in policy.keep and column not in policy.accept
        if is_kept and records >= LEAST_RECORDS and once > MOST_UNIQUE * records and _has_texts(engine, column):
            raise PolicyError(
                f"column {column!r} is listed under 'keep', but {once:,} of its {records:,} values occur once, so it can "
                f"identify people. List it under 'identifiers' to drop it, under 'quasi' to generalize it, or name it "
                f"under 'accept' with the reason if it must be published."
            )
    if not found:
        return ()
    return (
        f"Columns that are published unchanged have values that occur once ({'; '.join(found)}). Whoever knows such a value of "
        "a person finds the record.",
    )


def _has_texts(engine: Engine, column: str) -> bool:
    """Whether some value of a column is neither a number nor a date."""
    values = engine.distinct(column, AS_PUBLISHED).values[:SAMPLE]
    return any(parse_number(str(v)) is None and parse_date(str(v)) is None for v in values.tolist())
