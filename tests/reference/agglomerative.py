"""Local recoding by merging and by splitting, slow and obvious: every pair of groups is tried at every step.

After Xu, Wang, Pei, Wang, Shi, Fu, "Utility-based anonymization using local recoding" (KDD 2006). The records, their losses and
the requirement are a `Table` of the k-member twin; a group is a list of places in it. Records with equal codes form one *block*
that is never divided. All ties go to the block or group with the smaller turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.reference.kmember import TINY, Clusters, Table, merged

Group = list[int]


def blocks_of(table: Table) -> list[Group]:
    """The records by their codes."""
    blocks: dict[tuple[int, ...], Group] = {}
    for i, (codes, _) in enumerate(table.records):
        blocks.setdefault(codes, []).append(i)
    return list(blocks.values())


def turn(table: Table, group: Group) -> tuple[int, int]:
    return min(table.turn(i) for i in group)


def in_turn(table: Table, groups: Sequence[Group]) -> list[Group]:
    return sorted(groups, key=lambda group: turn(table, group))


def increase(table: Table, one: Group, other: Group) -> float:
    """By how much the loss grows when two groups become one."""
    union = [*one, *other]
    return len(union) * table.extent(union) - len(one) * table.extent(one) - len(other) * table.extent(other)


def comes_closer(table: Table, group: Group, union: Group) -> bool:
    """Whether more records bring a failing group closer to the requirement."""
    return len(group) < table.k or table.lacks(group) - table.lacks(union) > TINY


def may_merge(table: Table, one: Group, other: Group) -> bool:
    union = [*one, *other]
    return table.meets(union) or (not table.meets(other) and comes_closer(table, one, union))


def bottom_up(table: Table) -> list[Group]:
    """Merge the smallest failing group with the group that it costs least; some may be left that fail."""
    groups, stuck = blocks_of(table), []
    while True:
        failing = [g for g in groups if not table.meets(g) and g not in stuck]
        if not failing:
            return in_turn(table, groups)
        one = min(failing, key=lambda g: (len(g), turn(table, g)))
        partners = [g for g in groups if g is not one and may_merge(table, one, g)]
        if not partners:
            stuck.append(one)
            continue
        other = min(partners, key=lambda g: (increase(table, one, g), turn(table, g)))
        union = [*one, *other]
        halves = split(table, union) if table.meets(union) and len(union) >= 2 * table.k else None
        if halves is not None and not sum(map(table.loss, halves)) < table.loss(union):
            halves = None
        groups = [g for g in groups if g is not one and g is not other] + (halves or [union])


def split(table: Table, group: Group) -> list[Group] | None:
    """Two halves that meet the requirement, or None."""
    of_group = [block for block in blocks_of(table) if block[0] in group]
    blocks = in_turn(table, of_group)
    if len(blocks) < 2:
        return None

    def furthest(seed: Group) -> Group:
        others = [block for block in blocks if block is not seed]
        return min(others, key=lambda block: (-table.extent([seed[0], block[0]]), turn(table, block)))

    first = blocks[0]
    second = furthest(first)
    for _ in range(2):
        first, second = second, furthest(second)
    halves: list[list[Group]] = [[first], [second]]
    for block in blocks:
        if block is not first and block is not second:
            growth = [growth_of(table, flat(half), block) for half in halves]
            fewer = len(flat(halves[0])) <= len(flat(halves[1]))
            halves[0 if growth[0] < growth[1] or (growth[0] == growth[1] and fewer) else 1].append(block)
    passing = [table.meets(flat(half)) for half in halves]
    if not any(passing):
        return None
    if not all(passing):
        short, rich = halves if passing[1] else halves[::-1]
        while not table.meets(flat(short)):
            spare = [block for block in rich if may_give(table, short, rich, block)]
            if not spare:
                return None
            cheapest = min(spare, key=lambda block: (growth_of(table, flat(short), block), turn(table, block)))
            rich.remove(cheapest)
            short.append(cheapest)
    return [flat(half) for half in halves]


def flat(blocks: Sequence[Group]) -> Group:
    return [i for block in blocks for i in block]


def growth_of(table: Table, group: Group, block: Group) -> float:
    return table.loss([*group, *block]) - table.loss(group)


def may_give(table: Table, short: Sequence[Group], rich: Sequence[Group], block: Group) -> bool:
    """Whether the rich half may give a block away: it still passes, and the short half comes closer to that."""
    left = flat([b for b in rich if b is not block])
    union = [*flat(short), *block]
    return bool(left) and table.meets(left) and (table.meets(union) or comes_closer(table, flat(short), union))


def top_down(table: Table) -> list[Group]:
    """Split everything in two as long as both halves meet the requirement."""
    done, open_groups = [], [list(range(len(table.records)))]
    while open_groups:
        group = open_groups.pop()
        halves = split(table, group)
        if halves is None:
            done.append(group)
        else:
            open_groups += halves
    return in_turn(table, done)


DIRECTIONS: dict[str, Callable[[Table], list[Group]]] = {"bottom-up": bottom_up, "top-down": top_down}


def agglomerative(table: Table, direction: str) -> Clusters:
    """The groups of a direction; what fails is suppressed within the allowance, otherwise merged."""
    groups = DIRECTIONS[direction](table)
    lost = [i for g in groups if not table.meets(g) for i in g]
    allowed = int(table.suppress * len(table.records) + 1e-9)
    if not table.relative and len(lost) <= allowed and len(lost) < len(table.records):
        return Clusters([g for g in groups if table.meets(g)], lost)
    return Clusters(merged(table, groups), [])
