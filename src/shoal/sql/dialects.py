"""SQL text for several databases: written once, in the dialect of DuckDB, and translated by sqlglot."""

from __future__ import annotations

import re
from typing import Any

from shoal.engines.sql import quote_name
from shoal.errors import EngineError, PolicyError, list_choices

WRITTEN_IN = "duckdb"
IS_NAN, BY_CODE_POINTS = "shoal_is_nan", "shoal_by_code_points"
SAME = "{0}"
MATERIALIZING = (
    "postgres",
    "duckdb",
)  # they would copy the expressions of a table to every place that names its columns
DIALECTS: dict[str, dict[str, str]] = {  # what functions of our own stand for
    # is_nan: a floating-point number that is no number; false for columns of other types
    # by_code_points: a text that is sorted by its code points
    "postgres": {
        IS_NAN: "CAST(PG_TYPEOF({0}) AS TEXT) IN ('double precision', 'real', 'numeric') AND CAST({0} AS TEXT) = 'NaN'",
        BY_CODE_POINTS: '{0} COLLATE "C"',
    },
    "snowflake": {
        IS_NAN: "TYPEOF(TO_VARIANT({0})) = 'DOUBLE' AND CAST({0} AS VARCHAR) = 'NaN'",
        BY_CODE_POINTS: SAME,
    },
    "bigquery": {
        IS_NAN: "FORMAT('%T', {0}) = 'CAST(\"nan\" AS FLOAT64)'",
        BY_CODE_POINTS: SAME,
    },
    "spark": {
        IS_NAN: "TYPEOF({0}) IN ('double', 'float') AND CAST({0} AS STRING) = 'NaN'",
        BY_CODE_POINTS: SAME,
    },
    "duckdb": {
        IS_NAN: "TYPEOF({0}) IN ('DOUBLE', 'FLOAT') AND CAST({0} AS TEXT) = 'nan'",
        BY_CODE_POINTS: SAME,
    },
}
PART = r'(?:"((?:[^"]|"")+)"|([^".]+))'
NAME = re.compile(rf"{PART}(?:\.{PART}){{0,2}}")  # catalog, schema, table


def parse_dialect(dialect: str) -> str:
    """Return the dialect, or raise `PolicyError` with the choices."""
    if dialect not in DIALECTS:
        raise PolicyError(f"unknown SQL dialect {dialect!r}; {list_choices(str(dialect), tuple(DIALECTS))}.")
    return dialect


def quote_table(table: str) -> str:
    """Return the name of a table, which can have a schema before a dot, with quotes around its parts.

    >>> quote_table("ward.patients"), quote_table('"odd.name"')
    ('"ward"."patients"', '"odd.name"')
    """
    if NAME.fullmatch(table) is None:
        raise PolicyError(
            f"{table!r} is no name of a table. Write the table, or its schema and the table, such as 'ward.patients'; a name "
            "with a dot or a quotation mark stands in double quotes."
        )
    parts = [plain or quoted.replace('""', '"') for quoted, plain in re.findall(PART, table)]
    return ".".join(map(quote_name, parts))


def translate(text: str, dialect: str) -> str:
    """Return SQL text of DuckDB in another dialect, with quotes around all names."""
    sqlglot = _import_sqlglot()
    tree = sqlglot.parse_one(text, read=WRITTEN_IN)
    _keep_order_of_nulls(tree, dialect)
    if dialect not in MATERIALIZING:
        for table in tree.find_all(sqlglot.exp.CTE):
            table.set("materialized", None)
    tree = tree.transform(lambda node: _replace_function(node, dialect))
    return str(tree.sql(dialect=dialect, identify=True, pretty=True, comments=False))


def translate_expression(text: str, dialect: str) -> str:
    """Return an SQL expression of DuckDB in another dialect, on one line."""
    tree = _import_sqlglot().parse_one(text, read=WRITTEN_IN)
    return str(tree.sql(dialect=dialect, identify=True))


def _replace_function(node: Any, dialect: str) -> Any:
    """Replace a function of our own by an expression of the dialect."""
    sqlglot = _import_sqlglot()
    template = DIALECTS[dialect].get(node.name.lower()) if isinstance(node, sqlglot.exp.Anonymous) else None
    if template is None:
        return node
    value = node.expressions[0].sql(dialect=dialect, identify=True)
    return sqlglot.exp.paren(sqlglot.parse_one(template.format(value), read=dialect), copy=False)


def _keep_order_of_nulls(tree: Any, dialect: str) -> None:
    """Leave the order of NULL to the dialect: no query depends on it, and some dialects cannot express another one."""
    sqlglot = _import_sqlglot()
    order = sqlglot.Dialect.get_or_raise(dialect).NULL_ORDERING
    for part in tree.find_all(sqlglot.exp.Ordered):
        descending = bool(part.args.get("desc"))
        part.set("nulls_first", {"nulls_are_small": not descending, "nulls_are_large": descending}.get(order, False))


def _import_sqlglot() -> Any:
    try:
        import sqlglot
    except ImportError:
        raise EngineError("SQL output needs sqlglot. Install it: pip install 'shoal[sql]'.") from None
    return sqlglot
