"""Predictions of a model whose inputs are replaced by representatives: one value for all values of an interval or node.

The predictions are rated record by record: hits of a classifier, squared errors of a regressor. So a change of one input needs
predictions only for the records that it changes, and only for combinations of inputs that were not predicted before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from shoal.arrays import FloatArray, Int32Array, Int64Array, UInt64Array
from shoal.encoding.attributes import Attribute
from shoal.engines.raw_columns import RawColumns
from shoal.errors import DataError
from shoal.formats.numbers import format_count, parse_number
from shoal.models.predictions import list_inputs, predict

MOST_KEPT = 4_000_000  # predictions that are kept for reuse


@dataclass(frozen=True)
class Rating:
    """How good predictions are: the accuracy of a classifier, the R² of a regressor.

    ``truth`` is the class number or the number that a prediction should have, by record. Without a target, the model's own
    predictions for its full inputs are the truth. ``spread`` is the sum of squares around the mean of the truth.
    """

    truth: FloatArray
    is_regression: bool
    is_own: bool
    spread: float = 0.0

    @property
    def name(self) -> str:
        """The name of the measure, for texts."""
        if self.is_own:
            return "agreement with the full inputs" if not self.is_regression else "R² against the full inputs"
        return "R²" if self.is_regression else "accuracy"

    def rate(self, predicted: FloatArray, records: Any = slice(None)) -> FloatArray:
        """The contribution of each record: 1 for a hit, or minus the squared error."""
        truth = self.truth[records]
        found: FloatArray = -((predicted - truth) ** 2) if self.is_regression else (predicted == truth).astype(float)
        return found

    def score(self, total: float) -> float:
        """Accuracy or R², from the sum of the contributions."""
        return 1 + total / self.spread if self.is_regression else total / len(self.truth)

    def least_total(self, score: float) -> float:
        """The least sum of contributions with this accuracy or R²."""
        return (score - 1) * self.spread if self.is_regression else score * len(self.truth)

    def of(self, records: Int64Array) -> Rating:
        """The rating of some records."""
        truth = self.truth[records]
        return Rating(truth, self.is_regression, self.is_own, _sum_squares(truth))


@dataclass
class Predictor:
    """Predictions of a model as numbers: the number of a class, or the predicted number."""

    model: Any
    raw: RawColumns
    target: str | None
    classes: NDArray[Any] | None = None

    @classmethod
    def of(cls, model: Any, raw: RawColumns, target: str | None) -> tuple[Predictor, FloatArray]:
        """The predictor of a fitted model, and its predictions for all records."""
        if not callable(getattr(model, "predict", None)):
            raise DataError(f"a model of the type {type(model).__name__} has no method 'predict'. Pass a fitted model.")
        found = predict(model, raw, target)
        if found.ndim > 1:
            raise DataError(
                f"the model predicts {found.shape[1]} columns at once. Pass a model with one prediction for every record."
            )
        if found.shape != (len(raw.data),):
            raise DataError(
                f"the model has {format_count(found.size, 'prediction')} for {format_count(len(raw.data), 'record')}. Pass a "
                "model with one prediction for every record."
            )
        if any(value is None or value != value for value in found.tolist()):
            raise DataError(
                "the model predicts missing values for some records. Pass a model that predicts every record."
            )
        is_regression = not hasattr(model, "classes_") and found.dtype.kind == "f"
        predictor = cls(model, raw, target, None if is_regression else _list_classes(model, found))
        return predictor, predictor.number(found)

    def number(self, predicted: NDArray[Any]) -> FloatArray:
        """Predictions as numbers; a class that was not predicted before gets the next number."""
        if self.classes is None:
            return predicted.astype(np.float64)
        known = {value: n for n, value in enumerate(self.classes.tolist())}
        values, number = np.unique(predicted, return_inverse=True)
        new = [v for v in values.tolist() if v not in known]
        if new:
            self.classes = np.append(self.classes, np.array(new))
            known |= {value: len(known) + n for n, value in enumerate(new)}
        return np.array([known[v] for v in values.tolist()], np.float64)[number]

    def predict(self, records: dict[str, Int64Array]) -> FloatArray:
        """The predictions for inputs that are taken from other records, by column."""
        sampled = RawColumns(nw.from_native(self.raw.sample(records), eager_only=True))
        return self.number(predict(self.model, sampled, self.target))

    def make_rating(self, predicted: FloatArray) -> Rating:
        """The rating of predictions by the target; without one, by the model's own predictions for the full inputs."""
        is_own = self.target is None
        truth = predicted if self.target is None else self._read_truth(self.raw.list_all(self.target))
        rating = Rating(truth, self.classes is None, is_own, _sum_squares(truth))
        total = float(rating.rate(predicted).sum())
        if not rating.is_regression and total == 0:
            raise DataError(
                f"the model predicts the target {self.target!r} of no record, so there is no accuracy to keep. Pass the target "
                "that the model was fitted on, with the same classes."
            )
        if rating.is_regression and (rating.spread <= 0 or rating.score(total) <= 0):
            raise DataError(
                "the predictions of the model for these records are no better than their mean, so there is no accuracy to "
                "keep. Pass other records, or another model."
            )
        return rating

    def _read_truth(self, values: Sequence[Any]) -> FloatArray:
        if self.classes is None:
            numbers = [parse_number(str(v)) for v in values]
            if any(n is None or not math.isfinite(n) for n in numbers):
                raise DataError(
                    f"the target {self.target!r} has values that are no numbers, but the model predicts numbers. Remove these "
                    "records, or choose another target."
                )
            return np.array(numbers, np.float64)
        read = _read_number if self.classes.dtype.kind in "biuf" else str
        known = {read(value): n for n, value in enumerate(self.classes.tolist())}
        return np.array([known.get(read(v), -1) for v in values], np.float64)


