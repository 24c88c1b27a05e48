"""From data to a release: the base class of methods, one run, incremental releases, and what several methods share."""
