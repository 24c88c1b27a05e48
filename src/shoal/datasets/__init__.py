"""Example data: a synthetic hospital, UCI Adult (the benchmark of the papers), and the example tables of the papers.

>>> hospital(3, kind="pyarrow").num_rows
3
"""

from shoal.datasets import papers
from shoal.datasets.synthetic_hospital import hospital, hospital_policy
from shoal.datasets.uci_adult import adult, adult_taxonomies

__all__ = ["adult", "adult_taxonomies", "hospital", "hospital_policy", "papers"]
