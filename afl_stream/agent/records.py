"""The records of an agent on the wire: it decodes events, and encodes answers and dead letters."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote

from afl.core.clock import WallClock, epoch_ms
from afl.core.declared_returns import DeclaredReturns
from afl.core.process.stopping import PROCESS_STOP
from afl_stream.agent.work import Outgoing
from afl_stream.errors import IdRefused, Reason, SchemaUnavailable, StreamError, Unreadable
from afl_stream.topics.declared import Topology
from afl_stream.transport import Headers, Record
from afl_stream.wire.bounded_texts import kept_failure
from afl_stream.wire.codec import Codec
from afl_stream.wire.dead_letters import DLQ_PREFIX, dead_letter_headers
from afl_stream.wire.headers import ATTEMPT_HEADER, ContinueHeaders, header, headers_for
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

_log = logging.getLogger(__name__)


#: How often an agent looks whether the schemas of its answers are still on their topic.
_LOOK_INTERVAL_S: Final = 30.0


class AgentRecords:
    """Decodes events and encodes what is sent about them, for one deployment and one agent. Threads may share it."""

    def __init__(self, topology: Topology, codec: Codec, agent: str, *, now_ms: WallClock = epoch_ms) -> None:
        self.control_topic = topology.control()
        self._topology = topology
        self._codec = codec
        self._agent = agent
        self._source = f"/agents/{quote(agent)}"
        self._continue_headers = ContinueHeaders(source=self._source)
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
        message = self._codec.decode(record.value, record.headers)
        if not isinstance(message, Event):
            raise Unreadable(Reason.UNKNOWN_TYPE, f"a {type(message).__name__} is not an event")
        return message

    def decoded(self, record: Record) -> Event | Unreadable:
        """Decode an event, or say why it can never be decoded. Raises SchemaUnavailable and NewerFormat."""
        try:
            return self.decode(record)
        except Unreadable as error:
            return error

    def returns_of(self, record: Record) -> DeclaredReturns | None:
        """Return what the schema of a decoded event says about its facet's returns; None: nothing, any result fits."""
        return self._codec.returns_of(record.value)

    def continued(self, event: Event, result: Mapping[str, object], group: str, caused_by: Headers = ()) -> Outgoing:
        """Return StepContinue for this event. Raises ValueRefused, EventTooLarge, SchemaUnavailable."""
        answer = StepContinue(
            step_id=event.step_id,
            result=result,
            workflow_id=event.workflow_id,
            event_id=event.id,
            attempt=event.attempt,
            answer_token=event.answer_token,
            agent=self._agent,
            group=group,
        )
        return Outgoing(
            topic=self.control_topic,
            key=event.workflow_id.encode(),
            value=self._codec.encode(answer, self.control_topic),
            headers=self._continue_headers.of(event=event, at_ms=self._now_ms(), caused_by=caused_by),
        )

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

    def updated(self, event: Event, partial: Mapping[str, object], group: str, caused_by: Headers = ()) -> Outgoing:
        """Return StepUpdate for this event. Raises ValueRefused, EventTooLarge, SchemaUnavailable."""
        return self._answer(
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
            caused_by,
        )

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

    def dead_letter(self, record: Record, error: StreamError, group: str) -> Outgoing:
        """Return the record as it was; its headers say where it was read and why it was given up."""
        headers = dead_letter_headers(
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            error=error,
            headers=record.headers,
            at_ms=self._now_ms(),
        )
        by = ((f"{DLQ_PREFIX}group", group.encode()), (f"{DLQ_PREFIX}agent", self._agent.encode()))
        return Outgoing(
            topic=self._topology.dlq(record.topic), key=record.key, value=record.value, headers=(*headers, *by)
        )

    def without_value(self, letter: Outgoing) -> Outgoing:
        """Return the dead letter of a record that is too large for the dead letter topic."""
        size = len(letter.value or b"")
        note = (f"{DLQ_PREFIX}value_omitted", f"{size} bytes".encode())
        return Outgoing(topic=letter.topic, key=letter.key, value=None, headers=(*letter.headers, note))

    def _answer(self, answer: Answer, caused_by: Headers) -> Outgoing:
        return Outgoing(
            topic=self.control_topic,
            # An event without a workflow may come from any writer; its answer will be refused in every partition.
            key=(answer.workflow_id or answer.step_id).encode(),
            value=self._codec.encode(answer, self.control_topic),
            headers=headers_for(answer, source=self._source, at_ms=self._now_ms(), caused_by=caused_by),
        )


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
