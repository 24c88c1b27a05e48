"""Models as plain functions of a record, and the comparison of an audit with the slow twin."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

import shoal
from shoal.engines import open_data
from shoal.mining.learning_policy import name_target
from shoal.mining.readers import read_model
from shoal.spans import Knowledge
from tests.reference import spans as twin

Leaf = Callable[[twin.Record], int]


def key(value: Any) -> Any:
    """A value that can be compared: None for a missing value."""
    return None if pd.isna(value) else value


def records_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame as plain records."""
    columns = [[key(v) for v in frame[name]] for name in frame.columns]
    return [dict(zip(frame.columns, row, strict=True)) for row in zip(*columns, strict=True)]


OTHER = "(another class)"


def domains_of(frame: pd.DataFrame, names: Sequence[str]) -> dict[str, list[Any]]:
    """The values of some columns of a frame."""
    return {name: list(dict.fromkeys(key(v) for v in frame[name])) for name in names}


def every_record(frame: pd.DataFrame, names: Sequence[str]) -> tuple[pd.DataFrame, list[tuple[Any, ...]]]:
    """All combinations of the values of some columns as a frame with the same types, and as tuples."""
    first = {name: {key(v): r for r, v in reversed(list(enumerate(frame[name])))} for name in names}
    combinations = list(itertools.product(*first.values()))
    columns = {
        name: frame[name].iloc[[first[name][c[j]] for c in combinations]].reset_index(drop=True)
        for j, name in enumerate(names)
    }
    return pd.DataFrame(columns), combinations


def leaf_of_scikit_learn(model: Any, frame: pd.DataFrame, names: Sequence[str]) -> Leaf:
    """The leaf of a full record, by the model itself: the model is applied to the whole domain."""
    domain, combinations = every_record(frame, names)
    features = model[:-1].transform(domain) if hasattr(model, "steps") else domain
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    leaves = dict(zip(combinations, last.apply(features).tolist(), strict=True))
    return lambda record: leaves[tuple(record[name] for name in names)]


def leaf_of_published_tree(tree: Mapping[str, Any], labels: Mapping[str, Callable[[Any], Collection[str]]]) -> Leaf:
    """The leaf of a full record in the JSON content of a tree; ``labels`` has the labels above a value, by column."""

    def choose(node: Mapping[str, Any], value: Any) -> int:
        children = node["children"]
        if "labels" in node:
            found = [c for label, c in zip(node["labels"], children, strict=False) if _has(label, value, node)]
            assert len(found) <= 1, f"{value!r} has {len(found)} children of {node}"
            if not found:
                assert node.get("other"), f"{value!r} has no child of {node}"
                return int(children[-1])
            return int(found[0])
        if value is None:
            return int(children[1])
        if "not_missing" in node:
            return int(children[0])
        if "before" in node:
            return int(children[0 if pd.Timestamp(value) < pd.Timestamp(node["before"]) else 1])
        return int(children[0 if float(value) <= node["at_most"] else 1])

    def _has(label: str | None, value: Any, node: Mapping[str, Any]) -> bool:
        if label is None or value is None:
            return label is None and value is None
        return label in labels[node["column"]](value)

    def leaf(record: twin.Record) -> int:
        n = 0
        while "leaf" not in tree["nodes"][n]:
            node = tree["nodes"][n]
            n = choose(node, record[node["column"]])
        return n

    return leaf


def find_public_spans(model: Any, frame: Any, policy: shoal.Policy, knowledge: Knowledge) -> list[twin.Span]:
    """The span of every record by the code under test, as cells of a leaf and the text of a class."""
    engine = open_data(frame)
    policy = name_target(policy, engine.schema().names)
    read = read_model(model, engine, policy, str(policy.target))
    found = read.find_spans(knowledge)
    classes = read.tree.classes if len(read.tree.classes) > 1 else (*read.tree.classes, OTHER)
    cells = [
        frozenset(
            itertools.product(leaves, classes if found.known_class[s] < 0 else [classes[int(found.known_class[s])]])
        )
        for s, leaves in enumerate(found.leaves)
    ]
    assert [len(span) for span in cells] == found.cells.tolist()
    assert len(set(cells)) == len(cells), "two spans have the same cells"
    return [cells[s] for s in found.span.tolist()]


def release_of(
    leaf: Leaf, frame: pd.DataFrame, names: Sequence[str], target: str, public: Collection[str]
) -> twin.Release:
    """The slow twin of a model with these features; the text of a class is its label."""
    domains = domains_of(frame, [*names, target])
    if len(domains[target]) == 1:  # another class is always possible
        domains[target].append(OTHER)
    table = [{name: record[name] for name in domains} for record in records_of(frame)]

    def model(record: twin.Record) -> twin.Cell:
        value = record[target]
        return leaf(record), None if value is None else str(value)

    return twin.release(model, table, domains, public)


def assert_same_spans(
    certificate: Any, spans: Sequence[twin.Span], slow: twin.Release, rule: str, *, smallest: bool = True
) -> None:
    """Compare the spans of every record and the figures of a certificate with the twin."""
    assert list(spans) == slow.spans
    tested = slow.tested(rule)
    assert certificate.records == len(slow.spans)
    assert certificate.groups == len(tested)
    assert certificate.single_spans == len(slow.span_populations) - len(tested)
    assert certificate.single_records == sum(n for s, n in slow.span_populations.items() if s not in tested)
    if smallest:
        assert certificate.smallest == slow.smallest(rule)


def list_reports(certificate: Any) -> list[tuple[int, bool, bool, list[tuple[str, int]]]]:
    """The spans of a certificate as plain values, sorted."""
    return sorted(
        (s.size, s.single, s.holds, sorted(("" if c.label is None else c.label, c.population) for c in s.cells))
        for s in certificate.spans
    )


def list_twin_reports(slow: twin.Release, k: int, rule: str) -> list[tuple[int, bool, bool, list[tuple[str, int]]]]:
    """`list_reports` of the twin, for k-anonymity alone. A class that no record has is not named."""
    tested, cells = slow.tested(rule), slow.cell_populations
    return sorted(
        (
            size,
            len(span) == 1,
            span not in tested or size >= k,
            sorted(("" if label is None else str(label), cells[leaf, label]) for leaf, label in span if label != OTHER),
        )
        for span, size in slow.span_populations.items()
    )


def shuffle(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    """The rows of a frame in another order."""
    return frame.iloc[np.random.default_rng(seed).permutation(len(frame))].reset_index(drop=True)
