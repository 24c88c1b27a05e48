"""Tables to try things on: a made-up hospital, UCI Adult, on which the papers compare, and the papers' own examples.

>>> hospital(3, kind="pyarrow").num_rows
3
"""

from shoal.datasets import papers
from shoal.datasets.synthetic_hospital import hospital, hospital_policy
from shoal.datasets.uci_adult import adult, adult_taxonomies

__all__ = ["adult", "adult_taxonomies", "hospital", "hospital_policy", "papers"]
