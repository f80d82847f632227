"""What can be said of a strategy at a glance: its timeline by operator, and each config that an operator could have.

All features are float32 between 0 and LIMIT. Times are relative to an iteration, see each column.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.kernels.batch import one_of
from sim.kernels.kernel import inlined, kernel
from sim.kernels.layout import (
    BASE,
    DST,
    END,
    EXCHANGES,
    MAKESPAN,
    OVERFLOW,
    PARTS,
    READY,
    SERIAL_SUM,
    SRC,
    START,
    TRAINING,
    Ints,
    Lists,
)

Floats = NDArray[np.float32]

LIMIT = 16.0
"""No feature is greater."""

NOTHING = -1
"""In place of an operator's position: there is no operator. In place of a row: it is not known yet."""

# Columns behind a config's own features: of an operator, and of a candidate config. Both have one or two before them.
T_START, T_END, T_BACK_START, T_BACK_END, T_WAIT, T_SLACK = range(6)
TIMELINE_COLUMNS = 6
C_FROM, C_TO, C_EXCESS, C_AGREEMENT, C_MEAN_LOAD, C_PEAK_LOAD, C_PEAK_MEMORY = range(7)
ESTIMATE_COLUMNS = 7

# Entries of Facts.scale.
S_OPERATORS, S_ITERATION, S_CAPACITY, S_STEPS = 0, 1, 2, 3


class Facts(NamedTuple):
    """What is known of configs before anything is simulated.

    K classes of operators with the same configs; each has W numbers for configs: those of the space, then others that
    a strategy started with.
    """

    operator_class: Ints  # (N,)
    num_configs: Ints  # (K,) in the space
    features: Floats  # (K, W, F)
    local_time: Floats  # (K, W)
    parts: Ints  # (K, W)
    devices: Lists  # (K, W, D) of the parts, if it is in the space
    busy: Floats  # (K, W, D) time on each device
    memory: Floats  # (K, W, D) share of its memory
    edge_kind: Ints  # (E,) edges of a kind have the same transfers
    slot: Ints  # (edge kinds, 2, W) row of ``transfers`` for a producer's and for a consumer's config, or NOTHING
    transfers: Floats  # (rows, C) time of transfers by the other end's config
    sharer_ptr: Ints  # (N + 1,) operators with the same weights, the operator itself included
    sharer: Ints
    capacity: Floats  # (D,) bytes
    scale: NDArray[np.float64]  # (4,) operators, ns of an iteration of data parallelism, bytes of all devices, steps


class Views(NamedTuple):
    """What is written: one entry for each of S states."""

    configs: Floats  # (S, padded N, 1 + F + TIMELINE_COLUMNS)
    loads: Floats  # (S, padded D, 2)
    candidates: Floats  # (S, blocks, C, 2 + F + ESTIMATE_COLUMNS)
    action_mask: Floats  # (S, blocks, C)
    progress: Floats  # (S, 3)
    missing: Ints  # (S, 3) kind, direction and config of a row of transfers without which it cannot go on
    is_done: NDArray[np.int8]  # (S,)


@inlined
def limited(value):
    """A feature within its limits."""
    return np.float32(min(max(value, 0.0), LIMIT))


@inlined
def scaled(time, scale):
    """log(1 + N t), where 1 / N is an operator's average."""
    return limited(np.log1p(np.float32(scale[S_OPERATORS]) * time))


@inlined
def tell_timeline(tb, st, first, out):
    """When each operator runs, relative to the iteration. Modified in place: ``out`` from column ``first`` on."""
    block, time, n = st.block, st.time, tb.op.shape[0]
    share = 1.0 / max(1, st.num[MAKESPAN] + st.num[SERIAL_SUM])
    for i in range(n):
        parts, base, waited = block[i, PARTS], block[i, BASE], 0
        for way in range(1 + tb.flags[TRAINING]):
            begin, end = time[base, START], time[base, END]
            for t in range(base, base + parts):
                begin, end = min(begin, time[t, START]), max(end, time[t, END])
                waited += time[t, START] - time[t, READY]
            out[i, first + T_START + 2 * way] = limited(begin * share)
            out[i, first + T_END + 2 * way] = limited(end * share)
            base += parts + block[i, EXCHANGES]
        out[i, first + T_WAIT] = limited(waited * share / parts)
        out[i, first + T_SLACK] = limited(1.0 - out[i, first + T_END])
    for e in range(tb.edge.shape[0]):
        src, dst = tb.edge[e, SRC], tb.edge[e, DST]
        slack = limited(out[dst, first + T_START] - out[src, first + T_END])
        out[src, first + T_SLACK] = min(out[src, first + T_SLACK], slack)


@inlined
def add_transfers(tb, facts, choices, i, first, out, missing):
    """Sum the transfers between operator i's candidates and its neighbours' configs.

    Modified in place: ``out``, C_FROM and C_TO behind column ``first``; ``missing``, if a row is not known.

    Returns:
        Whether all rows are known.
    """
    num_configs = facts.num_configs[facts.operator_class[i]]
    num_in = tb.in_ptr[i + 1] - tb.in_ptr[i]
    for k in range(num_in + tb.out_ptr[i + 1] - tb.out_ptr[i]):
        if k < num_in:
            e, way = tb.in_ptr[i] + k, 0
            fixed = choices[tb.edge[e, SRC]]
        else:
            e, way = tb.out_edge[tb.out_ptr[i] + k - num_in], 1
            fixed = choices[tb.edge[e, DST]]
        kind, column = facts.edge_kind[e], first + (C_FROM if way == 0 else C_TO)
        row = facts.slot[kind, way, fixed]
        if row == NOTHING:
            missing[0], missing[1], missing[2] = kind, way, fixed
            return False
        for c in range(num_configs):
            out[c, column] += facts.transfers[row, c]
    return True


