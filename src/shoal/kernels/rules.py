"""The rules of the requirements by number. A rule bounds the counts in one group; see `limits`."""

SIZE = 0  # records >= a
DISTINCT = 1  # distinct sensitive values >= a
ENTROPY = 2  # entropy of the sensitive values >= log(a)
RECURSIVE = 3  # highest frequency < a * (sum of the b-th highest and all lower frequencies)
BETWEEN = 4  # the share of every sensitive value between its floor and its ceiling
DISTANCE = 5  # weighted sum over sets of values of |share in the group - share in the table| <= a
OWN_K = 6  # records >= the ceiling of every sensitive value that occurs

SLACK = (
    1e-9  # tolerance for rounding when a value is compared with a bound: in a search, and in the audit of the release
)

# The columns of the table of rules: the kind, the codes in the histogram, the places in the other arrays.
KIND, FIRST, LAST, FIRST_PART, END_PART, FIRST_ORDER = range(6)
