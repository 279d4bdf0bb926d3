"""Record headers: CloudEvents attributes, trace context and attempt."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from afl_stream.transport import Headers
from afl_stream.wire.codec import CONTENT_TYPE_HEADER
from afl_stream.wire.messages import (
    CONTINUED,
    Command,
    Event,
    ExternalEvent,
    Lifecycle,
    Message,
    ProgramDefinition,
    ProgramPointer,
    RerunStep,
    RetryStep,
    ScheduleCommand,
    StoreClaim,
)
from afl_stream.wire.versions import HEADERS, SUPPORTED

SPEC_VERSION: Final = b"1.0"
AVRO_CONTENT: Final = b"application/avro"
ATTEMPT_HEADER: Final = "afl_attempt"
#: On a person's answer: an evaluator reports its outcome in a milestone with this command id.
COMMAND_HEADER: Final = "afl_command_id"
#: W3C trace context travels from an event to its answer unchanged.
TRACE_PARENT: Final = "traceparent"
TRACE_HEADERS: Final = (TRACE_PARENT, "tracestate")


def headers_for(
    message: Message, *, source: str, at_ms: int | None = None, caused_by: Headers = (), content: bytes = AVRO_CONTENT
) -> Headers:
    """Return the headers of a record. `source` is its sender, as a URI reference; `caused_by` has the trace context.

    `at_ms` is milliseconds since the epoch, for records that carry no time of their own. The same arguments give the
    same headers, so a record that is sent twice carries the same `ce_id`.
    """
    headers = [
        ("ce_specversion", SPEC_VERSION),
        ("ce_id", cloud_event_id(message).encode()),
        ("ce_type", _type_of(message).encode()),
        ("ce_source", source.encode()),
    ]
    own_ms = getattr(message, "created_at", None) or getattr(message, "at", None)
    time_ms = own_ms if own_ms is not None else at_ms
    if time_ms is not None:
        headers.append(("ce_time", rfc3339(time_ms).encode()))
    subject = (
        getattr(message, "step_id", None)
        or getattr(message, "workflow_id", None)
        or getattr(message, "schedule_id", None)
    )
    if subject is not None:
        headers.append(("ce_subject", subject.encode()))
    attempt = getattr(message, "attempt", None)
    if attempt is not None:
        headers.append((ATTEMPT_HEADER, str(attempt).encode()))
    headers.append((CONTENT_TYPE_HEADER, content))
    headers += [
        (name, str(getattr(message, component, SUPPORTED[component])).encode()) for name, component in HEADERS.items()
    ]
    return (*headers, *trace_context(caused_by))


class _RecurringHeaders:
    """Headers of the records of one type and sender, of this release, as `headers_for` gives them.

    The headers that are the same in all of them are made once.
    """

    def __init__(self, ce_type: str, *, source: str) -> None:
        self._specversion = ("ce_specversion", SPEC_VERSION)
        self._type_and_source = (("ce_type", ce_type.encode()), ("ce_source", source.encode()))
        self._content_and_versions = (
            (CONTENT_TYPE_HEADER, AVRO_CONTENT),
            *((name, SUPPORTED[component].encode()) for name, component in HEADERS.items()),
        )

    def _of(self, ce_id: bytes, subject: bytes, attempt: int, at_ms: int) -> Headers:
        return (
            self._specversion,
            ("ce_id", ce_id),
            *self._type_and_source,
            ("ce_time", rfc3339(at_ms).encode()),
            ("ce_subject", subject),
            (ATTEMPT_HEADER, b"%d" % attempt),
            *self._content_and_versions,
        )


class EventHeaders(_RecurringHeaders):
    """The headers of one facet's events."""

    def __init__(self, event_type: str, *, source: str) -> None:
        super().__init__(f"afl.event.{event_type}", source=source)

    def of(self, *, event_id: str, step_key: bytes, attempt: int, created_at_ms: int) -> Headers:
        """Return the headers of one event."""
        return self._of(event_id.encode(), step_key, attempt, created_at_ms)


class ContinueHeaders(_RecurringHeaders):
    """The headers of one agent's StepContinue records."""

    def __init__(self, *, source: str) -> None:
        super().__init__("afl.StepContinue", source=source)

    def of(self, *, event: Event, at_ms: int, caused_by: Headers) -> Headers:
        """Return the headers of the answer to an event, whose own headers have the trace context."""
        headers = self._of(f"{event.id}:StepContinue".encode(), event.step_id.encode(), event.attempt, at_ms)
        return headers + trace_context(caused_by)


def trace_context(headers: Iterable[tuple[str, bytes | None]]) -> Headers:
    """Return the trace context among these headers, to be passed on."""
    return tuple([pair for pair in headers if pair[0] in TRACE_HEADERS and pair[1] is not None])


def header(headers: Iterable[tuple[str, bytes | None]], name: str) -> str | None:
    """Return the last header of this name as text, as Kafka clients do; bytes that are not UTF-8 are replaced."""
    found = None
    for key, value in headers:
        if key == name and value is not None:
            found = value
    return None if found is None else found.decode("utf-8", "replace")


def cloud_event_id(message: Message) -> str:
    """Return an id that is unique among the records of a source, and the same when a record is sent again."""
    if isinstance(message, Event):
        return message.id
    if isinstance(message, ExternalEvent):
        return message.id or f"{message.workflow_id}:{message.name}:{message.created_at or 0}"
    if isinstance(message, Lifecycle):
        suffix = "" if message.command_id is None else f":{message.command_id}"
        if message.kind == CONTINUED and message.outputs is not None:
            # A workflow may continue more than once in a millisecond.
            suffix += f"/{message.outputs.get('execution')}"
        return f"{message.step_id or message.workflow_id}:{message.kind}:{message.at}{suffix}"
    if isinstance(message, ProgramDefinition):
        return message.fingerprint
    if isinstance(message, ProgramPointer):
        return f"{message.workflow}:{message.fingerprint}"
    if isinstance(message, StoreClaim):
        return f"{message.store}:{message.mark}"
    if isinstance(message, Command):
        about = message.step_id if isinstance(message, RetryStep | RerunStep) else None
        return _command_id(about or message.workflow_id, message)
    if isinstance(message, ScheduleCommand):
        return _command_id(message.schedule_id, message)
    answered = message.event_id or (
        message.step_id if message.attempt is None else f"{message.step_id}#{message.attempt}"
    )
    return f"{answered}:{type(message).__name__}"


def _command_id(about: str, command: Command | ScheduleCommand) -> str:
    suffix = "" if command.command_id is None else f":{command.command_id}"
    return f"{about}:{type(command).__name__}{suffix}"


def _type_of(message: Message) -> str:
    if isinstance(message, Event):
        return f"afl.event.{message.event_type}"
    return f"afl.{message.kind}" if isinstance(message, Lifecycle) else f"afl.{type(message).__name__}"


@lru_cache(maxsize=256)  # All records of one batch are of the same moment.
def rfc3339(at_ms: int) -> str:
    """Return a time as RFC 3339 writes it, in UTC and with milliseconds."""
    moment = datetime.fromtimestamp(at_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03d}Z"
