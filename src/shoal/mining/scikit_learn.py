"""Decision trees of scikit-learn, alone or at the end of a pipeline, traced back to the columns of a table.

Every supported transformer computes a feature from one column alone. So a split of a feature is a split of the values of its
column: the pipeline transforms every value of the column, and the tree compares the result with its threshold. Nothing is
inverted, and rounding is the same as in the model. The leaves of all records are compared with those of the model.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.arrays import BoolArray, Int32Array, Int64Array
from shoal.engines.raw_columns import RawColumns
from shoal.errors import DataError, list_some
from shoal.formats.numbers import format_number
from shoal.mining.centroids import read_centroids
from shoal.mining.ensembles import build_forest, order_histogram_features
from shoal.mining.read_cells import ReadCells
from shoal.mining.supported import CENTROIDS, ENSEMBLES, HISTOGRAMS, PER_COLUMN, SUPPORTED, TREES, check_nodes
from shoal.spans import CellTree, Condition, EnsembleSpans, Knowledge, Spans, ThresholdForest, find_spans

UNKNOWN = re.compile(r"unknown categories \[(.*?)[,\]]")
MARK = re.compile("\x01(\\d+)\x02")
DIGITS = 7  # of a cut in words; the models compare numbers of this precision
MOST_LISTED = 4  # values in the words of a condition


@dataclass(frozen=True)
class ReadModel:
    """A model over the codes of the columns that it uses: ``codes`` has the codes of every record, by column of ``tree``.

    ``classes`` and ``leaf`` have the class and the leaf of every record. ``fits``: the model holds the same numbers of records
    in its leaves.
    """

    tree: CellTree
    codes: tuple[Int32Array, ...]
    classes: Int32Array
    leaf: Int64Array
    fits: bool = True

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the model uses."""
        return self.tree.columns

    def without_classes(self) -> ReadModel:
        """The model whose leaves are not divided by class."""
        return replace(self, tree=replace(self.tree, classes=()), classes=np.zeros_like(self.classes))

    def count_cells(self) -> Int64Array:
        """The number of records of every cell [node, class]."""
        nodes, bins = len(self.tree.column), max(len(self.tree.classes), 1)
        return np.bincount(self.leaf * bins + self.classes, minlength=nodes * bins).reshape(nodes, bins)

    def find_spans(self, knowledge: Knowledge) -> Spans:
        """The spans of all records for an attacker."""
        return find_spans(self.tree, self.codes, self.classes, self.leaf, knowledge)


