"""Excel files (.xlsx), read with openpyxl."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import pyarrow as pa

from shoal.engines.frames import refuse_duplicate_names
from shoal.engines.protocol import Detected
from shoal.engines.value_columns import build_column
from shoal.errors import DataError, EngineError, list_choices, list_some
from shoal.formats.conventions import Conventions

MISSING = "Excel files need the package openpyxl: pip install 'shoal[excel]'"


def read_excel(path: Path, given: Conventions) -> tuple[pa.Table, Detected]:
    """Read one sheet of an Excel file: the named sheet, or the first sheet with cells."""
    try:
        import openpyxl
    except ImportError:
        raise EngineError(f"cannot read {path.name!r}: {MISSING}.") from None
    try:
        with warnings.catch_warnings(action="ignore"):  # on styles and other parts that are not read
            workbook = openpyxl.load_workbook(path, read_only=True, data_only=True)
            try:
                name, rows, notes = _choose_sheet(workbook.worksheets, path, given.sheet)
            finally:
                workbook.close()
    except (BadZipFile, KeyError, ValueError, EOFError, SyntaxError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"cannot read {path.name!r}: not an Excel file, damaged, or protected by a password. Save the file again as .xlsx."
        ) from None
    return _build_table(rows, path, name, given.decimal or "."), Detected(given, notes)


def _choose_sheet(
    sheets: Sequence[Any], path: Path, wanted: str | None
) -> tuple[str, list[list[Any]], tuple[str, ...]]:
    """Return the name and the rows of a sheet, and a note if other sheets have cells too."""
    if wanted is not None:
        sheet = next((sheet for sheet in sheets if sheet.title == wanted), None)
        if sheet is None:
            raise DataError(
                f"{path.name!r} has no sheet {wanted!r}; {list_choices(wanted, [sheet.title for sheet in sheets])}."
            )
        return wanted, _list_rows(sheet), ()
    filled = [sheet for sheet in sheets if any(any(_has_content(c) for c in row) for row in sheet.values)]
    if not filled:
        raise DataError(f"{path.name!r} is empty. A table needs at least a header line.")
    first, *others = filled
    note = (
        f"{path.name!r} has several sheets; the first sheet {first.title!r} was read, and not "
        f"{list_some([sheet.title for sheet in others])}. Name another sheet with --sheet, or 'sheet:' under 'read:'."
    )
    return first.title, _list_rows(first), (note,) if others else ()


def _has_content(cell: Any) -> bool:
    return cell is not None and cell != ""


def _list_rows(sheet: Any) -> list[list[Any]]:
    """Return the rows with at least one filled cell."""
    return [list(row) for row in sheet.values if any(map(_has_content, row))]


def _build_table(rows: list[list[Any]], path: Path, sheet: str, decimal: str) -> pa.Table:
    """Build a table from rows, of which the first is the header."""
    if not rows:
        raise DataError(f"the sheet {sheet!r} of {path.name!r} is empty. A table needs at least a header line.")
    header, *body = rows
    names: list[str] = []
    columns = list(zip_longest(*body)) if body else [()] * len(header)
    kept = []
    for number, (name, cells) in enumerate(zip_longest(header, columns, fillvalue=None), 1):
        cells = cells if cells is not None else (None,) * len(body)
        if _has_content(name):
            names.append(str(name))
            kept.append(cells)
        elif any(map(_has_content, cells)):
            raise DataError(
                f"cannot read {path.name!r}: column {number} of the sheet {sheet!r} has values and no name in the first row. "
                "Add a name, and remove titles above the header."
            )
    refuse_duplicate_names(names)
    return pa.table(
        [build_column(cells, name, decimal=decimal) for name, cells in zip(names, kept, strict=True)], names=names
    )
