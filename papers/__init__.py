"""The experiments of the papers that the methods come from, run again: `make papers` writes the pages of docs/papers."""
