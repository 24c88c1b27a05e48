"""Larger tables that resemble the original: the blow-up of the specialization paper, section 6.3."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[np.generic]


def blow_up(columns: Mapping[str, Column], scale: int, seed: int) -> dict[str, Column]:
    """Return the records, followed by `scale - 1` variations of each.

    For each variation q is drawn uniformly from 1 to the number of attributes. Then q random attributes get
    values drawn uniformly from the attribute's distinct values. A drawn value may equal the old value.

    Parameters
    ----------
    columns: arrays of one length, of integer codes or of sortable objects. Do not pass a column that must not
        vary (the class); repeat it by `np.tile(column, scale)`, which has the same order.
    scale: the number of records as a multiple of the original, at least 1.
    seed: the same seed gives the same table.

    Examples
    --------
    >>> small = {"age": np.array([20, 30, 40]), "sex": np.array(["F", "M", "F"], dtype=object)}
    >>> large = blow_up(small, scale=4, seed=1)
    >>> {name: len(column) for name, column in large.items()}
    {'age': 12, 'sex': 12}
    """
    if scale < 1:
        raise ValueError(f"scale must be at least 1, not {scale}.")
    if not columns:
        return {}
    rng = np.random.default_rng(seed)
    count = len(columns)
    varied = len(next(iter(columns.values()))) * (scale - 1)
    wanted = rng.integers(1, count, size=varied, endpoint=True)  # number of attributes still to choose, q at first
    grown: dict[str, Column] = {}
    for place, (name, column) in enumerate(columns.items()):
        # With the probability wanted / remaining attributes, every set of q attributes is equally likely.
        chosen = np.flatnonzero(rng.integers(count - place, size=varied) < wanted)
        wanted[chosen] -= 1
        domain = np.unique(column)
        out = np.tile(column, scale)
        out[len(column) + chosen] = domain[rng.integers(len(domain), size=len(chosen))]
        grown[name] = out
    return grown
