"""The events that a probe sends, and what an agent has to do with each."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, TypeAlias

from afl.core.clock import epoch_ms
from afl_stream.wire.codec import Codec
from afl_stream.wire.event_writers import JSON_CONTENT, EventForm
from afl_stream.wire.headers import EventHeaders, HeaderForm, unpacked
from afl_stream.wire.messages import Event

_Change: TypeAlias = Callable[[dict[str, Any]], None]
_SOURCE: Final = "/afl-stream/probe"
_TRACE: Final = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
#: How far an event of a cancelled run lies before its cancellation.
_EARLIER_MS: Final = 60_000


class Wanted(Enum):
    """What has to become of an event."""

    RESULT = "a result"
    RESULT_OR_NOTHING = "a result, or nothing for the second one"
    ANYTHING = "nothing, or an answer"
    REFUSAL = "a dead letter or a failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case: a name for people, the event behind it, and the value that is sent, once or more often."""

    name: str
    event: Event
    value: bytes
    wanted: Wanted
    times: int = 1
    is_cancelled: bool = False


class Cases:
    """Makes events of one facet in one form."""

    def __init__(self, codec: Codec, facet: str, payload: Mapping[str, object], form: EventForm) -> None:
        self._writer = codec.event_writer(facet, [], source=_SOURCE)
        self._facet, self._payload = facet, payload
        self._in_cloud_event = form is EventForm.CLOUDEVENTS
        form_of_headers = HeaderForm.CLOUDEVENTS if self._writer.content == JSON_CONTENT else codec.header_form
        self._headers = EventHeaders(facet, source=_SOURCE, form=form_of_headers, content=self._writer.content)

    def all(self) -> list[Case]:
        """Return the cases in the order in which they are sent."""
        made = [
            self._case("good", Wanted.RESULT),
            replace(self._case("repeated", Wanted.RESULT_OR_NOTHING), times=2),
            self._case("unknown fields", Wanted.RESULT, self._with_unknown),
            self._cancelled(),
            self._case("payload of a wrong type", Wanted.REFUSAL, self._with_a_text),
        ]
        garbage = self._case("no JSON", Wanted.REFUSAL)
        return [*made, replace(garbage, value=garbage.value[: len(garbage.value) // 2])]

    def good(self, name: str) -> Case:
        """Return a good event, whose answer says that the agent still works."""
        return self._case(name, Wanted.RESULT)

    def headers(self, event: Event) -> Any:
        """Return the headers of an event's record, with a trace."""
        return unpacked(
            self._headers.of(
                event_id=event.id, step_id=event.step_id, attempt=event.attempt, created_at_ms=event.created_at,
                trace=(("traceparent", _TRACE.encode()),),
            )
        )  # fmt: skip

    def _case(
        self,
        name: str,
        wanted: Wanted,
        change: Callable[[dict[str, Any]], None] | None = None,
        at_ms: int | None = None,
    ) -> Case:
        workflow_id = f"probe-{secrets.token_hex(4)}"
        step_id = f"{workflow_id}:{secrets.token_hex(12)}"
        now_ms = epoch_ms() if at_ms is None else at_ms
        event = Event(
            id=f"{step_id}#1", workflow_id=workflow_id, execution_id=f"{workflow_id}/1", step_id=step_id,
            event_type=self._facet, state="Created", payload=self._payload, attempt=1, created_at=now_ms,
            deadline=now_ms + 3_600_000, answer_token=f"probe.{secrets.token_hex(16)}",
        )  # fmt: skip
        value = self._writer.encode(event)
        if change is not None:
            document = json.loads(value)
            change(document["data"] if self._in_cloud_event else document)
            value = json.dumps(document, ensure_ascii=False).encode()
        return Case(name=name, event=event, value=value, wanted=wanted)

    def _cancelled(self) -> Case:
        made = self._case("of a cancelled run", Wanted.ANYTHING, at_ms=epoch_ms() - _EARLIER_MS)
        return replace(made, is_cancelled=True)

    @staticmethod
    def _with_unknown(event: dict[str, Any]) -> None:
        event["colour"] = {"of": "a later release"}

    @staticmethod
    def _with_a_text(event: dict[str, Any]) -> None:
        event["payload"] = "a text"
