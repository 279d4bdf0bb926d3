"""The records of an agent on the wire: it decodes events, and encodes answers and dead letters."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from afl.core.clock import WallClock, epoch_ms
from afl.core.declared_returns import DeclaredReturns
from afl.core.process.stopping import PROCESS_STOP
from afl_stream.agent.work import Outgoing, new_outgoing
from afl_stream.errors import IdRefused, Reason, SchemaUnavailable, StreamError, Unreadable
from afl_stream.sensitive.marks import RETURNS_HEADER, mark_headers, marked_names
from afl_stream.topics.declared import Topology
from afl_stream.transport import Headers, Record
from afl_stream.wire.bounded_texts import kept_failure
from afl_stream.wire.codec import Codec
from afl_stream.wire.dead_letters import DlqHeader, dead_letter_headers, value_omitted
from afl_stream.wire.headers import (
    ATTEMPT_HEADER,
    CONTENT_TYPE_HEADER,
    STRUCTURED_HEADER,
    TRACE_PARENT,
    ContinueHeaders,
    header,
    headers_for,
)
from afl_stream.wire.messages import (
    Answer,
    Event,
    FailureReason,
    StepContinue,
    StepFailed,
    StepUpdate,
    step_and_attempt_of,
    workflow_of,
)
from afl_stream.wire.new_records import NewContinue

if TYPE_CHECKING:
    from afl_stream.sensitive.sealing import Sealer

_log = logging.getLogger(__name__)


#: On an answer: how often the handler has run for this event, where that was more than once.
TRIES_HEADER: Final = "afl_tries"
#: The headers of an event of ours that names nothing sensitive: without a trace, and with one.
_USUAL_HEADERS: Final = (CONTENT_TYPE_HEADER, STRUCTURED_HEADER, TRACE_PARENT)
_UNTRACED: Final = 2
#: How often an agent looks whether the schemas of its answers are still on their topic.
_LOOK_INTERVAL_S: Final = 30.0


class AgentRecords:
    """Decodes events and encodes what is sent about them, for one deployment and one agent. Threads may share it."""

    def __init__(
        self,
        topology: Topology,
        codec: Codec,
        agent: str,
        *,
        now_ms: WallClock = epoch_ms,
        sealer: Sealer | None = None,
    ) -> None:
        """`sealer` encrypts the sensitive values of answers; None: they are sent as they are."""
        self._sealer = sealer if sealer is not None and sealer.seals else None
        self.control_topic = topology.control()
        #: What the schema of a decoded event's value says about its facet's returns; None: nothing, any result fits.
        self.returns_of: Callable[[bytes | None], DeclaredReturns | None] = codec.returns_of
        self._topology = topology
        self._codec = codec
        self._agent = agent
        self._source = f"/agents/{quote(agent)}"
        self._continue_headers = ContinueHeaders(source=self._source, form=codec.header_form)
        self._now_ms = now_ms
        #: When the schemas were last checked, by the caller's clock; they were announced at the start.
        self._looked_s: float | None = None

    def announce(self) -> None:
        """Announce the schemas of all answers, so that no answer waits for that later. Raises SchemaUnavailable."""
        step_id = "announcement:0"
        reason = FailureReason(type="", message="")
        for answer in (
            StepContinue(step_id=step_id),
            StepFailed(step_id=step_id, error=reason),
            StepUpdate(step_id=step_id),
        ):
            self._codec.encode(answer, self.control_topic)

    def keep_announced(self, now_s: float) -> None:
        """Check from time to time whether the schemas are still on their topic, and announce again those that are gone.

        If the topic does not answer, the check is repeated later, without waiting. For one thread.
        """
        if self._looked_s is None:
            self._looked_s = now_s
        if now_s - self._looked_s < _LOOK_INTERVAL_S:
            return
        self._looked_s = now_s
        try:
            self._codec.keep_announced()
        except SchemaUnavailable as error:
            if PROCESS_STOP.is_set():
                return
            _log.warning("could not check whether the schemas are still on their topic: %s", error)

    def decode(self, record: Record) -> Event:
        """Decode an event. Raises Unreadable, SchemaUnavailable and NewerFormat."""
        decoded = self.decoded(record)
        if isinstance(decoded, Unreadable):
            raise decoded
        return decoded

    def decoded(self, record: Record) -> Event | Unreadable:
        """Decode an event, or say why it can never be decoded. Raises SchemaUnavailable and NewerFormat."""
        try:
            message = self._codec.decode(record.value, record.headers, json_allowed=True)
        except Unreadable as error:
            return error
        if type(message) is Event:
            return message
        return Unreadable(Reason.UNKNOWN_TYPE, f"a {type(message).__name__} is not an event")

    def continued(
        self, event: Event, result: Mapping[str, object], group: str, caused_by: Headers = (), trace: Headers = ()
    ) -> Outgoing:
        """Return StepContinue for this event, whose headers are `caused_by`; `trace`: in place of their trace context.

        Raises ValueRefused, EventTooLarge, SchemaUnavailable.
        """
        marked: Headers = ()
        if len(caused_by) > _UNTRACED and (names := _sensitive_returns(caused_by)):
            result, marked = self._marked(event, result, names)
        answer = NewContinue(event, result, self._agent, group)
        return new_outgoing((
            self.control_topic,
            event.workflow_id.encode(),
            self._codec.encode(answer, self.control_topic),
            self._continue_headers.of(event=event, at_ms=self._now_ms(), caused_by=caused_by, trace=trace)
            + marked,
        ))  # fmt: skip

    def _marked(
        self, event: Event, values: Mapping[str, object], names: frozenset[str]
    ) -> tuple[Mapping[str, object], Headers]:
        """Return an answer's values with the sensitive ones encrypted, and the headers that name them."""
        found = names.intersection(values)
        if self._sealer is not None:
            values = self._sealer.seal_values(values, found, event.workflow_id, event.step_id, "return")
        return values, mark_headers(found)

    def failed(self, event: Event, error_type: str, message: str, group: str, caused_by: Headers = ()) -> Outgoing:
        """Return StepFailed for this event. Raises SchemaUnavailable."""
        return self._answer(
            StepFailed(
                step_id=event.step_id,
                error=kept_failure(error_type, message),
                workflow_id=event.workflow_id,
                event_id=event.id,
                attempt=event.attempt,
                answer_token=event.answer_token,
                agent=self._agent,
                group=group,
            ),
            caused_by,
        )

    def with_tries(self, answer: Outgoing, tries: int) -> Outgoing:
        """Return an answer that says how often the handler has run for it, if that was more than once."""
        if tries <= 1:
            return answer
        return answer._replace(headers=(*answer.headers, (TRIES_HEADER, b"%d" % tries)))

    def updated(
        self, event: Event, partial: Mapping[str, object], group: str, caused_by: Headers = (), trace: Headers = ()
    ) -> Outgoing:
        """Return StepUpdate for this event. Parameters and errors are those of `continued`."""
        marked: Headers = ()
        if names := marked_names(caused_by, RETURNS_HEADER):
            partial, marked = self._marked(event, partial, names)
        update = self._answer(
            StepUpdate(
                step_id=event.step_id,
                partial=partial,
                workflow_id=event.workflow_id,
                event_id=event.id,
                attempt=event.attempt,
                answer_token=event.answer_token,
                agent=self._agent,
                group=group,
            ),
            trace or caused_by,
        )
        return update._replace(headers=(*update.headers, *marked)) if marked else update

    def failed_by_headers(self, record: Record, error_type: str, message: str, group: str) -> Outgoing | None:
        """Return StepFailed for an event that cannot be read, if its headers name event, step and attempt.

        Returns None if they do not: the record may come from any writer. Its key alone is not enough, because the step
        that it names may have a good event whose handler runs. The evaluator knows whether the attempt is the current
        one.
        """
        event = _event_of(record.headers)
        if event is None:
            return None
        return self._answer(
            StepFailed(
                step_id=event.step_id,
                error=kept_failure(error_type, message),
                workflow_id=workflow_of(event.step_id),
                event_id=event.id,
                attempt=event.attempt,
                agent=self._agent,
                group=group,
            ),
            record.headers,
        )

    def dead_letter(self, record: Record, error: StreamError, group: str, event: Event | None, tries: int) -> Outgoing:
        """Return the record as it was; its headers say where it was read and why it was given up."""
        by = ((DlqHeader.GROUP.value, group.encode()), (DlqHeader.AGENT.value, self._agent.encode()))
        attempt = None if event is None else event.attempt
        headers = dead_letter_headers(record, error, at_ms=self._now_ms(), attempt=attempt, tries=tries, by=by)
        return Outgoing(topic=self._topology.dlq(record.topic), key=record.key, value=record.value, headers=headers)

    def without_value(self, letter: Outgoing) -> Outgoing:
        """Return the dead letter of a record that is too large for the dead letter topic."""
        headers = (*letter.headers, value_omitted(letter.value))
        return Outgoing(topic=letter.topic, key=letter.key, value=None, headers=headers)

    def _answer(self, answer: Answer, caused_by: Headers) -> Outgoing:
        return Outgoing(
            topic=self.control_topic,
            # An event without a workflow may come from any writer; its answer will be refused in every partition.
            key=(answer.workflow_id or answer.step_id).encode(),
            value=self._codec.encode(answer, self.control_topic),
            headers=headers_for(
                answer,
                source=self._source,
                at_ms=self._now_ms(),
                caused_by=caused_by,
                form=self._codec.header_form,
            ),
        )


def _sensitive_returns(headers: Headers) -> frozenset[str]:
    """Return the names of the returns that an event's headers call sensitive."""
    if len(headers) == len(_USUAL_HEADERS):
        (first, _), (second, _), (third, _) = headers
        if (first, second, third) == _USUAL_HEADERS:
            return frozenset()
    return marked_names(headers, RETURNS_HEADER)


class _NamedEvent(NamedTuple):
    """An event as its record's headers name it."""

    id: str
    step_id: str
    attempt: int


def _event_of(headers: Headers) -> _NamedEvent | None:
    """Return the event that the headers name, if they name its id, step and attempt, and these agree."""
    event_id = header(headers, "ce_id")
    try:
        step_id, attempt = step_and_attempt_of(event_id or "")
    except IdRefused:
        return None
    if header(headers, "ce_subject") != step_id or header(headers, ATTEMPT_HEADER) != str(attempt):
        return None
    return _NamedEvent(event_id or "", step_id, attempt)
