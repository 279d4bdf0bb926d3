"""An agent's lines about events: one for each end of a handler, with its outcome and how long it took."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from afl.core.clock import MonotonicClock
from afl.core.sensitive import NO_PATTERNS, SensitivePatterns
from afl_stream.agent.work import Work
from afl_stream.wire.messages import Event

log: Final = logging.getLogger("afl_stream.agent.events")


class EventLines:
    """The lines of one member. `is_on` says whether anybody reads them; `look` asks, once a turn. Threads share it."""

    __slots__ = ("_clock_s", "_group", "_patterns", "_with_values", "is_on")

    def __init__(
        self,
        group: str,
        clock_s: MonotonicClock,
        *,
        with_values: bool,
        patterns: SensitivePatterns = NO_PATTERNS,
    ) -> None:
        """`patterns` are those of the settings that name sensitive values."""
        self._group = group
        self._patterns = patterns
        self._clock_s = clock_s
        self._with_values = with_values
        self.is_on = False

    def look(self) -> None:
        """Ask whether the lines are written."""
        self.is_on = log.isEnabledFor(logging.INFO)

    def timed(self, work: Work, handler: Callable[..., Any]) -> Callable[..., Any]:
        """Return the handler such that its beginning is noted."""

        def run(*arguments: object) -> Any:
            work.began_s = self._clock_s()
            return handler(*arguments)

        return run

    def completed(self, work: Work, event: Event, result: Mapping[str, object]) -> None:
        """Write that an event was answered with a result."""
        values = self._values(work, event, result) if self._with_values else {}
        self._write(work, event, "completed", "", values)

    def failed(self, work: Work, event: Event, error_type: str, message: str) -> None:
        """Write that an event was answered with a failure."""
        values = self._values(work, event) if self._with_values else {}
        self._write(work, event, "failed", f": {error_type}: {message}", {"error_type": error_type, **values})

    def retried(self, work: Work, event: Event, error_type: str, wait_s: float) -> None:
        """Write that a handler has failed and is tried again."""
        fields = {"error_type": error_type, "wait_ms": round(wait_s * 1000)}
        self._write(work, event, "retried", f": {error_type}, next try in {wait_s:.1f} s", fields)

    def deferred(self, work: Work, event: Event) -> None:
        """Write that the answer to an event comes later, from anyone."""
        self._write(work, event, "deferred", "", {})

    def _values(self, work: Work, event: Event, result: Mapping[str, object] | None = None) -> dict[str, object]:
        """Return payload and result as a log may have them."""
        # Needed where values are logged, and nowhere else in an agent.
        from afl_stream.sensitive.marks import RETURNS_HEADER, marked_names
        from afl_stream.sensitive.redaction import Redaction

        shown, headers = Redaction(self._patterns), work.record.headers
        values: dict[str, object] = {"payload": shown.of(event.event_type, event.payload, marked_names(headers))}
        if result is not None:
            values["result"] = shown.of(event.event_type, result, marked_names(headers, RETURNS_HEADER))
        return values

    def _write(self, work: Work, event: Event, outcome: str, more: str, fields: Mapping[str, object]) -> None:
        took_ms = None if work.began_s is None else round((self._clock_s() - work.began_s) * 1000, 3)
        took = "" if took_ms is None else f" after {took_ms / 1000:.3f} s"
        text = "%s step %s attempt %d: %s%s%s"
        log.info(
            text,
            event.event_type,
            event.step_id,
            event.attempt,
            outcome,
            took,
            more,
            extra={
                "workflow_id": event.workflow_id,
                "step_id": event.step_id,
                "facet": event.event_type,
                "attempt": event.attempt,
                "event_id": event.id,
                "outcome": outcome,
                "duration_ms": took_ms,
                "tries": work.all_tries,
                "group": self._group,
                "topic": work.record.topic,
                "partition": work.record.partition,
                "offset": work.record.offset,
                **fields,
            },
        )
