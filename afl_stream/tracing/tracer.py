"""The tracer of a process: it takes ended spans, and a thread of its own hands them to an exporter."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from random import getrandbits
from threading import Event, Lock, Thread
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from afl.core.text.exception_text import exception_line
from afl.core.text.warning_limits import LimitedLog
from afl.core.trace_context import TraceContext, derived_span_id, derived_trace_id, is_sampled
from afl_stream.errors import StreamError
from afl_stream.tracing.spans import PlainSpans, Row

_log = logging.getLogger(__name__)

#: The most spans that wait: what a collector that is away costs is bounded.
MAX_WAITING: Final = 50_000
#: Spans of one request, and how often they are sent.
_MOST_AT_ONCE: Final = 2_048
_INTERVAL_S: Final = 1.0
#: Rows that are encoded together: as soon as there are so many, and at most.
_ENCODED_AT_ONCE: Final = 64
_ENCODED_AT_MOST: Final = 512
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
    """The destination of spans. The tracer's thread calls it. One that also is a SpanForm gets what that returns."""

    def export(self, spans: Sequence[Any]) -> None:
        """Take spans. Raises SpansNotSent."""

    def close(self) -> None:
        """Send what is left; no span comes after this."""


@runtime_checkable
class SpanForm(Protocol):
    """The form in which spans wait. Threads that record call it."""

    def encoded(self, rows: Sequence[Row], /) -> tuple[Any, int]:
        """Return all spans of these rows as one, and their number."""


class _Batch(NamedTuple):
    """Spans that wait: in the exporter's form, or a list of them."""

    content: Any
    spans: int


class Tracer:
    """Takes the spans of one process and exports them. Any thread may record.

    Spans wait in memory until the thread of the tracer exports them, once a second; when MAX_WAITING of them wait,
    further ones are dropped and counted. Nothing waits for an exporter but `flush` and `close`.

    A thread that encodes thousands of spans at once keeps the interpreter to itself meanwhile, and the handlers of an
    agent then look slow. So those who record encode: a few dozen at once, which is cheaper than one by one.
    """

    def __init__(self, exporter: SpanExporter, *, ratio: float = 1.0, interval_s: float = _INTERVAL_S) -> None:
        """`ratio` is the share of new traces that is recorded. A trace that began elsewhere is recorded as it says."""
        self.ratio = ratio
        self.dropped = 0
        self._exporter = exporter
        self._interval_s = interval_s
        self._encoded = exporter.encoded if isinstance(exporter, SpanForm) else None
        #: Rows as they were recorded, and what the exporter takes.
        self._rows: deque[Row] = deque()
        self._waiting: deque[_Batch] = deque()
        self._waiting_spans = 0
        self._encoding = Lock()
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

    def record(self, row: Row) -> None:
        """Take an ended span, or a pair of them."""
        rows = self._rows
        rows.append(row)
        if len(rows) >= _ENCODED_AT_ONCE or self._thread is None:
            self._encode()

    def record_all(self, rows: Iterable[Row]) -> None:
        """Take ended spans."""
        self._rows.extend(rows)
        if len(self._rows) >= _ENCODED_AT_ONCE or self._thread is None:
            self._encode()

    def record_columns(self, spans: PlainSpans) -> None:
        """Take ended spans that are given by column: those of a batch are encoded at once."""
        self._rows.append(spans)
        if len(spans.span_ids) + len(self._rows) > _ENCODED_AT_ONCE or self._thread is None:
            self._encode()

    def _encode(self) -> None:
        """Have what was recorded wait to be exported, as far as there is room."""
        with self._encoding:
            while self._rows:
                rows = [self._rows.popleft() for _ in range(min(len(self._rows), _ENCODED_AT_MOST))]
                for batch in self._batches(rows):
                    if self._waiting_spans + batch.spans > MAX_WAITING:
                        self._drop(batch.spans)
                        continue
                    self._waiting.append(batch)
                    self._waiting_spans += batch.spans
        if self._thread is None:
            self._start()

    def _batches(self, rows: Sequence[Row]) -> Sequence[_Batch]:
        """Return the spans of these rows: in one batch, unless one of them cannot be encoded, which is dropped."""
        try:
            if self._encoded is not None:
                return [_Batch(*self._encoded(rows))]
            spans = [span for row in rows for span in row.spans()]
            return [_Batch(spans, len(spans))]
        except Exception as error:  # noqa: BLE001 - a handler's own attributes may be anything
            if len(rows) > 1:
                return [batch for row in rows for batch in self._batches([row])]
            self._drop(1, exception_line(error))
            return []

    def flush(self) -> None:
        """Export what was recorded before this call. Never raises."""
        with self._exporting:
            self._encode()
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
        """Export so many batches of those that wait, and what comes in meanwhile as far as it fits into requests."""
        while count > 0:
            batches = self._next_request()
            if not batches:
                return
            count -= len(batches)
            spans = sum(batch.spans for batch in batches)
            try:
                contents = [batch.content for batch in batches]
                self._exporter.export(contents if self._encoded is not None else list(chain.from_iterable(contents)))
            except SpansNotSent as error:
                if error.may_try_again and self._waits_again(batches, spans):
                    self._warnings.warning("spans that wait", "spans wait to be sent: %s", error)
                    return
                self._drop(spans, str(error))
            except Exception as error:  # noqa: BLE001 - no run may depend on what an exporter does
                self._drop(spans, exception_line(error))

    def _next_request(self) -> list[_Batch]:
        found: list[_Batch] = []
        spans = 0
        with self._encoding:
            while self._waiting and (not found or spans + self._waiting[0].spans <= _MOST_AT_ONCE):
                found.append(self._waiting.popleft())
                spans += found[-1].spans
            self._waiting_spans -= spans
        return found

    def _waits_again(self, batches: Sequence[_Batch], spans: int) -> bool:
        with self._encoding:
            if self._waiting_spans + spans > MAX_WAITING:
                return False
            self._waiting.extendleft(reversed(batches))
            self._waiting_spans += spans
        return True

    def _drop(self, count: int, why: str = "too many wait already") -> None:
        self.dropped += count
        self._warnings.warning("dropped spans", "%d spans are dropped: %s", count, why)
