"""Starts in bulk: checked before they are sent, sent in lots, each lot acknowledged with one flush."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from afl.compiled.program import CompiledProgram
from afl.core.clock import epoch_ms
from afl.core.errors import AFLError
from afl.core.ids import time_ordered_id
from afl.core.text.exception_text import exception_text
from afl.core.text.printable import printable
from afl_stream.client.connection import SOURCE
from afl_stream.client.sensitive_values import SensitiveValues
from afl_stream.errors import SchemaUnavailable, StreamError
from afl_stream.programs.definitions import Definitions
from afl_stream.transport import (
    BrokerUnavailable,
    DeliveryCallback,
    Headers,
    Producer,
    QueueFull,
    TopicPartition,
    TransportError,
    flush_unless_stopped,
)
from afl_stream.wire.codec import Codec
from afl_stream.wire.headers import cloud_event_id, headers_for
from afl_stream.wire.messages import StartWorkflow, check_workflow_id

if TYPE_CHECKING:
    from afl_stream.tracing.clients import ClientTracing

#: The most starts of one lot, and the bytes of their records at which it ends.
LOT_STARTS: Final = 1_000
LOT_BYTES: Final = 4 * 1024 * 1024
#: How long a full queue of the producer is waited for in one call.
_POLL_S: Final = 0.1

#: A further check of a start: it gets the program, the workflow's full name and the inputs, and raises an AFLError.
StartCheck: TypeAlias = Callable[[CompiledProgram, str, Mapping[str, object]], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """One start of many.

    Without `workflow_id` an id is drawn. `program` is a fingerprint; without it the workflow's current program is
    taken, the same one for all starts of a call. `place` says in errors where the request stands, such as a line of a
    file; without it they say which one of the call it is.
    """

    workflow: str
    inputs: Mapping[str, object] = field(default_factory=dict)
    workflow_id: str | None = None
    program: str | None = None
    place: str = ""

    def said(self, index: int, workflow_id: str | None = None) -> str:
        """Return which start this is, in words. `index` counts from 0."""
        shown = workflow_id if self.workflow_id is None else self.workflow_id
        of_id = "" if shown is None else f" ({printable(shown, 128)})"
        return f"{self.place or f'start {index}'}{of_id}"


class StartRefused(StreamError):
    """One of many starts cannot be sent. Nothing was sent since the last lot, of which `sent` counts the starts too.

    `reason` is the error that `Client.start` would have raised.
    """

    def __init__(self, request: StartRequest, index: int, reason: AFLError, sent: int) -> None:
        before = f"; the {sent} starts before its lot were sent" if sent else "; nothing was sent"
        super().__init__(f"{request.said(index)}: {exception_text(reason)}{before}")
        self.index, self.workflow_id, self.reason, self.sent = index, request.workflow_id, reason, sent


class SameIdTwice(StreamError):
    """Two different starts have one id: the second would be refused as AlreadyExists."""

    def __init__(self, workflow_id: str, first: str) -> None:
        super().__init__(f"{first} has the id {workflow_id} too, with another program or other inputs")
        self.workflow_id = workflow_id


class StartsNotSent(TransportError):
    """Some of many starts were not acknowledged. The same call with the same ids sends them, and repeats no run.

    `index` and `workflow_id` are those of the first one; `acknowledged` counts those that were, `reason` says why.
    """

    def __init__(self, said: str, index: int, workflow_id: str, acknowledged: int, reason: Exception) -> None:
        super().__init__(
            f"{said} was not acknowledged, {acknowledged} starts were: {exception_text(reason)}; "
            "call it again with the same ids: what has started stays as it is"
        )
        self.index, self.workflow_id = index, workflow_id
        self.acknowledged, self.reason = acknowledged, reason


class _Checked(NamedTuple):
    """A start that can be sent."""

    request: StartRequest
    number: int
    command: StartWorkflow
    value: bytes
    #: The headers that name its sensitive inputs.
    marked: Headers


class StartRoute(NamedTuple):
    """How starts are sent: encoded, to the topic for commands, each lot acknowledged in time."""

    codec: Codec
    producer: Producer
    topic: str
    timeout_s: float


class BulkStarts:
    """The starts of one call. Belongs to the client's thread."""

    def __init__(
        self,
        definitions: Definitions,
        route: StartRoute,
        *,
        requested_by: str | None = None,
        check: StartCheck | None = None,
        sensitive: SensitiveValues,
        tracing: ClientTracing | None = None,
        headers: Headers = (),
    ) -> None:
        """Take the call's parts. `headers` are those of every start, besides what describes it."""
        self._definitions = definitions
        self._codec, self._producer, self._topic, self._timeout_s = route
        self._requested_by, self._check, self._sensitive = requested_by, check, sensitive
        self._tracing, self._headers = tracing, headers
        #: By workflow and fingerprint as they were asked for: one program for all starts of the call.
        self._found: dict[tuple[str, str | None], tuple[CompiledProgram, str]] = {}

    def send(self, starts: Iterable[StartRequest]) -> Iterator[list[str]]:
        """Send the starts, and yield the ids of each lot when it is acknowledged.

          1. go through all starts and check them, if they can be gone through twice,
          2. check the starts of a lot and encode them,
          3. send them, and wait until all are acknowledged,
          4. yield their ids.

        Before 3 nothing of the lot is sent. A crash in 3 leaves a part of it sent; a call with the same ids sends all
        of it again, and the evaluators start each run once. Raises StartRefused and StartsNotSent.
        """
        if iter(starts) is not starts:
            for _ in self._lots(starts):
                pass
        sent = 0
        for lot in self._lots(starts, is_sent=True):
            self._send_lot(lot, sent)
            sent += len(lot)
            yield [start.command.workflow_id for start in lot]

    def _lots(self, starts: Iterable[StartRequest], *, is_sent: bool = False) -> Iterator[list[_Checked]]:
        lot: list[_Checked] = []
        by_id: dict[str, _Checked] = {}
        size = sent = 0
        for index, request in enumerate(starts):
            try:
                checked = self._checked(request, index)
                first = by_id.setdefault(checked.command.workflow_id, checked)
                if first is not checked and _differ(first.command, checked.command):
                    raise SameIdTwice(first.command.workflow_id, first.request.said(first.number))
            except (SchemaUnavailable, TransportError):
                raise  # Not about this start.
            except AFLError as error:
                raise StartRefused(request, index, error, sent if is_sent else 0) from error
            lot.append(checked)
            size += len(checked.value)
            if len(lot) >= LOT_STARTS or size >= LOT_BYTES:
                yield lot
                sent += len(lot)
                lot, by_id, size = [], {}, 0
        if lot:
            yield lot

    def _checked(self, request: StartRequest, index: int) -> _Checked:
        asked = (request.workflow, request.program)
        found = self._found.get(asked)
        if found is None:
            found = self._found[asked] = self._definitions.find(*asked)
        program, name = found
        now_ms = epoch_ms()
        given, inputs = request.workflow_id, dict(request.inputs)
        if self._check is not None:
            self._check(program, name, inputs)
        command = StartWorkflow(
            workflow_id=time_ordered_id(now_ms) if given is None else check_workflow_id(given),
            workflow=name,
            program=program.fingerprint,
            inputs=inputs,
            requested_by=self._requested_by,
            created_at=now_ms,
        )
        # Kept as it was given: the encrypted form of the same inputs is another one each time.
        sent, marked = self._sensitive.start(command, program)
        return _Checked(request, index, command, self._codec.encode(sent, self._topic), marked)

    def _send_lot(self, lot: list[_Checked], sent: int) -> None:
        failed: dict[int, Exception] = {}
        delivered = 0

        def report(number: int, error: Exception | None, _where: TopicPartition, _offset: int) -> None:
            nonlocal delivered
            if error is None:
                delivered += 1
                unreported.discard(number)
            else:
                failed[number] = error

        unreported = set(range(len(lot)))
        ended: Exception | None = None
        try:
            for number, start in enumerate(lot):
                self._queue(start, partial(report, number))
        except TransportError as error:
            ended = error
        try:
            flush_unless_stopped(self._producer, self._timeout_s)
        except TransportError as error:
            ended = ended or error
        if not unreported:
            return
        first = min(unreported)
        late = BrokerUnavailable(f"{self._topic}: no acknowledgement in {self._timeout_s:g} s")
        reason = failed.get(first) or ended or late
        start = lot[first]
        workflow_id = start.command.workflow_id
        said = start.request.said(start.number, workflow_id)
        raise StartsNotSent(said, start.number, workflow_id, sent + delivered, reason) from reason

    def _queue(self, start: _Checked, on_delivery: DeliveryCallback) -> None:
        trace: Headers = ()
        workflow_id = start.command.workflow_id
        if self._tracing is not None:
            context, parent = self._tracing.new_context(workflow_id)
            trace = context.headers
            on_delivery = self._tracing.when_delivered(
                context, parent, self._topic, workflow_id, cloud_event_id(start.command), on_delivery
            )
        form = self._codec.header_form
        described = headers_for(start.command, source=SOURCE, caused_by=trace, form=form)
        headers = (*described, *start.marked, *self._headers)
        deadline_s = time.monotonic() + self._timeout_s
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    start.value,
                    key=workflow_id.encode(),
                    headers=headers,
                    on_delivery=on_delivery,
                )
                return
            except QueueFull:
                if time.monotonic() >= deadline_s:
                    raise
                self._producer.poll(_POLL_S)


def _differ(first: StartWorkflow, second: StartWorkflow) -> bool:
    return (first.workflow, first.program, first.inputs) != (second.workflow, second.program, second.inputs)
