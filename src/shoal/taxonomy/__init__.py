"""Taxonomies (value generalization hierarchies) and the rules that build them from the data."""

from __future__ import annotations

from shoal.taxonomy.builders import (
    PARTS,
    SIDES,
    WORDS,
    Balanced,
    Boundaries,
    DateParts,
    Mask,
    TreeBuilder,
    Widths,
    parse_tree_builder,
)
from shoal.taxonomy.runs import Runs
from shoal.taxonomy.tree import BY, Derived, Nested, Taxonomy, narrow_branches

__all__ = [
    "BY",
    "PARTS",
    "SIDES",
    "WORDS",
    "Balanced",
    "Boundaries",
    "DateParts",
    "Derived",
    "Mask",
    "Nested",
    "Runs",
    "Taxonomy",
    "TreeBuilder",
    "Widths",
    "narrow_branches",
    "parse_tree_builder",
]
