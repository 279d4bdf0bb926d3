"""Record headers: what a record is, who sent it and when, its trace context and attempt, in either form."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from afl.core.trace_context import TRACE_HEADERS as TRACE_HEADERS
from afl.core.trace_context import TRACE_PARENT as TRACE_PARENT
from afl_stream.transport import Headers
from afl_stream.wire.codec import CONTENT_TYPE_HEADER as CONTENT_TYPE_HEADER
from afl_stream.wire.event_writers import AVRO_CONTENT as AVRO_CONTENT
from afl_stream.wire.messages import (
    CONTINUED,
    Command,
    Event,
    ExternalEvent,
    Lifecycle,
    Message,
    Pause,
    ProgramDefinition,
    ProgramPointer,
    RerunStep,
    RetryStep,
    ScheduleCommand,
    StoreClaim,
    TopicEvent,
    pause_key,
)
from afl_stream.wire.milestone_kinds import STEP_STARTED
from afl_stream.wire.structured_header import (
    ATTEMPT_HEADER as ATTEMPT_HEADER,
)
from afl_stream.wire.structured_header import (
    SPEC_VERSION as _SPEC_VERSION,
)
from afl_stream.wire.structured_header import (
    STRUCTURED_HEADER as STRUCTURED_HEADER,
)
from afl_stream.wire.structured_header import (
    HeaderForm as HeaderForm,
)
from afl_stream.wire.structured_header import (
    NamedHeaders as NamedHeaders,
)
from afl_stream.wire.structured_header import (
    header as header,
)
from afl_stream.wire.structured_header import (
    quoted,
    start_of,
)
from afl_stream.wire.structured_header import (
    rfc3339 as rfc3339,
)
from afl_stream.wire.topic_events import CONSUME
from afl_stream.wire.versions import HEADERS, SUPPORTED

SPEC_VERSION: Final = _SPEC_VERSION.encode()
#: On a person's answer: an evaluator reports its outcome in a milestone with this command id.
COMMAND_HEADER: Final = "afl_command_id"
#: On a start: what to do if a run has its id already, one of `IfExists`.
IF_EXISTS_HEADER: Final = "afl_if_exists"
_AVRO: Final = (CONTENT_TYPE_HEADER, AVRO_CONTENT)


class IfExists(StrEnum):
    """What a start does if a run has its id already. Values are on topics: never change one.

    A start without any of these does nothing if it is a copy of that run's own start, and is refused otherwise.
    """

    #: That run is the one that was asked for, whatever version of the workflow and whatever inputs it was started with.
    USE = "use"
    #: The start is refused: it is for a new run only.
    REFUSE = "refuse"

    def headers(self) -> Headers:
        """Return it as a record of a start carries it."""
        return ((IF_EXISTS_HEADER, self.value.encode()),)


def headers_for(
    message: Message,
    *,
    source: str,
    at_ms: int | None = None,
    caused_by: Headers = (),
    content: bytes = AVRO_CONTENT,
    form: HeaderForm = HeaderForm.COMPACT,
) -> Headers:
    """Return the headers of a record. `source` is its sender, as a URI reference; `caused_by` has the trace context.

    `at_ms` is milliseconds since the epoch, for records that carry no time of their own. The same arguments give the
    same headers, so a record that is sent twice carries the same id.
    """
    own_ms = getattr(message, "created_at", None) or getattr(message, "at", None)
    time_ms = own_ms if own_ms is not None else at_ms
    subject = (
        getattr(message, "step_id", None)
        or getattr(message, "workflow_id", None)
        or getattr(message, "schedule_id", None)
        or getattr(message, "request_id", None)
    )
    attempt = getattr(message, "attempt", None)
    versions = tuple(str(getattr(message, component, SUPPORTED[component])) for component in SUPPORTED)
    record_id, event_type = cloud_event_id(message), _type_of(message)
    if form is HeaderForm.COMPACT:
        members = [start_of(event_type=event_type, source=source, versions=versions) + f'"id":{quoted(record_id)}']
        if subject is not None:
            members.append(f'"subject":{quoted(subject)}')
        if time_ms is not None:
            members.append(f'"time":"{rfc3339(time_ms)}"')
        if attempt is not None:
            members.append(f'"attempt":{attempt}')
        described: Headers = ((CONTENT_TYPE_HEADER, content), (STRUCTURED_HEADER, f"{','.join(members)}}}".encode()))
        return described + trace_context(caused_by)
    headers = [
        ("ce_specversion", SPEC_VERSION),
        ("ce_id", record_id.encode()),
        ("ce_type", event_type.encode()),
        ("ce_source", source.encode()),
    ]
    if time_ms is not None:
        headers.append(("ce_time", rfc3339(time_ms).encode()))
    if subject is not None:
        headers.append(("ce_subject", subject.encode()))
    if attempt is not None:
        headers.append((ATTEMPT_HEADER, str(attempt).encode()))
    headers.append((CONTENT_TYPE_HEADER, content))
    headers += [(name, version.encode()) for name, version in zip(HEADERS, versions, strict=True)]
    return (*headers, *trace_context(caused_by))


class _RecurringHeaders:
    """Headers of the records of one type and sender, of this release, as `headers_for` gives them.

    The headers that are the same in all of them are made once.
    """

    def __init__(self, event_type: str, *, source: str, form: HeaderForm, content: bytes = AVRO_CONTENT) -> None:
        self._is_compact = form is HeaderForm.COMPACT
        self._start = f'{start_of(event_type=event_type, source=source)}"id":'
        self._content = (CONTENT_TYPE_HEADER, content)
        self._specversion = ("ce_specversion", SPEC_VERSION)
        self._type_and_source = (("ce_type", event_type.encode()), ("ce_source", source.encode()))
        versions = tuple((name, SUPPORTED[component].encode()) for name, component in HEADERS.items())
        self._content_and_versions = (self._content, *versions)

    def _structured(self, record_id: str, subject: str, attempt: int, at_ms: int) -> bytes:
        return (
            f'{self._start}{quoted(record_id)},"subject":{quoted(subject)},"time":"{rfc3339(at_ms)}",'
            f'"attempt":{attempt}}}'
        ).encode()

    def _of(self, record_id: str, subject: str, attempt: int, at_ms: int) -> Headers:
        if self._is_compact:
            return (self._content, (STRUCTURED_HEADER, self._structured(record_id, subject, attempt, at_ms)))
        return (
            self._specversion,
            ("ce_id", record_id.encode()),
            *self._type_and_source,
            ("ce_time", rfc3339(at_ms).encode()),
            ("ce_subject", subject.encode()),
            (ATTEMPT_HEADER, b"%d" % attempt),
            *self._content_and_versions,
        )


class EventHeaders(_RecurringHeaders):
    """The headers of one facet's events."""

    def __init__(
        self,
        event_type: str,
        *,
        source: str,
        form: HeaderForm = HeaderForm.COMPACT,
        content: bytes = AVRO_CONTENT,
    ) -> None:
        super().__init__(f"afl.event.{event_type}", source=source, form=form, content=content)
        #: Packed headers do not say the content: it is Avro.
        self._is_packed = self._is_compact and content == AVRO_CONTENT

    def of(
        self, *, event_id: str, step_id: str, attempt: int, created_at_ms: int, trace: Headers = ()
    ) -> Headers | bytes:
        """Return the headers of one event: packed, if nothing but the structured header is its own."""
        if not self._is_compact:
            return self._of(event_id, step_id, attempt, created_at_ms) + trace
        # As `_structured` does, without the call.
        structured = (
            f'{self._start}{quoted(event_id)},"subject":{quoted(step_id)},"time":"{rfc3339(created_at_ms)}",'
            f'"attempt":{attempt}}}'
        ).encode()
        if not trace and self._is_packed:
            return structured
        return (self._content, (STRUCTURED_HEADER, structured), *trace)


