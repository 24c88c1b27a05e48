"""The error of COUNT queries on a release: the answers that a reader gets, against those of the original table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from shoal.arrays import FloatArray, Int64Array
from shoal.engines import Column, Engine, build_frame, open_data
from shoal.errors import DataError, PolicyError, list_choices
from shoal.formats.numbers import format_count
from shoal.measures.conditions import names_absent_value
from shoal.measures.query_answers import answer_queries
from shoal.measures.query_tables import Original, read_bucketed, read_original, read_released
from shoal.measures.unbiased_answers import answer_unbiased
from shoal.measures.workloads import Workload, read_workload
from shoal.policy import Policy, parse_policy
from shoal.recoding import SelectionOperator

ESTIMATE, RAW, UNBIASED = "estimate", "raw", "unbiased"
HEAD = ("quasi-identifiers", "queries", "mean", "median")


@runtime_checkable
class ReleasedTable(Protocol):
    """The part of a release that queries are answered on."""

    @property
    def policy(self) -> Policy:
        """The policy of the release."""
        ...

    @property
    def frame(self) -> Any:
        """The released table."""
        ...

    @property
    def method(self) -> str:
        """The name of the method."""
        ...


class ErrorSummary(NamedTuple):
    """The relative errors of queries with the same number of quasi-identifiers (None: of all queries)."""

    attributes: int | None
    queries: int
    mean: float
    median: float


@dataclass(frozen=True)
class QueryErrors:
    """The answers to a workload on a release, and their relative errors: |answer - estimate| / answer.

    Attributes
    ----------
    workload : the queries
    method : the method of the release, or ``table`` for another table
    attributes : the number of quasi-identifiers in each query
    answers : the true answers, on the original table
    estimates : the answers on the release, by the way in which it is read: ``estimate``; of a randomized release ``raw`` (the
        values as they are published) and ``unbiased`` (corrected for the randomization; NaN where this is not possible)
    suppressed : the number of records that are in the original but not in the release
    absent : the number of queries that list a value which does not occur in its column of the original
    """

    workload: Workload
    method: str
    attributes: Int64Array
    answers: Int64Array
    estimates: Mapping[str, FloatArray]
    suppressed: int = 0
    absent: int = 0

    @property
    def errors(self) -> dict[str, FloatArray]:
        """The relative error of each query; NaN where the true answer is 0 or there is no estimate."""
        true = np.where(self.answers > 0, self.answers, np.nan)
        return {way: np.abs(found - self.answers) / true for way, found in self.estimates.items()}

    @property
    def estimate(self) -> FloatArray:
        """The answers on the release; of a randomized release those of the published values (``raw``)."""
        return next(iter(self.estimates.values()))

    @property
    def error(self) -> FloatArray:
        """The relative error of each query; see `estimate`."""
        return next(iter(self.errors.values()))

    @property
    def mean(self) -> float:
        """The mean relative error of the queries that have one; see `estimate`."""
        return _summarize(None, self.error).mean

    @property
    def median(self) -> float:
        """The median relative error of the queries that have one; see `estimate`."""
        return _summarize(None, self.error).median

    def summary(self, way: str | None = None) -> list[ErrorSummary]:
        """The errors by number of quasi-identifiers, then of all queries; ``way`` is a key of ``estimates``."""
        errors = self.errors
        if way is not None and way not in errors:
            raise PolicyError(f"the release was not read as {way!r}; {list_choices(way, list(errors))}.")
        found = self.error if way is None else errors[way]
        numbers = np.unique(self.attributes).tolist()
        parts = [_summarize(n, found[self.attributes == n]) for n in numbers]
        return [*parts, _summarize(None, found)]

    def frame(self, kind: str | None = None) -> Any:
        """A frame with one row per query: its text, its number of quasi-identifiers, answers and errors."""
        texts = (str(query).encode(errors="backslashreplace").decode() for query in self.workload)  # no lone surrogates
        columns = {"query": Column(np.arange(len(self.workload)), tuple(texts))}
        columns |= {"attributes": Column(self.attributes), "answer": Column(self.answers)}
        for way, found in self.estimates.items():
            columns[way] = Column(found)
            columns["error" if way == ESTIMATE else f"{way} error"] = Column(self.errors[way])
        return build_frame(columns, kind)

    @property
    def notes(self) -> tuple[str, ...]:
        """How the answers were computed, and which queries the means leave out."""
        return tuple(self._list_notes())

    def _list_notes(self) -> Iterator[str]:
        undefined = int((self.answers == 0).sum())
        if undefined:
            many = format_count(undefined, "query has", "queries have")
            yield f"{many} the true answer 0, so no relative error; the means are taken over the others"
        if self.absent:
            many = format_count(self.absent, "query lists", "queries list")
            yield f"{many} a value that does not occur in the original column; such a value matches nothing"
        for way, found in self.estimates.items():
            absent = int((np.isnan(found) & (self.answers > 0)).sum())
            if absent:
                many = format_count(absent, "query has", "queries have")
                yield (
                    f"{many} no {way} answer, because too many attributes are replaced or a label covers several values; "
                    f"the {way} means are taken over the others"
                )
        if self.suppressed:
            yield f"{format_count(self.suppressed, 'record is', 'records are')} suppressed and not counted in the answers"

    def __repr__(self) -> str:
        means = ", ".join(f"{way} {_summarize(None, e).mean:.3f}" for way, e in self.errors.items())
        return (
            f"QueryErrors({self.method}: {format_count(len(self.workload), 'query', 'queries')}, mean error: {means})"
        )

    def __str__(self) -> str:
        title = (
            f"{format_count(len(self.workload), 'query', 'queries')} on {self.method}: relative error of the answers"
        )
        ways = list(self.estimates)
        head = [*HEAD[:2], *(name if way == ESTIMATE else f"{way} {name}" for way in ways for name in HEAD[2:])]
        rows = [head]
        for parts in zip(*(self.summary(way) for way in ways), strict=True):
            number = "all" if parts[0].attributes is None else str(parts[0].attributes)
            figures = [_format(figure) for part in parts for figure in (part.mean, part.median)]
            rows.append([number, f"{max(part.queries for part in parts):,}", *figures])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join([title, *lines, *(f"note: {note}" for note in self.notes)])


def _summarize(attributes: int | None, errors: FloatArray) -> ErrorSummary:
    known: FloatArray = errors[~np.isnan(errors)]
    if not len(known):
        return ErrorSummary(attributes, 0, float("nan"), float("nan"))
    return ErrorSummary(attributes, len(known), float(known.mean()), float(np.median(known)))


def _format(figure: float) -> str:
    return "-" if np.isnan(figure) else f"{figure:.3f}"


def query_error(
    original: Any,
    release: Any,
    workload: Any,
    *,
    policy: Policy | str | Path | Mapping[str, Any] | None = None,
    sensitive: Any = None,
) -> QueryErrors:
    """Compare the answers to COUNT queries on a release with those on the original table.

    A generalized table is read as a reader would: the records of a group are spread uniformly over the values of the original
    column that its labels cover (equation 12 of Yang and Qiao). A bucketed table combines the shares of the sensitive
    values in a bucket with the records of the bucket that meet the other conditions (equation 13). Other values are counted
    as they are published: a synthetic number or a mean matches a list that contains it, and a range in which it is.
    Suppressed records are not counted. A query whose true answer is 0 has no relative error.

    Parameters
    ----------
    original : the original table: a frame or the path of a file
    release : a release of any method, or another released table (a frame or a path) with its ``policy``
    workload : a `Workload`, such as that of `random_workload`; SQL text; or a list of mappings from columns to values, such
        as ``{"age": range(30, 40), "sex": "Male", "disease": ["flu", "HIV"]}``
    policy : the policy, if ``release`` is a table
    sensitive : the table of sensitive values, if ``release`` is the table of records of a bucketed release, such as the saved
        ``sensitive.csv``

    Returns
    -------
    `QueryErrors`: the answers, the estimates and the relative errors. They tell about the original table; they are for the
    owner.

    References
    ----------
    Yang and Qiao, "Anonymizing data by random anonymization", section 7.2; Xiao and Tao, "Anatomy: simple and effective
    privacy preservation" (2006).

    Examples
    --------
    >>> import pyarrow
    >>> rows = {"age": [30, 31, 40, 41], "disease": ["flu", "flu", "HIV", "flu"]}
    >>> policy = {"quasi": {"age": "numeric"}, "sensitive": ["disease"], "require": [{"k-anonymity": 2}]}
    >>> released = {"age": ["[30, 31]", "[30, 31]", "[40, 41]", "[40, 41]"], "disease": ["flu", "flu", "HIV", "flu"]}
    >>> found = query_error(
    ...     pyarrow.table(rows), pyarrow.table(released), [{"age": [30, 40, 41], "disease": "flu"}], policy=policy
    ... )
    >>> found.answers.tolist(), found.estimate.tolist(), found.mean
    ([2], [2.0], 0.0)
    """
    asked = read_workload(workload)
    is_release = isinstance(release, ReleasedTable) and isinstance(release.policy, Policy)
    if is_release and not (policy is None and sensitive is None):
        raise PolicyError(
            "the release has its own policy and tables. Remove policy= and sensitive=, or pass release.frame."
        )
    if policy is None and not is_release:
        raise PolicyError("the release is a table without a policy. Give its policy: query_error(…, policy=…).")
    chosen = release.policy if policy is None else parse_policy(policy)
    before = open_data(original, chosen.with_conventions())
    chosen.check_schema(before.schema(), requires=False)
    _check_columns(asked, chosen)
    source = read_original(before, chosen, asked.columns)
    answers = np.rint(answer_queries(source.count(), asked.queries)).astype(np.int64)
    after = open_data(release.frame if is_release else release)
    buckets = getattr(release, "sensitive", None) if is_release else sensitive
    operator = getattr(getattr(release, "recoding", None), "operator", None) if is_release else None
    estimates = _estimate(after, None if buckets is None else open_data(buckets), operator, source, asked)
    attributes = np.array([sum(name in chosen.quasi for name in query.conditions) for query in asked], np.int64)
    suppressed = max(source.rows - after.schema().rows, 0)
    method = str(release.method) if is_release else "table"
    return QueryErrors(asked, method, attributes, answers, estimates, suppressed, _count_absent(asked, source))


def _count_absent(workload: Workload, source: Original) -> int:
    """The number of queries that list a value which does not occur in its column."""
    return sum(
        any(names_absent_value(condition, source.domains[name]) for name, condition in query.conditions.items())
        for query in workload
    )


def _estimate(
    after: Engine, buckets: Engine | None, operator: Any, source: Original, workload: Workload
) -> dict[str, FloatArray]:
    """The answers on the release, by the way in which it is read: by its buckets, its labels, or the operator of its values."""
    if buckets is not None:
        return {ESTIMATE: answer_queries([read_bucketed(after, buckets, source)], workload.queries)}
    tables = list(read_released(after, source))
    found = answer_queries(tables, workload.queries)
    if operator is None:
        return {ESTIMATE: found}
    if not isinstance(operator, SelectionOperator):
        return {RAW: found}
    return {RAW: found, UNBIASED: answer_unbiased(tables, workload.queries, source, operator)}


def _check_columns(workload: Workload, policy: Policy) -> None:
    """Raise an error where a query names a column that is not released."""
    released = (*policy.quasi, *policy.unchanged_columns)
    spelling = {name.casefold(): name for name in released}
    for number, query in enumerate(workload, start=1):
        for name in query.conditions:
            if name not in released:
                choices = list_choices(spelling.get(name.casefold(), name), released)
                raise DataError(f"query {number} asks for column {name!r}, which is not in the release; {choices}.")
