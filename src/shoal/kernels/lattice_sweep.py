"""Search a lattice of levels depth-first, from coarse to fine.

A node is chosen in steps. First every attribute with many levels gets a block of neighbouring levels, then every attribute gets
one level of its block. After d steps the levels of every attribute are between ``place.low[d]`` and ``place.high[d]``, and the
tables of `roll_up` have the groups of the finest of these nodes.

Every step goes from high to low levels, so nodes are visited from coarse to fine. If too many records are in groups below the
least size, all finer nodes fail, and they are tagged without a check.

The arguments are those of `roll_up`, and ``log`` is `interface.SearchLog`.
"""

from __future__ import annotations

import numpy as np

from shoal.kernels.compiler import entry, inner
from shoal.kernels.interface import (
    ANONYMOUS,
    ASKS,
    DECIDES,
    DECIDES_WHOLE,
    FAILS,
    FINISHED,
    NO_ROOM,
    PAUSED,
    SUM_OF_LOGARITHMS,
    SUM_OF_MEANS,
    TAGGED,
    UNSEEN,
)
from shoal.kernels.node_tests import rate_dense, rate_node, test_node, test_relaxed
from shoal.kernels.roll_up import (
    TOO_MANY,
    bound_table,
    build_tables,
    clear_dense,
    count_combinations,
    count_dense,
    count_small,
    count_sparse,
)

TIE = 1e-12  # relative: objectives that differ less are equal


@entry
def tag_finer(level, space, place, log):
    """Tag all nodes that are as fine or finer."""
    m = space.low.shape[0]
    if log.state.shape[0] == 0:
        count = log.counts[1]
        if count < log.failed.shape[0]:
            for j in range(m):
                log.failed[count, j] = level[j]
            log.counts[1] = count + 1
        return
    at, low, stride, state = place.at, space.low, space.stride, log.state
    for j in range(m):
        at[j] = low[j]
    run = m - 1
    while True:
        index = np.int64(0)
        for j in range(run):
            index += at[j] * stride[j]
        for v in range(index + low[run], index + level[run] + 1):
            if state[v] == UNSEEN:
                state[v] = TAGGED
        j = run - 1
        while j >= 0:
            at[j] += 1
            if at[j] <= level[j]:
                break
            at[j] = low[j]
            j -= 1
        if j < 0:
            return


@inner
def is_settled(d, space, place, log):
    """Whether the coarsest node after d steps is known to fail, or after the last step is checked."""
    m = space.low.shape[0]
    if log.state.shape[0] > 0:
        index = 0
        for j in range(m):
            index += place.high[d, j] * space.stride[j]
        state = log.state[index]
        return state == TAGGED or (d == space.attribute.shape[0] and state != UNSEEN)
    for i in range(log.counts[1]):
        below = True
        for j in range(m):
            if log.failed[i, j] < place.high[d, j]:
                below = False
                break
        if below:
            return True
    return False


@inner
def precedes(level, best, space):
    """Whether a node comes before another one: the lower level of the first attribute of the policy that differs."""
    for p in range(space.policy_order.shape[0]):
        j = space.policy_order[p]
        if level[j] != best[j]:
            return level[j] < best[j]
    return False


@entry
def record(state, suppressed, value, space, place, log):
    """Write a check to the log, and keep the node if it is the best so far."""
    m = space.low.shape[0]
    count = log.counts[0]
    for j in range(m):
        log.level[count, j] = place.level[j]
    log.outcome[count], log.suppressed[count], log.value[count] = state, suppressed, value
    log.counts[0] = count + 1
    if log.state.shape[0] > 0:
        index = 0
        for j in range(m):
            index += place.level[j] * space.stride[j]
        if log.state[index] != TAGGED:
            log.state[index] = state
    if state != ANONYMOUS:
        return
    best = place.best[0]
    slack = TIE * max(1.0, abs(best)) if best < np.inf else 0.0
    if value < best - slack or (value <= best + slack and precedes(place.level, place.best_level, space)):
        place.best[0] = min(value, best)
        for j in range(m):
            place.best_level[j] = place.level[j]


@inner
def check_sizes(most, space, rules, stack, place, log):
    """Check the current node by the sizes of its groups alone; return whether this decides.

    Nothing is decided where other requirements must be tested, or the node cannot be rated without a table of its groups.
    """
    combinations = count_combinations(place.level, space, stack)
    is_dense = combinations != TOO_MANY
    if is_dense:
        small = count_dense(place.level, most, combinations, space, rules, stack)
    else:
        small = count_sparse(place.level, most, space, rules, stack, place)
    decides = rules.sizes_decide and is_dense
    if small > rules.limit:
        tag_finer(place.level, space, place, log)
        record(np.int64(FAILS), small, np.inf, space, place, log)
    elif decides:
        record(np.int64(ANONYMOUS), small, rate_dense(small, space, rules, stack, place), space, place, log)
    if is_dense and small <= most:
        clear_dense(combinations, stack)
    return small > rules.limit or decides


