"""Names of the two columns that ``write="lo-hi"`` publishes for a numeric column: the lower and the upper end."""

from __future__ import annotations

from collections.abc import Collection


def pair_names(column: str) -> tuple[str, str]:
    """The names of the columns with the lower and the upper end.

    >>> pair_names("age")
    ('age_lo', 'age_hi')
    """
    return f"{column}_lo", f"{column}_hi"


def published_names(column: str, published: Collection[str]) -> tuple[str, ...]:
    """The published columns of a quasi-identifier: the column itself if it is published, otherwise the pair of its ends.

    >>> published_names("age", ["age"]), published_names("age", ["age_lo", "age_hi"])
    (('age',), ('age_lo', 'age_hi'))
    """
    return (column,) if column in published else pair_names(column)
