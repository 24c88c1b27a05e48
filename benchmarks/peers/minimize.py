"""Minimize the inputs of a gradient boosting model with ai-privacy-toolkit, and print its figures as one JSON object.

The script runs in an environment of its own, where Shoal is not installed. The model is fitted on the first file; the inputs
are minimized on the second. The information loss is the mean over records and columns of the share of the value range (the
number of categories, 0 for one) that the cell of the record covers: what the tool stores. To find the cell, all boundaries of a
column must be known: `collected` is the loss of the values between them, which have to be collected.
"""

import argparse
import contextlib
import json
import sys
import time
from typing import Any

import numpy as np
import pandas as pd
from apt.minimization import GeneralizeToRepresentative
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.preprocessing import OneHotEncoder

TARGET = "income"


def main() -> None:
    """Run the case of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("columns", nargs="+")
    parser.add_argument("--keep", type=float, default=0.98)
    parser.add_argument(
        "--agreement", action="store_true", help="keep the agreement with the predictions, not the accuracy"
    )
    given = parser.parse_args()
    train, test = pd.read_csv(given.train), pd.read_csv(given.test)
    records = test[given.columns]
    texts = [name for name in given.columns if records[name].dtype == object]
    encoder = make_column_transformer((OneHotEncoder(sparse_output=False), texts), remainder="passthrough")
    encoder.fit(pd.concat([train, test])[given.columns])
    model = GradientBoostingClassifier(random_state=0).fit(encoder.transform(train[given.columns]), _number(train))
    predicted = model.predict(encoder.transform(records))
    truth = predicted if given.agreement else _number(test)
    full = float((predicted == truth).mean())
    minimizer = GeneralizeToRepresentative(
        model, target_accuracy=given.keep * full, encoder=encoder, categorical_features=texts
    )
    start = time.perf_counter()
    with contextlib.redirect_stdout(sys.stderr):
        minimizer.fit(records, truth, features_names=given.columns)
    seconds = time.perf_counter() - start
    replaced = minimizer._generalize_from_tree(
        records, *_prepare(minimizer, records), minimizer.cells, minimizer._cells_by_id
    )
    reached = float((model.predict(encoder.transform(replaced)) == truth).mean())
    figures = {"wall": seconds, "full": full, "accuracy": reached, "cells": len(minimizer.cells)}
    figures |= {
        "loss": _measure_loss(minimizer, records, texts),
        "collected": _measure_collected(minimizer, records, texts),
    }
    print(json.dumps(figures))


def _number(frame: pd.DataFrame) -> Any:
    return (frame[TARGET] == ">50K").astype(int).to_numpy()


def _prepare(minimizer: Any, records: pd.DataFrame) -> tuple[pd.DataFrame, list[int]]:
    return minimizer._encode_categorical_features(records.copy()), minimizer._get_nodes_level(minimizer._level)


def _measure_loss(minimizer: Any, records: pd.DataFrame, texts: list[str]) -> float:
    """The information loss of the cells to which the tree of the peer sends the records."""
    prepared, nodes = _prepare(minimizer, records)
    cell_of = np.array(minimizer._find_sample_nodes(prepared, nodes))
    total = 0.0
    for cell in minimizer.cells:
        size = int((cell_of == cell["id"]).sum())
        for name in records.columns:
            if name in texts and name in cell["categories"]:
                covered = len(cell["categories"][name])
                total += size * (covered / records[name].nunique() if covered > 1 else 0.0)
            elif name in cell["ranges"]:
                low, high = records[name].min(), records[name].max()
                begin, end = (cell["ranges"][name][side] for side in ("start", "end"))
                total += size * ((high if end is None else end) - (low if begin is None else begin)) / (high - low)
    return total / records.size


def _measure_collected(minimizer: Any, records: pd.DataFrame, texts: list[str]) -> float:
    """The information loss if every column is collected between the boundaries of all cells."""
    total = 0.0
    for name in records.columns:
        values = records[name]
        if name in texts:
            cells = [cell["categories"][name] for cell in minimizer.cells if name in cell["categories"]]
            alike = {v: tuple(v in cell for cell in cells) for v in values.unique()}
            size = pd.Series(alike).value_counts().to_dict()
            covered = values.map(lambda v, a=alike, s=size: s[a[v]])
            total += float(np.where(covered > 1, covered / values.nunique(), 0.0).mean())
        else:
            ranges = [cell["ranges"][name] for cell in minimizer.cells if name in cell["ranges"]]
            inner = sorted({r[side] for r in ranges for side in ("start", "end") if r[side] is not None})
            ends = np.array([values.min(), *inner, values.max()], float)
            at = np.searchsorted(inner, values, side="left")
            total += float((np.diff(ends)[at] / (ends[-1] - ends[0])).mean())
    return total / len(records.columns)


if __name__ == "__main__":
    main()
