"""The outbox: events and milestones are rows of the commit that makes them, and are published as records after it.

`OutboxDispatch` encodes inside the unit of work, so a value that does not fit fails its step by name and publishing
meets only encoded records. outbox_publisher.py sends what was committed and remembers what the broker has acknowledged;
the rows are deleted in the next batch's transaction. In the row means Created, row gone means Dispatched.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Final
from weakref import finalize

from afl.compiled.program import ProgramError
from afl.compiled.sensitive import NO_MARKS
from afl.core.row_maker import row_maker
from afl.core.trace_context import context_in, parse_context
from afl.engine.execution.execution import Execution
from afl.engine.model.plan import WorkflowPlan
from afl.engine.model.records import StepRecord
from afl.engine.model.store import Batch, OutboxRecord
from afl_stream.errors import EventTooLarge, SchemaTaken, ValueRefused
from afl_stream.evaluator.facet_schemas import params_of, returns_of, type_scope
from afl_stream.evaluator.sensitive.outgoing import MarkedFacet, OutgoingValues
from afl_stream.partitioner import partition_for
from afl_stream.settings.answer_tokens import AnswerTokens
from afl_stream.topics.declared import Topology
from afl_stream.tracing.evaluators import EvaluatorTracing
from afl_stream.transport import Headers
from afl_stream.wire.bounded_texts import kept_error, kept_failure
from afl_stream.wire.codec import Codec
from afl_stream.wire.event_writers import JSON_CONTENT, EventWriter
from afl_stream.wire.headers import EventHeaders, HeaderForm, MilestoneHeaders, unpacked
from afl_stream.wire.messages import Lifecycle
from afl_stream.wire.new_records import NewEvent

#: The sender in the evaluator's records.
SOURCE = "/afl-stream/evaluator"

#: Workflows whose lane is remembered.
_REMEMBERED_WORKFLOWS = 100_000

_outbox_record: Final = row_maker(OutboxRecord, "lane", "topic", "key", "value", "headers")


class Lanes:
    """The lanes of workflows: who publishes a workflow's records.

    It is the owner of the workflow's control partition, or else their writer itself.
    """

    def __init__(self, control_partitions: int) -> None:
        # A workflow is asked about once a step; its partition costs more than the rest of the question.
        found = lru_cache(maxsize=_REMEMBERED_WORKFLOWS)(self._find_lane)
        #: Returns the name of a workflow's lane.
        self.lane_of: Callable[[str], str] = found
        self._forget_lanes = found.cache_clear
        self._control_partitions = control_partitions
        self.own = f"writer/{uuid.uuid4().hex}"
        self._owned: frozenset[int] = frozenset()

    @property
    def owned(self) -> frozenset[int]:
        """The control partitions that this evaluator owns."""
        return self._owned

    @owned.setter
    def owned(self, partitions: frozenset[int]) -> None:
        self._owned = partitions
        self._forget_lanes()

    def owns(self, workflow_id: str) -> bool:
        """Return whether this evaluator owns the workflow's control partition."""
        # Asked about many workflows in a row, which would push the active ones out of the cache.
        return partition_for(workflow_id.encode(), self._control_partitions) in self.owned

    def _find_lane(self, workflow_id: str) -> str:
        partition = partition_for(workflow_id.encode(), self._control_partitions)
        return control_lane(partition) if partition in self._owned else self.own


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
        sensitive: OutgoingValues | None = None,
        tracing: EvaluatorTracing | None = None,
    ) -> None:
        """Take what encoding needs.

        `traceparent` returns an event's trace context, by the ids of its workflow and its own; it must not raise.
        `tracing` gives it where tracing is on. `sensitive` names and encrypts the sensitive values; None: no value is
        sensitive.
        """
        self._traceparent, self._tracing = traceparent, tracing
        self._is_traced = traceparent is not None or tracing is not None
        self._sensitive = sensitive
        #: Facets with sensitive values, by the identity of their plans, as `_writers`.
        self._marked: dict[int, MarkedFacet] = {}
        self._codec = codec
        self._topology = topology
        self._lanes, self._lane_of = lanes, lanes.lane_of
        self._tokens = tokens
        self._milestone_headers = MilestoneHeaders(source=SOURCE, form=codec.header_form)
        #: By the identity of the facet's plan, and dropped with it: its hash would cost a call for each event.
        self._writers: dict[int, tuple[EventWriter, str, EventHeaders]] = {}

    def prepare(self, plan: WorkflowPlan) -> None:
        """Announce the schemas of every event that the workflow can send, before its first step runs.

        Raises SchemaUnavailable: wait and try again. ProgramError when the fingerprint of a schema is taken.
        """
        scope = type_scope(plan.schemas, plan.facet_names)
        sensitive = self._sensitive
        marks = NO_MARKS if sensitive is None else sensitive.prepare(plan)
        for facet in plan.facets:
            sends = facet.is_event and facet.library is None
            if sends and sensitive is not None and marks and not self._topology.carries(facet.name):
                sensitive.refuse_task(facet, marks)
            if sends and id(facet) not in self._writers and self._topology.carries(facet.name):
                topic = self._topology.facet(facet.name)
                params, returns = params_of(facet), returns_of(facet)
                if sensitive is not None and marks and (marked := sensitive.facet(facet, marks)) is not None:
                    params = [{**one, "type": marked.sent_type(one["name"], one["type"])} for one in params]
                    self._marked[id(facet)] = marked
                    finalize(facet, self._marked.pop, id(facet), None).atexit = False
                try:
                    writer = self._codec.event_writer(facet.name, params, scope, topic, returns=returns, source=SOURCE)
                except SchemaTaken as error:
                    raise ProgramError(f"events of {facet.name}: {error}") from error
                # A CloudEvent in binary mode has its attributes in headers of their own.
                form = HeaderForm.CLOUDEVENTS if writer.content == JSON_CONTENT else self._codec.header_form
                headers = EventHeaders(facet.name, source=SOURCE, form=form, content=writer.content)
                self._writers[id(facet)] = (writer, topic, headers)
                finalize(facet, self._writers.pop, id(facet), None).atexit = False

    def serves(self, execution: Execution) -> bool:  # noqa: ARG002 - the port's signature
        """Return True: every workflow of the store can be continued here."""
        return True

    def repeat(self, execution: Execution, step: StepRecord, event_id: str, sent_at_ms: int, effects: Batch) -> None:
        """Encode an event again that was sent at that time. Raises ValueRefused and EventTooLarge."""
        self.dispatch(execution, step, event_id, effects, sent_at_ms)

    def dispatch(
        self, execution: Execution, step: StepRecord, event_id: str, effects: Batch, sent_at_ms: int | None = None
    ) -> None:
        """Encode the event, sent now or at that time. Raises ValueRefused and EventTooLarge, which fail the step."""
        if sent_at_ms is None:
            sent_at_ms = execution.now_ms
        assert step.facet is not None
        writer, topic, headers = self._writers[id(step.facet)]
        marked = self._marked.get(id(step.facet)) if self._marked else None
        event = NewEvent(
            event_id,
            execution.id,
            f"{execution.id}/{execution.number}",
            step.id,
            step.facet.name,
            step.params if marked is None else marked.payload(step.params, execution.id, step.id),
            step.attempt,
            sent_at_ms,
            step.deadline_ms,
            self._tokens.token_for(event_id, step.attempt) if self._tokens is not None else None,
        )
        value = writer.encode(event)
        lane = execution.lane = self._lane_of(execution.id)
        key = step.id.encode()
        is_traced = self._is_traced or execution.trace_context
        trace = self._trace_headers(execution, event_id) if is_traced else ()
        described = headers.of(
            event_id=event_id, step_id=step.id, attempt=step.attempt, created_at_ms=sent_at_ms, trace=trace
        )
        if marked is not None:
            described = (*unpacked(described), *marked.headers)
        effects.outbox.append(_outbox_record((lane, topic, key, value, described)))

    def _trace_headers(self, execution: Execution, event_id: str) -> Headers:
        """Return the trace context of an event's record: of its own span where there is one, or else of its run."""
        kept = execution.trace_context
        if self._tracing is not None:
            return self._tracing.event_headers(kept, execution.id, event_id)
        context = context_in(kept)
        parent = None if self._traceparent is None else self._traceparent(execution.id, event_id)
        own = parse_context(parent)
        if context is None:
            return () if own is None else own.headers
        return (context if own is None else context._replace(span_id=own.span_id)).headers

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
        self.tell_outputs(effects, milestone, execution.plan.fingerprint)

    def tell_outputs(self, effects: Batch, milestone: Lifecycle, program: str) -> None:
        """Add the record of a milestone of a run of this program (a fingerprint).

        If its outputs cannot be sent, it has the reason in their place.
        """
        more: Headers = ()
        if self._sensitive is not None and milestone.outputs:
            milestone, more = self._sensitive.milestone(milestone, program)
        try:
            self.tell(effects, milestone, more)
        except (ValueRefused, EventTooLarge) as refused:
            # The workflow has ended all the same, and the store has its outputs.
            self.tell(effects, replace(milestone, outputs=None, error=kept_error(refused)))

    def tell(self, effects: Batch, milestone: Lifecycle, more: Headers = ()) -> None:
        """Add a milestone's record."""
        lane = self._lanes.lane_of(milestone.workflow_id)
        topic = self._topology.lifecycle()
        value = self._codec.encode(milestone, topic)
        key = milestone.workflow_id.encode()
        headers = self._milestone_headers.of(milestone)
        if more:
            headers = (*unpacked(headers), *more)
        effects.outbox.append(_outbox_record((lane, topic, key, value, headers)))
