"""keep_freed_memory: the C library keeps what PyTorch frees instead of giving it back to the operating system."""

import ctypes

# Parameters of mallopt (malloc.h).
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3

ONE_GIB, TWO_GIB = 1 << 30, (1 << 31) - 1


def keep_freed_memory() -> bool:
    """Reuse freed memory of this process; False where the C library has no such choice.

    By default glibc returns large tensors to the system as soon as they are freed, and the next one is made of pages
    that the kernel clears first: sums over 64 MB took 2.3 times as long, and how long others took depended on what
    had been freed before. Whoever measures and whoever runs must choose alike.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # macOS, musl
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, ONE_GIB)) and bool(mallopt(M_TRIM_THRESHOLD, TWO_GIB))
