"""Random anonymization: the changes of ten million records, beside a plain copy of their codes, and a whole release."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import shoal
from benchmarks.cases import adult_rows, measure_time
from shoal.encoding.codes import Codes, encode_and_count
from shoal.engines import open_data
from shoal.engines.keyed_hash import KeyedHash
from shoal.measures.comparison import count_codes
from shoal.pipeline.randomized_run import Records
from shoal.recoding.selection import SelectionOperator

QUASI = ("age", "workclass", "education", "marital-status", "relationship", "race", "sex", "native-country", "income")
RELEASED = 1_000_000


def make_policy() -> shoal.Policy:
    """Return the policy of the paper's section 7, without a requirement."""
    quasi = {name: "numeric" if name == "age" else "categorical" for name in QUASI}
    return shoal.Policy(quasi=quasi, sensitive=["occupation"])


def randomize_rows(rows: int) -> dict[str, Any]:
    """Change so many records of Adult, in 1, 3, 5 and 9 of 9 attributes; also release a million records."""
    table, policy, rng = adult_rows(), make_policy(), np.random.default_rng(0)
    keyed = KeyedHash.of(2**70)
    codes, _ = encode_and_count(open_data(table), policy, hash=keyed)
    times = -(-rows // codes.records)
    many = Codes(codes.attributes, codes.sensitive, replace(codes.counts, size=codes.counts.size * times), keyed)
    records = Records.of(many, keyed)
    shares = tuple(count_codes(many, j) / many.records for j in range(len(QUASI)))
    found: dict[str, Any] = {"rows": many.records, "bytes": records.rows.nbytes, "times": {}}
    for replaced in (1, 3, 5, 9):
        operator = SelectionOperator(QUASI, shares, np.full(len(QUASI), 1 / len(QUASI)), replaced)
        found["times"][replaced] = measure_time(lambda operator=operator: records.randomize(operator, "random"))[1]
    found["copy"] = measure_time(lambda: records.rows.copy(), 3)[1]
    sample = table.iloc[rng.integers(0, len(table), RELEASED)].reset_index(drop=True)
    shoal.anonymize(table, policy, method="random", attributes=1, seed=2**70)
    found["release"] = measure_time(lambda: shoal.anonymize(sample, policy, method="random", attributes=1, seed=2**70))[
        1
    ]
    return found
