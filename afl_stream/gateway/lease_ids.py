"""Ids of leases: each holds all that an answer needs, so any gateway takes the answer, also after a restart."""

from __future__ import annotations

import base64
import binascii
import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from afl.core.handlers.context import HandlerContext
from afl_stream.errors import IdRefused
from afl_stream.sensitive.marks import RETURNS_HEADER
from afl_stream.web.parameters import BadParameter
from afl_stream.wire.messages import Event, step_and_attempt_of, workflow_of

#: The first part of each id, with the version of its form.
_START: Final = "l1."
_LONGEST: Final = 20_000
#: Headers of an event that its answer repeats, or is made by.
_KEPT_HEADERS: Final = (RETURNS_HEADER, "traceparent", "tracestate")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedEvent:
    """What an answer needs to know of its event."""

    facet: str
    event_id: str
    step_id: str
    workflow_id: str
    execution_id: str
    attempt: int
    token: str | None
    tries: int
    headers: Mapping[str, str]

    @classmethod
    def of(cls, context: HandlerContext) -> LeasedEvent:
        """Return what is kept of an event that a handler holds."""
        carried = {name: context.headers.get(name) for name in _KEPT_HEADERS}
        return cls(
            facet=context.facet,
            event_id=context.event_id,
            step_id=context.step_id,
            workflow_id=context.workflow_id,
            execution_id=context.execution_id,
            attempt=context.attempt,
            token=context.answer_token,
            tries=context.tries,
            headers={name: value.decode("utf-8", "replace") for name, value in carried.items() if value},
        )

    def event(self) -> Event:
        """Return the event as an answer is made of it, without its payload."""
        return Event(
            id=self.event_id,
            workflow_id=self.workflow_id,
            execution_id=self.execution_id,
            step_id=self.step_id,
            event_type=self.facet,
            state="",
            payload={},
            attempt=self.attempt,
            created_at=0,
            answer_token=self.token,
        )

    def wire_headers(self) -> tuple[tuple[str, bytes], ...]:
        """Return the headers that the answer is made by."""
        return tuple((name, value.encode()) for name, value in self.headers.items())


def lease_id(event: LeasedEvent) -> str:
    """Return a new id of a lease of this event."""
    document = {**asdict(event), "headers": dict(event.headers), "nonce": secrets.token_urlsafe(9)}
    return _START + base64.urlsafe_b64encode(json.dumps(document, separators=(",", ":")).encode()).decode().rstrip("=")


def event_of_lease(text: object) -> LeasedEvent:
    """Return the event that a lease is of. Raises BadParameter.

    The id is no secret key: whether an answer counts is decided by the evaluator, by attempt and token.
    """
    if isinstance(text, str) and text.startswith(_START) and len(text) <= _LONGEST:
        encoded = text.removeprefix(_START)
        try:
            document: Any = json.loads(base64.b64decode(encoded + "=" * (-len(encoded) % 4), b"-_", validate=True))
            document.pop("nonce")
            event = LeasedEvent(**document)
        except (ValueError, binascii.Error, AttributeError, KeyError, TypeError, RecursionError):
            pass
        else:
            if _is_whole(event):
                return event
    raise BadParameter("lease", text, "the id of a lease, as the poll has given it")


def _is_whole(event: LeasedEvent) -> bool:
    texts = (event.facet, event.event_id, event.step_id, event.workflow_id, event.execution_id)
    if not all(isinstance(text, str) for text in texts) or not isinstance(event.headers, dict):
        return False
    if not all(isinstance(one, str) for pair in event.headers.items() for one in pair):
        return False
    if not (event.token is None or isinstance(event.token, str)):
        return False
    if any(type(number) is not int or not 0 <= number < 1 << 31 for number in (event.attempt, event.tries)):
        return False
    try:
        return workflow_of(event.step_id) == event.workflow_id and step_and_attempt_of(event.event_id) == (
            event.step_id,
            event.attempt,
        )
    except IdRefused:
        return False