@entry
def check_node(most, space, rules, stack, place, log, sizes, values, sets):
    """Check the node with the current levels: FINISHED, NO_ROOM if an array is full, ASKS if the caller must decide.

    The count of the records of a failing node can end where they are more than ``most``. The last three arguments are None, and
    leave out code, if sizes are not tested first, if no requirement is on values, and if all are on the same attributes.
    """
    last = space.attribute.shape[0]
    for j in range(space.low.shape[0]):
        place.level[j] = place.low[last, j]
    if log.counts[0] == log.outcome.shape[0] or (log.state.shape[0] == 0 and log.counts[1] == log.failed.shape[0]):
        return NO_ROOM
    if sizes is not None:
        if check_sizes(most, space, rules, stack, place, log):
            return FINISHED
    if not build_tables(last, space, stack, place):
        return NO_ROOM
    small, failing = test_node(space, rules, stack, place, values, sets)
    if small > rules.limit or (failing > rules.limit and rules.decides == DECIDES):
        if small > rules.limit or rules.inherits:
            tag_finer(place.level, space, place, log)
        record(np.int64(FAILS), failing, np.inf, space, place, log)
        return FINISHED
    if rules.decides != DECIDES and (rules.decides != DECIDES_WHOLE or failing > 0):
        if values is not None:
            if rules.relaxed.term.shape[0] > 0:
                failing = test_relaxed(space, rules, stack)
                if failing > rules.limit:
                    record(np.int64(FAILS), failing, np.inf, space, place, log)
                    return FINISHED
        return ASKS
    record(np.int64(ANONYMOUS), failing, rate_node(failing, space, rules, stack, place), space, place, log)
    return FINISHED


@inner
def probe_coarsest(d, space, rules, stack, place, log):
    """Whether even the coarsest node after d steps fails by its sizes; then all nodes of these steps fail."""
    small = count_small(d, place.high[d], space, rules, stack, place)
    log.counts[2] += 1
    if small <= rules.limit:
        return False
    for j in range(space.low.shape[0]):
        place.level[j] = place.high[d, j]
    tag_finer(place.level, space, place, log)
    record(np.int64(FAILS), small, np.inf, space, place, log)
    return True


@inner
def take_step(d, choice, space, stack, place):
    """Choose a block of levels, or a level, in step d."""
    changed = False
    for j in range(space.low.shape[0]):
        low, high = place.low[d, j], place.high[d, j]
        if j == space.attribute[d]:
            low = space.block[j, choice] if space.is_block[d] else choice
            high = space.block[j, choice + 1] - 1 if space.is_block[d] else choice
        changed |= place.low[d + 1, j] != low
        place.low[d + 1, j], place.high[d + 1, j] = low, high
    place.choice[d] = choice
    if changed:
        stack.built[0] = min(stack.built[0], d)
    j = space.attribute[d]
    old, new = space.first[j] + place.low[d, j], space.first[j] + place.low[d + 1, j]
    place.bound[d + 1] = place.bound[d] - space.floor[old] + space.floor[new]


@entry
def find_highest(d, space, place):
    """The first choice of step d: its highest block or level."""
    j = space.attribute[d]
    return space.blocks[j] - 1 if space.is_block[d] else place.high[d, j]


@entry
def find_lowest(d, space, place):
    """The last choice of step d."""
    return np.int64(0) if space.is_block[d] else place.low[d, space.attribute[d]]


@entry
def move_to(level, space, stack, place):
    """Go to a node; tables that stay the same are kept."""
    for d in range(space.attribute.shape[0]):
        j = space.attribute[d]
        choice = level[j]
        if space.is_block[d]:
            choice = np.int64(0)
            while space.block[j, choice + 1] <= level[j]:
                choice += 1
        take_step(d, choice, space, stack, place)


@entry
def leave_step(d, place):
    """Return to the step before, with its next choice."""
    place.depth[0] = d - 1
    if d > 0:
        place.choice[d - 1] -= 1


@entry
def sweep(space, rules, stack, place, log, work, sizes, values, sets):
    """Visit all nodes that can be better than the best one, from coarse to fine.

    Return FINISHED at the end, PAUSED after so many rows were counted, NO_ROOM or ASKS as `check_node`. The next call goes on.
    The last three arguments are those of `check_node`.
    """
    last = space.attribute.shape[0]
    added = rules.kind == SUM_OF_MEANS or rules.kind == SUM_OF_LOGARITHMS
    until = stack.clock[1] + work
    steps = 0
    while place.depth[0] >= 0:
        d = place.depth[0]
        if d == last:
            done = check_node(rules.limit, space, rules, stack, place, log, sizes, values, sets)
            if done != FINISHED:
                return done
            leave_step(d, place)
            if stack.clock[1] > until:
                return PAUSED
            continue
        steps += 1
        if steps > 16 * work:
            return PAUSED
        choice = place.choice[d]
        if choice < find_lowest(d, space, place):
            leave_step(d, place)
            continue
        take_step(d, choice, space, stack, place)
        best = place.best[0]
        most = best + TIE * max(1.0, abs(best)) if best < np.inf else np.inf
        skips = added and place.bound[d + 1] > most
        if not skips:
            skips = is_settled(d + 1, space, place, log)
            stack.clock[1] += log.counts[1]  # as many nodes were compared
            if stack.clock[1] > until and not skips:
                return PAUSED
        if not skips and not added and space.has_table[d + 1]:
            if not build_tables(d + 1, space, stack, place):
                return NO_ROOM
            skips = bound_table(d + 1, rules, stack) > most
        if not skips and space.probe[d + 1]:
            if log.counts[0] == log.outcome.shape[0] or not build_tables(d + 1, space, stack, place):
                return NO_ROOM
            skips = probe_coarsest(d + 1, space, rules, stack, place, log)
        if skips:
            place.choice[d] -= 1
            continue
        place.depth[0] = d + 1
        if d + 1 < last:
            place.choice[d + 1] = find_highest(d + 1, space, place)
    return FINISHED
