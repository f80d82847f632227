"""The queue of a simulation: a binary heap of tasks by (time, key)."""

from sim.kernels.kernel import inlined


@inlined
def push(heap_time, heap_key, heap_task, size, time, key, task):
    """Enqueue a task by (time, key) in a binary heap; returns the new size. Modified in place: the heap."""
    k = size
    while k > 0:
        parent = (k - 1) >> 1
        if heap_time[parent] < time or (heap_time[parent] == time and heap_key[parent] < key):
            break
        heap_time[k], heap_key[k], heap_task[k] = heap_time[parent], heap_key[parent], heap_task[parent]
        k = parent
    heap_time[k], heap_key[k], heap_task[k] = time, key, task
    return size + 1


@inlined
def sift(heap_time, heap_key, heap_task, size, time, key, task):
    """Put a task in the first one's place. Modified in place: the heap."""
    k = 0
    while True:
        child = 2 * k + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (
            heap_time[right] < heap_time[child]
            or (heap_time[right] == heap_time[child] and heap_key[right] < heap_key[child])
        ):
            child = right
        if time < heap_time[child] or (time == heap_time[child] and key < heap_key[child]):
            break
        heap_time[k], heap_key[k], heap_task[k] = heap_time[child], heap_key[child], heap_task[child]
        k = child
    heap_time[k], heap_key[k], heap_task[k] = time, key, task
