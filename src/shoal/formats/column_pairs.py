"""Names of the two columns that ``write="lo-hi"`` publishes for one number: the lower and the upper end."""

from __future__ import annotations

from collections.abc import Collection


def pair_names(column: str) -> tuple[str, str]:
    """The names of the lower and the upper end.

    >>> pair_names("age")
    ('age_lo', 'age_hi')
    """
    return f"{column}_lo", f"{column}_hi"


def published_names(column: str, published: Collection[str]) -> tuple[str, ...]:
    """The published columns that show a column: itself where it is published, else the pair of its ends.

    >>> published_names("age", ["age"]), published_names("age", ["age_lo", "age_hi"])
    (('age',), ('age_lo', 'age_hi'))
    """
    return (column,) if column in published else pair_names(column)
