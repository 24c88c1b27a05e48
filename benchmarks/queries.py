"""COUNT queries on one million rows: random workloads on generalized and randomized releases."""

from __future__ import annotations

import shoal
from benchmarks.cases import NUMBERS, QUASI, measure_time, million_rows
from shoal.measures import query_error, random_workload

QUERIES = 1000
ATTRIBUTES = 5
SENSITIVE = "occupation"


def queries() -> dict[str, float]:
    """Answer 1,000 queries on the original and on a release; encoding and counting are part of the time."""
    table = million_rows()
    quasi = {n: "numeric" if n in NUMBERS else "categorical" for n in QUASI if n != SENSITIVE}
    policy = shoal.Policy(quasi=quasi, sensitive=[SENSITIVE], require=[shoal.KAnonymity(10)])
    free = policy.model_copy(update={"require": ()})
    small = table.head(1000)
    few = random_workload(small, policy, attributes=ATTRIBUTES, queries=1)
    query_error(small, shoal.anonymize(small, free, method="random", attributes=1, seed=1), few)  # compiles the kernels
    workload, drawn, _ = measure_time(
        lambda: random_workload(table, policy, attributes=ATTRIBUTES, queries=QUERIES, seed=1)
    )
    found = {"rows": len(table), "drawn": drawn}
    for method, options in (("mondrian", {}), ("random", {"attributes": 1})):
        release = shoal.anonymize(table, free if options else policy, method=method, seed=1, **options)
        release.frame  # noqa: B018  the frame is built on first use
        errors, wall, cpu = measure_time(lambda release=release: query_error(table, release, workload), runs=2)
        found |= {f"{method}_wall": wall, f"{method}_cpu": cpu, f"{method}_error": errors.mean}
    return found
