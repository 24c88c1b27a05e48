"""Data minimization: the coarsest inputs with which a fitted model keeps a share of its accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from shoal.arrays import Int32Array, Int64Array
from shoal.encoding.attributes import Attribute
from shoal.encoding.codes import Codes, encode_and_count
from shoal.engines import Engine, open_data
from shoal.engines.raw_columns import RawColumns, with_texts
from shoal.errors import DataError, PolicyError, RequirementNotMet, escape_invisible, list_some
from shoal.formats.html_text import render_list, render_table, render_view
from shoal.formats.numbers import format_count
from shoal.mining.learning_policy import unused_name
from shoal.mining.model_columns import row_codes
from shoal.models.coarsest_inputs import find_coarsest
from shoal.models.predictions import list_inputs, predict_frame
from shoal.models.replaced_inputs import Predictor, Rating, ReplacedInputs, choose_representative
from shoal.pipeline.method import GroupingMethod
from shoal.policy import Policy, QuasiIdentifier, parse_policy
from shoal.progress import Progress, ignore_progress
from shoal.recoding.cut import Cut
from shoal.recoding.grouping import AttributeCut, Grouping
from shoal.recoding.protocol import encode_later_data
from shoal.release import Release
from shoal.requirements import KAnonymity
from shoal.requirements.requirement import parse_share

BINS = 10  # classes of predicted numbers, for the information gain
MOST_LABELS = 6  # labels of a column in a text


@dataclass(frozen=True)
class MinimizedColumn:
    """What still has to be collected of one column.

    Attributes
    ----------
    name : the column
    labels : the values to collect, such as intervals; ``("*",)`` if the column is not needed
    values : the number of different values before
    loss : the information loss (ncp) of the column, from 0 (unchanged) to 1 (not needed)
    has_missing : whether the column may also be missing
    absent : the labels that no record of the table has; the model has no representative for them
    """

    name: str
    labels: tuple[str, ...]
    values: int
    loss: float
    has_missing: bool = False
    absent: tuple[str, ...] = ()

    @property
    def all_labels(self) -> tuple[str | None, ...]:
        """The labels, followed by None for a missing value."""
        return (*self.labels, None)

    @property
    def needed(self) -> bool:
        """Whether the column still has to be collected."""
        return self.labels != ("*",)

    def __str__(self) -> str:
        if not self.needed:
            return "nothing"
        more = f", and {len(self.labels) - MOST_LABELS} more" if len(self.labels) > MOST_LABELS else ""
        return f"{format_count(len(self.labels), 'value')}: {', '.join(self.labels[:MOST_LABELS])}{more}"


@dataclass(frozen=True, repr=False)
class MinimizedInputs:
    """The coarsest inputs that `minimize` found for a model, as rules for later inputs.

    Attributes
    ----------
    cut : the recoding of the inputs, a `Cut`
    columns : what has to be collected of every quasi-identifier
    inputs : the columns that the model gets, in this order; those that are no quasi-identifiers are collected unchanged
    accuracy : accuracy (R² of a regressor) with the minimized inputs, on the records of the table
    full_accuracy : the same with the full inputs
    measure : the name of the measure; without a target, predictions are compared with those for the full inputs
    release : the table with minimized inputs as a release, with its certificate and measures; it is not saved
    """

    cut: Cut
    columns: tuple[MinimizedColumn, ...]
    inputs: tuple[str, ...]
    accuracy: float
    full_accuracy: float
    measure: str
    release: Release
    model: Any
    samples: RawColumns  # the representatives of each column, in the order of its labels, then that of a missing value

    @property
    def kept(self) -> float:
        """The share of the accuracy that is kept."""
        return self.accuracy / self.full_accuracy

    @property
    def loss(self) -> float:
        """The information loss of the inputs: the mean of the columns, from 0 (unchanged) to 1 (no column is needed)."""
        return float(np.mean([column.loss for column in self.columns]))

    @property
    def not_needed(self) -> tuple[str, ...]:
        """The columns that no longer have to be collected."""
        return tuple(column.name for column in self.columns if not column.needed)

    @property
    def unchanged(self) -> tuple[str, ...]:
        """The inputs of the model that are no quasi-identifiers, and are collected as before."""
        return tuple(name for name in self.inputs if all(name != column.name for column in self.columns))

    @property
    def representatives(self) -> dict[str, dict[str | None, Any]]:
        """The value that the model gets for every value to collect, by column; None is a missing value."""
        found = {}
        for column in self.columns:
            labels = column.all_labels if column.has_missing else column.labels
            pairs = zip(labels, self.samples.list_all(column.name), strict=False)
            found[column.name] = {label: value for label, value in pairs if label not in column.absent}
        return found

    def generalize(self, data: Any) -> Any:
        """Later records with the values to collect, in the order of the records, without the columns that are not needed.

        Numbers outside all intervals get the nearest interval; unknown categories raise `DataError`. Columns that are not
        needed may be absent.
        """
        engine = self._open(data)
        placed = _place_records(self.cut, engine)
        raw = RawColumns.typed(engine)
        labels = {c.name: [c.all_labels[i] for i in placed[c.name].tolist()] for c in self.columns if c.needed}
        kept = [name for name in raw.data.columns if name not in self.not_needed]
        return (raw.put_texts(labels) if labels else raw).select(kept)

    def transform(self, data: Any) -> Any:
        """The inputs of the model for later records: every value is replaced by its representative.

        Columns that are not needed may be absent.
        """
        engine = self._open(data)
        return self._fill(engine, _place_records(self.cut, engine))

    def represent(self, data: Any) -> Any:
        """As `transform`, for records that were collected with the values of `generalize`."""
        engine = self._open(data)
        raw = RawColumns.typed(engine)
        placed = {}
        for column in self.columns:
            if column.needed:
                if column.name not in raw.data.columns:
                    raise DataError(f"the table lacks the column {column.name!r}. Add this column.")
                known = {label: i for i, label in enumerate(column.all_labels)}
                given = [None if v != v else v for v in raw.list_all(column.name)]  # NaN is a missing text
                unknown = dict.fromkeys(str(v) for v in given if v not in known)
                if unknown:
                    raise DataError(
                        f"column {column.name!r} has values that are not collected: {list_some(list(unknown))}. Use "
                        f"{list_some([str(label) for label in column.labels])}, or transform() for original values."
                    )
                placed[column.name] = np.array([known[v] for v in given], np.int32)
        return self._fill(engine, placed)

    def predict(self, data: Any) -> Any:
        """The predictions of the model for later records, with minimized inputs."""
        return predict_frame(self.model, self.transform(data))

    def __str__(self) -> str:
        width = max(len(escape_invisible(name)) for name in (*(c.name for c in self.columns), *self.unchanged))
        lines = [(column.name, str(column)) for column in self.columns]
        lines += [(name, "as before (no quasi-identifier)") for name in self.unchanged]
        shown = [f"  {escape_invisible(name).ljust(width)}  {escape_invisible(text)}" for name, text in lines]
        return "\n".join([self._headline(), *shown])

    __repr__ = __str__

    def _open(self, data: Any) -> Engine:
        return open_data(data, self.release.policy.with_conventions())

    def _headline(self) -> str:
        return (
            f"Inputs that keep {self.kept:.1%} of the {self.measure} ({self.accuracy:.4f} of {self.full_accuracy:.4f}); "
            f"information loss of the inputs: {self.loss:.2f}; no longer collected: "
            f"{escape_invisible(', '.join(self.not_needed)) or 'none'}"
        )

    def _repr_html_(self) -> str:
        rows = [(c.name, f"{c.values:,}", str(c), f"{c.loss:.2f}") for c in self.columns]
        notes = [f"Collected as before, because they are no quasi-identifiers: {', '.join(self.unchanged)}."]
        return render_view(
            self._headline(),
            render_table("what has to be collected", ("column", "values before", "collect", "loss"), rows),
            render_list(notes if self.unchanged else []),
        )

    def _fill(self, engine: Engine, placed: Mapping[str, Int32Array]) -> Any:
        """The inputs of the model, with representatives of the intervals."""
        rows = engine.schema().rows
        wanted = {}
        for column in self.columns:
            if column.name not in self.inputs:
                continue
            at = placed.get(column.name, np.zeros(rows, np.int32)).astype(np.int64)
            if (at == len(column.labels)).any() and not column.has_missing:
                raise DataError(
                    f"column {column.name!r} has missing values, but the table of the search had none. Fill them, or minimize "
                    "the inputs again with a table that has missing values."
                )
            absent = [label for i, label in enumerate(column.labels) if label in column.absent and (at == i).any()]
            if absent:
                raise _refuse_unseen(column.name, absent)
            wanted[column.name] = at
        raw = RawColumns.typed(engine)
        lacking = [name for name in self.unchanged if name not in raw.data.columns]
        if lacking:
            raise DataError(
                f"the table lacks inputs of the model: {list_some(lacking)}. Add these columns to the table."
            )
        return (raw.put(self.samples.sample(wanted)) if wanted else raw).select(self.inputs)


def minimize(
    model: Any, frame: Any, policy: Policy, keep: float = 0.98, *, progress: Progress | None = None
) -> MinimizedInputs:
    """Find the coarsest inputs with which a fitted model keeps a share of its accuracy, under the requirements of a policy.

    The quasi-identifiers of the policy are generalized; other inputs of the model stay as they are. The model is not fitted
    again: it gets one representative for all values of an interval or node, the median of numbers and the most frequent
    category.

    Parameters
    ----------
    model : a fitted model with ``predict``, of any kind
    frame : records with the inputs of the model; best records that the model was not fitted on
    policy : the policy. With a target, the accuracy (R² of numbers) is kept; without one, the agreement with the predictions
        for the full inputs. No record is suppressed, so ``suppress`` has no effect. The policy may have no requirement
    keep : the share of the accuracy that is kept
    progress : called with the stage, the work done and the total work

    Returns
    -------
    The inputs to collect, with ``transform`` and ``predict`` for later records, and the recoding as ``cut``.

    Raises `RequirementNotMet` if no inputs that meet the requirements keep the accuracy.

    Guarantee
    ---------
    The table with the minimized inputs meets the requirements, and the model keeps the share of its accuracy on this table.
    There may be coarser inputs: the search is greedy. Deterministic.

    References
    ----------
    Goldsteen, Ezov, Shmelkin, Moffie, Farkash: Data minimization for GDPR compliance in machine learning models. AI and Ethics
    2 (2022). Fung, Wang, Yu: Top-down specialization for information and privacy preservation. ICDE 2005.
    """
    share = parse_share(keep, "keep")
    if not 0 < share <= 1:
        raise PolicyError(f"keep must be above 0 and at most 1, not {keep!r}.")
    report = progress or ignore_progress
    policy = _prepare(parse_policy(policy))
    engine = open_data(frame, policy.with_conventions())
    policy.check_schema(engine.schema())
    raw = RawColumns.typed(engine)
    target = policy.target
    predictor, predicted = Predictor.of(model, raw, target)
    rating = predictor.make_rating(predicted)
    full = rating.score(float(rating.rate(predicted).sum()))
    column = unused_name("prediction", raw.data.columns)
    searched = policy.model_copy(update={"target": column})
    codes, coded = encode_and_count(_add_predictions(engine, column, predicted, rating), searched, extra=(column,))
    rows = np.stack([row_codes(coded, name) for name in policy.quasi], axis=1)
    inputs = ReplacedInputs.of(codes.attributes, rows, predictor, rating)
    counted = codes if codes.person is None else codes.merge_people()
    found = find_coarsest(counted, searched, inputs, rating.least_total(share * full), report)
    _check(found.total, rating, share, full)
    method = _GivenCuts(policy, keep=share)
    method.found = found.cuts
    release = method.release(engine, progress=report)
    cut = release.recoding
    assert isinstance(cut, Cut)  # noqa: S101
    placed = _place_records(cut, engine)
    samples = _choose_samples(cut, placed, inputs)
    columns = [
        _describe_column(a, of_column.labels, loss, placed.get(a.name))
        for a, of_column, loss in zip(codes.attributes, cut.cuts, found.losses, strict=True)
    ]
    minimized = MinimizedInputs(
        cut,
        tuple(columns),
        tuple(list_inputs(model, raw, target)),
        0.0,
        full,
        rating.name,
        release,
        model,
        RawColumns.of(open_data(raw.sample(samples))),
    )
    reached = rating.rate(predictor.number(minimized.predict(engine)))
    _check(float(reached.sum()), rating, share, full)
    return replace(minimized, accuracy=rating.score(float(reached.sum())))


class _GivenCuts(GroupingMethod):
    """The table with the inputs that `minimize` found."""

    name: ClassVar[str] = "minimize"
    cuts: ClassVar[bool] = True
    counts_people: ClassVar[bool] = True
    summary: ClassVar[str] = "generalizes the inputs of a model"
    found: tuple[AttributeCut, ...] = ()

    def __init__(self, policy: Policy, *, keep: float) -> None:
        super().__init__(policy, ends="cut")
        self.keep = keep

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        """The groups of the given cuts."""
        return Grouping.from_cuts(codes, self.found)


def _prepare(policy: Policy) -> Policy:
    """The policy without suppression, since later inputs cannot be suppressed; every group meets k = 1.

    The ends of intervals are not rounded outward, unless the policy says so: labels that overlap would leave a choice.
    """
    quasi = {name: _without_rounding(column) for name, column in policy.quasi.items()}
    require = policy.require or (KAnonymity(1),)
    return policy.model_copy(update={"suppress": 0.0, "require": require, "quasi": quasi})


def _without_rounding(column: QuasiIdentifier) -> QuasiIdentifier:
    has_numbers = column.kind != "categorical" and column.tree_builder is None
    return column.model_copy(update={"round": "none"}) if has_numbers and column.round is None else column


def _add_predictions(engine: Engine, column: str, predicted: Any, rating: Rating) -> Engine:
    """The table with a column of the predicted classes; predicted numbers become classes with about equally many records."""
    if rating.is_regression:
        ends = np.quantile(predicted, np.linspace(0, 1, BINS + 1)[1:-1])
        predicted = np.searchsorted(ends, predicted, side="right")
    _, number = np.unique(predicted, return_inverse=True)
    return with_texts(engine, column, [str(n) for n in range(int(number.max(initial=-1)) + 1)], number)


def _check(total: float, rating: Rating, share: float, full: float) -> None:
    reached = rating.score(total)
    if total < rating.least_total(share * full) - 1e-9 * max(1.0, abs(total)):
        raise RequirementNotMet(
            f"the search found no inputs that meet the requirements and keep {share:.1%} of the {rating.name}; the best keep "
            f"{reached / full:.1%}. Use a smaller share (keep), weaker requirements, or fewer quasi-identifiers."
        )


def _place_records(cut: Cut, engine: Engine) -> dict[str, Int32Array]:
    """The interval of every record in every column that is needed; the number after the last is a missing value."""
    needed = [(f, c) for f, c in zip(cut.fields, cut.cuts, strict=True) if not c.is_root]
    if not needed:
        return {}
    fields, cuts = zip(*needed, strict=True)
    later = encode_later_data(Cut(fields, replace(cut.output, unchanged=()), cuts), engine)
    if later.unseen:
        raise _refuse_unseen(*next(iter(later.unseen.items())))
    found = {}
    for of_column, of_cut, positions in zip(fields, cuts, later.positions, strict=True):
        interval, _ = of_cut.locate(positions)
        found[of_column.name] = interval[row_codes(later.engine, of_column.name)]
    return found


def _refuse_unseen(name: str, unseen: Sequence[str]) -> DataError:
    return DataError(
        f"column {name!r} has values that the table of the search did not have: {list_some(unseen)}. Replace them, or "
        "minimize the inputs again with a table that has them."
    )


def _describe_column(
    attribute: Attribute, labels: tuple[str, ...], loss: float, placed: Int32Array | None
) -> MinimizedColumn:
    """What has to be collected of a column; ``placed`` has the interval of every record, None for the root."""
    if placed is None:
        return MinimizedColumn(attribute.name, labels, attribute.size, loss)
    records = np.bincount(placed, minlength=len(labels) + 1)
    absent = tuple(label for label, n in zip(labels, records.tolist(), strict=False) if n == 0)
    return MinimizedColumn(attribute.name, labels, attribute.size, loss, bool(records[-1]), absent)


def _choose_samples(cut: Cut, placed: Mapping[str, Int32Array], inputs: ReplacedInputs) -> dict[str, Int64Array]:
    """A record with the representative of every interval, by column; any record for intervals without records."""
    found = {}
    for j, (attribute, of_column) in enumerate(zip(inputs.attributes, cut.cuts, strict=True)):
        codes = inputs.codes[:, j]
        place = placed.get(attribute.name, np.zeros(len(codes), np.int32))
        records = []
        for i in range(len(of_column.labels) + 1):
            counts = np.bincount(codes[place == i], minlength=attribute.size)
            records.append(inputs.source[j][choose_representative(counts, attribute)])
        found[attribute.name] = np.array(records, np.int64)
    return found
