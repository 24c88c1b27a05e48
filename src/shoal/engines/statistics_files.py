"""Files of SPSS, Stata and SAS, read with pyreadstat. Value labels become the values, except in declared numbers and dates."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa

from shoal.engines.frames import refuse_duplicate_names
from shoal.engines.protocol import Detected
from shoal.engines.value_columns import build_column, replace_by_labels
from shoal.errors import DataError, EngineError
from shoal.formats.conventions import Conventions

MISSING = "files of SPSS, Stata and SAS need the package pyreadstat: pip install 'shoal[statistics]'"
READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}


def read_statistics(path: Path, given: Conventions, numeric: Collection[str]) -> tuple[pa.Table, Detected]:
    """Read a file of SPSS, Stata or SAS. Values that the file declares as missing are missing.

    ``numeric`` are the columns that keep their numbers; in all others, values with a label become the label.
    """
    try:
        import pyreadstat
    except ImportError:
        raise EngineError(f"cannot read {path.name!r}: {MISSING}.") from None
    read: Any = getattr(pyreadstat, READERS[path.suffix.lower()])
    options = {} if given.encoding is None else {"encoding": given.encoding}
    try:
        columns, metadata = read(str(path), output_format="dict", **options)
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, ValueError, OverflowError, UnicodeError):
        raise DataError(
            f"cannot read {path.name!r}: not a file of SPSS, Stata or SAS with this suffix, or damaged. Export the table again."
        ) from None
    refuse_duplicate_names(list(columns))
    labels = metadata.variable_value_labels
    return pa.table(
        {
            name: build_column(
                list(values) if name in numeric else replace_by_labels(list(values), labels.get(name, {})), name
            )
            for name, values in columns.items()
        }
    ), Detected(given)
