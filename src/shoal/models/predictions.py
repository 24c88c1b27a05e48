"""Predictions of any fitted classifier for the records of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.engines.raw_columns import RawColumns


def predict_classes(model: Any, raw: RawColumns, target: str) -> NDArray[Any]:
    """The predicted class of every record. A model without column names gets all columns but the target, as an array."""
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        return np.asarray(model.predict(raw.select([str(name) for name in names])))
    columns = [name for name in raw.data.columns if name != target]
    return np.asarray(model.predict(np.asarray(raw.select(columns))))


def measure_agreement(predicted: NDArray[Any], raw: RawColumns, target: str) -> float:
    """The share of the records whose predicted class is the value of the target."""
    return float((predicted.astype(str) == np.array([str(v) for v in raw.list_all(target)])).mean())
