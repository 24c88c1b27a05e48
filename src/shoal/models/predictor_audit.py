"""The audit of predictions: of any fitted model, or of a table of predictions from another language."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from shoal.arrays import Int64Array
from shoal.engines import open_data
from shoal.engines.raw_columns import RawColumns
from shoal.errors import EMPTY_TABLE, DataError, PolicyError, list_some
from shoal.mining.grow import RULES, check_choice
from shoal.mining.outputs import PredictionTable, read_outputs
from shoal.models.audit import audit_read, check_policy, check_roles
from shoal.models.certificate import ModelCertificate
from shoal.models.predictions import list_inputs, predict_frame
from shoal.policy import Policy, parse_policy

CONFIDENCE = 0.9
OUTPUTS = ("classes", "probabilities")
PARAMETERS = (
    "The audit is about the predictions only. The model itself may show more: a model of nearest neighbours, for example, "
    "holds its training records."
)


def audit_predictions(
    model: Any,
    frame: Any,
    policy: Policy,
    *,
    outputs: str = "classes",
    rule: str = "claim3",
) -> ModelCertificate:
    """Test whether the predictions of a model may be published or offered as a service.

    The cells are the different outputs. Every combination of public values in the table is predicted with all combinations of
    private values, so this works for any model, but only if the private columns have few values.

    Parameters
    ----------
    model : a fitted model with ``predict`` (and ``predict_proba`` for probabilities); or a table of predictions, as a frame or
        the path of a file: one row for every combination of public and private values. Its columns that are neither
        quasi-identifiers nor sensitive are the outputs
    frame : the records whose people are protected
    policy : the policy with the requirements
    outputs : ``classes``, or ``probabilities``, which distinguish more people
    rule : ``claim3`` (default) spares spans of a single cell, which show nothing private; ``all`` does not

    Returns
    -------
    A certificate as from `audit`.

    Guarantee
    ---------
    As for `audit`, for an attacker who can ask for the prediction of every combination of values.
    """
    check_choice("outputs", outputs, OUTPUTS)
    check_choice("rule", rule, RULES)
    policy = parse_policy(policy)
    check_policy(policy)
    engine = open_data(frame, policy.with_conventions())
    if not engine.schema().rows:
        raise DataError(EMPTY_TABLE)
    raw = RawColumns.typed(engine)
    given = _read_table(model, policy)
    columns = list(given.inputs) if given is not None else list_inputs(model, raw, policy.target)
    absent = [name for name in columns if name not in raw.data.columns]
    if absent:
        raise DataError(f"the table lacks columns of the predictions: {list_some(absent)}. Add these columns.")
    policy = policy.model_copy(update={"target": None})
    check_roles(policy, columns, None)
    predict = given.look_up if given is not None else _choose_method(model, outputs, columns)

    def ask(records: Mapping[str, Int64Array]) -> NDArray[Any]:
        found: NDArray[Any] = predict(RawColumns(nw.from_native(raw.sample(records), eager_only=True)))
        return found

    read = read_outputs(raw, columns, ask)
    certificate = audit_read(read, engine, policy, "", rule, "outputs", CONFIDENCE, (PARAMETERS,))
    return replace(certificate, fingerprint=_fingerprint(certificate.spans))


def _fingerprint(spans: Any) -> str:
    """A digest of the possible predictions for every record, which attackers know.

    A digest of the predictions themselves could be inverted if a table is small.
    """
    found = spans.attackers[0].spans
    possible = [sorted(found.names[c] for c in cells) for cells in found.cells]
    text = json.dumps([possible[s] for s in found.span.tolist()], ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _read_table(model: Any, policy: Policy) -> PredictionTable | None:
    """A table of predictions, from a frame or a file; None for a model."""
    is_file = isinstance(model, (str, Path))
    if not is_file and not hasattr(model, "columns"):
        return None
    raw = RawColumns.typed(open_data(model, policy.with_conventions()))
    names = raw.data.columns
    inputs = [name for name in (*policy.quasi, *policy.sensitive) if name in names and name != policy.target]
    if not inputs:
        raise PolicyError(
            "the table of predictions has no column of the policy. List its inputs under 'quasi' and 'sensitive'."
        )
    return PredictionTable.of(raw, inputs)


def _choose_method(model: Any, outputs: str, columns: Sequence[str]) -> Callable[[RawColumns], NDArray[Any]]:
    """The method of a model that gives its outputs."""
    name = "predict" if outputs == "classes" else "predict_proba"
    method = getattr(model, name, None)
    if not callable(method):
        raise DataError(
            f"a model of the type {type(model).__name__} has no method {name!r}. Pass a fitted model that has it, or a table "
            "of predictions."
        )
    if name == "predict":
        return lambda frame: predict_frame(model, frame.select(columns))
    has_names = getattr(model, "feature_names_in_", None) is not None
    return lambda frame: np.asarray(method(frame.select(columns) if has_names else np.asarray(frame.select(columns))))
