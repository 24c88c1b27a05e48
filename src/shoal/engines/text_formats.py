"""Choose how the numbers or dates of a text column are written: as the user names it, or as all values of the column decide.

The choice depends on the distinct values of the column only, so every engine makes the same choice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from shoal.errors import DataError, list_some
from shoal.formats.conventions import Conventions
from shoal.formats.dates import DateFormat, guess_date_formats, parse_date
from shoal.formats.numbers import NumberFormat, list_number_formats, parse_number

THOUSANDS = re.compile(
    r"[+-]?[1-9][0-9]{0,2}(\.[0-9]{3})+"
)  # 1.234 with a separator of thousands, or with three decimals
MARK = {".": "point", ",": "comma"}


def choose_number_format(texts: Sequence[str], column: str, conventions: Conventions) -> NumberFormat:
    """Return the format of numbers in a column.

    Numbers as Python writes them need no choice, except in a file with semicolons: there 1.234 may be a thousand.
    """
    if are_plain_numbers(texts, conventions) and None not in map(parse_number, texts):
        return NumberFormat()
    formats = list_number_formats(conventions.decimal, conventions.thousands)
    failing = [[text for text in texts if style.to_plain(text) is None] for style in formats]
    fitting = [style for style, unread in zip(formats, failing, strict=True) if not unread]
    if not fitting:
        unread, style = min(zip(failing, formats, strict=True), key=lambda pair: len(pair[0]))
        raise DataError(
            f"column {column!r} is numeric in the policy but holds text: {list_some(sorted(unread))}. Correct the values "
            f"(decimals have a {MARK[style.decimal]}), list them under 'missing:', or declare the column as categorical."
        )
    first = fitting[0]
    for other in fitting[1:]:
        unequal = next((t for t in sorted(texts) if _read(first, t) != _read(other, t)), None)
        if unequal is not None:
            raise DataError(
                f"column {column!r} holds numbers such as {unequal!r}, which can be read as {first.to_plain(unequal)} or as "
                f"{other.to_plain(unequal)}. Name the decimal separator: --decimal . or --decimal , (in a policy: "
                "'decimal:' under 'read:')."
            )
    return first


def are_plain_numbers(texts: Sequence[str], conventions: Conventions) -> bool:
    """Whether numbers as Python writes them are not ambiguous in this column."""
    is_named = conventions.decimal is not None or conventions.thousands is not None
    return not is_named and not (conventions.delimiter == ";" and _are_thousands(texts))


def _read(style: NumberFormat, text: str) -> str:
    """The text of a number for comparison; NaN equals itself."""
    return str(parse_number(style.to_plain(text) or ""))


def _are_thousands(texts: Sequence[str]) -> bool:
    """Whether all numbers with a point may have it as a separator of thousands, and some number has one."""
    pointed = [text.strip() for text in texts if "." in text]
    return bool(pointed) and all(map(THOUSANDS.fullmatch, pointed))


def choose_date_format(texts: Sequence[str], column: str, conventions: Conventions) -> DateFormat | None:
    """Return the format of dates in a column; None for ISO dates, which are read with any convention."""
    wrong = [text for text in texts if parse_date(text) is None]
    named = None if conventions.dates is None else DateFormat(conventions.dates)
    if named is not None and all(named.parse(text) is not None for text in texts) and texts:
        return named
    if not wrong:
        return None
    formats = guess_date_formats(min(wrong)) if named is None else [named]
    failing = [_list_unread(texts, style.parse) for style in formats]
    fitting = [style for style, unread in zip(formats, failing, strict=True) if not unread]
    if not fitting:
        unread = min((wrong, *failing), key=len)
        example = "1985-06-14" if named is None else f"in the format {named.pattern} or as 1985-06-14"
        raise DataError(
            f"column {column!r} is a date in the policy but holds {list_some(sorted(unread))}. Write dates as {example}, name "
            "their format (--dates, or 'dates:' under 'read:'), list the values under 'missing:', or declare the column as "
            "categorical."
        )
    first = fitting[0]
    for other in fitting[1:]:
        unequal = next((text for text in sorted(texts) if first.parse(text) != other.parse(text)), None)
        if unequal is not None:
            raise DataError(
                f"column {column!r} holds dates such as {unequal!r}, whose day and month cannot be distinguished. Name their "
                f"format: --dates \"{first.pattern}\" or --dates \"{other.pattern}\" (in a policy: 'dates:' under 'read:')."
            )
    return first


def _list_unread(texts: Sequence[str], parse: Callable[[str], float | None]) -> list[str]:
    return [text for text in texts if parse(text) is None]
