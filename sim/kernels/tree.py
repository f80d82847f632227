"""Depth-first branch and bound over strategies, and their plain enumeration, that never leave compiled code."""

from typing import NamedTuple

import numpy as np

from sim.kernels.delta import accept, propose, reject
from sim.kernels.kernel import NEVER, kernel
from sim.kernels.layout import (
    DONE,
    IS_CUTOFF,
    NEW_MAKESPAN,
    NEW_OVERFLOW,
    NEW_SERIAL_SUM,
    PARTS,
    POPPED,
    ROW,
    SEG,
    Ints,
    Lists,
)

# Entries of what a search keeps between calls.
T_DEPTH, T_NODES, T_SIMULATIONS, T_CUTOFFS, T_TASKS, T_IMPROVEMENTS, T_BEST_COST, T_BEST_OVERFLOW, T_NEXT = range(9)
T_INNER = 9  # of an enumeration: the last operator's next config
TREE_ENTRIES = 10


class Options(NamedTuple):
    """The configs of all operators, in the order in which these choose."""

    order: Ints  # (n,) operator at each depth
    first: Ints  # (n + 1,) its configs are those from first[depth] to first[depth + 1]
    row: Ints  # (C,) rows of their degrees
    parts: Ints  # (C,)
    devices: Lists  # (C, D)


class Tree(NamedTuple):
    """What a branch and bound knows beforehand, and where it is."""

    table_ptr: Ints  # (n + 1,) tables of each depth
    table_base: Ints  # (T,) where its values start in ``added``
    table_scope: Ints  # (T + 1,) where its scope starts
    scope: Ints  # depths whose choices matter to a table
    stride: Ints  # and how far apart their configs are, in rows of K values
    added: Ints  # what a choice adds to each of K bounds, in units of 1 / scale ns
    image: Lists  # (S, C) what each symmetry makes of a config
    is_tied: Lists  # (n + 1, S) 1 if a symmetry keeps all choices before a depth
    partial: Ints  # (n + 1, K) bounds by the choices before a depth
    children: Lists  # (n, most configs) configs still to be chosen at a depth, the least bound first
    bound: Ints  # (n, most configs) their bounds, ns
    num_children: Ints  # (n,) how many
    cursor: Ints  # (n,) the next one
    choice: Lists  # (n,) configs chosen
    share: Ints  # (3,) at depth share[0], children share[1], share[1] + share[2], ... are this search's


@kernel
def put(tb, rows, st, op, i, c, cutoff):
    """Propose config ``c`` for operator ``i``. Modified in place: as ``propose``."""
    for k in range(op.parts[c]):
        st.devices[k] = op.devices[c, k]
    return propose(tb, rows, st, i, op.row[c], op.parts[c], cutoff, NEVER)


@kernel
def is_accepted(st, op, i, c):
    """Whether operator ``i`` has config ``c``."""
    is_same, home = st.block[i, ROW] == op.row[c], st.block[i, SEG]
    for k in range(op.parts[c]):
        is_same = is_same and st.arena[home + k] == op.devices[c, k]
    return is_same


@kernel
def note(st, seen, improvements, best_rows, best_devices):
    """Count a proposal that is in place, and keep it if it is the best.

    Modified in place: ``seen`` (T_ entries), ``improvements`` (simulations, cost, overflow of each), the best
    strategy's rows and devices.
    """
    num = st.num
    seen[T_SIMULATIONS] += 1
    seen[T_CUTOFFS] += num[IS_CUTOFF]
    seen[T_TASKS] += num[POPPED]
    cost, overflow = num[NEW_MAKESPAN] + num[NEW_SERIAL_SUM], num[NEW_OVERFLOW]
    is_less = overflow < seen[T_BEST_OVERFLOW] or (overflow == seen[T_BEST_OVERFLOW] and cost < seen[T_BEST_COST])
    if num[IS_CUTOFF] == 1 or not is_less:
        return
    seen[T_BEST_COST], seen[T_BEST_OVERFLOW] = cost, overflow
    number = seen[T_IMPROVEMENTS]
    improvements[number, 0], improvements[number, 1] = seen[T_SIMULATIONS], cost
    improvements[number, 2] = overflow
    seen[T_IMPROVEMENTS] = number + 1
    for i in range(best_rows.shape[0]):
        best_rows[i] = st.block[i, ROW]
        for k in range(st.block[i, PARTS]):
            best_devices[i, k] = st.arena[st.block[i, SEG] + k]


