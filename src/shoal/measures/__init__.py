"""What was kept and what is at risk, as numbers about a release.

Rule of counting: a suppressed record counts as fully generalized (loss 1 in every attribute) wherever a mean is over
records; a missing value is a value like any other, and a box that holds missing and other values is the root.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.codes import Attribute
from shoal.groups import Groups

I4 = NDArray[np.int32]
I8 = NDArray[np.int64]
F8 = NDArray[np.float64]


@dataclass(frozen=True)
class Published:
    """The boxes as they were published: per group its interval of codes, its records, and its values where sets are written."""

    attributes: Sequence[Attribute]
    lo: I4
    hi: I4
    size: I8
    suppressed: int
    distinct: Sequence[I8 | None]


def measures_of(boxes: Published, seen: Groups, target: str | None = None) -> dict[str, float]:
    """All measures of a release.

    ``ncp``: normalized certainty penalty, mean over records and attributes. ``il``: Total-IL (Byun et al., Definitions 7
    and 8). ``loss``: the geometric score over attributes of the scaled share of leaves. ``dm``: discernibility. ``cm``:
    classification metric, where the policy has a target. ``risk_max`` and ``risk_mean``: the chance of finding the right
    record for somebody known to be in the table, at worst and on average. ``seen`` are the groups as a stranger counts
    them in the released table.
    """
    records = int(boxes.size.sum())
    total = records + boxes.suppressed
    ncp = [_mean(_ncp(a, boxes, j), boxes) for j, a in enumerate(boxes.attributes)]
    shares = [_scaled(a, boxes, j) for j, a in enumerate(boxes.attributes)]
    size = seen.size.astype(np.float64)
    found = {
        "records": float(records),
        "suppressed": float(boxes.suppressed),
        "classes": float(len(size)),
        "smallest": float(size.min(initial=np.inf)) if len(size) else 0.0,
        "average": records / len(size) if len(size) else 0.0,
        "ncp": float(np.mean(ncp)),
        "il": _total_il(boxes),
        "loss": float(np.exp(np.mean(np.log1p(shares))) - 1),
        "loss_mean": float(np.mean(shares)),
        "dm": float((size**2).sum()) + float(boxes.suppressed) * total,
        "risk_max": float(1 / size.min()) if len(size) else 0.0,
        "risk_mean": len(size) / records if records else 0.0,
    }
    if target is not None:
        group, _, weight = seen.histogram(target)
        best = np.zeros(len(size))
        np.maximum.at(best, group, weight)
        found["cm"] = (total - float(best.sum())) / max(total, 1)
    return found


def kept_by_attribute(boxes: Published) -> dict[str, float]:
    """The share of each attribute's certainty that was kept: 1 - NCP."""
    return {a.name: 1.0 - _mean(_ncp(a, boxes, j), boxes) for j, a in enumerate(boxes.attributes)}


def _mean(per_group: F8, boxes: Published) -> float:
    total = int(boxes.size.sum()) + boxes.suppressed
    return (float((per_group * boxes.size).sum()) + boxes.suppressed) / max(total, 1)


def _ncp(attribute: Attribute, boxes: Published, j: int) -> F8:
    count = boxes.distinct[j]
    if count is not None:
        return np.where(count == 1, 0.0, count / attribute.size)
    return attribute.loss(boxes.lo[:, j], boxes.hi[:, j])


def _scaled(attribute: Attribute, boxes: Published, j: int) -> float:
    """The mean share of leaves, scaled so that the raw table has 0 and the root 1."""
    if attribute.taxonomy is None:
        return _mean(_ncp(attribute, boxes, j), boxes)
    leaves = attribute.taxonomy.size
    if leaves == 1:
        return 0.0
    share = np.maximum(_ncp(attribute, boxes, j), 1 / leaves)
    return max(0.0, (_mean(share, boxes) - 1 / leaves) / (1 - 1 / leaves))


def _total_il(boxes: Published) -> float:
    """Records x (width of numbers + height of the lowest common ancestor), summed over groups; a suppressed record costs 1
    per attribute.
    """
    per_group = np.zeros(len(boxes.size))
    for j, attribute in enumerate(boxes.attributes):
        tree = attribute.taxonomy
        if tree is None:
            per_group += attribute.loss(boxes.lo[:, j], boxes.hi[:, j])
        elif tree.height[0] > 0:
            per_group += tree.height[tree.covers(boxes.lo[:, j], boxes.hi[:, j])] / tree.height[0]
    return float((per_group * boxes.size).sum()) + boxes.suppressed * len(boxes.attributes)
