"""A recoding as SQL: a query, or a view, that publishes a table of a database as the release published its records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shoal.engines.sql import quote_name
from shoal.errors import PolicyError
from shoal.recoding import Boxes, Cut, load_recoding
from shoal.sql.boxes_query import publish_boxes
from shoal.sql.check_query import choose_prefix
from shoal.sql.cut_query import publish_cut
from shoal.sql.dialects import parse_dialect, quote_table, translate
from shoal.sql.field_values import read_value

TABLE = "patients"


def recoding_query(recoding: Any, *, dialect: str, table: str = TABLE, view: str | None = None) -> str:
    """Return an SQL query that publishes the records of a table with the labels of a `Cut` or `Boxes` recoding.

    Parameters
    ----------
    recoding : the recoding of a release, or the path of its ``recoding.json``
    dialect : ``postgres``, ``snowflake``, ``bigquery``, ``spark`` or ``duckdb``
    table : the name of the original table, with its schema if needed
    view : the name of a view to create (default: a query only)

    Guarantee
    ---------
    On the original table the query gives the rows of ``recoding.apply``, in any order. Records that were suppressed, and
    records that no box or interval contains, are left out; a later text that the release did not have is one of these. Groups
    may be smaller than the requirement demands: check the result before you publish it. The text contains values of the data.
    It belongs to the owner.
    """
    dialect = parse_dialect(dialect)
    found = load_recoding(recoding) if isinstance(recoding, (str, Path)) else recoding
    if not isinstance(found, (Cut, Boxes)):
        kind = getattr(found, "kind", type(found).__name__)
        raise PolicyError(
            f"a recoding of the kind {kind!r} cannot be written as SQL: only 'cut' and 'boxes' are rules on values. Apply it "
            "with `shoal anonymize --recoding`."
        )
    prefix, missing = choose_prefix(table), tuple(dict.fromkeys(("", *(text.strip() for text in found.output.missing))))
    values = f"{prefix}_values"
    unchanged = [(name, f"u{i}") for i, name in enumerate(found.output.unchanged, start=1)]
    listed = [f"{read_value(field, missing)} AS v{j}" for j, field in enumerate(found.fields, start=1)]
    listed += [f"{quote_name(name)} AS {short}" for name, short in unchanged]
    published = (
        publish_cut(found, values, prefix) if isinstance(found, Cut) else publish_boxes(found, values, prefix, dialect)
    )
    tables = [(values, f"SELECT {', '.join(listed)} FROM {quote_table(table)}"), *published.tables]
    columns = ", ".join(f"{text} AS {quote_name(name)}" for name, text in (*published.columns, *unchanged))
    create = "" if view is None else f"CREATE VIEW {quote_table(view)} AS "
    text = translate(
        f"{create}WITH {', '.join(f'{name} AS MATERIALIZED ({body})' for name, body in tables)} "
        f"SELECT {columns} FROM {published.source} WHERE {published.condition}",
        dialect,
    )
    for placeholder, replacement in published.replaced.items():
        text = text.replace(quote_placeholder(placeholder, dialect), replacement)
    return text


def quote_placeholder(name: str, dialect: str) -> str:
    """A placeholder as it stands in a translated query."""
    return translate(f"SELECT {name}", dialect).split()[-1]
