"""`make papers`: run the experiments of the papers on UCI Adult, and update the pages and plots of docs/papers.

`make papers ARGS=tds` runs the experiments of one paper. Seeds are fixed, so a second run changes only times.
"""

from __future__ import annotations

import sys
from pathlib import Path

import shoal
from papers import anonymous_mining, kmember, random_anonymization, tds

PAPERS = {
    "tds": tds.make,
    "kmember": kmember.make,
    "anonymous-mining": anonymous_mining.make,
    "random-anonymization": random_anonymization.make,
}
FOLDER = Path(__file__).resolve().parents[1] / "docs" / "papers"


def main() -> None:
    """Run the papers named on the command line, or all."""
    names = sys.argv[1:] or list(PAPERS)
    if unknown := [name for name in names if name not in PAPERS]:
        sys.exit(f"There is no paper {unknown[0]!r}. Choose from {', '.join(PAPERS)}.")
    try:
        for name in names:
            PAPERS[name](FOLDER)
    except (shoal.DataError, shoal.EngineError) as error:
        sys.exit(f"The experiments need UCI Adult: {error}")


if __name__ == "__main__":
    main()
