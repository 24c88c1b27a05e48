"""Constants of the group table of `kernels.specialize`, in a module that does not load the compiler."""

from __future__ import annotations

import numpy as np

BEGIN, END, SIZE, FAIL, FIGURES = 0, 1, 2, 3, 4  # columns of the group table; from FIGURES on three for every attribute
SMALLEST, FAILING, PARTS = 0, 1, 2  # the three look-ahead figures of an attribute
NO_GROUP = np.int64(1) << np.int64(62)  # the size of the smallest group where there is none: larger than any group
MOST_JOINT = 256  # the most combinations of slots that are counted in one table