@inlined
def tell_loads(facts, st, own, k, first, out):
    """What candidates find on the devices. Modified in place: ``out``, the three last columns behind ``first``.

    Args:
        facts: what is known.
        st: a state.
        own: number of the operator's present config, whose load is taken away.
        k: class of the operator.
        first: column.
        out: (C, features).
    """
    num_devices, unit = facts.capacity.shape[0], np.float32(facts.scale[S_ITERATION])
    most, fullest = np.float32(0), np.float32(0)
    for d in range(num_devices):
        most = max(most, np.float32(st.load[d]) / unit - facts.busy[k, own, d])
        fullest = max(fullest, np.float32(st.memory[d]) / facts.capacity[d] - facts.memory[k, own, d])
    for c in range(facts.num_configs[k]):
        total, peak, full, parts = np.float32(0), most, fullest, facts.parts[k, c]
        for part in range(parts):
            d = facts.devices[k, c, part]
            load = np.float32(st.load[d]) / unit - facts.busy[k, own, d]
            memory = np.float32(st.memory[d]) / facts.capacity[d] - facts.memory[k, own, d]
            total += load
            peak, full = max(peak, load + facts.busy[k, c, d]), max(full, memory + facts.memory[k, c, d])
        out[c, first + C_MEAN_LOAD] = limited(total / np.float32(parts))
        out[c, first + C_PEAK_LOAD], out[c, first + C_PEAK_MEMORY] = limited(peak), limited(full)


@inlined
def tell_candidates(tb, facts, st, choices, i, out, mask, missing):
    """All configs that operator i could have. Modified in place: ``out``, ``mask``, which are zero; ``missing``.

    Returns:
        Whether all rows of transfers are known.
    """
    k, own, num_features = facts.operator_class[i], choices[i], facts.features.shape[2]
    num_configs, first = facts.num_configs[k], 2 + facts.features.shape[2]
    if not add_transfers(tb, facts, choices, i, first, out, missing):
        return False
    best = np.float32(np.inf)
    for c in range(num_configs):
        total = facts.local_time[k, c] + out[c, first + C_FROM] + out[c, first + C_TO]
        out[c, first + C_EXCESS] = total
        best = min(best, total)
    for c in range(num_configs):
        mask[c], out[c, 0] = 1, 1
        for f in range(num_features):
            out[c, 2 + f] = limited(facts.features[k, c, f])
        for column in range(first + C_FROM, first + C_TO + 1):
            out[c, column] = scaled(out[c, column], facts.scale)
        out[c, first + C_EXCESS] = scaled(out[c, first + C_EXCESS] - best, facts.scale)
    if own < num_configs:
        out[own, 1] = 1
    num_sharers = facts.sharer_ptr[i + 1] - facts.sharer_ptr[i]
    for r in range(facts.sharer_ptr[i], facts.sharer_ptr[i + 1]):
        choice = choices[facts.sharer[r]]
        if choice < num_configs:
            out[choice, first + C_AGREEMENT] += np.float32(1) / np.float32(num_sharers)
    tell_loads(facts, st, own, k, first, out)
    return True


@kernel
def observe(tb, facts, states, choices, steps, open_operators, first, last, views):
    """Write what is seen of the states from ``first`` to ``last`` that are not done.

    Args:
        facts: see ``Facts``.
        choices: (S, N) number of each operator's config.
        steps: (S,) steps of the episode that are made.
        open_operators: (S, blocks) operators whose config may be chosen now, or NOTHING.
        views: zero where a state is not done.

    Modified in place: ``views``. A state whose transfers are not all known is left undone.

    Returns:
        How many are left undone.
    """
    undone, num_features = 0, facts.features.shape[2]
    for s in range(first, last):
        if views.is_done[s]:
            continue
        st = one_of(states, s)
        is_known = True
        for b in range(open_operators.shape[1]):
            i = open_operators[s, b]
            if i != NOTHING and is_known:
                out, mask, missing = views.candidates[s, b], views.action_mask[s, b], views.missing[s]
                is_known = tell_candidates(tb, facts, st, choices[s], i, out, mask, missing)
                views.configs[s, i, 0] = 1
        if not is_known:
            views.candidates[s] = 0
            undone += 1
            continue
        configs, loads, progress = views.configs[s], views.loads[s], views.progress[s]
        for i in range(choices.shape[1]):
            k, own = facts.operator_class[i], choices[s, i]
            for f in range(num_features):
                configs[i, 1 + f] = limited(facts.features[k, own, f])
        tell_timeline(tb, st, 1 + num_features, configs)
        for d in range(facts.capacity.shape[0]):
            loads[d, 0] = limited(st.load[d] / facts.scale[S_ITERATION])
            loads[d, 1] = limited(st.memory[d] / facts.capacity[d])
        cost = st.num[MAKESPAN] + st.num[SERIAL_SUM]
        progress[0] = limited(steps[s] / facts.scale[S_STEPS])
        progress[1] = limited(np.log1p(cost / facts.scale[S_ITERATION]))
        progress[2] = limited(st.num[OVERFLOW] / facts.scale[S_CAPACITY])
        views.is_done[s] = 1
    return undone
