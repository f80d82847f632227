"""Many simulations of one problem: State's arrays with one more axis in front, one entry for each."""

from numba import njit

from sim.kernels.chain import find_row, place
from sim.kernels.delta import accept, propose
from sim.kernels.kernel import NEVER, OPTIONS, kernel
from sim.kernels.layout import DONE, State

# Written out field by field: numba cannot loop over a tuple whose entries differ in type.
_SOURCE = f"def one_of(states, b):\n    return State({', '.join(f'states.{field}[b]' for field in State._fields)})\n"
_names = {"State": State}
exec(_SOURCE, _names)
one_of = njit(**OPTIONS | {"cache": False}, inline="always")(_names["one_of"])  # cached in the kernels that call it


@kernel
def change(tb, rows, states, ch, first, last, operators, indices, is_changed):
    """Price and keep one new config in each of the states from ``first`` to ``last``.

    Args:
        ch: the space, with indices (``Choices``).
        operators: (S,) whose config changes in each state.
        indices: (S,) its new config, as the space counts them.
        is_changed: (S,) states that are 1 are passed over.

    Modified in place: ``states``; ``is_changed`` of those that were priced and kept.

    Returns:
        Status; if it is not DONE, an array must grow before the same is asked again.
    """
    for b in range(first, last):
        if is_changed[b]:
            continue
        st, i = one_of(states, b), operators[b]
        r = find_row(ch, i, indices[b])
        place(ch, r, indices[b], st.devices)
        status = propose(tb, rows, st, i, ch.row[r], ch.parts[r], NEVER, NEVER)
        if status != DONE:
            return status
        accept(tb, st)
        is_changed[b] = 1
    return DONE
