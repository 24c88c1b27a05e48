"""Value trees, the rules that make them, and the texts of their labels."""

from __future__ import annotations

from shoal.taxonomy.builders import PARTS, SIDES, WORDS, Balanced, Boundaries, DateParts, Maker, Mask, Widths, maker_of
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
    "Maker",
    "Mask",
    "Nested",
    "Taxonomy",
    "Widths",
    "maker_of",
    "narrow_branches",
]
