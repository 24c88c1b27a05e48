"""Inference channels of published supports, and their closing, against a slow twin that writes out all sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import DataError, PolicyError
from shoal.mining.channels import Channels, block_channels, find_channels, measure_groups
from shoal.mining.itemsets import Itemsets
from tests.reference import channels as twin
from tests.support.itemsets import Names, count_sets, make_itemsets

ITEMS = "abcde"
EMPTY: Names = frozenset()


@st.composite
def collections(draw: st.DrawFn, items: str = ITEMS, most: int = 31) -> tuple[dict[Names, int], int]:
    """Supports of some sets of items in a small table, and its number of records; often all parts of a set are there."""
    names = list(items)
    baskets = [set(b) for b in draw(st.lists(st.sets(st.sampled_from(names)), min_size=1, max_size=14))]
    if draw(st.booleans()):  # and a column of several values
        values = ["z=1", "z=2", "z=3"]
        for basket in baskets:
            basket |= draw(st.sampled_from([{v} for v in values] + [set()]))
        names = [*names[:-2], *values]
    sets = draw(st.lists(st.sets(st.sampled_from(names), min_size=1).map(frozenset), min_size=1, max_size=most))
    if draw(st.booleans()):
        sets = [part for members in sets for part in twin.parts_of(members) if part]
    return count_sets(baskets, list(dict.fromkeys(sets))[:most]), len(baskets)


def plain(channels: Channels) -> twin.Found:
    found = {
        (frozenset(map(str, c.present)), frozenset(map(str, c.absent))): c.people
        for c in (channels[i] for i in range(len(channels)))
    }
    assert len(found) == len(channels), "a channel is listed twice"
    return found


@given(collection=collections(), k=st.integers(1, 6))
def test_channels_are_those_of_the_twin(collection: tuple[dict[Names, int], int], k: int) -> None:
    supports, records = collection
    found = find_channels(make_itemsets(supports, records), k)
    known = {EMPTY: records, **supports}
    assert plain(found) == twin.channels(known, k)
    assert plain(found.minimal) == twin.minimal_channels(known, k)


@given(collection=collections())
def test_the_smallest_group_is_that_of_the_twin(collection: tuple[dict[Names, int], int]) -> None:
    supports, records = collection
    sizes = [people for people in twin.all_groups({EMPTY: records, **supports}).values() if people]
    assert measure_groups(make_itemsets(supports, records)) == (len(sizes), min(sizes))


@given(collection=collections("abc", most=6), k=st.integers(1, 5))
def test_suppression_closes_all_channels_with_few_sets(collection: tuple[dict[Names, int], int], k: int) -> None:
    supports, records = collection
    if records < k:
        with pytest.raises(DataError, match="fewer than k"):
            block_channels(make_itemsets(supports, records), k)
        return
    kept, report = block_channels(make_itemsets(supports, records), k)
    left = {frozenset(map(str, kept[s])): int(kept.count[s]) for s in range(len(kept))}
    assert not twin.channels({EMPTY: records, **left}, k)
    removed = {frozenset(map(str, names)) for names in report.suppressed}
    assert {names: n for names, n in supports.items() if names not in removed} == left
    if not any("=" in item for names in supports for item in names):  # else the removal of a value can make a remainder
        for names in removed:  # no removed set could be kept
            assert twin.channels({EMPTY: records, **left, names: supports[names]}, k)
        optimum = twin.fewest_suppressed({EMPTY: records, **supports}, k)
        greedy = 1 + np.log(max(report.channels, 1))  # the bound of every greedy cover
        assert optimum <= len(removed) <= greedy * optimum


@given(collection=collections(), k=st.integers(1, 6))
def test_raised_supports_have_no_channel_and_agree(collection: tuple[dict[Names, int], int], k: int) -> None:
    supports, records = collection
    raised, report = block_channels(make_itemsets(supports, records), k, how="raise")
    names = [frozenset(map(str, raised[s])) for s in range(len(raised))]
    assert names == list(supports)
    after = {EMPTY: raised.records, **dict(zip(names, raised.count.tolist(), strict=True))}
    sizes = twin.all_groups(after)
    assert not any(0 < people < k or people < 0 for people in sizes.values())
    assert all(after[a] >= after[b] for a in after for b in after if a <= b)
    changes = [after[members] - supports[members] for members in supports]
    assert min(changes) >= 0
    assert max(changes) == report.largest_change <= report.added == raised.records - records


def test_the_channel_of_two_published_sets() -> None:
    """109 of 112 people with cherries have candles, so 3 do not."""
    supports = {frozenset("c"): 112, frozenset("cd"): 109, frozenset("d"): 400}
    found = find_channels(make_itemsets(supports, 1000), 5)
    assert list(map(str, found)) == ["c, not d: 3 people"]
    assert not len(find_channels(make_itemsets(supports, 1000), 3))
    kept, report = block_channels(make_itemsets(supports, 1000), 5)
    assert len(kept) == 2
    assert str(report) == "1 channel below k = 5 closed: 1 set suppressed"
    raised, report = block_channels(make_itemsets(supports, 1000), 5, how="raise")
    assert raised.count.tolist() == [114, 109, 400]
    assert raised.records == 1002
    assert str(report) == "1 channel below k = 5 closed: 2 fictitious records added; no support changes by more than 2"


def test_the_values_of_a_column_are_subtracted() -> None:
    """Nobody has two sexes, so 98 of 100 people with a sex leave 2; the value of the 2 must not be suppressed alone."""
    supports = {frozenset(["sex=f"]): 50, frozenset(["sex=m"]): 48}
    assert list(map(str, find_channels(make_itemsets(supports, 100), 5))) == ["not sex=f, not sex=m: 2 people"]
    supports |= {frozenset(["sex=x"]): 2}
    assert list(map(str, find_channels(make_itemsets(supports, 100), 5))) == ["sex=x: 2 people"]
    kept, report = block_channels(make_itemsets(supports, 100), 5)
    assert kept.count.tolist() == [50]
    assert len(report.suppressed) == 2
    raised, _ = block_channels(make_itemsets(supports, 100), 5, how="raise")
    assert raised.count.tolist() == [50, 48, 5]
    assert raised.records == 103
    with pytest.raises(DataError, match="the values of column 'sex' have 10 more records than there are"):
        find_channels(make_itemsets(supports, 90), 5)


def test_a_group_without_people_is_no_channel() -> None:
    supports = {frozenset("a"): 5, frozenset("b"): 8, frozenset("ab"): 5}
    assert not len(find_channels(make_itemsets(supports, 20), 3))
    assert block_channels(make_itemsets(supports, 20), 3)[0].count.tolist() == [5, 8, 5]


def test_no_sets_show_only_the_number_of_records() -> None:
    nothing = make_itemsets({frozenset("a"): 3}, 9)
    nothing = replace(nothing, start=nothing.start[:1], members=nothing.members[:0], count=nothing.count[:0])
    assert plain(find_channels(nothing, 10)) == {(EMPTY, EMPTY): 9}
    assert not len(find_channels(nothing, 9))


def test_thousands_of_sets_are_searched() -> None:
    rng = np.random.default_rng(5)
    table = rng.random((2000, 12)) < np.linspace(0.3, 0.8, 12)
    bits = table @ (1 << np.arange(12))
    counts = np.bincount(bits, minlength=1 << 12).reshape((2,) * 12)
    for axis in range(12):  # the records of all larger sets
        counts = np.flip(np.flip(counts, axis).cumsum(axis), axis)
    masks = np.arange(1, 1 << 12)
    sets = [[b for b in range(12) if m >> b & 1] for m in masks.tolist()]
    one = make_itemsets({frozenset(f"{b:02}" for b in range(12)): 1}, 2000)
    start, members = np.cumsum([0, *map(len, sets)]), np.array([i for s in sets for i in s], np.int32)
    everything = Itemsets(one.items, start.astype(np.int64), members, counts.ravel()[masks], 2000)
    found = find_channels(everything, 3)
    single = np.bincount(bits, minlength=1 << 12)  # groups in which all twelve items are present or absent
    whole = [i for i in range(len(found)) if everything.size[found.places.number[i]] == 12]
    assert sorted(found.people[whole].tolist()) == sorted(single[(single > 0) & (single < 3)].tolist())


CONTRADICTIONS = {
    "more than the records": ({frozenset("a"): 11}, "support 11, but there are 10 records.*contradict one another"),
    "less than nobody": ({frozenset("a"): -1}, "support -1.*contradict one another"),
    "a superset has more": (
        {frozenset("a"): 3, frozenset("ab"): 4},
        r"contradict one another: -1 records would have \{a\} and nothing of \{b\}",
    ),
    "inclusion and exclusion": (
        {frozenset("a"): 8, frozenset("b"): 8, frozenset("ab"): 5},
        "contradict one another: -1 records",
    ),
    "the empty set": ({EMPTY: 9, frozenset("a"): 3}, r"\{\} has the support 9, but there are 10 records"),
    "too many items": ({frozenset("abcdefghijklmnopqrstu"): 5}, "has 21 items.*at most 20.*Publish smaller sets"),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_impossible_supports_are_refused(case: str) -> None:
    supports, text = CONTRADICTIONS[case]
    with pytest.raises(DataError, match=text):
        find_channels(make_itemsets(supports, 10), 3)


def test_wrong_arguments_are_refused() -> None:
    sets = make_itemsets({frozenset("a"): 5, frozenset("b"): 4}, 10)
    with pytest.raises(PolicyError, match="how='remove' is not known; choose from 'suppress', 'raise'"):
        block_channels(sets, 3, how="remove")
    with pytest.raises(PolicyError, match="k must be a whole number"):
        find_channels(sets, 2.5)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="dict is no collection of itemsets"):
        find_channels({"a": 5}, 3)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="name items that do not exist"):
        find_channels(replace(sets, members=np.array([0, 2], np.int32)), 3)
    with pytest.raises(DataError, match=r"\{a\} is published twice"):
        find_channels(replace(sets, members=np.array([0, 0], np.int32)), 3)
    with pytest.raises(DataError, match="not in ascending order"):
        find_channels(replace(sets, start=np.array([0, 2, 2]), members=np.array([1, 0], np.int32)), 3)
    wide = replace(sets, start=np.arange(0, 20 * 80, 20), items=tuple(sets.items) * 60, count=np.full(79, 5))
    wide = replace(wide, members=np.concatenate([[*range(19), 19 + s] for s in range(79)]).astype(np.int32))
    with pytest.raises(DataError, match=r"79 published sets have 20 items.*too many groups"):
        find_channels(wide, 3)
