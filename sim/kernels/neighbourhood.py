"""All candidate configs of one operator, or of several that take the same, priced without leaving compiled code."""

import numpy as np
from numba import njit

from sim.kernels.delta import accept, propose, reject
from sim.kernels.joint import accept_together, propose_together
from sim.kernels.layout import (
    DONE,
    IS_CUTOFF,
    MAKESPAN,
    NEW_MAKESPAN,
    NEW_OVERFLOW,
    NEW_SERIAL_SUM,
    OVERFLOW,
    POPPED,
    SERIAL_SUM,
)

# Entries of what a scan keeps between calls.
S_NEXT, S_SIMULATIONS, S_CUTOFFS, S_TASKS, S_IMPROVEMENTS = 0, 1, 2, 3, 4
SCAN_ENTRIES = 5


@njit(cache=True, nogil=True)
def scan(
    tb, rows, st, members, config_rows, config_parts, config_devices, visits, highest, count, scanned, improvements
):
    """Price candidates one after the other and keep each that beats the best so far, which is the cutoff.

    A strategy that overflows memory less is better; between two that overflow alike, the faster one is.

    Args:
        members: (k,) operators; candidate c gives all of them the same degrees and devices.
        config_rows: (k, C) rows of the candidates' degrees.
        config_parts: (C,) their numbers of parts.
        config_devices: (C, D) their devices.
        visits: (V,) candidates in the order of pricing.
        highest: cost above which a strategy is not kept, even if it is better, once the memory suffices.
        count: candidates to price at most, and no more than the rows of ``improvements``.

    Modified in place: ``st``, which ends with the best; ``scanned`` (S_ entries), ``improvements`` (simulations, cost,
    overflow of each).

    Returns:
        Status; if it is not DONE, an array must grow before the scan goes on with the same arguments.
    """
    num, k = st.num, members.shape[0]
    together_parts = np.empty(k, np.int64)
    together_rows, together_devices = np.empty(k, np.int64), np.empty((k, config_devices.shape[1]), np.int32)
    while scanned[S_NEXT] < visits.shape[0] and scanned[S_SIMULATIONS] < count:
        c = visits[scanned[S_NEXT]]
        cost, overflow = num[MAKESPAN] + num[SERIAL_SUM], num[OVERFLOW]
        cutoff = min(cost - 1, highest) if overflow == 0 else cost - 1
        if k == 1:
            for part in range(config_parts[c]):
                st.devices[part] = config_devices[c, part]
            status = propose(tb, rows, st, members[0], config_rows[0, c], config_parts[c], cutoff, overflow)
        else:
            together_rows[:], together_parts[:] = config_rows[:, c], config_parts[c]
            together_devices[:] = config_devices[c]
            status = propose_together(
                tb, rows, st, members, together_rows, together_parts, together_devices, cutoff, overflow
            )
        if status != DONE:
            return status
        scanned[S_NEXT] += 1
        scanned[S_SIMULATIONS] += 1
        scanned[S_CUTOFFS] += num[IS_CUTOFF]
        scanned[S_TASKS] += num[POPPED]
        new_cost, new_overflow = num[NEW_MAKESPAN] + num[NEW_SERIAL_SUM], num[NEW_OVERFLOW]
        if num[IS_CUTOFF] == 0 and (new_overflow < overflow or (new_overflow == overflow and new_cost < cost)):
            if k == 1:
                accept(tb, st)
            else:
                accept_together(tb, rows, st)
            number = scanned[S_IMPROVEMENTS]
            improvements[number, 0] = scanned[S_SIMULATIONS]
            improvements[number, 1] = new_cost
            improvements[number, 2] = new_overflow
            scanned[S_IMPROVEMENTS] = number + 1
        else:
            reject(st)
    return DONE
