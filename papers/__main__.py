"""`make papers`: the experiments of the papers on UCI Adult; the pages of docs/papers and their pictures are written anew.

`make papers ARGS=tds` runs those of one paper. Seeds are fixed, so a second run changes nothing but times.
"""

from __future__ import annotations

import sys
from pathlib import Path

import shoal
from papers import kmember, tds

PAPERS = {"tds": tds.make, "kmember": kmember.make}
FOLDER = Path(__file__).resolve().parents[1] / "docs" / "papers"


def main() -> None:
    """Run those that were asked for, or all."""
    asked = sys.argv[1:] or list(PAPERS)
    if unknown := [name for name in asked if name not in PAPERS]:
        sys.exit(f"no paper is called {unknown[0]!r}; there are {', '.join(PAPERS)}")
    try:
        for name in asked:
            PAPERS[name](FOLDER)
    except (shoal.DataError, shoal.EngineError) as error:
        sys.exit(f"the experiments need UCI Adult: {error}")


if __name__ == "__main__":
    main()