@kernel
def limit_of(seen):
    """What a strategy may cost at most to be better: any time, as long as the best does not fit."""
    return seen[T_BEST_COST] - 1 if seen[T_BEST_OVERFLOW] == 0 else NEVER


@kernel
def add_up(tr, depth, c):
    """Write the bounds with config ``c`` chosen at a depth to the next one; returns the highest.

    Modified in place: ``tr.partial`` of the next depth.
    """
    partial, added, num_bounds = tr.partial, tr.added, tr.partial.shape[1]
    for b in range(num_bounds):
        partial[depth + 1, b] = partial[depth, b]
    for t in range(tr.table_ptr[depth], tr.table_ptr[depth + 1]):
        entry = np.int64(c)
        for k in range(tr.table_scope[t], tr.table_scope[t + 1]):
            entry += tr.stride[k] * tr.choice[tr.scope[k]]
        base = tr.table_base[t] + entry * num_bounds
        for b in range(num_bounds):
            partial[depth + 1, b] += added[base + b]
    highest = np.int64(0)
    for b in range(num_bounds):
        highest = max(highest, partial[depth + 1, b])
    return highest


@kernel
def expand(op, tr, depth, limit, scale):
    """List the children at a depth that may be better than ``limit``, the least bound first.

    Modified in place: ``tr`` at this depth and the next.
    """
    first, last = op.first[depth], op.first[depth + 1]
    image, is_tied, bounds, children = tr.image, tr.is_tied, tr.bound, tr.children
    count = 0
    for c in range(last - first):
        is_least = True
        for s in range(image.shape[0]):
            if is_tied[depth, s] and image[s, first + c] < c:
                is_least = False
        if not is_least:
            continue
        bound = (add_up(tr, depth, c) + scale - 1) // scale
        if bound > limit:
            continue
        k = count
        while k > 0 and bounds[depth, k - 1] > bound:
            bounds[depth, k], children[depth, k] = bounds[depth, k - 1], children[depth, k - 1]
            k -= 1
        bounds[depth, k], children[depth, k] = bound, c
        count += 1
    tr.num_children[depth], tr.cursor[depth] = count, 0


@kernel
def descend(op, tr, depth, c, limit, scale):
    """Choose config ``c`` at a depth. Modified in place: ``tr`` at this depth and below."""
    tr.choice[depth] = c
    add_up(tr, depth, c)
    for s in range(tr.image.shape[0]):
        is_kept = tr.image[s, op.first[depth] + c] == c
        tr.is_tied[depth + 1, s] = tr.is_tied[depth, s] if is_kept else 0
    expand(op, tr, depth + 1, limit, scale)


