"""Text of numbers: the same as Arrow writes, so that labels and columns of one release agree."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from shoal.formats.numbers import EXACT, format_number, parse_number


@given(st.floats(allow_nan=False) | st.floats(-1e12, 1e12) | st.decimals(-(10**9), 10**9, places=4).map(float))
def test_numbers_are_written_as_arrow_writes_them_and_read_back(value: float) -> None:
    text = format_number(value)
    if value.is_integer() and abs(value) < EXACT:
        assert text == str(int(value))
    else:
        assert text == pa.scalar(value).cast(pa.string()).as_py()
    assert parse_number(text) == value
