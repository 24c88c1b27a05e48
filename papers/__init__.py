"""The experiments of the papers behind the methods: `make papers` runs them and writes the pages of docs/papers."""
