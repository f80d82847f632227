"""The arrays of one simulation: how they start, and how they grow."""

from typing import Any

import numpy as np

from sim.kernels.layout import (
    BLOCK_COLUMNS,
    MAX_STRETCHES,
    NEED_ARENA,
    NEED_TASKS,
    NUM_SCALARS,
    STRETCH_COLUMNS,
    TASK_COLUMNS,
    TIME_COLUMNS,
    State,
    Tables,
)

INITIAL_SLOTS = 4096
TASK_FIELDS = ("task", "time", "new_time", "order", "new_order", "heap_time", "heap_key", "heap_task")
"""Fields with an entry for each task slot."""

INT32_TASK_FIELDS = ("order", "new_order", "heap_task")
COLUMNS = {"task": TASK_COLUMNS, "time": TIME_COLUMNS, "new_time": TIME_COLUMNS}


def empty_state(tables: Tables) -> State:
    """Arrays of a modest size, with nothing in them."""
    num_devices = len(tables.device)
    num_blocks = len(tables.op) + len(tables.edge) + len(tables.group)
    num_resources = num_devices + len(tables.bandwidth)
    int64, int32 = np.int64, np.int32
    arrays: dict[str, Any] = {
        "block": np.zeros((num_blocks, BLOCK_COLUMNS), int64),
        "saved": np.zeros((num_blocks, BLOCK_COLUMNS), int64),  # a proposal may replace everything
        "saved_id": np.zeros(num_blocks + 2 * len(tables.edge), int64),  # and every edge has two ends
        "work": np.zeros((len(tables.group) + 1, num_devices), int64),
        "reach": np.zeros((num_blocks, 2), int64),
        "last": np.zeros((num_blocks, 2), int64),
        "forced": np.zeros(num_blocks, int64),
        "role": np.zeros(num_blocks, int64),
        "trial": np.zeros((len(tables.op), 2), int64),
        "stretch": np.zeros((MAX_STRETCHES, STRETCH_COLUMNS), int64),
        "arena": np.zeros(16 * INITIAL_SLOTS, int32),
        "task_free": np.zeros(64, int64),
        "seg_free": np.zeros(64, int64),
        "devices": np.zeros(num_devices, int32),
        "scratch": np.zeros(INITIAL_SLOTS + 16 * num_devices, int32),
        "need": np.zeros((8, num_devices + 1), int64),
        "meet": np.zeros((8, num_devices + 1), int64),
        "span": np.zeros((4, 6), int64),
        "box": np.zeros(8, int64),
        "shards": np.zeros(4, int64),
        "num": np.zeros(NUM_SCALARS, int64),
        "real": np.zeros(2, np.float64),
    }
    for field in ("memory", "new_memory", "gain", "row"):
        arrays[field] = np.zeros(num_devices, int64)
    for field in ("load", "new_load", "rest", "free_at", "stamp", "slot"):
        arrays[field] = np.zeros(num_resources, int64)
    for field in TASK_FIELDS:
        shape = (INITIAL_SLOTS, COLUMNS[field]) if field in COLUMNS else (INITIAL_SLOTS,)
        arrays[field] = np.zeros(shape, int32 if field in INT32_TASK_FIELDS else int64)
    return State(**arrays)


def copied(state: State) -> State:
    """An independent copy."""
    arrays: Any = [array.copy() for array in state]
    return State(*arrays)


def grown(state: State, status: int, axis: int = 0) -> State:
    """The state with twice the room where a kernel's ``status`` says that it found too little.

    Args:
        state: of one simulation, or of several behind each other.
        status: of the kernel.
        axis: along which there is too little; 1 if there are several.
    """
    fields = {NEED_TASKS: TASK_FIELDS, NEED_ARENA: ("arena",)}.get(status, ("scratch",))
    doubled: dict[str, Any] = {}
    for field in fields:
        array = getattr(state, field)
        doubled[field] = np.concatenate([array, np.zeros_like(array)], axis=axis)
    return state._replace(**doubled)
