"""Downcoding: what an attacker who knows the method learns from labels that overlap.

A method that publishes in rounds puts a record into a coarse group only if no finer group took it. So the boxes of earlier
rounds can be removed from a coarse label. Sometimes only one value of a generalized attribute is left.
"""

from __future__ import annotations

import numpy as np

from shoal import kernels
from shoal.arrays import Int32Array, Int64Array
from shoal.encoding.codes import Codes
from shoal.kernels.interface import DowncodingRoom


def count_downcoded(codes: Codes, lo: Int32Array, hi: Int32Array, size: Int64Array, rank: Int32Array) -> int:
    """The number of records whose label leaves one value of a generalized attribute without the boxes of earlier groups.

    ``lo`` and ``hi`` are the smallest and the largest codes of every group, ``rank`` its round. The label covers these codes,
    and under a taxonomy all codes of the lowest node. Boxes of the same round are not removed.
    """
    order = np.argsort(rank, kind="stable")
    tables = codes.loss_tables("ncp")
    first_codes = tables.first_codes(codes.attributes)
    label = np.empty(lo.shape, np.int32), np.empty(hi.shape, np.int32)
    kernels.downcoding.widen_to_labels(lo[order], hi[order], tables.ints, first_codes, *label)
    found, room = np.zeros(len(lo), np.bool_), DowncodingRoom.of(*lo.shape)
    kernels.downcoding.find_downcoded(*label, rank[order].astype(np.int64), room, found)
    return int(size[order][found].sum())
