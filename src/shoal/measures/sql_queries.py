"""Read COUNT queries from SQL text, which sqlglot parses."""

from __future__ import annotations

from typing import Any

from shoal.errors import DataError, EngineError
from shoal.measures.conditions import Condition, Every, Interval, Missing, Not, Some, Values
from shoal.measures.workloads import Query

FORMS = (
    "Possible are: SELECT COUNT(*) FROM … WHERE …, with conditions of the form column = value, <>, <, <=, >, >=, IN (…), "
    "NOT IN (…), BETWEEN … AND …, IS NULL, IS NOT NULL; AND between them, and OR between conditions on one column. Texts are "
    "in single quotes, names of columns with special characters in double quotes."
)
LONGEST = 200  # characters of a quoted part


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
        return [statement for statement in sqlglot.parse(text) if statement is not None]
    except errors.SqlglotError as error:
        detail = str(error).partition("\n")[0]
        raise DataError(f"the SQL text cannot be read: {_shorten(detail)}. {FORMS}") from None


def _read_statement(statement: Any) -> Query:
    from sqlglot import exp

    if not isinstance(statement, exp.Select):
        raise _refuse(statement)
    where = None
    for name, part in statement.args.items():
        if not part or name in ("kind", "expressions"):
            continue
        if name.rstrip("_") == "from":
            if not isinstance(part.this, exp.Table) or part.this.args.get("joins"):
                raise _refuse(part)
        elif name == "where":
            where = part.this
        else:
            raise _refuse(part[0] if isinstance(part, list) else part)
    counted = [column.unalias() for column in statement.expressions]
    if len(counted) != 1 or not isinstance(counted[0], exp.Count) or not isinstance(counted[0].this, exp.Star):
        raise _refuse(statement.expressions[0] if statement.expressions else statement)
    found: dict[str, list[Condition]] = {}
    for part in [] if where is None else _split(where, exp.And):
        column, condition = _read_condition(part)
        found.setdefault(column, []).append(condition)
    return Query({name: cs[0] if len(cs) == 1 else Every(tuple(cs)) for name, cs in found.items()})


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

    if not isinstance(column, exp.Column) or not isinstance(column.this, exp.Identifier):
        raise _refuse(part)
    return str(column.name)


def _read_value(part: Any, value: Any) -> Any:
    """A number or a text."""
    from sqlglot import exp

    if isinstance(value, exp.Null):
        raise DataError(f"cannot answer {_quote(part)}: nothing is equal to NULL. Use IS NULL or IS NOT NULL.")
    if isinstance(value, exp.Cast) and isinstance(value.this, exp.Literal):  # DATE '2024-01-31'
        value = value.this
    negative = isinstance(value, exp.Neg)
    value = value.this if negative else value
    if isinstance(value, exp.Boolean):
        return str(value.this)
    if not isinstance(value, exp.Literal) or (negative and value.is_string):
        raise _refuse(part)
    if value.is_string:
        return str(value.this)
    number = float(value.this) * (-1 if negative else 1)
    return int(number) if number.is_integer() else number


def _refuse(part: Any) -> DataError:
    return DataError(f"cannot answer {_quote(part)}. {FORMS}")


def _quote(part: Any) -> str:
    return f"'{_shorten(part.sql())}'"


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
