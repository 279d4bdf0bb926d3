"""The outbox: events and milestones are rows of the commit that makes them, and are published as records after it.

`OutboxDispatch` encodes inside the unit of work, so a value that does not fit fails its step by name and publishing
meets only encoded records. `OutboxPublisher` sends what was committed and remembers what the broker has acknowledged;
the rows are deleted in the next batch's transaction. In the row means Created, row gone means Dispatched.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from weakref import WeakKeyDictionary

from afl.compiled.program import ProgramError
from afl.core.declared_returns import DeclaredReturns
from afl.core.probes import Probe, no_probe
from afl.core.process.long_waits import WAITS
from afl.core.text.warning_limits import LimitedLog
from afl.engine.execution.execution import Execution
from afl.engine.model.plan import FacetPlan, WorkflowPlan
from afl.engine.model.records import StepRecord
from afl.engine.model.store import Batch, OutboxRecord, Store, StoredOutboxRecord
from afl_stream.errors import EventTooLarge, SchemaTaken, ValueRefused
from afl_stream.partitioner import partition_for
from afl_stream.settings.answer_tokens import AnswerTokens
from afl_stream.topics.declared import Topology
from afl_stream.transport import (
    BrokerUnavailable,
    NotAuthorized,
    Producer,
    QueueFull,
    RecordTooLarge,
    TopicPartition,
    UnknownTopic,
    flush_unless_stopped,
)
from afl_stream.wire.avro.afl_types import TypeScope
from afl_stream.wire.bounded_texts import kept_error, kept_failure
from afl_stream.wire.codec import Codec, EventWriter, NewEvent
from afl_stream.wire.headers import TRACE_PARENT, EventHeaders, headers_for
from afl_stream.wire.messages import Lifecycle

_log = logging.getLogger(__name__)

#: The sender in the evaluator's records.
SOURCE = "/afl-stream/evaluator"

#: Errors that sending the record again does not overcome: the topic has to be changed.
_REFUSED = (UnknownTopic, RecordTooLarge, NotAuthorized)
#: Long enough for a broker that is only slow.
_QUEUE_TIMEOUT_S = 5.0
#: Workflows whose partition is remembered.
_REMEMBERED_WORKFLOWS = 100_000


class Lanes:
    """The lanes of workflows: who publishes a workflow's records.

    It is the owner of the workflow's control partition, or else their writer itself.
    """

    def __init__(self, control_partitions: int) -> None:
        # A workflow is asked about once a step; its partition costs more than the rest of the question.
        self._partition_of = lru_cache(maxsize=_REMEMBERED_WORKFLOWS)(
            lambda workflow_id: partition_for(workflow_id.encode(), control_partitions)
        )
        self._control_partitions = control_partitions
        self.own = f"writer/{uuid.uuid4().hex}"
        self.owned: frozenset[int] = frozenset()

    def owns(self, workflow_id: str) -> bool:
        """Return whether this evaluator owns the workflow's control partition."""
        # Asked about many workflows in a row, which would push the active ones out of the cache.
        return partition_for(workflow_id.encode(), self._control_partitions) in self.owned

    def lane_of(self, workflow_id: str) -> str:
        partition = self._partition_of(workflow_id)
        return control_lane(partition) if partition in self.owned else self.own


def control_lane(partition: int) -> str:
    """Return the name of a control partition's lane."""
    return f"control/{partition}"


