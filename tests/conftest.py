"""Hypothesis: a quick look in every run, a long one with HYPOTHESIS_PROFILE=thorough."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("quick", max_examples=25, deadline=None, suppress_health_check=QUIET, print_blob=True)
settings.register_profile("thorough", max_examples=400, deadline=None, suppress_health_check=QUIET, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
