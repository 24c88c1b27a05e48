"""Value trees, the rules that make them, and the texts of their labels."""

from __future__ import annotations

from shoal.taxonomy.makers import (
    PARTS,
    SIDES,
    WORDS,
    Balanced,
    Boundaries,
    DateParts,
    Maker,
    Mask,
    Widths,
    maker_of,
)
from shoal.taxonomy.texts import cut_text, range_text
from shoal.taxonomy.tree import BY, ROOT, Derived, Nested, Taxonomy, narrow_branches

__all__ = [
    "BY",
    "PARTS",
    "ROOT",
    "SIDES",
    "WORDS",
    "Balanced",
    "Boundaries",
    "DateParts",
    "Derived",
    "Maker",
    "Mask",
    "Nested",
    "Taxonomy",
    "Widths",
    "cut_text",
    "maker_of",
    "narrow_branches",
    "range_text",
]
