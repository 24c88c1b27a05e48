"""Count the cells of a whole table, for methods that cannot search a table in partitions."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.encoding.codes import Codes, encode_table
from shoal.engines import Engine
from shoal.engines.keyed_hash import KeyedHash
from shoal.errors import PolicyError
from shoal.pipeline.run import REMEDY
from shoal.policy import Policy
from shoal.progress import Progress


def count_whole_table(
    engine: Engine,
    policy: Policy,
    method: str,
    *,
    carry: Sequence[str],
    keyed: KeyedHash,
    report: Progress,
    extra: Sequence[str] = (),
) -> tuple[Engine, Codes]:
    """Return the engine with the encoded table, and its counted cells; see `encode_table`.

    Raises `PolicyError` for a table with more cells than the memory limit allows; ``method`` is the name in its text.
    """
    table = encode_table(
        engine,
        policy,
        extra=extra,
        carry=carry,
        hash=keyed,
        progress=lambda done, total: report("reading", done, total),
    )
    if table.partitioning.partitions > 1:
        raise PolicyError(f"{method} cannot search a table in partitions. {REMEDY}")
    codes = table.count()
    report("reading", 1, 1)
    return table.engine, codes
