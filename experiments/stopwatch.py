"""Stopwatch: how long some methods take, each without those of them that it calls."""

import functools
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any


class Stopwatch:
    """While it is entered, methods of classes are timed in the thread that calls them.

    Args:
        methods: for each name under which time is counted, a class and the name of its method.

    Attributes:
        seconds: wall-clock time by name; of nested calls, only the innermost method's clock runs.
    """

    def __init__(self, methods: Mapping[str, tuple[type, str]]) -> None:
        self.seconds = dict.fromkeys(methods, 0.0)
        self._methods = methods
        self._originals: list[tuple[type, str, Any]] = []
        self._running: list[str] = []
        self._since = 0.0

    def __enter__(self) -> "Stopwatch":
        for name, (kind, method) in self._methods.items():
            original = getattr(kind, method)
            self._originals.append((kind, method, original))
            setattr(kind, method, self._timed(name, original))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        while self._originals:
            setattr(*self._originals.pop())

    def _timed(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def timed(*arguments: Any, **keywords: Any) -> Any:
            self._switch()
            self._running.append(name)
            try:
                return original(*arguments, **keywords)
            finally:
                self._switch()
                self._running.pop()

        return timed

    def _switch(self) -> None:
        """Credit the time since the last switch to whoever was running."""
        now = time.perf_counter()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now
