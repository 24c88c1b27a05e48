"""Constants that kernels share with their callers. This module does not load the compiler."""

# The kind of an attribute: how `boxes.interval_loss` measures an interval.
NUMBER, TREE, FLAT = range(3)

# The header of attribute a in the loss tables is ints[HEAD * a : HEAD * (a + 1)]: kind, number of codes, code of missing, and
# the starts of its leaves, its nodes and its floats.
KIND, SIZE, MISSING, LEAVES, NODES, FLOATS, HEAD = range(7)

# How `mondrian.grow_tree` chooses a cut.
MEDIAN, GAIN, RELAXED, TARGET = range(4)
STEP_BYTES = 16  # codes are compared this many bytes at a time, so rows are padded to a multiple

# The next seed of `kmember.grow_clusters`: furthest from the last record, furthest from the last seed, or a random record.
LAST, SEED, RANDOM = range(3)
# Indices in the state of its search.
PICKED, CLUSTERS, REMAINING, REFERENCE, NONEMPTY = range(5)
