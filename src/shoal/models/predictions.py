"""Predictions of any fitted model for the records of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.engines.raw_columns import RawColumns
from shoal.errors import DataError, ShoalError, list_some
from shoal.mining.outputs import write_key


def list_inputs(model: Any, raw: RawColumns, target: str | None) -> list[str]:
    """The columns that a model gets: those that it was fitted on; all but the target if it does not know their names."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return [name for name in raw.data.columns if name != target]
    absent = [str(name) for name in names if str(name) not in raw.data.columns]
    if absent:
        raise DataError(
            f"the table lacks columns that the model was fitted on: {list_some(absent)}. Add these columns to the table."
        )
    return [str(name) for name in names]


def predict(model: Any, raw: RawColumns, target: str | None) -> NDArray[Any]:
    """The prediction for every record. A model that does not know the names of its columns gets an array."""
    return predict_frame(model, raw.select(list_inputs(model, raw, target)))


def predict_frame(model: Any, frame: Any) -> NDArray[Any]:
    """The prediction for every record of a frame with the columns of the model."""
    knows_names = getattr(model, "feature_names_in_", None) is not None
    try:
        return np.asarray(model.predict(frame if knows_names else np.asarray(frame)))
    except ShoalError:
        raise
    except Exception as error:  # models of other libraries raise errors of any type
        raise DataError(
            f"the model of the type {type(model).__name__} cannot predict these records: {str(error).rstrip('.')}. Pass a "
            "fitted model, and records with the columns and values that it knows."
        ) from error


def measure_agreement(predicted: NDArray[Any], raw: RawColumns, target: str) -> float:
    """The share of the records whose predicted class is the value of the target."""
    pairs = zip(predicted.tolist(), raw.list_all(target), strict=True)
    return float(np.mean([write_key(one) == write_key(other) for one, other in pairs]))