@kernel
def branch(tb, rows, st, op, tr, scale, count, max_nodes, seen, improvements, best_rows, best_devices):
    """Go on with a depth-first branch and bound.

    Where all operators but the last have chosen, the strategy takes over what they chose, one after the other; then
    the last one's configs are proposed, with the best so far as cutoff.

    Args:
        op: configs.
        tr: bounds, and where the search is; at the start, its depth 0 is expanded.
        scale: of the bounds.
        count: simulations at most, and no more than the rows of ``improvements``.
        max_nodes: go on while there are fewer choices.

    Modified in place: ``st``, ``tr``, ``seen`` (T_ entries), ``improvements`` (simulations, cost, overflow of each),
    the best strategy's rows and devices.

    Returns:
        Status; if it is not DONE, an array must grow before the search goes on with the same arguments. It is over
        when T_DEPTH is -1.
    """
    last = op.order.shape[0] - 1
    while seen[T_DEPTH] >= 0 and seen[T_SIMULATIONS] < count and seen[T_NODES] < max_nodes:
        depth, limit = seen[T_DEPTH], limit_of(seen)
        number = tr.cursor[depth]
        if number >= tr.num_children[depth] or tr.bound[depth, number] > limit:
            tr.cursor[depth] = tr.num_children[depth]
            seen[T_DEPTH] -= 1
            continue
        if tr.share[0] == depth and number % tr.share[2] != tr.share[1]:
            tr.cursor[depth] += 1
            continue
        c = tr.children[depth, number]
        if depth < last:
            descend(op, tr, depth, c, limit, scale)
            seen[T_DEPTH] += 1
        else:
            for other in range(last):
                chosen = op.first[other] + tr.choice[other]
                if is_accepted(st, op, op.order[other], chosen):
                    continue
                if seen[T_SIMULATIONS] == count:
                    return DONE
                status = put(tb, rows, st, op, op.order[other], chosen, NEVER)
                if status != DONE:
                    return status
                note(st, seen, improvements, best_rows, best_devices)
                accept(tb, st)
            if seen[T_SIMULATIONS] == count:
                return DONE
            status = put(tb, rows, st, op, op.order[last], op.first[last] + c, limit_of(seen))
            if status != DONE:
                return status
            note(st, seen, improvements, best_rows, best_devices)
            reject(st)
        tr.cursor[depth] += 1
        seen[T_NODES] += 1
    return DONE


@kernel
def find_digits(op, number, digits):
    """The configs of all operators but the last at place ``number`` of a reflected Gray code.

    The configs at neighbouring places differ for one operator, by one. Modified in place: ``digits``.
    """
    size = np.int64(1)
    for depth in range(digits.shape[0]):
        size *= op.first[depth + 1] - op.first[depth]
    rest, is_odd = number, False
    for depth in range(digits.shape[0]):
        base = op.first[depth + 1] - op.first[depth]
        size //= base
        digit = rest // size
        rest -= digit * size
        # Every other block of the digits to come is walked through backwards.
        digits[depth] = base - 1 - digit if is_odd else digit
        is_odd = (number // size) % 2 == 1


@kernel
def enumerate_all(tb, rows, st, op, digits, end, count, seen, improvements, best_rows, best_devices):
    """Go on with the enumeration of all strategies.

    All operators but the last walk through a Gray code, in which one of them changes at a time; at each of its places
    all configs of the last operator are proposed, with the best so far as cutoff.

    Args:
        op: configs.
        digits: (n - 1,) work space.
        end: place to stop before; T_NEXT is the next one.
        count: simulations at most, and no more than the rows of ``improvements``.

    Modified in place: as ``branch``. T_NODES counts the strategies that are done.

    Returns:
        Status; if it is not DONE, an array must grow before it goes on with the same arguments.
    """
    last = op.order.shape[0] - 1
    while seen[T_NEXT] < end and seen[T_SIMULATIONS] < count:
        find_digits(op, seen[T_NEXT], digits)
        for depth in range(last):
            c = op.first[depth] + digits[depth]
            if is_accepted(st, op, op.order[depth], c):
                continue
            if seen[T_SIMULATIONS] == count:
                return DONE
            status = put(tb, rows, st, op, op.order[depth], c, NEVER)
            if status != DONE:
                return status
            note(st, seen, improvements, best_rows, best_devices)
            accept(tb, st)
        while seen[T_INNER] < op.first[last + 1] - op.first[last]:
            if seen[T_SIMULATIONS] == count:
                return DONE
            status = put(tb, rows, st, op, op.order[last], op.first[last] + seen[T_INNER], limit_of(seen))
            if status != DONE:
                return status
            note(st, seen, improvements, best_rows, best_devices)
            reject(st)
            seen[T_INNER] += 1
            seen[T_NODES] += 1
        seen[T_NEXT] += 1
        seen[T_INNER] = 0
    return DONE
