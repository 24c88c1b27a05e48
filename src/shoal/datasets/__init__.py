"""Example data: a synthetic hospital, UCI Adult (the benchmark of the papers), and the example tables of the papers.

>>> from shoal.datasets import hospital
>>> hospital(3, kind="pyarrow").num_rows
3
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.lazy import import_on_use

if TYPE_CHECKING:
    from shoal.datasets import papers
    from shoal.datasets.synthetic_hospital import hospital, hospital_policy
    from shoal.datasets.uci_adult import adult, adult_taxonomies

__all__ = ["adult", "adult_taxonomies", "hospital", "hospital_policy", "papers"]

# Lazy, since UCI Adult loads the network library, and the papers' tables are for examples.
if not TYPE_CHECKING:  # so that type checkers report unknown names
    __getattr__, __dir__ = import_on_use(
        __name__,
        {
            "shoal.datasets.synthetic_hospital": ("hospital", "hospital_policy"),
            "shoal.datasets.uci_adult": ("adult", "adult_taxonomies"),
        },
        modules=("papers",),
    )
