"""A Metropolis chain that never leaves compiled code (FlexFlow, section 6)."""

import math

import numpy as np

from sim.kernels.delta import accept, propose, reject
from sim.kernels.kernel import NEVER, kernel
from sim.kernels.layout import (
    ALIGNED,
    BLOCK,
    DONE,
    FREE,
    IS_CUTOFF,
    MAKESPAN,
    NEED_RANDOM,
    NEW_MAKESPAN,
    NEW_OVERFLOW,
    NEW_SERIAL_SUM,
    OVERFLOW,
    PARTS,
    POPPED,
    ROW,
    SEG,
    SERIAL_SUM,
    W_BEST_COST,
    W_BEST_OVERFLOW,
    W_CUTOFFS,
    W_DRAWN,
    W_HIGHEST,
    W_IDLE,
    W_IMPROVEMENTS,
    W_INDEX,
    W_IS_PENDING,
    W_OPERATOR,
    W_PARTS,
    W_ROW,
    W_SIMULATIONS,
    W_TASKS,
)


@kernel
def find_row(ch, i, index):
    """The row of the space that holds operator i's config of a given index."""
    low, high = ch.first[i], ch.first[i + 1]
    while high - low > 1:
        middle = (low + high) // 2
        if ch.offset[middle] <= index:
            low = middle
        else:
            high = middle
    return low


@kernel
def place(ch, r, index, devices):
    """Write the devices of the config of a given index, which row r holds; spaces with indices only.

    Modified in place: ``devices``.
    """
    stride, parts, start = ch.stride[r], ch.parts[r], index - ch.offset[r]
    if ch.variant[0] == ALIGNED:
        start = start // stride * stride * parts + start % stride
    for k in range(parts):
        devices[k] = start + stride * ch.ranks[ch.rank[r] + k]


@kernel
def draw_config(ch, uniforms, drawn, i, num_devices, devices):
    """Draw a config of operator i: uniform over a space with indices, else degrees first, then devices.

    Args:
        uniforms: random numbers in [0, 1), used from ``drawn`` on: one, and where configs have no indices one for
            each part.

    Modified in place: ``devices``.

    Returns:
        The row of its degrees, its number of parts, and how many random numbers are used up.
    """
    index, variant = int(uniforms[drawn] * ch.num_configs[i]), ch.variant[0]
    drawn += 1
    r = find_row(ch, i, index)
    parts = ch.parts[r]
    if variant == FREE:
        for k in range(parts):
            devices[k] = int(uniforms[drawn + k] * num_devices)
        drawn += parts
    elif variant in (BLOCK, ALIGNED):
        place(ch, r, index, devices)
    else:
        # The first draws of a shuffle; ``devices`` has room for all of them.
        for k in range(num_devices):
            devices[k] = k
        for k in range(parts):
            other = k + int(uniforms[drawn + k] * (num_devices - k))
            devices[k], devices[other] = devices[other], devices[k]
        drawn += parts
    return ch.row[r], parts, drawn


@kernel
def find_entry(proposals, i, uniform):
    """The index of the config of operator i that a random number in [0, 1) stands for."""
    low, high = proposals.first[i], proposals.first[i + 1] - 1
    while low < high:
        middle = (low + high) // 2
        if proposals.cumulative[middle] > uniform:
            high = middle
        else:
            low = middle + 1
    return low - proposals.first[i]


@kernel
def correction(proposals, i, index):
    """Logarithm of the odds that operator i's present config is proposed, against those of another index."""
    first, present = proposals.first[i], proposals.present[i]
    odds = proposals.least[i] if present < 0 else proposals.log_odds[first + present]
    return odds - proposals.log_odds[first + index]


@kernel
def note_best(st, walked, improvements, best_rows, best_devices):
    """Keep the accepted strategy as the best. Modified in place: all but ``st``."""
    number = walked[W_IMPROVEMENTS]
    improvements[number, 0] = walked[W_SIMULATIONS]
    improvements[number, 1] = walked[W_BEST_COST]
    improvements[number, 2] = walked[W_BEST_OVERFLOW]
    walked[W_IMPROVEMENTS], walked[W_IDLE] = number + 1, 0
    for i in range(best_rows.shape[0]):
        best_rows[i] = st.block[i, ROW]
        for k in range(st.block[i, PARTS]):
            best_devices[i, k] = st.arena[st.block[i, SEG] + k]


