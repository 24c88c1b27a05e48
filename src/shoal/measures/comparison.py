"""Measuring a release from outside: two tables and the policy, whoever made the release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shoal import kernels
from shoal.arrays import Int64Array
from shoal.encoding.codes import Codes, encode_table
from shoal.encoding.equivalence_classes import PublishedTable, read_published_groups, read_published_table
from shoal.engines import AS_PUBLISHED, Engine, GroupColumn, open_data
from shoal.errors import DataError
from shoal.formats.column_pairs import pair_names
from shoal.formats.labels import ends_text
from shoal.measures import THRESHOLD, Measures, PublishedColumn, PublishedGroups, SensitiveFigures, compute_measures
from shoal.policy import Policy
from shoal.recoding.grouping import Grouping
from shoal.requirements.groups import Groups


def measure_tables(original: Any, released: Any, policy: Policy, *, threshold: float = THRESHOLD) -> Measures:
    """All measures of a released table; records of the original that it lacks count as suppressed."""
    before, after = open_data(original), open_data(released)
    policy.check_schema(before.schema())
    policy.check_schema(after.schema(), check=True)
    lost = before.schema().rows - after.schema().rows
    if lost < 0:
        raise DataError(f"the release has {-lost} records more than the original; are the two tables the right ones?")
    table = encode_table(before, policy)
    columns = [
        PublishedColumn(attribute, *_labels(after, attribute.name, policy), table.count_codes(j))
        for j, attribute in enumerate(table.attributes)
    ]
    groups, confided = count_groups(read_published_table(after, policy, also=measured_columns(after, policy)), policy)
    return compute_measures(columns, PublishedGroups(groups, lost, confided, threshold))


def measured_columns(released: Engine, policy: Policy) -> tuple[str, ...]:
    """The confidential columns of a released table that measures look at."""
    names = released.schema().names
    target = (policy.target,) if policy.target in names and policy.target not in policy.quasi else ()
    return tuple(n for n in (*policy.sensitive, *target) if n is not None and n in names)


def count_groups(table: PublishedTable, policy: Policy, asked: Sequence[str] = ()) -> tuple[Groups, SensitiveFigures]:
    """The groups of a finished table with the values of ``asked``, and what they tell of the columns of `measured_columns`.

    Where the cells of all columns are more than may be held at once, the second is found part by part.
    """
    names = measured_columns(table.engine, policy)
    every = tuple(dict.fromkeys((*asked, *names)))
    parts = table.partitions(every)
    if parts == 1:
        groups = table.groups(every)
        return groups, SensitiveFigures.of(groups, policy, names)
    found = SensitiveFigures()
    for part in range(parts):
        found = found + SensitiveFigures.of(table.groups(every, part), policy, names)
    return table.groups(asked), found


def count_codes(codes: Codes, j: int) -> Int64Array:
    """How often each code of an attribute occurs."""
    found: Int64Array = kernels.order.sum_by_group(codes.quasi[:, j], codes.size, codes.attributes[j].size)
    return found


def _labels(released: Engine, name: str, policy: Policy) -> tuple[list[str | None], Int64Array]:
    """The labels of one attribute and how many records bear each; two columns of ends are read as ranges."""
    if name in released.schema().names:
        distinct = released.distinct(name, AS_PUBLISHED)
        tokens = policy.missing_texts  # another tool may have left them as they were
        labels: list[str | None] = [None if str(v).strip() in tokens else str(v) for v in distinct.values]
        return [*labels, *([None] if distinct.missing else [])], np.append(
            distinct.counts, [distinct.missing] if distinct.missing else []
        ).astype(np.int64)
    low, high = pair_names(name)
    ends = Policy(quasi=dict.fromkeys((low, high), "categorical"), missing=policy.missing)
    groups, text = read_published_groups(released, ends)
    pairs = [(text[low][lo], text[high][hi]) for lo, hi in groups.quasi]
    labels = [ends_text(lo, hi) for lo, hi in pairs]
    return labels, groups.size


def count_labels(
    codes: Codes, decision: Grouping, written: tuple[tuple[str, GroupColumn], ...]
) -> list[PublishedColumn]:
    """The labels of every attribute, with the records that bear them."""
    size = decision.size()
    found = []
    for j, (_, column) in enumerate(written):
        labels: list[str | None] = [*column.values, None]  # the last serves index -1
        records = np.bincount(column.index % len(labels), size, minlength=len(labels)).astype(np.int64)
        borne = np.flatnonzero(records)
        found.append(
            PublishedColumn(codes.attributes[j], [labels[i] for i in borne], records[borne], count_codes(codes, j))
        )
    return found
