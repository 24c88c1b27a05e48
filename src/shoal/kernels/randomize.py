"""Draw the published codes of randomized records."""

from __future__ import annotations

import numpy as np

from shoal.kernels.compiler import entry


@entry
def draw_codes(codes, uniform, keep, cumulative):
    """The published code of every record of one attribute.

    A record keeps its code if its random number is below ``keep[code]``. Otherwise the rest of the number, scaled to 0 to 1,
    chooses a code by the cumulative distribution: row ``code`` of ``cumulative``, or its only row.
    """
    published = np.empty(len(codes), np.int32)
    shared = cumulative.shape[0] == 1
    last = cumulative.shape[1] - 1
    for i in range(len(codes)):
        code = codes[i]
        if uniform[i] < keep[code]:
            published[i] = code
            continue
        rest = (uniform[i] - keep[code]) / (1.0 - keep[code])
        row = cumulative[0 if shared else code]
        published[i] = min(np.searchsorted(row, rest, side="right"), last)
    return published
