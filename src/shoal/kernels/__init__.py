"""Compiled loops over arrays. Kernels take and return arrays and import no other package of Shoal.

The submodules are loaded on first use, so that `import shoal` does not load the compiler.

The first use of a method compiles its kernels. To keep this short:

- A function that only kernels call is `compiler.inner`; Python calls an `compiler.entry`.
- Several arrays are passed as one `bundle.Bundle`, which Python allocates. Loops take their arrays from it before they begin.
- Arrays are filled and copied by loops. ``a[:] = b`` also compiles the text of its error, again in every caller, and so do an
  array expression and the assignment of a tuple to a row.
- Arguments have one type in all calls; see `interface.ZERO64`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.kernels import agglomerative as agglomerative
    from shoal.kernels import association as association
    from shoal.kernels import boxes as boxes
    from shoal.kernels import buckets as buckets
    from shoal.kernels import centroids as centroids
    from shoal.kernels import cluster_merging as cluster_merging
    from shoal.kernels import cut_points as cut_points
    from shoal.kernels import downcoding as downcoding
    from shoal.kernels import generalize as generalize
    from shoal.kernels import group_tree as group_tree
    from shoal.kernels import halving as halving
    from shoal.kernels import hashing as hashing
    from shoal.kernels import itemsets as itemsets
    from shoal.kernels import kmember as kmember
    from shoal.kernels import lattice as lattice
    from shoal.kernels import lattice_sweep as lattice_sweep
    from shoal.kernels import limits as limits
    from shoal.kernels import local_search as local_search
    from shoal.kernels import microaggregate as microaggregate
    from shoal.kernels import mondrian as mondrian
    from shoal.kernels import neighbours as neighbours
    from shoal.kernels import order as order
    from shoal.kernels import people as people
    from shoal.kernels import queries as queries
    from shoal.kernels import randomize as randomize
    from shoal.kernels import regrouping as regrouping
    from shoal.kernels import roll_up as roll_up
    from shoal.kernels import spanning_tree as spanning_tree
    from shoal.kernels import specialize as specialize
    from shoal.kernels import starring as starring
    from shoal.kernels import tree_induction as tree_induction
    from shoal.kernels import tree_spans as tree_spans

_MODULES = frozenset(
    {
        "agglomerative",
        "association",
        "boxes",
        "buckets",
        "centroids",
        "cluster_merging",
        "cut_points",
        "downcoding",
        "generalize",
        "group_tree",
        "halving",
        "hashing",
        "itemsets",
        "kmember",
        "lattice",
        "lattice_sweep",
        "limits",
        "microaggregate",
        "mondrian",
        "neighbours",
        "order",
        "local_search",
        "people",
        "queries",
        "randomize",
        "regrouping",
        "roll_up",
        "spanning_tree",
        "specialize",
        "starring",
        "tree_induction",
        "tree_spans",
    }
)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(name)
    return import_module(f"{__name__}.{name}")