class ContinueHeaders(_RecurringHeaders):
    """The headers of one agent's StepContinue records."""

    def __init__(self, *, source: str, form: HeaderForm = HeaderForm.COMPACT) -> None:
        super().__init__("afl.StepContinue", source=source, form=form)

    def of(self, *, event: Event, at_ms: int, caused_by: Headers, trace: Headers = ()) -> Headers:
        """Return the headers of the answer to an event. Its trace context is `trace`, or else the event's own."""
        headers = self._of(f"{event.id}:StepContinue", event.step_id, event.attempt, at_ms)
        if trace:
            return headers + trace
        if len(caused_by) == 2 and caused_by[1][0] == STRUCTURED_HEADER and caused_by[0][0] == CONTENT_TYPE_HEADER:
            return headers  # An event of ours without a trace.
        return headers + trace_context(caused_by)


class MilestoneHeaders:
    """The headers of one sender's milestones, packed, as `headers_for` gives them."""

    def __init__(self, *, source: str, form: HeaderForm = HeaderForm.COMPACT) -> None:
        self._source = source
        self._form = form
        #: The beginning of the structured header, by the milestone's kind.
        self._starts: dict[str, str] = {}

    def of(self, milestone: Lifecycle) -> Headers | bytes:
        """Return the headers of one milestone."""
        if self._form is not HeaderForm.COMPACT:
            return packed(headers_for(milestone, source=self._source, form=self._form))
        kind = milestone.kind
        start = self._starts.get(kind)
        if start is None:
            start = f'{start_of(event_type=_milestone_type(kind), source=self._source)}"id":'
            self._starts[kind] = start
        return (
            f'{start}{quoted(_milestone_id(milestone))},"subject":{quoted(milestone.step_id or milestone.workflow_id)},'
            f'"time":"{rfc3339(milestone.at)}"}}'
        ).encode()


