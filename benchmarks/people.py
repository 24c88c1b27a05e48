"""Several records per person: the price of counting people, in time, memory and information.

`python -m benchmarks.people` prints the information loss of Mondrian by several ways of counting.
`python -m benchmarks.people time METHOD ENGINE UNIT` measures one release of a million records, three per person, and prints
one JSON object; UNIT is ``person`` or ``none``.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import pandas as pd

import shoal
from benchmarks.cases import measure_time, peak_mb, reset_peak
from shoal.encoding.codes import Codes, encode_and_count
from shoal.engines import open_data
from shoal.engines.keyed_hash import KeyedHash
from shoal.kernels.interface import LossArrays
from shoal.pipeline.people import Votes, split_groups
from shoal.recoding.grouping import Grouping

QUASI = {
    "birth": "numeric",
    "zip": {"mask": "right"},
    "sex": "categorical",
    "day": "numeric",
    "department": "categorical",
}
PERSONAL = ("birth", "zip", "sex")


def visits(people: int, each: int, *, seed: int = 0) -> pd.DataFrame:
    """Return the visits of patients: birth, ZIP and sex are those of the person, day and department those of the visit."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), each)
    frame = pd.DataFrame(
        {
            "person": np.char.mod("p%07d", who).astype(object),
            "birth": rng.integers(1930, 2010, people)[who],
            "zip": rng.integers(10_000, 10_500, people)[who].astype(str).astype(object),
            "sex": rng.choice(np.array(["f", "m"], object), people)[who],
            "day": rng.integers(0, 365, len(who)),
            "department": rng.integers(0, 40, len(who)).astype(str).astype(object),
            "illness": rng.choice(np.array(list("abcdef"), object), len(who), p=[0.4, 0.2, 0.2, 0.1, 0.05, 0.05]),
        }
    )
    return frame.sample(frac=1, random_state=seed).reset_index(drop=True)


def policy_of(quasi: tuple[str, ...], k: int, unit: str | None) -> shoal.Policy:
    """Return the policy with some of the quasi-identifiers."""
    given = {name: QUASI[name] for name in quasi}
    return shoal.Policy(quasi=given, sensitive=["illness"], unit=unit, require=[shoal.KAnonymity(k)])


def compare_losses(frame: pd.DataFrame, quasi: tuple[str, ...], k: int) -> dict[str, float]:
    """Return the loss (ncp) of Mondrian: by records, by votes alone, as released, and of an exact search from one group."""
    policy = policy_of(quasi, k, "person")
    codes, _ = encode_and_count(open_data(frame), policy, hash=KeyedHash.of(1))
    tables = codes.loss_tables("ncp")
    losses = LossArrays(np.ones(len(quasi)), tables.ints, tables.floats)
    votes = Votes.of(codes)
    method = shoal.tables.Mondrian(policy)
    voted = method.decide(votes.voters, rng=np.random.default_rng(0), progress=lambda *_: None)
    placed = votes.extend(voted, losses)
    cells = np.repeat(np.arange(len(codes.counts.size)), codes.counts.size)
    everybody = Grouping.from_records(codes, cells, np.zeros(len(cells), np.int32))
    found = {
        "votes alone": placed,
        "votes, then splits": split_groups(codes, placed, policy.require, losses),
        "exact splits of one group": split_groups(codes, everybody, policy.require, losses),
    }
    by_records = shoal.anonymize(frame, policy_of(quasi, k, None), seed=1).measures["ncp"]
    return {"records, not people": by_records} | {name: _loss(codes, grouping) for name, grouping in found.items()}


def _loss(codes: Codes, grouping: Grouping) -> float:
    """Return the mean loss (ncp) of all records and attributes."""
    size = grouping.size()
    loss = [a.loss(grouping.lo[:, j], grouping.hi[:, j]) for j, a in enumerate(codes.attributes)]
    return float(np.mean([(part * size).sum() / size.sum() for part in loss]))


def time_release(method: str, engine: str, unit: str | None, people: int = 333_333, each: int = 3) -> dict[str, float]:
    """Return the seconds and the peak memory of a release; without a unit the table has no column of people."""
    frame, policy = visits(people, each), policy_of(tuple(QUASI), 10, unit)
    frame = frame if unit is not None else frame.drop(columns="person")
    shoal.anonymize(frame[:3000], policy, method=method, engine=engine, seed=1)
    reset_peak()
    before = peak_mb()
    release, wall, cpu = measure_time(lambda: shoal.anonymize(frame, policy, method=method, engine=engine, seed=1))
    return {"seconds": wall, "cpu": cpu, "mb": peak_mb() - before, "ncp": release.measures["ncp"]}


def main() -> None:
    """Print the losses, or the figures of one release."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", default="losses", choices=["losses", "time"])
    parser.add_argument("given", nargs="*")
    parser.add_argument("--people", type=int)
    given = parser.parse_args()
    if given.what == "time":
        method, engine, unit = given.given
        people = given.people or 333_333
        print(json.dumps(time_release(method, engine, unit if unit != "none" else None, people)))
        return
    print(f"{'quasi-identifiers':24} {'records per person':>18} {'k':>3}  loss (ncp)")
    for quasi in (PERSONAL, tuple(QUASI)):
        for each in (1, 3, 10):
            frame = visits((given.people or 30_000) // each, each)
            for k in (5, 25):
                losses = compare_losses(frame, quasi, k)
                text = ", ".join(f"{name} {loss:.3f}" for name, loss in losses.items())
                print(f"{'of the person' if quasi == PERSONAL else 'also of the visit':24} {each:18} {k:3}  {text}")


if __name__ == "__main__":
    main()
