"""Measures: how much information a release kept, and what risk is left."""

from __future__ import annotations

from shoal.measures.figures import THRESHOLD, Audience, Confided, Measures, Published, measures_of, merged

__all__ = ["THRESHOLD", "Audience", "Confided", "Measures", "Published", "measures_of", "merged"]