class TopicEventHeaders(_RecurringHeaders):
    """The headers of one sender's topic events. Those that are the same in all of them are made once."""

    def __init__(self, *, source: str, content: bytes, form: HeaderForm = HeaderForm.COMPACT) -> None:
        super().__init__("afl.TopicEvent", source=source, form=form, content=content)

    def of(self, *, event_id: str, request_id: str, at_ms: int, more: Headers = ()) -> Headers:
        """Return the headers of one event."""
        if self._is_compact:
            members = f'{self._start}{quoted(event_id)},"subject":{quoted(request_id)},"time":"{rfc3339(at_ms)}"}}'
            return (self._content, (STRUCTURED_HEADER, members.encode()), *more)
        return (
            self._specversion,
            ("ce_id", event_id.encode()),
            *self._type_and_source,
            ("ce_time", rfc3339(at_ms).encode()),
            ("ce_subject", request_id.encode()),
            *self._content_and_versions,
            *more,
        )


def packed(headers: Headers) -> Headers | bytes:
    """Return headers as an outbox row keeps them: of Avro with nothing but the structured header only its content."""
    if len(headers) == 2 and headers[0] == _AVRO and headers[1][0] == STRUCTURED_HEADER and headers[1][1] is not None:
        return headers[1][1]
    return headers


def unpacked(kept: Headers | bytes) -> Headers:
    """Return the headers of a record that an outbox row keeps; rows of earlier releases have them in full."""
    return (_AVRO, (STRUCTURED_HEADER, kept)) if kept.__class__ is bytes else kept  # type: ignore[return-value]  # bytes are handled


def is_event_of(kept: Headers | bytes, facet: str) -> bool:
    """Return whether the headers of an outbox row, packed or not, are those of an event of this facet."""
    event_type = f"afl.event.{facet}"
    if isinstance(kept, bytes):
        return f'"type":{quoted(event_type)}'.encode() in kept
    return header(kept, "ce_type") == event_type


def trace_context(headers: Iterable[tuple[str, bytes | None]]) -> Headers:
    """Return the trace context among these headers, to be passed on."""
    return tuple([pair for pair in headers if pair[0] in TRACE_HEADERS and pair[1] is not None])


def cloud_event_id(message: Message) -> str:
    """Return an id that is unique among the records of a source, and the same when a record is sent again."""
    if isinstance(message, Event):
        return message.id
    if isinstance(message, ExternalEvent):
        return message.id or f"{message.workflow_id}:{message.name}:{message.created_at or 0}"
    if isinstance(message, Lifecycle):
        return _milestone_id(message)
    if isinstance(message, ProgramDefinition):
        return message.fingerprint
    if isinstance(message, ProgramPointer):
        return f"{message.workflow}:{message.fingerprint}"
    if isinstance(message, StoreClaim):
        return f"{message.store}:{message.mark}"
    if isinstance(message, Pause):
        return f"{pause_key(message.scope, message.name)}:{message.at}"
    if isinstance(message, TopicEvent):
        # What is consumed has the id of what was published.
        return f"{message.id}:{message.publisher}" if message.kind == CONSUME else message.id
    if isinstance(message, Command):
        about = message.step_id if isinstance(message, RetryStep | RerunStep) else None
        return _command_id(about or message.workflow_id, message)
    if isinstance(message, ScheduleCommand):
        return _command_id(message.schedule_id, message)
    answered = message.event_id or (
        message.step_id if message.attempt is None else f"{message.step_id}#{message.attempt}"
    )
    return f"{answered}:{type(message).__name__}"


def _milestone_id(milestone: Lifecycle) -> str:
    suffix = "" if milestone.command_id is None else f":{milestone.command_id}"
    if milestone.kind == CONTINUED and milestone.outputs is not None:
        # A workflow may continue more than once in a millisecond.
        suffix += f"/{milestone.outputs.get('execution')}"
    elif milestone.kind == STEP_STARTED and milestone.outputs is not None:
        # So may a step be tried again.
        suffix += f"#{milestone.outputs.get('attempt')}"
    return f"{milestone.step_id or milestone.workflow_id}:{milestone.kind}:{milestone.at}{suffix}"


def _command_id(about: str, command: Command | ScheduleCommand) -> str:
    suffix = "" if command.command_id is None else f":{command.command_id}"
    return f"{about}:{type(command).__name__}{suffix}"


def _type_of(message: Message) -> str:
    if isinstance(message, Event):
        return f"afl.event.{message.event_type}"
    return _milestone_type(message.kind) if isinstance(message, Lifecycle) else f"afl.{type(message).__name__}"


def _milestone_type(kind: str) -> str:
    return f"afl.{kind}"