@kernel
def walk(
    tb,
    rows,
    st,
    ch,
    proposals,
    uniforms,
    scale,
    count,
    patience,
    has_cutoff,
    walked,
    improvements,
    best_rows,
    best_devices,
):
    """Make up to ``count`` proposals, accepting each with probability min(1, exp((cost - cost*) / scale) q / q*).

    q* is the probability of the proposal, q that of the way back; they are equal if ``proposals`` is empty. The uniform
    number is drawn before pricing, so that pricing may stop when the proposal is sure to be rejected. A proposal that
    overflows memory more is rejected, one that overflows less is accepted.

    Args:
        ch: the space (``Choices``).
        proposals: probabilities of the configs (``Proposals``).
        uniforms: random numbers in [0, 1); ``walked`` knows how many are used up.
        scale: temperature in ns.
        count: proposals, at most the rows of ``improvements``.
        patience: stop after so many proposals without a new best.
        has_cutoff: whether pricing may stop early; the walk is the same.

    Modified in place: ``st``; the present configs of ``proposals``; ``walked`` (W_ entries), ``improvements``
    (simulations, cost, overflow of each new best), the best strategy's rows and devices.

    Returns:
        Status; if it is not DONE, an array must grow, or new random numbers must come (and W_DRAWN be 0), before the
        walk goes on with the same arguments.
    """
    num, n, num_devices = st.num, tb.op.shape[0], tb.device.shape[0]
    is_guided = proposals.cumulative.shape[0] > 0
    while walked[W_SIMULATIONS] < count and walked[W_IDLE] < patience:
        cost, overflow = num[MAKESPAN] + num[SERIAL_SUM], num[OVERFLOW]
        if walked[W_IS_PENDING] == 0:
            drawn = walked[W_DRAWN]
            if drawn + 3 + num_devices > uniforms.shape[0]:
                return NEED_RANDOM
            i = int(uniforms[drawn] * n)
            walked[W_OPERATOR] = i
            allowance = -math.log(1.0 - uniforms[drawn + 1])
            if is_guided:
                index = find_entry(proposals, i, uniforms[drawn + 2])
                allowance += correction(proposals, i, index)
                r = find_row(ch, i, index)
                place(ch, r, index, st.devices)
                row, parts, walked[W_DRAWN], walked[W_INDEX] = ch.row[r], ch.parts[r], drawn + 3, index
            else:
                row, parts, walked[W_DRAWN] = draw_config(ch, uniforms, drawn + 2, i, num_devices, st.devices)
            walked[W_HIGHEST] = cost + np.int64(math.floor(allowance * scale))
            walked[W_ROW], walked[W_PARTS] = row, parts
            walked[W_IS_PENDING] = 1
        highest = walked[W_HIGHEST]
        cutoff, limit = (highest, overflow) if has_cutoff else (NEVER, -1)
        status = propose(tb, rows, st, walked[W_OPERATOR], walked[W_ROW], walked[W_PARTS], cutoff, limit)
        if status != DONE:
            return status
        walked[W_IS_PENDING] = 0
        walked[W_SIMULATIONS] += 1
        walked[W_IDLE] += 1
        walked[W_CUTOFFS] += num[IS_CUTOFF]
        walked[W_TASKS] += num[POPPED]
        new_cost, new_overflow = num[NEW_MAKESPAN] + num[NEW_SERIAL_SUM], num[NEW_OVERFLOW]
        is_good = new_overflow < overflow or (new_overflow == overflow and new_cost <= highest)
        if is_good and num[IS_CUTOFF] == 0:
            accept(tb, st)
            if is_guided:
                proposals.present[walked[W_OPERATOR]] = walked[W_INDEX]
            best_cost, best_overflow = walked[W_BEST_COST], walked[W_BEST_OVERFLOW]
            if new_overflow < best_overflow or (new_overflow == best_overflow and new_cost < best_cost):
                walked[W_BEST_COST], walked[W_BEST_OVERFLOW] = new_cost, new_overflow
                note_best(st, walked, improvements, best_rows, best_devices)
        else:
            reject(st)
    return DONE
