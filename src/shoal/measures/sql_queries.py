"""Read COUNT queries from SQL text, which sqlglot parses."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

from shoal.errors import DataError, EngineError
from shoal.formats.dates import EPOCH, parse_date
from shoal.measures.conditions import Condition, Every, Interval, Missing, Not, Some, Values
from shoal.measures.workloads import Query

FORMS = (
    "Possible are: SELECT COUNT(*) FROM … WHERE …, with conditions of the form column = value, <>, <, <=, >, >=, IN (…), "
    "NOT IN (…), BETWEEN … AND …, IS NULL, IS NOT NULL; AND between them, and OR between conditions on one column. Texts are "
    "in single quotes, names of columns with special characters in double quotes."
)
LONGEST = 200  # characters of a quoted part
NEAR = 40  # quoted characters before an error
TABLE_PARTS = ("this", "db", "catalog", "alias")
DATES = ("DATE", "TIMESTAMP", "DATETIME")


def parse_queries(text: str) -> list[Query]:
    """Read all statements of a SQL text; raise a `DataError` that quotes the part that is no COUNT query."""
    try:
        statements = _parse(text)
        if not statements:
            raise DataError(f"the SQL text has no statement. {FORMS}")
        return [_read_statement(statement) for statement in statements]
    except RecursionError:
        raise DataError(f"the SQL text is nested too deeply. {FORMS}") from None


def _parse(text: str) -> list[Any]:
    """The statements of a SQL text as trees of sqlglot."""
    try:
        import sqlglot
        from sqlglot import errors
    except ImportError:
        raise EngineError(
            "SQL queries need sqlglot. Install it: pip install 'shoal[sql]'. Or give the queries as mappings from columns to "
            "values."
        ) from None
    try:
        parsed = sqlglot.parse(text)
    except errors.SqlglotError as error:
        raise DataError(f"the SQL text cannot be read: {_locate(error)}. {FORMS}") from None
    # a comment behind the last semicolon is a statement of this kind
    return [statement for statement in parsed if statement is not None and type(statement).__name__ != "Semicolon"]


def _locate(error: Any) -> str:
    """Where a text cannot be parsed, in our own words."""
    places = getattr(error, "errors", None)
    if not places:
        return "a quotation mark or a comment is not closed, or a character has no meaning"
    place = places[0]
    near = f"{str(place.get('start_context') or '')[-NEAR:]}{place.get('highlight') or ''}"
    return f"line {place.get('line')} has an error at '{_shorten(near)}'"


def _read_statement(statement: Any) -> Query:
    from sqlglot import exp

    if not isinstance(statement, exp.Select):
        raise _refuse(statement)
    where = None
    for name, part in statement.args.items():
        if not part or name in ("kind", "expressions"):
            continue
        if name.rstrip("_") == "from":
            if not _is_plain_table(part.this):
                raise _refuse(part)
        elif name == "where":
            where = part.this
        elif name == "joins":
            raise _refuse_join(part[0])
        else:
            refused = part[0] if isinstance(part, list) else part
            raise _refuse(refused if refused.sql() else statement)
    counted = [column.unalias() for column in statement.expressions]
    if len(counted) != 1 or not _counts_records(counted[0]):
        raise _refuse(statement.expressions[0] if statement.expressions else statement)
    found: dict[str, list[Condition]] = {}
    for part in [] if where is None else _split(where, exp.And):
        column, condition = _read_condition(part)
        found.setdefault(column, []).append(condition)
    return Query({name: cs[0] if len(cs) == 1 else Every(tuple(cs)) for name, cs in found.items()})


def _is_plain_table(table: Any) -> bool:
    """Whether a table is only named: no sample, no version, no function, no names for its columns."""
    from sqlglot import exp

    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        return False
    alias = table.args.get("alias")
    others = [part for name, part in table.args.items() if part and name not in TABLE_PARTS]
    return not others and (alias is None or not alias.args.get("columns"))


def _counts_records(part: Any) -> bool:
    """Whether a part is ``COUNT(*)``, without columns that are left out or replaced."""
    from sqlglot import exp

    return isinstance(part, exp.Count) and isinstance(part.this, exp.Star) and not any(part.this.args.values())


def _refuse_join(join: Any) -> DataError:
    """The error for a second table; sqlglot does not distinguish ``FROM t, u`` and ``FROM t JOIN u``."""
    if join.sql().startswith(","):
        return DataError(f"cannot answer a query on two tables: the second is {_quote(join.this)}. {FORMS}")
    return _refuse(join)


def _split(part: Any, joined_by: Any) -> list[Any]:
    """The parts that AND or OR joins, without their brackets."""
    waiting, parts = [part], []
    while waiting:
        part = waiting.pop().unnest()
        if isinstance(part, joined_by):
            waiting += [part.expression, part.this]
        else:
            parts.append(part)
    return parts


def _read_condition(part: Any) -> tuple[str, Condition]:
    """The column and the condition of a part of a WHERE clause."""
    from sqlglot import exp

    if isinstance(part, (exp.And, exp.Or)):
        conditions = [_read_condition(each) for each in _split(part, type(part))]
        if len({column for column, _ in conditions}) > 1:
            raise _refuse(part)
        join = Every if isinstance(part, exp.And) else Some
        return conditions[0][0], join(tuple(condition for _, condition in conditions))
    if isinstance(part, exp.Not):
        column, condition = _read_condition(part.this.unnest())
        return column, Not(condition)
    if isinstance(part, (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.EQ, exp.NEQ)):
        return _read_comparison(part)
    column = _read_column(part, part.this)
    if isinstance(part, exp.Is) and isinstance(part.expression, exp.Null):
        return column, Missing()
    if isinstance(part, exp.In) and part.expressions and not part.args.get("query"):
        return column, Values(tuple(_read_value(part, value) for value in part.expressions))
    if isinstance(part, exp.Between) and not part.args.get("symmetric"):
        return column, Interval(_read_value(part, part.args["low"]), _read_value(part, part.args["high"]))
    raise _refuse(part)


def _read_comparison(part: Any) -> tuple[str, Condition]:
    """A column compared with a value, or a value with a column."""
    from sqlglot import exp

    left, right, kind = part.this.unnest(), part.expression.unnest(), type(part)
    if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
        left, right = right, left
        kind = {exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE}.get(kind, kind)
    column, value = _read_column(part, left), _read_value(part, right)
    if kind in (exp.EQ, exp.NEQ):
        return column, Values((value,)) if kind is exp.EQ else Not(Values((value,)))
    if kind in (exp.LT, exp.LTE):
        return column, Interval(None, value, "both" if kind is exp.LTE else "neither")
    return column, Interval(value, None, "both" if kind is exp.GTE else "neither")


def _read_column(part: Any, column: Any) -> str:
    from sqlglot import exp

    is_column = isinstance(column, exp.Column) and isinstance(column.this, exp.Identifier)
    if not is_column or column.args.get("join_mark"):
        raise _refuse(part)
    return str(column.name)


def _read_value(part: Any, value: Any) -> Any:
    """A number, a text or a date."""
    from sqlglot import exp

    if isinstance(value, exp.Null):
        raise DataError(f"cannot answer {_quote(part)}: nothing is equal to NULL. Use IS NULL or IS NOT NULL.")
    if isinstance(value, exp.Cast):
        return _read_date(part, value)
    negative = isinstance(value, exp.Neg)
    value = value.this if negative else value
    if isinstance(value, exp.Boolean):
        return str(value.this)
    if not isinstance(value, exp.Literal) or (negative and value.is_string):
        raise _refuse(part)
    if value.is_string:
        return str(value.this)
    number = float(value.this) * (-1 if negative else 1)
    if math.isinf(number):
        raise DataError(f"cannot answer {_quote(part)}: the number is too large. Correct it, or write it as a text.")
    return int(number) if number.is_integer() else number


def _read_date(part: Any, value: Any) -> Any:
    """A date or time such as ``DATE '2024-01-31'``; other types would change the value."""
    from sqlglot import exp

    kind = value.to.sql().upper() if type(value) is exp.Cast and value.args.get("to") else None
    others = [each for name, each in value.args.items() if each and name not in ("this", "to", "_type")]
    is_text = isinstance(value.this, exp.Literal) and value.this.is_string
    seconds = parse_date(str(value.this.this)) if is_text and kind in DATES and not others else None
    if seconds is None:
        raise _refuse(part)
    moment = EPOCH + timedelta(seconds=seconds)
    return moment.date() if kind == "DATE" else moment


def _refuse(part: Any) -> DataError:
    return DataError(f"cannot answer {_quote(part)}. {FORMS}")


def _quote(part: Any) -> str:
    return f"'{_shorten(part.sql())}'"


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