class OutboxDispatch:
    """The engine's port for outgoing events in dispatch mode `topic`: events become encoded records."""

    def __init__(
        self,
        codec: Codec,
        topology: Topology,
        lanes: Lanes,
        tokens: AnswerTokens | None = None,
        *,
        traceparent: Callable[[str, str], str | None] | None = None,
    ) -> None:
        """Take what encoding needs.

        `traceparent` returns an event's trace context, by the ids of its workflow and its own; it must not raise.
        """
        self._traceparent = traceparent
        self._codec = codec
        self._topology = topology
        self._lanes = lanes
        self._tokens = tokens
        #: Weak: an unused plan is freed with its writers.
        self._writers: WeakKeyDictionary[FacetPlan, tuple[EventWriter, str, EventHeaders]] = WeakKeyDictionary()

    def prepare(self, plan: WorkflowPlan) -> None:
        """Announce the schemas of every event that the workflow can send, before its first step runs.

        Raises SchemaUnavailable: wait and try again. ProgramError when the fingerprint of a schema is taken.
        """
        scope = TypeScope(
            schemas={
                name: [{"name": f, "type": t} for f, t in schema.param_types.items()]
                for name, schema in plan.schemas.items()
            },
            facets=plan.facet_names,
        )
        for facet in plan.facets:
            sends = facet.is_event and facet.library is None
            if sends and facet not in self._writers and self._topology.carries(facet.name):
                topic = self._topology.facet(facet.name)
                params = [{"name": n, "type": t} for n, t in facet.param_types.items()]
                try:
                    writer = self._codec.event_writer(facet.name, params, scope, topic, returns=_returns_of(facet))
                except SchemaTaken as error:
                    raise ProgramError(f"events of {facet.name}: {error}") from error
                self._writers[facet] = (writer, topic, EventHeaders(facet.name, source=SOURCE))

    def serves(self, execution: Execution) -> bool:  # noqa: ARG002 - the port's signature
        """Return True: every workflow of the store can be continued here."""
        return True

    def dispatch(self, execution: Execution, step: StepRecord, event_id: str, effects: Batch) -> None:
        """Encode the event. Raises ValueRefused and EventTooLarge, which fail the step."""
        effects.outbox.append(self._record(execution, step, event_id, execution.now_ms))

    def repeat(self, execution: Execution, step: StepRecord, event_id: str, sent_at_ms: int, effects: Batch) -> None:
        """Encode an event again that was sent at that time. Raises ValueRefused and EventTooLarge."""
        effects.outbox.append(self._record(execution, step, event_id, sent_at_ms))

    def _record(self, execution: Execution, step: StepRecord, event_id: str, sent_at_ms: int) -> OutboxRecord:
        assert step.facet is not None
        writer, topic, headers = self._writers[step.facet]
        event = NewEvent(
            event_id,
            execution.id,
            f"{execution.id}/{execution.number}",
            step.id,
            step.facet.name,
            step.params,
            step.attempt,
            sent_at_ms,
            step.deadline_ms,
            self._tokens.token_for(event_id, step.attempt) if self._tokens is not None else None,
        )
        value = writer.encode(event)
        lane = execution.lane = self._lanes.lane_of(execution.id)
        key = step.id.encode()
        described = headers.of(event_id=event_id, step_key=key, attempt=step.attempt, created_at_ms=sent_at_ms)
        if self._traceparent is not None:
            parent = self._traceparent(execution.id, event_id)
            described += () if parent is None else ((TRACE_PARENT, parent.encode()),)
        return OutboxRecord(lane, topic, key, value, described)

    def answered(self, execution: Execution, step: StepRecord, effects: Batch) -> None:
        """Do nothing: an event has no row of its own, its state is in its step's."""

    def ended(self, execution: Execution, effects: Batch) -> None:
        """Publish a milestone about how the workflow ended."""
        error = execution.root.error
        milestone = Lifecycle(
            workflow_id=execution.id,
            kind=f"workflow.{execution.status.lower()}",
            at=execution.now_ms,
            workflow=execution.plan.name,
            step_id=error.step_id if error is not None else None,
            facet=error.facet if error is not None else None,
            outputs=dict(execution.outputs) if error is None else None,
            error=kept_failure(error.type, error.message) if error is not None else None,
        )
        self.tell_outputs(effects, milestone)

    def tell_outputs(self, effects: Batch, milestone: Lifecycle) -> None:
        """Add a milestone's record; without its outputs, and with the reason, if they cannot be sent."""
        try:
            self.tell(effects, milestone)
        except (ValueRefused, EventTooLarge) as refused:
            # The workflow has ended all the same, and the store has its outputs.
            self.tell(effects, replace(milestone, outputs=None, error=kept_error(refused)))

    def tell(self, effects: Batch, milestone: Lifecycle) -> None:
        """Add a milestone's record."""
        lane = self._lanes.lane_of(milestone.workflow_id)
        topic = self._topology.lifecycle()
        value = self._codec.encode(milestone, topic)
        key = milestone.workflow_id.encode()
        effects.outbox.append(OutboxRecord(lane, topic, key, value, headers_for(milestone, source=SOURCE)))


def _returns_of(facet: FacetPlan) -> DeclaredReturns | None:
    """Return what a facet's agents learn about its returns; None when it declares none, and takes any result."""
    if not facet.return_types:
        return None
    required = facet.always_required
    return DeclaredReturns(required, tuple(name for name in facet.return_types if name not in required))


