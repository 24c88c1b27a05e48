"""Decision trees: their induction under requirements, their published form, and readers for models of other libraries.

Also frequent itemsets and association rules.
"""
