"""Inference channels: small groups of people that follow from the published supports of itemsets, and how to close them.

The records that have the items I and none of the items J without I number f(I, J), the sum of (-1)^|X - I| support(X) over all
sets X between I and J (inclusion and exclusion). Everybody can compute f if all these supports are published. The pair is an
inference channel if 0 < f(I, J) < k. Atzori, Bonchi, Giannotti, Pedreschi: Anonymity preserving pattern discovery. VLDB Journal
17 (2008).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import NamedTuple, overload

import numpy as np

from shoal.arrays import BoolArray, Int64Array, UInt64Array
from shoal.errors import DataError, PolicyError, list_choices
from shoal.formats.numbers import format_count
from shoal.mining.itemsets import Item, Itemsets
from shoal.mining.remainders import Remainder, list_remainders
from shoal.requirements.requirement import parse_whole_number

MOST_ITEMS = 20  # of a published set
MOST_CELLS = 2**26  # pairs (I, J) of all sets J of one size
WAYS = ("suppress", "raise")


@dataclass(frozen=True)
class Channel:
    """A group that follows from published supports: the items that its people have, and the items that they do not have."""

    present: frozenset[Item]
    absent: frozenset[Item]
    people: int

    def __str__(self) -> str:
        words = [*sorted(map(str, self.present)), *(f"not {item}" for item in sorted(map(str, self.absent)))]
        return f"{', '.join(words) or 'all records'}: {format_count(self.people, 'person', 'people')}"


class _Places(NamedTuple):
    """Pairs (I, J) of channels: the number of the set J (-1: the empty set), the items of J that are in I as bits, and f(I, J).

    ``minimal``: no channel has fewer conditions. ``narrow``: no other channel needs only some of the same supports.
    """

    number: Int64Array
    mask: Int64Array
    people: Int64Array
    minimal: BoolArray
    narrow: BoolArray


@dataclass(frozen=True)
class Channels(Sequence[Channel]):
    """The inference channels of a collection of itemsets below k people: those between two sets, then remainders."""

    itemsets: Itemsets
    k: int
    places: _Places = field(repr=False)
    remainders: tuple[Remainder, ...] = field(default=(), repr=False)

    def __len__(self) -> int:
        return len(self.places.people) + len(self.remainders)

    @overload
    def __getitem__(self, index: int) -> Channel: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Channel, ...]: ...

    def __getitem__(self, index: int | slice) -> Channel | tuple[Channel, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        present, absent = self._list_sides(range(len(self))[index])
        items = self.itemsets.items
        return Channel(
            frozenset(items[i] for i in present), frozenset(items[i] for i in absent), int(self.people[index])
        )

    @cached_property
    def people(self) -> Int64Array:
        """The number of people of every channel."""
        return np.concatenate([self.places.people, np.array([r.people for r in self.remainders], np.int64)])

    @cached_property
    def minimal(self) -> Channels:
        """The channels with the fewest conditions.

        The group of every other channel is a part of the group of a minimal channel: its people have, and do not have, the
        same items, and some more.
        """
        chosen = self.select(self.places.minimal)
        if _is_closed(self.itemsets) and not self.remainders:
            return chosen
        # A set between two channels may be missing, so the search by one item at a time can overlook an implication.
        kept: list[tuple[int, int]] = []
        keeps = np.zeros(len(chosen), bool)
        read = [chosen.read_bits(i) for i in range(len(chosen))]
        for i in sorted(range(len(read)), key=lambda i: read[i][0].bit_count() + read[i][1].bit_count()):
            present, absent = read[i]
            keeps[i] = not any(p & present == p and a & absent == a for p, a in kept)
            if keeps[i]:
                kept.append((present, absent))
        return chosen.select(keeps)

    def select(self, chosen: BoolArray) -> Channels:
        """Some of the channels; all remainders if only the channels between two sets are chosen from."""
        number, mask, people, minimal, narrow = self.places
        between, rest = chosen[: len(number)], chosen[len(number) :].tolist()
        places = _Places(number[between], mask[between], people[between], minimal[between], narrow[between])
        remainders = (
            tuple(r for r, keeps in zip(self.remainders, rest, strict=True) if keeps) if rest else self.remainders
        )
        return replace(self, places=places, remainders=remainders)

    def read_bits(self, index: int) -> tuple[int, int]:
        """The items that the people of a channel have, and do not have, as bits of two numbers."""
        present, absent = self._list_sides(index)
        return sum(1 << i for i in present), sum(1 << i for i in absent)

    def _list_sides(self, index: int) -> tuple[Sequence[int], Sequence[int]]:
        """The items that the people of a channel have, and do not have, by number."""
        if index >= len(self.places.people):
            remainder = self.remainders[index - len(self.places.people)]
            return remainder.present, remainder.absent
        members, mask = _list_members(self.itemsets, int(self.places.number[index])), int(self.places.mask[index])
        sides: tuple[list[int], list[int]] = ([], [])
        for b, i in enumerate(members):
            sides[1 - (mask >> b & 1)].append(i)
        return sides


def find_channels(itemsets: Itemsets, k: int, *, tested: BoolArray | None = None) -> Channels:
    """Find all groups of fewer than k people that follow from the published supports.

    Parameters
    ----------
    itemsets : the published sets, of at most 20 items each. The number of records counts as published, too
    k : the least number of people of a group
    tested : for each set whether channels count that name all of its items as present or absent (default: all count)

    Returns
    -------
    The channels, with ``minimal`` for those that have the fewest conditions.

    Guarantee
    ---------
    Without a channel, no group of 1 to k - 1 people follows from published supports by inclusion and exclusion, or by the
    subtraction of all published values of a column (nobody has two values of a column). Bounds of supports that are not
    published, and subtractions of the values of several columns at once, are not tested.

    Raises `DataError` if the supports contradict one another: if a group would have less than no people.

    Examples
    --------
    >>> import numpy as np
    >>> sets = Itemsets((Item("cherries"), Item("candles")), np.array([0, 1, 3]), np.array([0, 0, 1], np.int32),
    ...                 np.array([112, 109]), 1000)
    >>> for channel in find_channels(sets, 5):
    ...     print(channel)
    cherries, not candles: 3 people
    """
    k = parse_whole_number(k, "k", 1)
    found: list[_Places] = []
    inner: _Marks | None = None
    for level in walk_groups(itemsets):
        inner = _Marks.of(level, level.list_peopled(tested) & (level.people < k), inner)
        row, mask = np.nonzero(inner.channel)
        places = level.number[row], mask, level.people[row, mask], inner.minimal[row, mask], inner.narrow[row, mask]
        found.append(_Places(*places))
    remainders = tuple(r for r in list_remainders(itemsets, tested) if r.people < k)
    return Channels(itemsets, k, _Places(*map(np.concatenate, zip(*found, strict=True))), remainders)


@dataclass(frozen=True)
class GroupLevel:
    """The groups f(I, J) of all published sets J of one size.

    Row r is the set ``number[r]`` (-1: the empty set). Its column m is the set I of the items whose bits are in m. A group is
    ``valid`` if all sets between I and J are published. ``parent[r, b]`` is the row of J without its item b in the level of the
    next smaller sets; -1 if it is not published.
    """

    number: Int64Array
    parent: Int64Array
    people: Int64Array
    valid: BoolArray

    @property
    def size(self) -> int:
        """The number of items of the sets."""
        return int(self.parent.shape[1])

    def list_peopled(self, tested: BoolArray | None) -> BoolArray:
        """The valid groups with people, only of tested sets J; the empty set is none of them."""
        found = self.valid & (self.people > 0)
        if tested is not None:
            found[~np.append(tested, False)[self.number]] = False
        return np.asarray(found)


def walk_groups(itemsets: Itemsets) -> Iterator[GroupLevel]:
    """The groups that follow from the published supports, by the size of J; sizes without a set are skipped.

    f(I, J) = f(I, J - a) - f(I + a, J) for every item a of J that is not in I.
    """
    rows = _check_itemsets(itemsets)
    sizes = itemsets.size
    level = GroupLevel(
        np.array([-1]), np.zeros((1, 0), np.int64), np.array([[itemsets.records]], np.int64), np.ones((1, 1), bool)
    )
    yield level
    for size in np.unique(sizes[sizes > 0]).tolist():
        number = np.flatnonzero(sizes == size)
        if len(number) << size > MOST_CELLS:
            raise DataError(
                f"{len(number):,} published sets have {size} items. These are too many groups to test. Publish sets of fewer "
                "items, or fewer sets."
            )
        level = _extend_level(itemsets, number, size, level, rows)
        _refuse_contradictions(itemsets, level)
        yield level


def _extend_level(
    itemsets: Itemsets, number: Int64Array, size: int, before: GroupLevel, rows: dict[tuple[int, ...], int]
) -> GroupLevel:
    row_of = {} if before.size != size - 1 else {int(s): r for r, s in enumerate(before.number)}
    parent = np.full((len(number), size), -1, np.int64)
    for r, s in enumerate(number.tolist() if row_of else ()):
        members = _list_members(itemsets, s)
        for b in range(size):
            parent[r, b] = row_of.get(rows.get(members[:b] + members[b + 1 :], -2), -1)
    people = np.zeros((len(number), 1 << size), np.int64)
    valid = np.zeros(people.shape, bool)
    people[:, -1], valid[:, -1] = itemsets.count[number], True
    for b in reversed(range(size)):  # the sets I whose first absent item is b; those with a later one are known
        here, above = slice((1 << b) - 1, None, 2 << b), slice((2 << b) - 1, None, 2 << b)
        less = slice((1 << b) - 1, None, 1 << b)
        has = parent[:, b] >= 0
        if not has.any():
            continue
        row = parent[has, b]
        people[has, here] = before.people[row, less] - people[has, above]
        valid[has, here] = before.valid[row, less] & valid[has, above]
    return GroupLevel(number, parent, people, valid)


@dataclass(frozen=True)
class _Marks:
    """The channels of a level, those that are ``minimal`` and ``narrow``, and the pairs (I, J) that a channel implies.

    ``implied``: a channel with some of the same conditions exists. ``holds_channel``: a channel needs only supports between
    I and J.
    """

    channel: BoolArray
    minimal: BoolArray
    narrow: BoolArray
    implied: BoolArray
    holds_channel: BoolArray

    @classmethod
    def of(cls, level: GroupLevel, channel: BoolArray, before: _Marks | None) -> _Marks:
        """The marks of a level, from the marks of the level of sets with one item less."""
        implied, held = np.zeros(channel.shape, bool), np.zeros(channel.shape, bool)
        for b in range(level.size):
            has = level.parent[:, b] >= 0
            if before is None or not has.any():
                continue
            shape = (int(has.sum()), -1, 2, 1 << b)
            row = level.parent[has, b]
            less = before.implied[row].reshape(shape[0], -1, 1, 1 << b)
            implied[has] |= np.broadcast_to(less, (*less.shape[:2], 2, 1 << b)).reshape(shape[0], -1)
            absent = np.zeros((shape[0], channel.shape[1]), bool).reshape(shape)
            absent[:, :, 0] = before.holds_channel[row].reshape(shape[0], -1, 1 << b)
            held[has] |= absent.reshape(shape[0], -1)
        within = held | channel
        for b in range(level.size):  # one more item in I
            pairs = within.reshape(len(channel), -1, 2, 1 << b)
            pairs[:, :, 0] |= pairs[:, :, 1]
            own = held.reshape(len(channel), -1, 2, 1 << b)
            own[:, :, 0] |= pairs[:, :, 1]
        held &= level.valid
        return cls(channel, channel & ~implied, channel & ~held, implied | channel, (held | channel) & level.valid)


def measure_groups(itemsets: Itemsets, tested: BoolArray | None = None) -> tuple[int, int]:
    """The number of groups with people that follow from the supports, and the size of the smallest.

    ``tested`` marks the sets J whose groups count (default: all). The size is the number of records if there is no group.
    """
    groups, smallest = 0, itemsets.records
    for level in walk_groups(itemsets):
        counts = level.list_peopled(tested)
        groups += int(counts.sum())
        smallest = int(level.people[counts].min(initial=smallest))
    remainders = list_remainders(itemsets, tested)
    return groups + len(remainders), min([smallest, *(r.people for r in remainders)])


def _list_members(itemsets: Itemsets, number: int) -> tuple[int, ...]:
    """The items of a set by their numbers; -1 is the empty set."""
    if number < 0:
        return ()
    return tuple(itemsets.members[itemsets.start[number] : itemsets.start[number + 1]].tolist())


def _is_closed(itemsets: Itemsets) -> bool:
    """Whether every set with one item less than a published set is published, too."""
    sets = {_list_members(itemsets, s) for s in range(len(itemsets))} | {()}
    return all(m[:b] + m[b + 1 :] in sets for m in sets for b in range(len(m)))


def _check_itemsets(itemsets: Itemsets) -> dict[tuple[int, ...], int]:
    """The number of every set, -1 for the empty set.

    Raises `DataError` for sets that are too large, occur twice, or have impossible supports.
    """
    if not isinstance(itemsets, Itemsets):
        raise DataError(
            f"{type(itemsets).__name__} is no collection of itemsets. Pass an object of the class Itemsets."
        )
    if int(itemsets.size.max(initial=0)) > MOST_ITEMS:
        raise DataError(
            f"a published set has {int(itemsets.size.max())} items; channels are searched in sets of at most {MOST_ITEMS}. "
            "Publish smaller sets."
        )
    if ((itemsets.members < 0) | (itemsets.members >= len(itemsets.items))).any():
        raise DataError("the itemsets name items that do not exist. Make the itemsets again.")
    rows: dict[tuple[int, ...], int] = {}
    for s in range(len(itemsets)):
        members = _list_members(itemsets, s)
        if any(a >= b for a, b in pairwise(members)):
            raise DataError(f"the items of set {s} are not in ascending order. Sort them, and list each item once.")
        if members in rows:
            raise DataError(f"the set {_name_set(itemsets, members)} is published twice. Remove one of the two.")
        rows[members] = s
        count = int(itemsets.count[s])
        if not 0 <= count <= itemsets.records or (not members and count != itemsets.records):
            raise DataError(
                f"the set {_name_set(itemsets, members)} has the support {count:,}, but there are {itemsets.records:,} records."
                " These supports contradict one another. Count them again."
            )
    return rows | {(): -1}


def _refuse_contradictions(itemsets: Itemsets, level: GroupLevel) -> None:
    wrong = np.argwhere(level.valid & (level.people < 0))
    if not len(wrong):
        return
    row, mask = wrong[0].tolist()
    members = _list_members(itemsets, int(level.number[row]))
    present = _name_set(itemsets, [i for b, i in enumerate(members) if mask >> b & 1])
    absent = _name_set(itemsets, [i for b, i in enumerate(members) if not mask >> b & 1])
    raise DataError(
        f"these supports contradict one another: {int(level.people[row, mask]):,} records would have {present} and nothing of "
        f"{absent}. Count the supports again, all in the same table."
    )


def _name_set(itemsets: Itemsets, members: Iterable[int]) -> str:
    return "{" + ", ".join(str(itemsets.items[i]) for i in members) + "}"


@dataclass(frozen=True)
class BlockedChannels:
    """How channels were closed, for the owner: the channels that were there, and what was changed.

    ``suppressed`` are the sets that are no longer published. ``added`` is the number of fictitious records that raise the
    supports; ``largest_change`` is the largest difference of a support.
    """

    how: str
    k: int
    channels: int
    minimal: int
    suppressed: tuple[frozenset[Item], ...] = ()
    added: int = 0
    largest_change: int = 0

    def __str__(self) -> str:
        if self.how == "suppress":
            change = f"{format_count(len(self.suppressed), 'set')} suppressed"
        else:
            records = format_count(self.added, "fictitious record")
            change = f"{records} added; no support changes by more than {self.largest_change:,}"
        return f"{format_count(self.channels, 'channel')} below k = {self.k} closed: {change}"


def block_channels(itemsets: Itemsets, k: int, how: str = "suppress") -> tuple[Itemsets, BlockedChannels]:
    """Change published itemsets so that no group of fewer than k people follows from them.

    Parameters
    ----------
    itemsets : the sets with their supports
    k : the least number of people of a group
    how : ``suppress`` (default) removes sets, those first that many channels need. ``raise`` keeps all sets, and adds
        fictitious records that have exactly the items of a small group, so that supports are too high but agree with one
        another

    Returns
    -------
    The changed sets, and a report for the owner.

    Guarantee
    ---------
    `find_channels` finds no channel in the result. The search for the fewest sets is greedy: without columns of several
    values no removed set could be kept, but another choice may keep more.
    """
    if how not in WAYS:
        raise PolicyError(f"how={how!r} is not known; {list_choices(how, WAYS)}.")
    channels = find_channels(itemsets, k)
    report = BlockedChannels(how, k, len(channels), len(channels.minimal))
    if not len(channels):
        return itemsets, report
    if how == "raise":
        raised = _raise_supports(itemsets, k, channels)
        change = int(np.max(raised.count - itemsets.count, initial=0))
        return raised, replace(report, added=raised.records - itemsets.records, largest_change=change)
    kept, removed = itemsets, []
    while len(channels):  # a removed value of a column can make a remainder
        chosen = _choose_suppressed(channels)
        removed += [kept[s] for s in chosen]
        keeps = np.ones(len(kept), bool)
        keeps[chosen] = False
        kept = select_sets(kept, keeps)
        channels = find_channels(kept, k)
    return kept, replace(report, suppressed=tuple(removed))


def select_sets(itemsets: Itemsets, kept: BoolArray) -> Itemsets:
    """Some of the sets."""
    size = itemsets.size
    start = np.concatenate(([0], np.cumsum(size[kept]))).astype(np.int64)
    return replace(itemsets, start=start, members=itemsets.members[np.repeat(kept, size)], count=itemsets.count[kept])


def _choose_suppressed(channels: Channels) -> list[int]:
    """A small number of sets without which no channel is left: a greedy cover, then without sets that it does not need.

    Only narrow channels count: to close a channel also closes every other channel that needs the same supports and more.
    The removal of a set opens no channel between two sets.
    """
    if (channels.places.number < 0).any():
        raise DataError(
            f"the table has only {channels.itemsets.records:,} records, fewer than k = {channels.k}. The number of records "
            "shows this; publish no sets of this table."
        )
    narrow = channels.select(channels.places.narrow)
    rows = {_list_members(channels.itemsets, s): s for s in range(len(channels.itemsets))}
    needs = [_list_between(narrow, i, rows) for i in range(len(narrow.places.people))]
    needs += [list(remainder.needs) for remainder in narrow.remainders]
    needed_by: dict[int, list[int]] = {}
    for i, sets in enumerate(needs):
        for s in sets:
            needed_by.setdefault(s, []).append(i)
    size, count = channels.itemsets.size.tolist(), channels.itemsets.count.tolist()
    closes = {s: len(users) for s, users in needed_by.items()}
    queue = [(-n, -size[s], count[s], s) for s, n in closes.items()]  # ties: the largest set, then the least support
    heapify(queue)
    closed, removed = [0] * len(needs), []
    while queue:
        n, *_, best = heappop(queue)
        if -n != closes[best]:  # other sets have closed some of its channels
            if closes[best]:
                heappush(queue, (-closes[best], -size[best], count[best], best))
            continue
        removed.append(best)
        for i in needed_by[best]:
            for s in needs[i] if not closed[i] else ():
                closes[s] -= 1
            closed[i] += 1
    return sorted(_drop_unneeded(removed, needed_by, closed))


def _drop_unneeded(removed: list[int], needed_by: dict[int, list[int]], closed: list[int]) -> set[int]:
    """The removed sets without those all of whose channels are closed by others, too; ``closed`` counts the sets by channel."""
    chosen = set(removed)
    for s in removed:
        if all(closed[i] > 1 for i in needed_by[s]):
            chosen.discard(s)
            for i in needed_by[s]:
                closed[i] -= 1
    return chosen


def _list_between(channels: Channels, index: int, rows: dict[tuple[int, ...], int]) -> list[int]:
    """The published sets between I and J of a channel, without the empty set."""
    members = _list_members(channels.itemsets, int(channels.places.number[index]))
    mask, found = int(channels.places.mask[index]), []
    absent = ~mask & (1 << len(members)) - 1
    part = absent
    while True:  # all parts of the absent items
        inside = tuple(i for b, i in enumerate(members) if (mask | part) >> b & 1)
        if inside:
            found.append(rows[inside])
        if not part:
            return found
        part = (part - 1) & absent


def _raise_supports(itemsets: Itemsets, k: int, channels: Channels) -> Itemsets:
    """Add fictitious records until no channel is left.

    k - f records with exactly the items I make f(I, J) = k. They raise other groups, too, and lower none. A group without
    people can become a channel, so the search is repeated; a group that has reached k keeps at least k people.
    """
    words = len(itemsets.items) // 64 + 1
    sets = _pack_bits([sum(1 << i for i in _list_members(itemsets, s)) for s in range(len(itemsets))], words)
    while len(channels):
        read = [(*channels.read_bits(i), int(channels.people[i])) for i in range(len(channels))]
        read.sort(key=lambda c: (-c[0].bit_count(), c))
        present, absent = (_pack_bits([c[side] for c in read], words) for side in (0, 1))
        basket, amount, baskets = np.zeros_like(present), np.zeros(len(read), np.int64), 0
        for i, (*_, people) in enumerate(read):
            own = basket[:baskets]
            joins = ((own & present[i]) == present[i]).all(axis=1) & ~(own & absent[i]).any(axis=1)
            lacking = k - people - int(amount[:baskets][joins].sum())
            if lacking > 0:
                basket[baskets], amount[baskets] = present[i], lacking
                baskets += 1
        more = [int(amount[:baskets][((basket[:baskets] & s) == s).all(axis=1)].sum()) for s in sets]
        count = itemsets.count + np.array(more, np.int64)
        itemsets = replace(itemsets, count=count, records=itemsets.records + int(amount.sum()))
        channels = find_channels(itemsets, k)
    return itemsets


def _pack_bits(bits: Sequence[int], words: int) -> UInt64Array:
    """Numbers as rows of words of 64 bits."""
    return (
        np.frombuffer(b"".join(b.to_bytes(8 * words, "little") for b in bits), "<u8")
        .reshape(-1, words)
        .astype(np.uint64)
    )
