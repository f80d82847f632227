"""Random strategies, drawn and priced from nothing without leaving compiled code."""

from sim.kernels.chain import draw_config, note_best
from sim.kernels.delta import full
from sim.kernels.kernel import kernel
from sim.kernels.layout import (
    DONE,
    MAKESPAN,
    NEED_RANDOM,
    NUM_TASKS,
    OVERFLOW,
    SERIAL_SUM,
    W_BEST_COST,
    W_BEST_OVERFLOW,
    W_DRAWN,
    W_IDLE,
    W_IS_PENDING,
    W_SIMULATIONS,
    W_TASKS,
)


@kernel
def draw(
    tb,
    rows,
    st,
    ch,
    uniforms,
    count,
    config_rows,
    config_ptr,
    config_devices,
    walked,
    improvements,
    best_rows,
    best_devices,
):
    """Draw strategies, each operator's config independently, price them and keep the best.

    Args:
        ch: the space (``Choices``).
        uniforms: random numbers in [0, 1); ``walked`` knows how many are used up.
        count: strategies, at most the rows of ``improvements``.

    Modified in place: ``st``; the drawn strategy (see ``full``); ``walked`` (W_ entries), ``improvements``
    (simulations, cost, overflow of each new best), the best strategy's rows and devices.

    Returns:
        Status; if it is not DONE, an array must grow, or new random numbers must come (and W_DRAWN be 0), before the
        draws go on with the same arguments.
    """
    num, n, num_devices = st.num, tb.op.shape[0], tb.device.shape[0]
    while walked[W_SIMULATIONS] < count:
        if walked[W_IS_PENDING] == 0:
            drawn = walked[W_DRAWN]
            if drawn + n * (1 + num_devices) > uniforms.shape[0]:
                return NEED_RANDOM
            for i in range(n):
                row, parts, drawn = draw_config(ch, uniforms, drawn, i, num_devices, st.devices)
                config_rows[i] = row
                config_ptr[i + 1] = config_ptr[i] + parts
                for k in range(parts):
                    config_devices[config_ptr[i] + k] = st.devices[k]
            walked[W_DRAWN] = drawn
            walked[W_IS_PENDING] = 1
        status = full(tb, rows, st, config_rows, config_ptr, config_devices)
        if status != DONE:
            return status
        walked[W_IS_PENDING] = 0
        walked[W_SIMULATIONS] += 1
        walked[W_IDLE] += 1
        walked[W_TASKS] += num[NUM_TASKS]
        cost, overflow = num[MAKESPAN] + num[SERIAL_SUM], num[OVERFLOW]
        best_cost, best_overflow = walked[W_BEST_COST], walked[W_BEST_OVERFLOW]
        if overflow < best_overflow or (overflow == best_overflow and cost < best_cost):
            walked[W_BEST_COST], walked[W_BEST_OVERFLOW] = cost, overflow
            note_best(st, walked, improvements, best_rows, best_devices)
    return DONE
