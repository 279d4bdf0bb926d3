"""Tries of handlers that failed and are made again: what an agent announces of them while they wait."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Final

from afl.core.clock import epoch_ms
from afl_stream.presence.records import MOST_FAILED_TRIES, FailedTry
from afl_stream.wire.messages import Event

#: As much of an error's text as is announced.
_MOST_CHARS: Final = 300


class FailedTries:
    """The last failed try of each event that is tried again; the latest of many events. Any thread may use it."""

    def __init__(self, wall_ms: Callable[[], int] = epoch_ms) -> None:
        self._wall_ms = wall_ms
        self._lock = Lock()
        self._latest: dict[str, FailedTry] = {}

    def failed(self, event: Event, tries: int, error: str, wait_s: float) -> None:
        """Note a failed try, its error's text without sensitive values, and the wait for the next try."""
        now_ms = self._wall_ms()
        found = FailedTry(
            step_id=event.step_id,
            attempt=event.attempt,
            tries=tries,
            error=error[:_MOST_CHARS],
            failed_at=now_ms,
            next_at=now_ms + int(wait_s * 1_000),
        )
        with self._lock:
            self._latest.pop(event.step_id, None)
            self._latest[event.step_id] = found
            if len(self._latest) > MOST_FAILED_TRIES:
                del self._latest[next(iter(self._latest))]

    def ended(self, step_id: str | None) -> None:
        """Forget an event that is answered, or is another agent's now."""
        if step_id is not None and self._latest:
            with self._lock:
                self._latest.pop(step_id, None)

    def snapshot(self) -> tuple[FailedTry, ...]:
        """Return those of now, the latest last."""
        with self._lock:
            return tuple(self._latest.values())
