"""The secret of a release: a number on which ties among records, first records and random draws depend.

The attacker knows the algorithm and can run it again. The secret is what the attacker lacks, so it comes from the operating
system and stays in the owner's folder.
"""

from __future__ import annotations

import json
import operator
import secrets
from pathlib import Path
from typing import Any

from shoal.errors import DataError, PolicyError

LEDGER = "ledger.json"  # in the owner's folder
BITS = 128
LARGEST = 2**4096  # a longer number is no seed of ours
GUESSABLE = "the seed is below 2^64, so it is guessable; for tests only"
ONE = (
    "Publish only one release of these records: two that were made with different secrets are two groupings of the same "
    "people, and whoever has both can intersect them. A secret is reused with --force or with --secret OUT.owner."
)


def new_seed() -> int:
    """A secret from the operating system."""
    return secrets.randbits(BITS)


def parse_seed(given: Any) -> int:
    """A seed that a user gives: a whole number of at least 0."""
    try:
        number = -1 if isinstance(given, bool) else operator.index(given)
    except TypeError:
        number = -1
    if not 0 <= number < LARGEST:
        raise PolicyError(f"a seed is a whole number of at least 0, not {given!r}")
    return number


def load_seed(path: str | Path) -> int:
    """The secret of a saved release, by its owner's folder."""
    file = Path(path)
    file = file if file.name == LEDGER else file / LEDGER
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return parse_seed(found["seed"])
    except OSError as error:
        raise DataError(
            f"cannot read the secret in {str(path)!r}: {error.strerror or error}. Name the owner's folder of a saved release, "
            "such as 'release.owner'."
        ) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError(
            f"the file {str(file)!r} holds no secret of a release. Name the owner's folder of a saved release."
        ) from None


def is_guessable(seed: int) -> bool:
    """Whether somebody could try all such seeds."""
    return seed < 2**64
