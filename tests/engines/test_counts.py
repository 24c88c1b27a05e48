"""Plans are applied for any counts of a table, in any order; the handle of the counts finds their records."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.engines import (
    Counts,
    Dictionary,
    Engine,
    GroupColumn,
    Plan,
    Reading,
    UnchangedColumn,
    open_data,
    parse_resources,
)

pytest.importorskip("duckdb")

ENGINES = ("memory", "duckdb")


def rows_of(engine: Engine, folder: Path) -> list[tuple[Any, ...]]:
    """The rows in no order."""
    engine.write(folder / "rows.parquet", "parquet")
    columns = pq.read_table(folder / "rows.parquet").columns
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True))


def encoded_people(engine: str, **limits: Any) -> Engine:
    """Ages and sexes with codes in the order of their values; the zip is kept."""
    source = open_data(
        pa.table({"age": [*range(12)] * 2, "sex": ["f", "m"] * 12, "zip": [*range(24)]}),
        parse_resources(engine, **limits),
    )
    dictionaries = {}
    for name, reading in {"age": Reading("number"), "sex": Reading()}.items():
        distinct = source.distinct(name, reading)
        size = len(distinct.values)
        dictionaries[name] = Dictionary(reading, distinct, np.arange(size, dtype=np.int32), size)
    return source.encode(dictionaries, carry=["zip"])


def one_group_per_cell(counts: Counts, name: str) -> Plan:
    cells = np.arange(len(counts.size))
    labels = np.array([f"{name}{cell}" for cell in cells], dtype=object)
    group = cells.astype(np.int32)
    return Plan(counts, cells, group, counts.size, (GroupColumn(name, labels, group), UnchangedColumn("zip")))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_plan_is_applied_for_any_counts_in_any_order(engine: str, tmp_path: Path) -> None:
    table = encoded_people(engine)
    plans = [one_group_per_cell(table.count([name]), name) for name in ("age", "sex")]
    for name, plan in [*zip(("age", "sex"), plans, strict=True), ("age", plans[0])]:
        released = table.apply([plan])
        size = 12 if name == "age" else 2
        assert rows_of(released, tmp_path) == sorted((f"{name}{row % size}", row) for row in range(24))


@pytest.mark.parametrize("turn", [1, -1], ids=["counted", "reversed"])
def test_plans_of_partitions_are_applied_in_any_order(turn: int, tmp_path: Path) -> None:
    table = encoded_people("duckdb", combinations=5)
    counts = [table.count(["age"], partition=p) for p in range(table.partition(["age"]).partitions)]
    assert len(counts) > 1
    released = table.apply([one_group_per_cell(c, "age") for c in counts[::turn]])
    assert sorted(kept for _, kept in rows_of(released, tmp_path)) == [*range(24)]


def test_the_keys_of_a_partition_are_not_kept_after_its_plan() -> None:
    """A table in partitions needs the memory of one partition at a time."""
    table = encoded_people("duckdb", combinations=5)
    parts = table.partition(["age"]).partitions
    alive: list[weakref.ref[Any]] = []

    def plans() -> Iterator[Plan]:
        for partition in range(parts):
            gc.collect()
            assert sum(handle() is not None for handle in alive) <= 1  # the plan that the engine holds
            plan = one_group_per_cell(table.count(["age"], partition=partition), "age")
            alive.append(weakref.ref(plan.counts.handle))
            yield plan
            del plan

    table.apply(plans())
    gc.collect()
    assert len(alive) == parts > 2 and not any(handle() for handle in alive)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_plan_for_other_counts_is_refused(engine: str) -> None:
    table, other = encoded_people(engine), encoded_people(next(e for e in ENGINES if e != engine))
    counts = table.count(["age"])
    for foreign in (other.count(["age"]), replace(counts, handle=None)):
        with pytest.raises(shoal.EngineError, match="this engine did not count"):
            table.apply([one_group_per_cell(foreign, "age")])
    assert "handle" not in repr(counts)