@dataclass
class ReplacedInputs:
    """Records of a table whose quasi-identifiers are replaced by representatives.

    ``codes`` [record, attribute] are the codes of the records. ``source[j][c]`` is a record with the most frequent value of
    code c of attribute j. ``unused`` are the attributes that the model does not use. Combinations of inputs are known by a
    64-bit key: the sum of a random number for each value.
    """

    attributes: Sequence[Attribute]
    codes: Int32Array
    source: list[Int64Array]
    counts: list[Int64Array]
    predictor: Predictor
    rating: Rating
    records: Int64Array
    other: UInt64Array
    unused: frozenset[str]
    words: list[UInt64Array]
    known: dict[int, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        attributes: Sequence[Attribute],
        codes: Int32Array,
        predictor: Predictor,
        rating: Rating,
    ) -> ReplacedInputs:
        """All records of a table; ``codes`` has the codes of its quasi-identifiers."""
        names, raw = [a.name for a in attributes], predictor.raw
        inputs = list_inputs(predictor.model, raw, predictor.target)
        random = np.random.default_rng(0)  # the numbers decide nothing, they only tell combinations apart
        source, counts = [], []
        for j, attribute in enumerate(attributes):
            source.append(_find_sources(raw, attribute, codes[:, j]))
            counts.append(np.bincount(codes[:, j], minlength=attribute.size))
        other = np.zeros(len(codes), np.uint64)
        for name in inputs:
            if name not in names:
                number, first = raw.factorize(name)
                other += random.integers(0, 2**63, len(first), np.uint64)[number]
        unused = frozenset(names) - set(inputs)
        words = [
            np.zeros(a.size, np.uint64) if a.name in unused else random.integers(0, 2**63, a.size, np.uint64)
            for a in attributes
        ]
        records = np.arange(len(codes))
        return cls(attributes, codes, source, counts, predictor, rating, records, other, unused, words)

    def take(self, records: Int64Array) -> ReplacedInputs:
        """The same for some of the records; representatives are still those of all records."""
        return ReplacedInputs(
            self.attributes,
            self.codes[records],
            self.source,
            self.counts,
            self.predictor,
            self.rating.of(records),
            self.records[records],
            self.other[records],
            self.unused,
            self.words,
            self.known,
        )

    def find_representative(self, j: int, lo: int, hi: int) -> int:
        """The code that stands for the codes ``lo`` to ``hi``; see `choose_representative`."""
        return lo + choose_representative(self.counts[j][lo : hi + 1], self.attributes[j])

    def make_keys(self, inputs: Int32Array, rows: Any = slice(None)) -> UInt64Array:
        """The key of every combination of inputs."""
        keys: UInt64Array = self.other[rows].copy()
        for j, words in enumerate(self.words):
            keys += words[inputs[:, j]]
        return keys

    def predict(self, inputs: Int32Array, keys: UInt64Array, rows: Int64Array) -> FloatArray:
        """Predictions for records ``rows`` whose quasi-identifiers have the codes ``inputs`` [row, attribute]."""
        distinct, first, number = np.unique(keys, return_index=True, return_inverse=True)
        texts = distinct.tolist()
        found = np.array([self.known.get(key, np.nan) for key in texts], np.float64)
        new = np.flatnonzero(np.isnan(found))
        if len(new):
            found[new] = self._predict_new(inputs[first[new]], self.records[rows[first[new]]])
            if len(self.known) + len(new) > MOST_KEPT:
                self.known.clear()
            self.known.update(zip([texts[i] for i in new.tolist()], found[new].tolist(), strict=True))
        predicted: FloatArray = found[number]
        return predicted

    def _predict_new(self, inputs: Int32Array, records: Int64Array) -> FloatArray:
        columns = dict.fromkeys(list_inputs(self.predictor.model, self.predictor.raw, self.predictor.target), records)
        for j, attribute in enumerate(self.attributes):
            if attribute.name not in self.unused:
                columns[attribute.name] = self.source[j][inputs[:, j]]
        return self.predictor.predict(columns)


