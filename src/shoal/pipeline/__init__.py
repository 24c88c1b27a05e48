"""From data to a release: the base class of methods, the run, incremental releases, and code that several methods share."""
