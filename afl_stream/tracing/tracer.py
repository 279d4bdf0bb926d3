"""The tracer of a process: it takes ended spans, and a thread of its own hands them to an exporter."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from random import getrandbits
from threading import Event, Lock, Thread
from typing import Final, Protocol

from afl.core.text.exception_text import exception_line
from afl.core.text.warning_limits import LimitedLog
from afl.core.trace_context import TraceContext, derived_span_id, derived_trace_id, is_sampled
from afl_stream.errors import StreamError
from afl_stream.tracing.spans import Span

_log = logging.getLogger(__name__)

#: The most spans that wait: what a collector that is away costs is bounded.
MAX_WAITING: Final = 50_000
#: Spans of one request, and how often they are sent.
_MOST_AT_ONCE: Final = 2_048
_INTERVAL_S: Final = 1.0
#: How long `close` waits for the last spans. A service that ends has half a minute for everything.
_CLOSE_S: Final = 5.0
#: Runs whose trace is remembered, where the store does not say it.
_REMEMBERED: Final = 10_000


class SpansNotSent(StreamError):
    """Spans that an exporter could not hand over."""

    def __init__(self, reason: str, *, may_try_again: bool) -> None:
        super().__init__(reason)
        self.may_try_again = may_try_again


class SpanExporter(Protocol):
    """The destination of spans. The tracer's thread calls it."""

    def export(self, spans: Sequence[Span]) -> None:
        """Take spans. Raises SpansNotSent."""

    def close(self) -> None:
        """Send what is left; no span comes after this."""


class Tracer:
    """Takes the spans of one process and exports them. Any thread may record.

    Spans wait in memory until the thread of the tracer exports them, once a second; when MAX_WAITING of them wait,
    further ones are dropped and counted. Nothing waits for an exporter but `flush` and `close`.
    """

    def __init__(self, exporter: SpanExporter, *, ratio: float = 1.0, interval_s: float = _INTERVAL_S) -> None:
        """`ratio` is the share of new traces that is recorded. A trace that began elsewhere is recorded as it says."""
        self.ratio = ratio
        self.dropped = 0
        self._exporter = exporter
        self._interval_s = interval_s
        self._waiting: deque[Span] = deque()
        self._exporting = Lock()
        self._wake = Event()
        self._is_closed = False
        self._thread: Thread | None = None
        self._starting = Lock()
        self._warnings = LimitedLog(_log)
        #: Returns the context of a run whose row has none: the same one in each process.
        self.run_context = lru_cache(maxsize=_REMEMBERED)(self._run_context)

    def new_span_id(self) -> str:
        """Return an id that no other span has."""
        return f"{getrandbits(64) or 1:016x}"

    def _run_context(self, workflow_id: str) -> TraceContext:
        trace_id = derived_trace_id(workflow_id)
        flags = "01" if is_sampled(trace_id, self.ratio) else "00"
        return TraceContext(trace_id, derived_span_id(f"run/{workflow_id}"), flags)

    def record(self, span: Span) -> None:
        """Take an ended span."""
        if len(self._waiting) >= MAX_WAITING:
            self._drop(1)
            return
        self._waiting.append(span)
        if self._thread is None:
            self._start()

    def record_all(self, spans: Sequence[Span]) -> None:
        """Take ended spans."""
        room = MAX_WAITING - len(self._waiting)
        if len(spans) > room:
            self._drop(len(spans) - max(room, 0))
            spans = spans[: max(room, 0)]
        self._waiting.extend(spans)
        if self._thread is None:
            self._start()

    def flush(self) -> None:
        """Export what was recorded before this call. Never raises."""
        with self._exporting:
            self._export(len(self._waiting))

    def close(self) -> None:
        """Export what is left, for some seconds at most: a collector that is away does not delay the end."""
        if self._is_closed:
            return
        self._is_closed = True
        last = Thread(target=self._close, name="afl-tracing-end", daemon=True)
        last.start()
        last.join(_CLOSE_S)

    def _close(self) -> None:
        self._wake.set()
        self.flush()
        try:
            self._exporter.close()
        except Exception as error:  # noqa: BLE001 - whatever an exporter does, the process ends as it would
            self._warnings.warning(
                "the end of tracing", "the exporter of spans did not close: %s", exception_line(error)
            )

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = Thread(target=self._run, name="afl-tracing", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._wake.wait(self._interval_s):
            self.flush()

    def _export(self, count: int) -> None:
        waiting = self._waiting
        while count > 0 and waiting:
            spans = [waiting.popleft() for _ in range(min(count, _MOST_AT_ONCE, len(waiting)))]
            count -= len(spans)
            try:
                self._exporter.export(spans)
            except SpansNotSent as error:
                if error.may_try_again and len(waiting) + len(spans) <= MAX_WAITING:
                    waiting.extendleft(reversed(spans))
                    self._warnings.warning("spans that wait", "spans wait to be sent: %s", error)
                    return
                self._drop(len(spans), str(error))
            except Exception as error:  # noqa: BLE001 - no run may depend on what an exporter does
                self._drop(len(spans), exception_line(error))

    def _drop(self, count: int, why: str = "too many wait already") -> None:
        self.dropped += count
        self._warnings.warning("dropped spans", "%d spans are dropped: %s", count, why)
