"""The records of an agent as they are on the wire: events opened, answers and dead letters made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote

from afl.core.clock import epoch_ms
from afl_stream.agent_work import Outgoing
from afl_stream.codec import Codec, decode_key
from afl_stream.errors import IdRefused, Reason, StreamError, Unreadable
from afl_stream.headers import DLQ_PREFIX, ContinueHeaders, dead_letter_headers, header, headers_for
from afl_stream.messages import (
    Answer,
    Event,
    FailureReason,
    StepContinue,
    StepFailed,
    StepUpdate,
    step_and_attempt_of,
    workflow_of,
)
from afl_stream.topics import Topology
from afl_stream.transport import Headers, Record

#: Longest error message in an answer; a traceback of megabytes must not make the answer too large to send.
MAX_ERROR_CHARS: Final = 10_000


class AgentRecords:
    """Opens events and makes what is sent about them, for one deployment and one agent. Threads may share it."""

    def __init__(self, topology: Topology, codec: Codec, agent: str, *, now_ms: Callable[[], int] = epoch_ms) -> None:
        self.control_topic = topology.control()
        self._topology = topology
        self._codec = codec
        self._agent = agent
        self._source = f"/agents/{quote(agent)}"
        self._continue_headers = ContinueHeaders(source=self._source)
        self._now_ms = now_ms

    def announce(self) -> None:
        """Make the schemas of all answers known, so that no answer waits for that later. Raises SchemaUnavailable."""
        step_id = "announcement:0"
        reason = FailureReason(type="", message="")
        for answer in (
            StepContinue(step_id=step_id),
            StepFailed(step_id=step_id, error=reason),
            StepUpdate(step_id=step_id),
        ):
            self._codec.encode(answer, self.control_topic)

    def open(self, record: Record) -> Event:
        """Decode an event. Raises Unreadable, SchemaUnavailable and NewerFormat."""
        message = self._codec.decode(record.value, record.headers)
        if not isinstance(message, Event):
            raise Unreadable(Reason.UNKNOWN_TYPE, f"a {type(message).__name__} is no event")
        return message

    def continued(self, event: Event, result: Mapping[str, object], group: str, caused_by: Headers = ()) -> Outgoing:
        """StepContinue for this event. Raises ValueRefused, EventTooLarge, SchemaUnavailable."""
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
        """StepFailed for this event. Raises SchemaUnavailable."""
        return self._answer(
            StepFailed(
                step_id=event.step_id,
                error=_reason(error_type, message),
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
        """StepUpdate for this event. Raises ValueRefused, EventTooLarge, SchemaUnavailable."""
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

    def failed_by_key(self, record: Record, error_type: str, message: str, group: str) -> Outgoing | None:
        """StepFailed for an event that cannot be read: its step stands in the key, and its id maybe in a header.

        None when the key is no step id: then nobody can be told.
        """
        try:
            step_id = decode_key(record.key)
            workflow_id = workflow_of(step_id)
        except (Unreadable, IdRefused):
            return None
        event_id, attempt = _event_id_of(record.headers, step_id)
        return self._answer(
            StepFailed(
                step_id=step_id,
                error=_reason(error_type, message),
                workflow_id=workflow_id,
                event_id=event_id,
                attempt=attempt,
                agent=self._agent,
                group=group,
            ),
            record.headers,
        )

    def dead_letter(self, record: Record, error: StreamError, group: str) -> Outgoing:
        """The record as it was, with where it stood and why it was given up in its headers."""
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
        """The dead letter of a record that is too large for the dead letters' topic."""
        size = len(letter.value or b"")
        note = (f"{DLQ_PREFIX}value_omitted", f"{size} bytes".encode())
        return Outgoing(topic=letter.topic, key=letter.key, value=None, headers=(*letter.headers, note))

    def _answer(self, answer: Answer, caused_by: Headers) -> Outgoing:
        return Outgoing(
            topic=self.control_topic,
            key=(answer.workflow_id or workflow_of(answer.step_id)).encode(),
            value=self._codec.encode(answer, self.control_topic),
            headers=headers_for(answer, source=self._source, at_ms=self._now_ms(), caused_by=caused_by),
        )


def _reason(error_type: str, message: str) -> FailureReason:
    # A handler's message is anybody's text: lone surrogates would not encode.
    text = message[:MAX_ERROR_CHARS].encode("utf-8", "backslashreplace").decode()
    return FailureReason(type=error_type.encode("utf-8", "backslashreplace").decode(), message=text)


def _event_id_of(headers: Headers, step_id: str) -> tuple[str | None, int | None]:
    """The event's id and attempt by its header, if that is one of this step."""
    event_id = header(headers, "ce_id")
    if event_id is not None:
        try:
            asked, attempt = step_and_attempt_of(event_id)
        except IdRefused:
            return None, None
        if asked == step_id:
            return event_id, attempt
    return None, None
