"""The port for what records spans: OpenTelemetry's adapter is one."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from afl_stream.pubsub.model.spans import SpanAttributes


class RecordedSpan(Protocol):
    """A span that a recorder has started. Nothing here raises."""

    @property
    def is_recording(self) -> bool:
        """Whether it is sampled: attributes of another one are not worth making."""

    @property
    def traceparent(self) -> str:
        """The span as a W3C `traceparent`."""

    def set(self, attributes: SpanAttributes) -> None: ...

    def fail(self, error_type: str, text: str) -> None:
        """Set the status to error."""

    def end(self) -> None: ...

    def current(self) -> AbstractContextManager[object]:
        """Make it the recorder's current span within a block, so that spans of other libraries are below it."""


class SpanRecorder(Protocol):
    """Records spans. It is called from the event loop and from threads."""

    def current_traceparent(self) -> str:
        """Return the current span as a W3C `traceparent`; empty where there is none."""

    def start(
        self, name: str, attributes: SpanAttributes, *, parent: RecordedSpan | None = None, traceparent: str = ""
    ) -> RecordedSpan:
        """Start a span below `parent`, else below the remote span of `traceparent`, else below the current one."""
