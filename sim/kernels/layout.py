"""Layout of the kernels' arrays: what each column and scalar means.

All kernels take ``tb`` (Tables), ``rows`` (numbers by operator and degrees, see DEGREE) and ``st`` (State).

Times are int64 nanoseconds, sizes int64 bytes. A *block* is all tasks of one operator, of one edge of the operator
graph or of one bucket of weight groups, in this order: block b is operator b, edge b - n or bucket b - n - E. A block
owns a run of consecutive task slots and a segment of the int32 arena with its lists; both change when its configs do.
What is called a group below is a bucket; weight groups are its weights.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Lists = NDArray[np.int32]
Floats = NDArray[np.float64]

# Columns of Tables.op.
SIZE = 0  # four extents, 1 where the operator has fewer dimensions
X_ACROSS = 4  # four flags: parts that differ only along these dimensions exchange
X_KIND = 8  # 0 none, 1 all-reduce, 2 all-gather
X_ROUNDS = 9
GROUP = 10  # bucket that its weight group is in, or -1
MEMBER = 11  # rank of the operator in that bucket
OP_COLUMNS = 12

ALL_REDUCE, ALL_GATHER = 1, 2

# Columns of Tables.edge; from AXIS on, seven columns for each of four axes.
SRC, DST, INPUT, HALO, AXIS = 0, 1, 2, 3, 4
A_SIZE, A_SRC_DIM, A_DIM, A_STRIDE, A_DIVISOR, A_PAD, A_KERNEL = 0, 1, 2, 3, 4, 5, 6
AXIS_COLUMNS = 7
EDGE_COLUMNS = AXIS + 4 * AXIS_COLUMNS

# Columns of Tables.group, Tables.weight and Tables.device; entries of Tables.flags.
WEIGHTS, WEIGHTS_END = 0, 1
UNITS, UNIT_BYTES = 0, 1
KIND, NODE, CAPACITY = 0, 1, 2
TRAINING, SCHEME, OVERLAP, WHOLE_COPIES, SPLIT_COPIES, GATHERS = 0, 1, 2, 3, 4, 5
IS_MERGED = 6  # pieces of a bucket that the same devices hold are one shard
RING, PARAMETER_SERVER, HALVING_DOUBLING, HIERARCHICAL, BYTEPS, ZERO = 0, 1, 2, 3, 4, 5

# Columns of the rows: one row for each (operator shape, degrees). After TIMES: forward, backward per device kind.
DEGREE = 0  # four degrees
SAVED, MESSAGE = 4, 5
# Parts along the dimension that cuts the weights (1 if none does), neighbouring parts with the same index along it
# (all if none), and the weight units of an index.
CUTS, INNER, LENGTH, TIMES = 6, 7, 8, 9


class Tables(NamedTuple):
    """What never changes while one problem is simulated."""

    op: Ints  # (n, OP_COLUMNS)
    in_ptr: Ints  # (n + 1,) edges into operator i are in_ptr[i] .. in_ptr[i + 1]
    out_ptr: Ints  # (n + 1,)
    out_edge: Ints  # (E,)
    edge: Ints  # (E, EDGE_COLUMNS)
    group: Ints  # (G, 2) weights of bucket g are those from WEIGHTS to WEIGHTS_END
    member_ptr: Ints  # (G + 1,)
    member: Ints  # operators of each bucket, weight by weight
    weight: Ints  # (W, 2)
    sharer_ptr: Ints  # (W + 1,) operators that share weight w are member[sharer_ptr[w] : sharer_ptr[w + 1]]
    device: Ints  # (D, 3)
    update: Floats  # (kinds, 2) launch ns, ns per byte
    bandwidth: Floats  # (C,) bytes per ns of each connection
    route_ptr: Ints  # (D * D + 1,)
    route: Lists  # each device; then the resources of each route: D + connection, and devices that it occupies
    route_ns: Ints  # (D * D,) latency
    route_bandwidth: Floats  # (D * D,) of the narrowest connection
    reduce_ns_per_byte: float  # of collectives
    flags: Ints  # (7,)
    ahead: Lists  # (G + 2, B) 1 if a block's work on compute devices comes before bucket g is synchronised; for
    # row G the operators, for row G + 1 all blocks


# Columns of State.block.
BASE, TASKS, SEG, TASK_CLASS, SEG_CLASS, COMM, SERIAL, PARTS, EXCHANGES, ROW, TAIL, UNREAD = range(12)
BLOCK_COLUMNS = 12

# Entries of State.num.
TASK_TOP, SEG_TOP, NUM_TASKS, MAKESPAN, NEW_TASKS, NEW_MAKESPAN, CUT_POSITION, NUM_SAVED, STAMP, IS_CUTOFF = range(10)
RING_SIZE, RING_LATENCY, POPPED, NUM_BUILT = 10, 11, 12, 13
SERIAL_SUM, NEW_SERIAL_SUM, OVERFLOW, NEW_OVERFLOW = 14, 15, 16, 17
NUM_NODES, WIDTH, OUTER_LATENCY = 18, 19, 20  # of the hierarchy made last; RING_LATENCY is the inner one
NUM_NEAR = 21  # blocks whose predecessors the proposal changes, in saved_id: the replaced ones, then neighbours
EPOCH = 22  # number of the simulation under way
NUM_STRETCHES = 23  # of the proposal, in State.stretch
SHIFTED = 24  # tasks in them
NUM_SCALARS = 25

# Columns of State.task: what a task is, in one cache line.
EXE, KEY, OWNER, NUM_IN = 0, 1, 2, 3  # duration, key, block, predecessors
RES, RES_LEN = 4, 5  # where its resources start, in Tables.route or ~ in the arena, and how many
BYTES = 6  # sent, summed over participants
NEXT = 7  # in the queue, the task behind it that is ready at the same time
TASK_COLUMNS = 8

# Columns of State.time and State.new_time. PLACE is of the accepted timeline alone: where in its order the task is;
# WAIT of the proposal's: predecessors that have not ended, and in its upper half the number of the simulation that set
# it.
READY, START, END, WAIT, PLACE = 0, 1, 2, 3, 3
TIME_COLUMNS = 4
WAIT_BITS = 32

# Columns of State.stretch (sim.kernels.stretch).
FIRST_POSITION, FIRST_PLACE, NUM_SHIFTED, SHIFT = 0, 1, 2, 3
STRETCH_COLUMNS, MAX_STRETCHES = 4, 64

# Columns of State.trial.
PAUSE, REST = 0, 1

# Roles of a block in a proposal, below its mark in State.role.
WATCHED, NEAR, REPLACED, ROLES = 1, 2, 3, 4

# What a kernel says when an array is too small; the caller enlarges it and tries again.
DONE, NEED_TASKS, NEED_ARENA, NEED_SCRATCH = 0, 1, 2, 3
NEED_RANDOM = 4  # a walk has used up its random numbers


class State(NamedTuple):
    """What one simulation knows: blocks, tasks, the accepted timeline and that of the current proposal."""

    block: Ints  # (B, BLOCK_COLUMNS)
    saved: Ints  # (S, BLOCK_COLUMNS) blocks that the current proposal replaced
    saved_id: Ints  # (S,)
    arena: Lists
    task: Ints  # (slots, TASK_COLUMNS)
    time: Ints  # (slots, 4) accepted timeline
    new_time: Ints  # (slots, 4) timeline of the proposal
    order: Lists  # accepted tasks in the order they were dequeued
    new_order: Lists
    heap_time: Ints
    heap_key: Ints
    heap_task: Lists
    free_at: Ints  # (D + C,) end of the last task on each resource
    memory: Ints  # (D,)
    new_memory: Ints  # (D,)
    load: Ints  # (D + C,) sum of the execution times on each resource
    new_load: Ints  # (D + C,)
    work: Ints  # (G + 1, D) execution times on compute devices by row of Tables.ahead
    gain: Ints  # (D,) what the proposal adds to the work
    row: Ints  # (D,) row of Tables.ahead that bounds the accepted makespan best
    rest: Ints  # (D + C,) least time from now to the end of the iteration, were the resource never idle
    reach: Ints  # (B, 2) last accepted position of what a block's forward and backward tasks are waited for by
    last: Ints  # (B, 2) last accepted position of a block's forward and backward tasks
    forced: Ints  # (B,) marks of blocks whose tasks are waited for by new ones
    role: Ints  # (B,) ROLES * mark + role
    trial: Ints  # (n, 2) for how many proposals of an operator no stretches are looked for
    stretch: Ints  # (MAX_STRETCHES, STRETCH_COLUMNS) stretches of the accepted timeline that the proposal only shifts
    task_free: Ints  # free runs of task slots by size class
    seg_free: Ints  # free arena segments by size class
    devices: Lists  # of the proposed config
    scratch: Lists  # growing work space
    stamp: Ints  # (D + C,) marks
    slot: Ints  # (D + C,) what is known about a marked device or connection
    need: Ints  # (8, degrees) intervals that the consumer's indices need along each axis
    meet: Ints  # (8, degrees) ranges of them that the producer's indices meet
    span: Ints  # (4, 6) see sim.kernels.edges
    box: Ints  # (8,) low and high ends of a box
    shards: Ints  # (4,) where the shards of a bucket are in the scratch space
    num: Ints  # (NUM_SCALARS,)
    real: Floats  # (2,) bandwidth of the ring made last, or of a hierarchy, inner and outer


# Variants of a space, as Choices.variant.
BLOCK, ALIGNED, FREE, INJECTIVE = 0, 1, 2, 3


class Choices(NamedTuple):
    """The legal configs of each operator: rows that differ in degrees, nesting order or stride."""

    first: Ints  # (n + 1,) rows of operator i are first[i] .. first[i + 1]
    num_configs: Ints  # (n,) or degrees to choose from, if configs have no indices
    offset: Ints  # (R,) index of the row's first config, within its operator
    row: Ints  # (R,) row of numbers of its degrees
    parts: Ints  # (R,)
    stride: Ints  # (R,) distance of neighbouring parts' devices
    rank: Ints  # (R,) where the row's ranks start
    ranks: Lists  # place of each part along the devices
    variant: Ints  # (1,)


class Proposals(NamedTuple):
    """What a walk draws configs from; all empty where it draws them from the whole space alike."""

    first: Ints  # (n + 1,) entries of operator i are first[i] .. first[i + 1], one for each index of the space
    cumulative: Floats  # sums of the probabilities within each operator
    log_odds: Floats  # logarithms of the probabilities, or zeros for a walk without the Hastings correction
    least: Floats  # (n,) what stands for the entry of a present config that has no index
    present: Ints  # (n,) index of each operator's present config, or -1


# Entries of what a walk keeps between calls.
W_SIMULATIONS, W_CUTOFFS, W_IDLE, W_IMPROVEMENTS, W_BEST_COST, W_BEST_OVERFLOW = 0, 1, 2, 3, 4, 5
W_IS_PENDING, W_OPERATOR, W_ROW, W_PARTS, W_HIGHEST, W_TASKS, W_DRAWN, W_INDEX = 6, 7, 8, 9, 10, 11, 12, 13
WALK_ENTRIES = 14