def choose_representative(counts: Int64Array, attribute: Attribute) -> int:
    """The position of the representative among codes with these counts: the median of numbers and dates, else the mode."""
    if attribute.kind == "categorical" or not counts.any():
        return int(np.argmax(counts))
    total = np.cumsum(counts)
    return int(np.searchsorted(total, total[-1] / 2))


def _list_classes(model: Any, predicted: NDArray[Any]) -> NDArray[Any]:
    """The classes of a model, also those that it does not predict for the full inputs."""
    classes = np.asarray(getattr(model, "classes_", predicted))
    return np.union1d(classes, predicted) if classes.dtype.kind == predicted.dtype.kind else np.unique(predicted)


def _sum_squares(numbers: FloatArray) -> float:
    """The sum of squares around the mean; exactly 0 for equal numbers, whose mean may differ from them by rounding."""
    return 0.0 if (numbers == numbers[0]).all() else float(((numbers - numbers.mean()) ** 2).sum())


def _read_number(value: Any) -> float | None:
    """A class that is a number or a truth value, in any type: 1, 1.0, "1" and True are one class."""
    return float(value) if isinstance(value, bool) else parse_number(str(value))


def _find_sources(raw: RawColumns, attribute: Attribute, codes: Int32Array) -> Int64Array:
    """A record with the most frequent raw value of every code; 0 for codes without records."""
    number, first = raw.factorize(attribute.name)
    pairs, count = np.unique(codes.astype(np.int64) * len(first) + number, return_counts=True)
    order = np.lexsort((-count, pairs // len(first)))
    code, at = np.unique(pairs[order] // len(first), return_index=True)
    found = np.zeros(attribute.size, np.int64)
    found[code] = first[pairs[order][at] % len(first)]
    return found
