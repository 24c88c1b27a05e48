"""The rules that `limits` knows, by number: what a requirement asks of the counts in one group."""

SIZE = 0  # records >= a
DISTINCT = 1  # distinct confidential values >= a
ENTROPY = 2  # entropy of the confidential values >= log(a)
RECURSIVE = 3  # most frequent < a * (sum of the b-th most frequent and the rarer ones)
EQUAL_DISTANCE = 4  # half the L1 distance to the whole table's distribution <= a
ORDERED_DISTANCE = 5  # earth mover's distance over ordered values to the whole table's distribution <= a
