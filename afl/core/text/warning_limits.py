"""Limits for warnings that a loop may repeat without end: the first of each kind are logged, the others are counted."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from threading import Lock
from typing import Final

from afl.core.clock import MonotonicClock, monotonic_s

#: Lines of one kind in one interval. More say nothing new.
MAX_LINES: Final = 10
INTERVAL_S: Final = 60.0
#: The most kinds that are counted apart. Facets and topics name them, and these names come from outside.
MAX_KINDS: Final = 1_000


class LimitedLog:
    """A logger that writes at most MAX_LINES lines of each kind in INTERVAL_S, and then the number of lines left out.

    Threads may share it. All kinds beyond MAX_KINDS count as one.
    """

    def __init__(
        self,
        logger: logging.Logger,
        *,
        max_lines: int = MAX_LINES,
        interval_s: float = INTERVAL_S,
        monotonic_s: MonotonicClock = monotonic_s,
    ) -> None:
        self._logger = logger
        self._max_lines = max_lines
        self._interval_s = interval_s
        self._monotonic_s = monotonic_s
        self._lock = Lock()
        self._kinds: dict[str, _Kind] = {}

    def log(
        self,
        level: int,
        kind: str,
        message: str,
        *arguments: object,
        exc_info: BaseException | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """Log a line, unless its kind has reached the limit of this interval; `kind` names the lines left out.

        `extra` are fields of the record, as those of `Logger.log`.
        """
        if not self._logger.isEnabledFor(level):
            return
        left_out = self._enter(kind)
        if left_out is None:
            return
        if left_out:
            self._logger.log(level, "%s: %d more like it were not logged in the time before", kind, left_out)
        self._logger.log(level, message, *arguments, exc_info=exc_info, extra=extra)

    def warning(self, kind: str, message: str, *arguments: object, extra: Mapping[str, object] | None = None) -> None:
        self.log(logging.WARNING, kind, message, *arguments, extra=extra)

    def error(
        self,
        kind: str,
        message: str,
        *arguments: object,
        exc_info: BaseException | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        self.log(logging.ERROR, kind, message, *arguments, exc_info=exc_info, extra=extra)

    def _enter(self, kind: str) -> int | None:
        """Return how many lines were left out before this one, which is to be logged; None when it is left out too."""
        now_s = self._monotonic_s()
        with self._lock:
            name = kind if kind in self._kinds or len(self._kinds) < MAX_KINDS else ""
            known = self._kinds.get(name)
            if known is None or now_s >= known.until_s:
                left_out = 0 if known is None else known.count - self._max_lines
                self._kinds[name] = known = _Kind(now_s + self._interval_s)
                known.count = 1
                return max(0, left_out)
            known.count += 1
            return 0 if known.count <= self._max_lines else None


class _Kind:
    """The count of one kind in its interval."""

    __slots__ = ("count", "until_s")

    def __init__(self, until_s: float) -> None:
        self.until_s = until_s
        self.count = 0
