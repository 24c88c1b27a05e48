"""Extend boxes of codes: `stretch` compares several codes in one step (`lane_code`), or one by one with the same result.

Codes are contiguous, and rows are padded to a multiple of `interface.STEP_BYTES`. SHOAL_PLAIN_KERNELS=1 selects plain loops;
they are also used where the compiler lacks what `lane_code` needs. The choice is made once, on import. Compiled code keeps it,
so the plain loops have their own folder of compiled code.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from shoal.kernels.code_folder import PLAIN
from shoal.kernels.compiler import inner


@inner(forceinline=True)
def clear(box, at, width, largest):
    """Empty the box at ``at``; ``largest`` is the largest code of its type. An empty box stretched by another box equals it."""
    for j in range(width):
        box[at + j] = largest
        box[at + width + j] = 0


@inner(forceinline=True)
def stretch_plainly(box, at, width, source, place, gap):
    """Extend the box at ``at`` so that it contains another box; return whether it grew.

    A box is ``width`` smallest codes followed by ``width`` largest codes. The other box has its smallest codes from ``place``
    on and its largest codes ``gap`` later; the gap of a single row is 0. Both arrays are flat and of the same type. Positions
    are unsigned.
    """
    grew = False
    for j in range(width):
        low, high = source[place + j], source[place + gap + j]
        if low < box[at + j]:
            box[at + j] = low
            grew = True
        if high > box[at + width + j]:
            box[at + width + j] = high
            grew = True
    return grew


def choose_stretch() -> Callable[..., bool]:
    """The function that kernels use as `stretch`."""
    if os.environ.get(PLAIN) == "1":
        return stretch_plainly
    try:
        from shoal.kernels.lane_code import stretch_by_lanes
    except (ImportError, AttributeError):
        return stretch_plainly
    return stretch_by_lanes


stretch = choose_stretch()