@dataclass(frozen=True)
class ReadEnsemble:
    """An ensemble over the codes of the columns that it uses; see `ReadModel`."""

    forest: ThresholdForest
    codes: tuple[Int32Array, ...]
    classes: Int32Array
    fits: bool = True

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the ensemble uses."""
        return self.forest.columns

    def without_classes(self) -> ReadEnsemble:
        """The ensemble whose leaves are not divided by class."""
        return replace(self, forest=replace(self.forest, classes=()), classes=np.zeros_like(self.classes))

    def count_cells(self) -> Int64Array:
        """No counts: the cells of an ensemble are not listed."""
        return np.zeros((0, len(self.forest.classes)), np.int64)

    def find_spans(self, knowledge: Knowledge) -> EnsembleSpans:
        """The spans of all records for an attacker."""
        return self.forest.find_spans(self.codes, self.classes, knowledge)


def is_scikit_learn(model: Any) -> bool:
    """Whether an object is a class instance of scikit-learn."""
    return any(kind.__module__.partition(".")[0] == "sklearn" for kind in type(model).__mro__)


def read_scikit_learn(
    model: Any, raw: RawColumns, target: str | None, *, from_file: bool = False
) -> ReadModel | ReadEnsemble | ReadCells:
    """Read a fitted model or pipeline; `DataError` for an unsupported, unfitted or unfitting model.

    Parameters
    ----------
    model : the fitted model
    raw : the records that the model was fitted on, with the columns that the model uses, and the target
    target : the column that the model predicts; None for clusters
    from_file : whether texts that are numbers may have been numbers when the model was fitted. Both ways are tried, and the
        one that fits the numbers of records in the leaves of the model is chosen
    """
    steps, final = _unwrap(model)
    _check_fitted(model, final)
    kind = type(final).__name__
    names = _input_columns(steps[0] if steps else final, raw.data.columns, target)
    ways = [raw.with_numbers(), raw] if from_file else [raw]
    found, failure = [], None
    for way in ways:
        try:
            read = (
                _trace_centroids(steps, final, names, way)
                if kind in CENTROIDS
                else (_trace if kind in TREES else _trace_ensemble)(steps, final, names, way, str(target))
            )
        except _CannotTransform as error:
            failure = error
            continue
        if read.fits:
            return read
        found.append(read)
    if not found:
        raise DataError(f"{failure}") from failure
    return found[0]


class _CannotTransform(Exception):
    """The pipeline refuses the values of the table."""


def _unwrap(model: Any) -> tuple[list[Any], Any]:
    """The transformers of a pipeline, and its last step; pipelines within pipelines are flattened."""
    if type(model).__name__ == "Pipeline":
        steps = [step for _, step in model.steps if step is not None and step != "passthrough"]
        if not steps:
            raise DataError(f"the pipeline has no model. {SUPPORTED}.")
        inner, final = _unwrap(steps[-1])
        return [*steps[:-1], *inner], final
    if type(model).__name__ not in (*TREES, *ENSEMBLES, *CENTROIDS):
        raise DataError(f"a model of the type {type(model).__name__} is not supported. {SUPPORTED}.")
    return [], model


def _check_fitted(model: Any, final: Any) -> None:
    if not any(
        hasattr(final, name) for name in ("tree_", "estimators_", "_predictors", "cluster_centers_", "centroids_")
    ):
        raise DataError(f"the model {type(model).__name__} is not fitted. Call its method fit first.")


def _input_columns(first: Any, columns: Sequence[str], target: str | None) -> list[str]:
    """The columns that a model gets, in its order."""
    names = getattr(first, "feature_names_in_", None)
    if names is not None:
        absent = [str(name) for name in names if name not in columns]
        if absent:
            raise DataError(
                f"the model was fitted on columns that the table lacks: {list_some(absent)}. Pass the table that the model was "
                "fitted on."
            )
        return [str(name) for name in names]
    rest = [name for name in columns if name != target]
    if len(rest) != first.n_features_in_:
        raise DataError(
            f"the model was fitted on {first.n_features_in_} columns without names, but the table has {len(rest)} columns"
            f"{'' if target is None else f' beside the target {target!r}'}. Fit the model on a frame with column names, or "
            "pass a table with these columns only, in the order of the fit."
        )
    return rest


@dataclass(frozen=True)
class _Features:
    """The features of every value of every column, and the column of every feature."""

    coded: dict[str, tuple[Int32Array, Int64Array]]
    values: NDArray[Any]
    source: list[int]
    frame: Any  # all records, as the first step gets them

    @classmethod
    def of(cls, steps: Sequence[Any], final: Any, names: list[str], raw: RawColumns) -> _Features:
        coded = {name: raw.factorize(name) for name in names}
        sample = raw.sample({name: first for name, (_, first) in coded.items()})
        has_names = hasattr(steps[0] if steps else final, "feature_names_in_")
        features = _transform(steps, final, sample if has_names else _to_array(sample))
        source = list(range(len(names)))
        for step in steps:
            source = [source[i] for i in _trace_step(step, len(source))]
        if len(source) != features.shape[1] or len(source) != final.n_features_in_:
            raise DataError(
                f"the pipeline makes {features.shape[1]} features, but {len(source)} could be traced back to columns. "
                f"{SUPPORTED}."
            )
        return cls(coded, features, source, raw.select(names) if has_names else _to_array(raw.select(names)))


def _trace(steps: Sequence[Any], final: Any, names: list[str], raw: RawColumns, target: str) -> ReadModel:
    traced = _Features.of(steps, final, names, raw)
    coded, features = traced.coded, traced.values
    check_nodes(final.tree_, features.shape[1])
    tree = _build_tree(final, features, traced.source, names, coded, raw)
    used = [names.index(name) for name in tree.columns]
    codes = tuple(coded[names[j]][0] for j in used)
    leaves = _compare_leaves(tree, codes, steps, final, traced.frame)
    labels, classes = _read_classes(final, raw, target)
    labelled = CellTree(tree.columns, tree.column, tree.child, tree.parent, tree.conditions, labels)
    read = ReadModel(labelled, codes, classes, leaves)
    return replace(read, fits=_counts_records(final, read.count_cells()[tree.leaves], tree.leaves))


def _counts_records(final: Any, records: Int64Array, leaves: Int32Array) -> bool:
    """Whether the leaves of the model hold these numbers of records [leaf, class].

    The classes of a leaf are compared if the records have no weights and the model predicts classes.
    """
    tree = final.tree_
    count = tree.n_node_samples[leaves]
    if not np.array_equal(records.sum(axis=1), count):
        return False
    if not hasattr(final, "classes_") or not np.array_equal(tree.weighted_n_node_samples[leaves], count):
        return True
    value = tree.value[leaves, 0]
    return bool(np.allclose(value / value.sum(axis=1, keepdims=True) * count[:, np.newaxis], records, rtol=0, atol=0.5))


def _trace_ensemble(steps: Sequence[Any], final: Any, names: list[str], raw: RawColumns, target: str) -> ReadEnsemble:
    traced = _Features.of(steps, final, names, raw)
    used, forest = build_forest(final, traced.values, traced.source, [traced.coded[name][1] for name in names])
    labels, classes = _read_classes(final, raw, target)
    values = [raw.list_values(names[j], traced.coded[names[j]][1]) for j in used]
    codes = tuple(traced.coded[names[j]][0] for j in used)

    def describe(column: int, chosen: BoolArray) -> Condition:
        return describe_values(names[used[column]], values[column], chosen)

    named = ThresholdForest(
        tuple(names[j] for j in used), forest.features, forest.trees, labels, forest.sizes, describe
    )
    forest.compare(final, _transform(steps, final, traced.frame), codes)
    return ReadEnsemble(named, codes, classes)


def _trace_centroids(steps: Sequence[Any], final: Any, names: list[str], raw: RawColumns) -> ReadCells:
    traced = _Features.of(steps, final, names, raw)
    coded = [traced.coded[name] for name in names]
    values = [raw.list_values(name, first) for name, (_, first) in zip(names, coded, strict=True)]
    features = _transform(steps, final, traced.frame)
    if np.isnan(features).any():
        raise DataError(
            "the table has missing values, which have no distance to a centroid. Pass the table that the model was fitted on."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the features have no names
        predicted = np.asarray(final.predict(features))
    return read_centroids(final, traced.values, traced.source, names, [codes for codes, _ in coded], values, predicted)


def _to_array(frame: Any) -> NDArray[Any]:
    """A frame as an array, as a model without column names was fitted on."""
    return np.asarray(frame)


def _transform(steps: Sequence[Any], final: Any, frame: Any) -> NDArray[Any]:
    """The features of a frame as the model sees them: short floats for trees, except histograms, else long floats."""
    from sklearn.utils import check_array  # the model is one of scikit-learn, so it is installed

    found = frame
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for step in steps:
                found = step.transform(found)
            if hasattr(found, "toarray"):
                found = found.toarray()
            if type(final).__name__ in HISTOGRAMS:
                ordered = final._preprocess_X(found, reset=False)
                restored: NDArray[Any] = np.empty_like(ordered)
                restored[:, order_histogram_features(final)] = ordered
                return restored
            precision = np.float64 if type(final).__name__ in CENTROIDS else np.float32
            read: NDArray[Any] = check_array(found, dtype=precision, ensure_all_finite=False)
            return read
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        unknown = UNKNOWN.search(str(error))
        reason = type(error).__name__ if unknown is None else f"it does not know the category {unknown[1]}"
        raise _CannotTransform(
            f"the model cannot read the values of the table ({reason}). Pass the table that the model was fitted on, with the "
            "same types and categories."
        ) from error


def _trace_step(step: Any, width: int) -> list[int]:
    """The input column of every feature that a fitted transformer makes of ``width`` columns."""
    kind = type(step).__name__
    if step == "passthrough" or _is_identity(step):
        return list(range(width))
    if kind == "Pipeline":
        source = list(range(width))
        for _, inner in step.steps:
            if inner is not None and inner != "passthrough":
                source = [source[i] for i in _trace_step(inner, len(source))]
        return source
    if kind == "ColumnTransformer":
        return _trace_column_transformer(step)
    if kind not in PER_COLUMN or not is_scikit_learn(step):
        raise DataError(f"a step of the type {kind} in a pipeline is not supported. {SUPPORTED}.")
    unnamed = copy.copy(step)
    vars(unnamed).pop("feature_names_in_", None)
    if getattr(unnamed, "feature_name_combiner", "concat") != "concat":
        unnamed.feature_name_combiner = "concat"
    if kind == "SimpleImputer" and getattr(unnamed, "indicator_", None) is not None:
        unnamed.indicator_ = copy.copy(unnamed.indicator_)
        vars(unnamed.indicator_).pop("feature_names_in_", None)
    names = unnamed.get_feature_names_out([f"\x01{i}\x02" for i in range(width)])
    found = []
    for name in names:
        marks = MARK.findall(str(name))
        if not marks:
            raise DataError(f"a feature of the step {kind} cannot be traced back to a column. {SUPPORTED}.")
        found.append(int(marks[0]))
    return found


def _is_identity(step: Any) -> bool:
    """Whether a step returns its input, as the fitted form of 'passthrough' in a ColumnTransformer does."""
    return type(step).__name__ == "FunctionTransformer" and is_scikit_learn(step) and step.func is None


def _trace_column_transformer(step: Any) -> list[int]:
    names = list(getattr(step, "feature_names_in_", []))
    found: dict[int, int] = {}
    for name, transformer, columns in step.transformers_:
        place = step.output_indices_[name]
        if (isinstance(transformer, str) and transformer == "drop") or place.start == place.stop:
            continue
        inputs = _resolve_columns(columns, names, step.n_features_in_)
        inner = list(range(len(inputs))) if isinstance(transformer, str) else _trace_step(transformer, len(inputs))
        found |= {place.start + i: inputs[source] for i, source in enumerate(inner)}
    return [found[i] for i in range(len(found))]


def _resolve_columns(columns: Any, names: list[str], width: int) -> list[int]:
    """The numbers of columns that are given as names, numbers, a slice or a mask."""
    if isinstance(columns, (str, int, np.integer)):
        columns = [columns]
    if isinstance(columns, slice):
        if isinstance(columns.start, str) or isinstance(columns.stop, str):
            first = names.index(columns.start) if columns.start is not None else 0
            last = names.index(columns.stop) + 1 if columns.stop is not None else width
            return list(range(width))[first : last : columns.step]
        return list(range(width))[columns]
    given = list(columns)
    if given and all(isinstance(c, (bool, np.bool_)) for c in given):
        return [i for i, chosen in enumerate(given) if chosen]
    return [names.index(str(c)) if isinstance(c, str) else range(width)[int(c)] for c in given]


def _build_tree(
    final: Any,
    features: NDArray[np.float32],
    source: Sequence[int],
    names: Sequence[str],
    coded: dict[str, tuple[Int32Array, Int64Array]],
    raw: RawColumns,
) -> CellTree:
    """The tree over the codes of its columns."""
    tree = final.tree_
    count = tree.node_count
    used = sorted({source[f] for f in tree.feature if f >= 0})
    values = {j: raw.list_values(names[j], coded[names[j]][1]) for j in used}
    goes_left = getattr(tree, "missing_go_to_left", np.zeros(count, np.uint8))
    column, parent = np.full(count, -1, np.int32), np.zeros(count, np.int32)
    child: list[Int32Array] = []
    conditions: list[Condition | None] = [None] * count
    for n in range(count):
        left, right = int(tree.children_left[n]), int(tree.children_right[n])
        if left < 0:
            child.append(np.zeros(0, np.int32))
            continue
        j = source[tree.feature[n]]
        value = features[: len(values[j]), tree.feature[n]]
        is_left = np.where(np.isnan(value), bool(goes_left[n]), value <= tree.threshold[n])
        column[n], parent[left], parent[right] = used.index(j), n, n
        child.append(np.where(is_left, left, right).astype(np.int32))
        shown, threshold = values[j], None
        if _is_unchanged(value, shown):  # texts from a file may be numbers
            shown, threshold = [v if v is None else float(v) for v in shown], float(tree.threshold[n])
        conditions[left] = describe_values(names[j], shown, is_left, threshold)
        conditions[right] = describe_values(names[j], shown, ~is_left, threshold)
    return CellTree(tuple(names[j] for j in used), column, tuple(child), parent, tuple(conditions), ())


def _is_unchanged(features: NDArray[np.float32], values: Sequence[Any]) -> bool:
    """Whether the feature of every value is the value itself."""
    try:
        return bool(np.array_equal(features, np.array(values, np.float32), equal_nan=True))
    except (ValueError, TypeError):
        return False


def describe_values(
    column: str, values: Sequence[Any], chosen: NDArray[np.bool_], threshold: float | None = None
) -> Condition:
    """The chosen values of a column in words."""
    if _are_numbers(values):
        order = np.argsort(np.array([np.inf if v is None or v != v else float(v) for v in values]), kind="stable")
        inside = chosen[order]
        first, count = int(np.argmax(inside)), int(inside.sum())
        if (
            0 < count < len(values)
            and inside[first : first + count].all()
            and (first == 0 or first + count == len(values))
        ):
            edge = first + count if first == 0 else first  # the first value after the cut
            low, high = (float(values[order[edge - 1]]), values[order[edge]])
            if high is None or high != high:
                return Condition(column, "is not missing" if first == 0 else "is missing")
            cut = low + (float(high) - low) / 2 if threshold is None else threshold
            text = f"{'at most' if first == 0 else 'above'} {format_number(float(f'{cut:.{DIGITS}g}'))}"
            return Condition.of_cut(column, cut, text, below=first == 0)
    if chosen.all() or not chosen.any():
        return Condition(column, f"is {'any' if chosen.any() else 'no'} value of the table")
    inside_values = [v for v, c in zip(values, chosen, strict=True) if c]
    outside = [v for v, c in zip(values, chosen, strict=True) if not c]
    if len(outside) < len(inside_values) and len(outside) <= MOST_LISTED:
        return Condition(column, f"is not {_list_values(outside)}")
    return Condition(column, f"is {_list_values(inside_values)}")


def _list_values(values: Sequence[Any]) -> str:
    texts = [_describe_value(v) for v in sorted(values, key=_value_order)]
    more = len(texts) - MOST_LISTED
    if more > 0:
        return f"one of {', '.join(texts[:MOST_LISTED])} and {more} more values"
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"


def _value_order(value: Any) -> tuple[bool, bool, float, str]:
    """Numbers, then texts, then missing values, so that words do not depend on the order of the records."""
    if value is None or value != value:
        return True, True, 0.0, ""
    is_number = isinstance(value, (int, float, np.number))
    return False, not is_number, float(value) if is_number else 0.0, str(value)


def _describe_value(value: Any) -> str:
    if value is None or value != value:
        return "missing"
    is_number = isinstance(value, (float, np.floating))
    return format_number(float(value)) if is_number else str(value)


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(v is None or (isinstance(v, (int, float, np.number)) and not isinstance(v, bool)) for v in values)


def _compare_leaves(
    tree: CellTree, codes: Sequence[Int32Array], steps: Sequence[Any], final: Any, frame: Any
) -> Int64Array:
    """The leaf of every record, compared with the leaf by the model itself."""
    leaves: Int64Array = final.tree_.apply(_transform(steps, final, frame)) if len(frame) else np.zeros(0, np.int64)
    if not np.array_equal(leaves, tree.route(codes, len(frame))):
        raise RuntimeError(
            "The traced tree sends records to other leaves than the model. This is a bug; nothing was certified."
        )
    return leaves


def _read_classes(final: Any, raw: RawColumns, target: str) -> tuple[tuple[str | None, ...], Int32Array]:
    """The labels of the classes, and the class of every record; a regression tree has a class for every value."""
    if target not in raw.data.columns:
        raise DataError(
            f"the table lacks the target {target!r}, whose values the leaves of the model count. Add this column."
        )
    codes, first = raw.factorize(target)
    values = raw.list_values(target, first)
    if not hasattr(final, "classes_"):
        return tuple(None if v is None or v != v else str(v) for v in values), codes
    if isinstance(final.classes_, list):
        raise DataError("a model with several targets is not supported. Fit one model per target.")
    known = {_key(c): i for i, c in enumerate(final.classes_.tolist())}
    absent = [v for v in values if _key(v) not in known]
    if absent:
        raise DataError(
            f"column {target!r} has classes that the model does not know: {list_some(absent)}. The model knows "
            f"{list_some(final.classes_.tolist())}. Pass the table that the model was fitted on."
        )
    number = np.array([known[_key(v)] for v in values], np.int32)
    return tuple(str(c) for c in final.classes_.tolist()), number[codes]


def _key(value: Any) -> str:
    """A text by which values of the target and of the model are compared: 1, 1.0 and '1' are equal."""
    if isinstance(value, (bool, np.bool_)):
        return str(value)
    if isinstance(value, (int, float, np.number)) and value == value:
        return format_number(float(value))
    return str(value)
