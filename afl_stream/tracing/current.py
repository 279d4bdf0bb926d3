"""The span of the work that this thread or task does now: for logs, and for a handler's own spans."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import Final, Protocol

from afl.core.trace_context import TraceContext


class HasContext(Protocol):
    """Work that has a span."""

    @property
    def context(self) -> TraceContext: ...


#: The work that is done here.
CURRENT: Final[ContextVar[HasContext | None]] = ContextVar("afl_stream_work", default=None)


def current_context() -> TraceContext | None:
    """Return the trace context of the handler that runs here; None outside of a traced handler."""
    work = CURRENT.get()
    return None if work is None else work.context


class TraceIds(logging.Filter):
    """Gives each log record `trace_id` and `span_id`: of the traced handler that logs, and empty elsewhere.

    Add it to a handler of the logging module whose format names them, such as `%(trace_id)s`.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the ids; keep every record."""
        context = current_context()
        record.trace_id = "" if context is None else context.trace_id
        record.span_id = "" if context is None else context.span_id
        return True
