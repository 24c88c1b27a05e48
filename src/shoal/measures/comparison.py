"""Measuring a release from outside: two tables and the policy, whoever made the release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shoal import kernels
from shoal.arrays import Int64Array
from shoal.encoding.codes import Codes, coded
from shoal.encoding.equivalence_classes import Shown, published, shown
from shoal.engines import AS_SEEN, Engine, Written, open_data
from shoal.errors import DataError
from shoal.formats.column_pairs import pair_names
from shoal.formats.labels import ends_text
from shoal.measures import THRESHOLD, Audience, Confided, Measures, Published, measures_of
from shoal.policy import Policy
from shoal.recoding.grouping import Decision
from shoal.requirements.groups import Groups


def measured(original: Any, released: Any, policy: Policy, *, threshold: float = THRESHOLD) -> Measures:
    """All measures of a released table; records of the original that it lacks count as suppressed."""
    before, after = open_data(original), open_data(released)
    policy.fit(before.schema())
    policy.fit(after.schema(), check=True)
    lost = before.schema().rows - after.schema().rows
    if lost < 0:
        raise DataError(f"the release has {-lost} records more than the original; are the two tables the right ones?")
    table = coded(before, policy)
    columns = [
        Published(attribute, *_labels(after, attribute.name, policy), table.occurring(j))
        for j, attribute in enumerate(table.attributes)
    ]
    groups, confided = counted(shown(after, policy, also=looked_at(after, policy)), policy)
    return measures_of(columns, Audience(groups, lost, confided, threshold))


def looked_at(released: Engine, policy: Policy) -> tuple[str, ...]:
    """The confidential columns of a released table that measures look at."""
    names = released.schema().names
    target = (policy.target,) if policy.target in names and policy.target not in policy.quasi else ()
    return tuple(n for n in (*policy.sensitive, *target) if n is not None and n in names)


def counted(table: Shown, policy: Policy, asked: Sequence[str] = ()) -> tuple[Groups, Confided]:
    """The groups of a finished table with the values of ``asked``, and what they tell of the columns of `looked_at`.

    Where the cells of all columns are more than may be held at once, the second is found part by part.
    """
    names = looked_at(table.engine, policy)
    every = tuple(dict.fromkeys((*asked, *names)))
    parts = table.parts(every)
    if parts == 1:
        groups = table.groups(every)
        return groups, Confided.of(groups, policy, names)
    found = Confided()
    for part in range(parts):
        found = found + Confided.of(table.groups(every, part), policy, names)
    return table.groups(asked), found


def original_counts(codes: Codes, j: int) -> Int64Array:
    """How often each code of an attribute occurs."""
    found: Int64Array = kernels.order.totals(codes.quasi[:, j], codes.weight, codes.attributes[j].size)
    return found


def _labels(released: Engine, name: str, policy: Policy) -> tuple[list[str | None], Int64Array]:
    """The labels of one attribute and how many records bear each; two columns of ends are read as ranges."""
    if name in released.schema().names:
        distinct = released.distinct(name, AS_SEEN)
        tokens = policy.tokens  # another tool may have left them as they were
        labels: list[str | None] = [None if str(v).strip() in tokens else str(v) for v in distinct.values]
        return [*labels, *([None] if distinct.missing else [])], np.append(
            distinct.counts, [distinct.missing] if distinct.missing else []
        ).astype(np.int64)
    low, high = pair_names(name)
    ends = Policy(quasi=dict.fromkeys((low, high), "categorical"), missing=policy.missing)
    groups, text = published(released, ends)
    pairs = [(text[low][lo], text[high][hi]) for lo, hi in groups.quasi]
    labels = [ends_text(lo, hi) for lo, hi in pairs]
    return labels, groups.size


def published_labels(codes: Codes, decision: Decision, written: tuple[tuple[str, Written], ...]) -> list[Published]:
    """The labels of every attribute, with the records that bear them."""
    size = decision.size()
    found = []
    for j, (_, column) in enumerate(written):
        labels: list[str | None] = [*column.values, None]  # the last serves index -1
        records = np.bincount(column.index % len(labels), size, minlength=len(labels)).astype(np.int64)
        borne = np.flatnonzero(records)
        found.append(
            Published(codes.attributes[j], [labels[i] for i in borne], records[borne], original_counts(codes, j))
        )
    return found
