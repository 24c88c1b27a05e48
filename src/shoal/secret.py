"""The secret seed of a release: ties among records, first records and random draws depend on it.

An attacker knows the algorithm and can run it again, but does not know the secret seed. The operating system generates the
seed, and the seed is stored only in the owner folder.
"""

from __future__ import annotations

import json
import operator
import secrets
from pathlib import Path
from typing import Any

from shoal.errors import DataError, PolicyError

LEDGER = "ledger.json"  # in the owner folder
BITS = 128
LARGEST = 2**4096  # larger numbers are not accepted as seeds
LONGEST = 2**23  # characters of the file; that of a large table has a few thousand
GUESSABLE = "the seed is below 2^64 and therefore guessable; for tests only"
ONE_RELEASE = (
    "Publish only one release of these records: an attacker who has two different releases can combine them. To make this "
    "release again with the same secret, use the same records, policy and method with --force or --secret OUT.owner (in "
    "Python: overwrite=True or secret='OUT.owner')."
)


def new_seed() -> int:
    """Generate a secret seed by the operating system."""
    return secrets.randbits(BITS)


def parse_seed(given: Any) -> int:
    """Check a seed that the user passes: an integer of at least 0."""
    try:
        number = -1 if isinstance(given, bool) else operator.index(given)
    except TypeError:
        number = -1
    if not 0 <= number < LARGEST:
        raise PolicyError(f"the seed must be a whole number of at least 0, not {given!r}")
    return number


def load_seed(path: str | Path) -> int:
    """Read the secret seed of a saved release from its owner folder."""
    file = Path(path)
    file = file if file.name == LEDGER else file / LEDGER
    try:
        with file.open(encoding="utf-8") as content:
            text = content.read(LONGEST + 1)
        if len(text) > LONGEST:
            raise ValueError(f"the file has more than {LONGEST:,} characters")
        return parse_seed(json.loads(text)["seed"])
    except OSError as error:
        raise DataError(
            f"cannot read the secret in {str(path)!r}: {error.strerror or error}. Pass the owner folder of a saved release, "
            "such as 'release.owner'."
        ) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError(
            f"the file {str(file)!r} contains no secret of a release. Pass the owner folder of a saved release."
        ) from None


def is_guessable(seed: int) -> bool:
    """Whether an attacker can try all seeds up to this one."""
    return seed < 2**64
