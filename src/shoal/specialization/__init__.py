"""Top-down specialization: the values that a cut can pass through, and the search for a cut that meets the requirements."""
