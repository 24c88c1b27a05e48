"""t-closeness: the order of the values for the ordered distance."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal

LEVELS = {"low": "1", "middle": "2", "high": "3", "top": "4"}


@given(values=st.lists(st.sampled_from([*LEVELS, None]), min_size=6, max_size=30), step=st.integers(1, 5))
def test_an_order_gives_the_distances_of_numbers(values: list[str | None], step: int) -> None:
    """The ordered distance of texts with an order is that of numbers in the same order, in the search and in the check."""
    zips = [str(i % (len(values) // step + 1)) for i in range(len(values))]
    texts = pd.DataFrame({"zip": zips, "s": values})
    numbers = pd.DataFrame({"zip": zips, "s": [None if v is None else LEVELS[v] for v in values]})
    base = {"quasi": {"zip": "categorical"}, "sensitive": ["s"]}
    ordered = shoal.Policy(**base, require=shoal.TCloseness(0.3, of="s", distance="ordered", order=[*LEVELS]))
    plain = shoal.Policy(**base, require=shoal.TCloseness(0.3, of="s", distance="ordered"))
    found, expected = shoal.check(texts, ordered).findings[0], shoal.check(numbers, plain).findings[0]
    assert found.reached == pytest.approx(expected.reached) and found.failing_groups == expected.failing_groups
    first, second = (shoal.anonymize(t, p, seed=1) for t, p in ((texts, ordered), (numbers, plain)))
    assert first.frame["zip"].tolist() == second.frame["zip"].tolist()


def check_order(values: list[str | None], **more: Any) -> tuple[str, ...]:
    table = pd.DataFrame({"zip": "1", "s": values})
    require = shoal.TCloseness(0.9, of="s", distance="ordered", **more)
    certificate = shoal.check(table, shoal.Policy(quasi={"zip": "categorical"}, sensitive=["s"], require=require))
    return tuple(note for note in certificate.notes if note.startswith("t-closeness"))


def test_the_assumed_order_is_in_the_notes() -> None:
    (note,) = check_order(["low", "middle", "high"])
    assert "alphabetical order of the values of 's': 'high', 'low', 'middle'" in note and "order: [low" in note
    assert check_order(["low", "middle", "high"], order=["low", "middle", "high"]) == ()
    assert check_order(["9", "10"]) == check_order(["2020-01-31", "2021-01-01"]) == check_order(["a", "a"]) == ()
    assert "counts a missing value of 's' as the highest" in check_order(["9", "10", None])[0]
    assert len(check_order(["a", "b", None])) == 2


def test_wrong_orders() -> None:
    for order, words in (
        ("low", "must list"),
        (["low"], "must list"),
        (["a", "a"], "twice"),
        ([None, "a"], "must list"),
    ):
        with pytest.raises(shoal.PolicyError, match=words):
            shoal.TCloseness(0.3, of="s", distance="ordered", order=order)  # type: ignore[arg-type]
    with pytest.raises(shoal.PolicyError, match="'order' needs the distance 'ordered'"):
        shoal.TCloseness(0.3, of="s", order=["a", "b"])
    with pytest.raises(shoal.PolicyError, match=r"'order' of t-closeness lacks values of 's': 'high'\. Add"):
        check_order(["low", "high"], order=["low", "middle"])
    assert check_order(["1", "2"], order=[2, 1]) == ()
