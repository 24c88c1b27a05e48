"""Which records of a divided cell go to which group is the same in every engine, also where a policy has a unit."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.engines import (
    Dictionary,
    Engine,
    GroupColumn,
    HiddenColumn,
    KeyedOrder,
    Plan,
    Reading,
    UnchangedColumn,
    open_data,
    parse_resources,
)
from shoal.engines.keyed_hash import KeyedHash
from tests.support.engines import to_pandas

pytest.importorskip("duckdb")

METHODS: list[tuple[str, dict[str, Any]]] = [
    ("mdav", {"write": "label"}),
    ("kmember", {}),
    ("knn", {}),
    ("mondrian", {"cut": "median", "relaxed": True}),
]


def visits() -> pd.DataFrame:
    """People with several records; many records have no person, so that methods divide their cells among groups."""
    rng = np.random.default_rng(1)
    who = rng.integers(0, 20, 120)
    return pd.DataFrame(
        {
            "person": [None if i % 5 < 2 else f"p{i}" for i in who],
            "age": 20 + who % 2 * 20,
            "day": rng.integers(0, 3, 120),
            "illness": rng.choice(["flu", "cold"], 120),
            "note": [f"n{i}" for i in range(120)],
        }
    )


@pytest.mark.parametrize(("method", "parameters"), METHODS, ids=[method for method, _ in METHODS])
def test_cells_of_a_policy_with_a_unit_are_divided_alike(method: str, parameters: dict[str, Any]) -> None:
    policy = shoal.Policy(
        quasi={"age": "numeric", "day": "numeric"},
        sensitive=["illness"],
        keep=["note"],
        accept={"note": "a test"},
        unit="person",
        require=[shoal.KAnonymity(3)],
    )
    frame = visits()
    rows, prints = [], set()
    for engine in ("memory", "duckdb"):
        release = shoal.anonymize(frame, policy, method=method, engine=engine, seed=5, **parameters)
        rows.append(to_pandas(release.frame))
        prints.add(release.certificate.fingerprint)
    memory, duckdb = (Counter(table.astype(str).itertuples(index=False, name=None)) for table in rows)
    assert memory == duckdb and len(prints) == 1
    labels = rows[0].merge(
        frame[["note", "person"]].assign(cell=frame[["age", "day"]].astype(str).sum(axis=1)), on="note"
    )
    cells = labels[labels["person"].isna()].groupby(["cell", "illness"])
    assert max(len(cell[["age", "day"]].drop_duplicates()) for _, cell in cells) > 1, "no cell was divided"


def divide(engine: str, person: pa.Array, reading: Reading, *, carry: bool, **limits: Any) -> Engine:
    """Divide every cell of two quasi-identifiers and a person, of which the release has the hidden codes."""
    rows = len(person)
    table = pa.table({"q": np.arange(rows) % 6, "person": person, "note": [f"n{i}" for i in range(rows)]})
    source = open_data(table, parse_resources(engine, **limits))
    dictionaries = {}
    for name, way in {"q": Reading("number"), "person": reading}.items():
        distinct = source.distinct(name, way)
        size = len(distinct.values)
        dictionaries[name] = Dictionary(way, distinct, np.arange(size, dtype=np.int32), size)
    encoded = source.encode(dictionaries, carry=["note", *(["person"] if carry else [])])
    order_columns = ("note", "person")
    partitions = encoded.partition(["q"], ["person"]).partitions
    assert (partitions > 1) == bool(limits)

    def plan(partition: int) -> Plan:
        counts = encoded.count(["q"], ["person"], partition=partition)
        cells = np.arange(len(counts.size))
        q = counts.quasi[np.repeat(np.arange(len(counts.quasi)), np.diff(counts.start)), 0]
        codes = (q * 10 + counts.sensitive[:, 0]).astype(np.uint64)
        half = counts.size // 2
        assert (half > 0).all()
        group = np.tile(np.array([0, 1], np.int32), len(cells))
        labels = GroupColumn("q", np.array(["left", "right"], dtype=object), np.array([0, 1], np.int32))
        order = KeyedOrder(KeyedHash.of(3), KeyedHash.of(3).mix(codes, codes), order_columns)
        count = np.stack([half, counts.size - half], axis=1).ravel()
        columns = (labels, UnchangedColumn("note"), HiddenColumn("person"))
        return Plan(counts, np.repeat(cells, 2), group, count, columns, order)

    return encoded.apply(plan(number) for number in range(partitions))


PEOPLE = {
    "texts": (pa.array(["ann", "bob", None, "eve"] * 18), Reading()),
    "numbers": (pa.array([7, 8, 9, 11] * 18), Reading("number")),
    "two texts of one number": (pa.array(["7", "7.0", "8", None] * 18), Reading("number")),
    "times": (pa.array([0, 3_600, None, 7_200] * 18, pa.timestamp("s", "Europe/Berlin")), Reading("date")),
}


@pytest.mark.parametrize("limits", [{}, {"combinations": 6}], ids=["whole", "partitions"])
@pytest.mark.parametrize("carry", [True, False], ids=["carried", "coded"])
@pytest.mark.parametrize("people", PEOPLE)
def test_a_hidden_column_is_hashed_by_its_values(
    people: str, carry: bool, limits: dict[str, Any], tmp_path: Path
) -> None:
    """The engine may store its codes instead; codes do not decide who goes where."""
    found = {}
    for engine in ("memory", "duckdb"):
        released = divide(engine, *PEOPLE[people], carry=carry, **(limits if engine == "duckdb" else {}))
        visible = released.without(["person"])
        visible.write(tmp_path / f"{engine}.parquet", "parquet")
        table = pq.read_table(tmp_path / f"{engine}.parquet")
        found[engine] = dict(zip(table["note"].to_pylist(), table["q"].to_pylist(), strict=True)), visible.fingerprint()
    assert found["memory"] == found["duckdb"]
    assert set(found["memory"][0].values()) == {"left", "right"}


def test_a_quasi_identifier_of_several_raw_values_is_hidden_only_if_it_is_carried() -> None:
    table = pa.table({"q": ["7", "7.0"] * 4, "note": [f"n{i}" for i in range(8)]})
    source = open_data(table, parse_resources("duckdb"))
    reading = Reading("number")
    dictionary = Dictionary(reading, source.distinct("q", reading), np.zeros(1, np.int32), 1)
    encoded = source.encode({"q": dictionary}, carry=["note"])
    order = KeyedOrder(KeyedHash.of(3), np.array([5], np.uint64), ("note", "q"))
    columns = (UnchangedColumn("note"), HiddenColumn("q"))
    plan = Plan(
        encoded.count(["q"]), np.zeros(2, np.int64), np.array([0, -1], np.int32), np.array([4, 4]), columns, order
    )
    with pytest.raises(shoal.EngineError, match=r"'q' has several raw values for one code.*in carry"):
        encoded.apply([plan])
