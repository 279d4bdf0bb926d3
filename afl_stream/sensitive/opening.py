"""A codec that decrypts what it reads: for evaluators, agents and clients that have the keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from afl_stream.errors import Reason, Unreadable
from afl_stream.sensitive.envelope import ERASED, Place, is_sealed
from afl_stream.sensitive.sealing import SealBroken, Sealer
from afl_stream.wire.codec import Codec
from afl_stream.wire.messages import (
    ContinueAsNew,
    Event,
    ExternalEvent,
    Lifecycle,
    Message,
    StartWorkflow,
    StepContinue,
    StepUpdate,
    workflow_of,
)


class _Values(NamedTuple):
    """Where a record has its values, what kind they are, and whether they are a step's."""

    field: str
    kind: str
    of_step: bool


_VALUES_OF: Final[Mapping[type, _Values]] = {
    Event: _Values("payload", "param", True),
    StepContinue: _Values("result", "return", True),
    StepUpdate: _Values("partial", "return", True),
    StartWorkflow: _Values("inputs", "input", False),
    ContinueAsNew: _Values("inputs", "input", False),
    Lifecycle: _Values("outputs", "output", False),
}


class OpeningCodec(Codec):
    """A codec whose decoded records have no encrypted values. It writes as the codec that it is made of."""

    def __init__(self, codec: Codec, sealer: Sealer) -> None:
        # It takes the place of that codec, which nobody uses any more.
        vars(self).update(vars(codec))
        self._sealer = sealer

    def decode(
        self, value: bytes | None, headers: Iterable[tuple[str, bytes | None]] = (), *, json_allowed: bool = False
    ) -> Message:
        """Return the record in a value; see Codec.

        Raises KeyUnavailable too, which is a SchemaUnavailable. A value that was changed or moved makes the record
        unreadable, and so does an event whose data were erased.
        """
        message = super().decode(value, headers, json_allowed=json_allowed)
        try:
            return opened(message, self._sealer)
        except SealBroken as error:
            raise Unreadable(Reason.BAD_SEAL, str(error)) from error


def opened(message: Message, sealer: Sealer) -> Message:
    """Return a record without encrypted values. Raises KeyUnavailable, SealBroken, and Unreadable for erased events."""
    found = _VALUES_OF.get(message.__class__)
    if found is None:
        return _opened_event(message, sealer) if isinstance(message, ExternalEvent) else message
    values = getattr(message, found.field)
    if not values or not any(map(is_sealed, values.values())):
        return message
    # The milestone of a step has its returns, and that of a run its outputs.
    of_step = found.of_step or (isinstance(message, Lifecycle) and message.step_id is not None)
    kind = "return" if of_step and isinstance(message, Lifecycle) else found.kind
    step_id = str(getattr(message, "step_id", "")) if of_step else ""
    workflow_id = workflow_of(step_id) if step_id else str(getattr(message, "workflow_id", ""))
    plain = sealer.open_values(values, workflow_id, step_id, kind)
    if isinstance(message, Event) and ERASED in plain.values():
        raise Unreadable(Reason.ERASED, f"the data of workflow {workflow_id} were erased")
    changed: Mapping[str, Any] = {found.field: plain}
    return replace(message, **changed)


def _opened_event(event: ExternalEvent, sealer: Sealer) -> ExternalEvent:
    if not is_sealed(event.value):
        return event
    return replace(event, value=sealer.open(str(event.value), event_place(event)))


def event_place(event: ExternalEvent) -> Place:
    """Return the place of an external event's data."""
    return Place(event.workflow_id or "", "", "event", event.name)