class _Sent:
    """The records of one commit that are being sent: a range of sequence numbers, some acknowledged."""

    __slots__ = ("failed", "first", "last", "open")

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last
        self.open = last - first + 1
        self.failed: list[StoredOutboxRecord] = []


class OutboxPublisher:
    """Publishes committed outbox records, in order.

    For each commit, in this order:
      1. produce its records (`publish`),
      2. note those that the broker has acknowledged (delivery callbacks, run by `settle`),
      3. delete their rows in the next batch's transaction (`take_published`).

    A crash after the commit and before 3 leaves rows that their lane's next owner publishes again, with the same ids.
    """

    def __init__(
        self, store: Store, producer: Producer, probe: Probe = no_probe, *, queue_timeout_s: float = _QUEUE_TIMEOUT_S
    ) -> None:
        """Take what publishing needs.

        `queue_timeout_s` limits the wait for a full local queue; after it the broker counts as away.
        """
        self._queue_timeout_s = queue_timeout_s
        self._store = store
        self._producer = producer
        self._probe = probe
        self._acknowledged: list[tuple[int, int]] = []
        self._in_flight = 0
        self._retries: deque[StoredOutboxRecord] = deque()
        #: First and last sequence number of the records sent and not all acknowledged yet.
        self._open: dict[int, int] = {}
        #: Rows that no topic takes right now, by sequence number.
        self._aside: dict[int, StoredOutboxRecord] = {}
        self._warnings = LimitedLog(_log)
        #: Why the last record could not be handed over, while that lasts.
        self._away: BrokerUnavailable | None = None

    @property
    def in_flight(self) -> int:
        """The number of records sent and not acknowledged yet, and of those that failed and wait to be sent again."""
        return self._in_flight + len(self._retries)

    @property
    def has_published(self) -> bool:
        """Return whether rows wait to be deleted."""
        return bool(self._acknowledged)

    def holds(self, sequence: int) -> bool:
        """Return whether this row is being sent, or is published and about to be deleted."""
        return (
            any(first <= sequence <= last for first, last in self._open.items())
            or any(first <= sequence <= last for first, last in self._acknowledged)
            or any(row.sequence == sequence for row in self._retries)
            or sequence in self._aside
        )

    def _under_way(self) -> set[int]:
        """Return the sequence numbers of all rows for which `holds` is true."""
        ranges = [*self._open.items(), *self._acknowledged]
        sent = {sequence for first, last in ranges for sequence in range(first, last + 1)}
        return sent | {row.sequence for row in self._retries} | self._aside.keys()

    def undeliverable(self) -> Counter[str]:
        """Return the number of rows that wait for each topic that is missing, or too small for them."""
        # A copy in one step: health asks from a thread of its own.
        return Counter(row.record.topic for row in self._aside.copy().values())

    def retry_undeliverable(self) -> None:
        """Send again the records that no topic took: it may have been created or enlarged since."""
        for row in list(self._aside.values()):
            if row.sequence not in self._open:
                self._send(_Sent(row.sequence, row.sequence), row)

    def publish(self, first_sequence: int, records: Iterable[OutboxRecord]) -> None:
        """Send the records of one commit, numbered from `first_sequence`; while the broker is away they wait here."""
        listed = list(records)
        if not listed:
            return
        sent = _Sent(first_sequence, first_sequence + len(listed) - 1)
        self._probe("outbox.before_publish")
        for index, record in enumerate(listed):
            self._send(sent, StoredOutboxRecord(first_sequence + index, 0, record))
        self._probe("outbox.published")

    def publish_stored(self, stored: Iterable[StoredOutboxRecord]) -> int:
        """Send rows read from the store, and return their number."""
        count = 0
        for row in stored:
            self._send(_Sent(row.sequence, row.sequence), row)
            count += 1
        return count

    def publish_lanes(self, lanes: Iterable[str], timeout_s: float) -> int:
        """Send all that these lanes hold, wait until it is acknowledged, and delete the rows.

        A new owner does this before it reads. Records that no topic takes wait, and do not hold up the rest. Raises
        BrokerUnavailable when not all was acknowledged in time; called again, it sends nothing twice.
        """
        count, under_way = 0, self._under_way()
        for lane in lanes:
            after = 0
            while rows := self._store.outbox(lane=lane, after=after):
                self.publish_stored(row for row in rows if row.sequence not in under_way)
                count += len(rows)
                after = rows[-1].sequence
        if count:
            self._drain(timeout_s, flush_unless_stopped)
            self._probe("outbox.lanes_published")
            published = self.take_published()
            if published:
                self._store.commit_batch(Batch(published=published))
        return count

    def drain(self, timeout_s: float) -> None:
        """Wait until everything sent is acknowledged. Raises BrokerUnavailable when that takes too long."""
        self._drain(timeout_s, lambda producer, timeout_s: producer.flush(timeout_s))

    def _drain(self, timeout_s: float, flush: Callable[[Producer, float], int]) -> None:
        self.settle()
        with WAITS.on(f"the broker: acknowledgements of {self.in_flight} outbox records"):
            remaining = flush(self._producer, timeout_s)
        if remaining or self._retries:
            raise BrokerUnavailable(
                f"{remaining + len(self._retries)} outbox records were not acknowledged in {timeout_s} s"
            )

    def settle(self) -> None:
        """Take in acknowledgements, and send again what could not be delivered.

        Raises BrokerUnavailable while no record can even be queued: more records would only wait, too.
        """
        self._producer.poll(0)
        self._away = None
        for _ in range(len(self._retries)):
            row = self._retries.popleft()
            self._send(_Sent(row.sequence, row.sequence), row)
        if self._away is not None:
            raise self._away

    def take_published(self) -> list[tuple[int, int]]:
        """Return the ranges of rows that are published, for the next batch to delete; adjacent ones are joined."""
        ranges, self._acknowledged = sorted(self._acknowledged), []
        joined: list[tuple[int, int]] = []
        for first, last in ranges:
            if joined and joined[-1][1] + 1 == first:
                joined[-1] = (joined[-1][0], last)
            else:
                joined.append((first, last))
        return joined

    def give_back(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Keep these ranges for the next batch: the batch that was to delete them was refused."""
        self._acknowledged.extend(ranges)

    def _send(self, sent: _Sent, row: StoredOutboxRecord) -> None:
        def delivered(error: Exception | None, _partition: TopicPartition, _offset: int) -> None:
            self._in_flight -= 1
            sent.open -= 1
            if isinstance(error, _REFUSED):
                # This must not stop all other workflows' events: the row waits, and a warning is logged.
                self._set_aside(row, error)
            elif error is not None or self._aside:
                self._aside.pop(row.sequence, None)
                if error is not None:
                    sent.failed.append(row)
            if not sent.open:
                self._close(sent)

        record = row.record
        self._in_flight += 1
        self._open[sent.first] = sent.last
        deadline_s: float | None = None
        while True:
            try:
                self._producer.produce(
                    record.topic, record.value, key=record.key, headers=record.headers, on_delivery=delivered
                )
                return
            except QueueFull as error:
                deadline_s = deadline_s or time.monotonic() + self._queue_timeout_s
                if self._away is None and time.monotonic() < deadline_s:
                    self._producer.poll(0.1)
                    continue
                self._away = BrokerUnavailable(f"nothing is acknowledged: {error}")
                delivered(self._away, TopicPartition(record.topic, -1), -1)
                return
            except (BrokerUnavailable, *_REFUSED) as error:
                if isinstance(error, BrokerUnavailable):
                    self._away = error
                delivered(error, TopicPartition(record.topic, -1), -1)
                return
            except BaseException:
                # It was never sent, so no callback will report it: its row stays for the next publisher of the lane.
                self._in_flight -= 1
                self._open.pop(sent.first, None)
                raise

    def _close(self, sent: _Sent) -> None:
        self._open.pop(sent.first, None)
        if not sent.failed and not self._aside:
            self._acknowledged.append((sent.first, sent.last))
            return
        # Only delivered records may lose their rows; the rest is sent again, row by row.
        kept = {row.sequence for row in sent.failed} | self._aside.keys()
        self._acknowledged.extend((n, n) for n in range(sent.first, sent.last + 1) if n not in kept)
        self._retries.extend(sent.failed)

    def _set_aside(self, row: StoredOutboxRecord, error: Exception) -> None:
        if row.record.topic not in self.undeliverable():
            topic = row.record.topic
            self._warnings.error(f"records for {topic}", "outbox records for %s wait in the store: %s", topic, error)
        self._aside[row.sequence] = row
