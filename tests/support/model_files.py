"""Files of models of scikit-learn."""

from __future__ import annotations

from pathlib import Path


def dump_skops(model: object, path: Path) -> None:
    """Write a model with skops, which is imported here: it takes seconds, in every process that collects the tests."""
    import skops.io

    skops.io.dump(model, path)
