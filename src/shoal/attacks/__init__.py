"""Attacks on releases: what an attacker with outside knowledge learns."""

from __future__ import annotations

from shoal.attacks.linking import LinkedPeople, LinkingAttack, linking

__all__ = ["LinkedPeople", "LinkingAttack", "linking"]
