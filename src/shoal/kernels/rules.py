"""The rules that `limits` knows, by number: what a requirement asks of the counts in one group."""

SIZE = 0  # records >= a
DISTINCT = 1  # distinct confidential values >= a
ENTROPY = 2  # entropy of the confidential values >= log(a)
RECURSIVE = 3  # most frequent < a * (sum of the b-th most frequent and the rarer ones)
BETWEEN = 4  # the share of every confidential value between its floor and its ceiling
DISTANCE = 5  # weighted sum over sets of values of |their share in the group - in the whole table| <= a
OWN = 6  # records >= the ceiling of every confidential value that occurs
