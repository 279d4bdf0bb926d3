"""The commands that start, cancel and describe a workflow: their effects and their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.compiled.program import ProgramError
from afl.core.errors import AFLError
from afl.core.trace_context import context_of
from afl.engine.model.plan import WorkflowPlan
from afl.engine.model.store import CANCELLED, ENDED_STATUSES, RUNNING, WorkflowRow
from afl.engine.model.tombstones import Tombstone
from afl.engine.operations.unanswered import waiting_steps
from afl_stream.errors import (
    AlreadyEnded,
    AlreadyExists,
    AlreadyPurged,
    NothingToCancel,
    NothingToDescribe,
)
from afl_stream.evaluator.answer_identity import differences_of_start
from afl_stream.evaluator.outcomes import Outcome
from afl_stream.evaluator.runs import is_taken
from afl_stream.registry.errors import SchemaRefused
from afl_stream.run_errors import IfExistsUnknown
from afl_stream.sensitive.marks import marked_names
from afl_stream.wire.bounded_texts import kept_name, kept_reason
from afl_stream.wire.command_answers import APPLIED
from afl_stream.wire.headers import IF_EXISTS_HEADER, TRACE_PARENT, IfExists, header
from afl_stream.wire.messages import CancelWorkflow, Command, DescribeWorkflow, StartWorkflow

if TYPE_CHECKING:
    from afl_stream.evaluator.context import EvaluatorContext
    from afl_stream.evaluator.unit_of_work import UnitOfWork
    from afl_stream.transport import Record


def start(context: EvaluatorContext, unit: UnitOfWork, command: StartWorkflow, record: Record) -> Outcome:
    """Start a workflow, once.

    Raises AlreadyExists, IdInUse, IfExistsUnknown, UnknownProgram, TopicMissing, and what starting raises.
    """
    if_exists = _if_exists(record)
    run = unit.row(command.workflow_id) or context.store.tombstone(command.workflow_id)
    if run is not None:
        _check_existing(context, command, run, if_exists)
        if isinstance(run, WorkflowRow) and run.runnable:
            unit.continue_workflow(command.workflow_id)
        unit.confirm(command.workflow_id)
        _repeat_start(unit, command, run)
        return Outcome.DUPLICATE
    program, name = context.definitions.find(command.workflow, command.program)
    try:
        plan = context.workflows.plan(program, name)
    except SchemaRefused as error:
        # Runs that exist wait for such a schema; a new one would only wait beside them.
        raise ProgramError(f"{name} is not started: {error}") from error
    check_topics(context, plan)
    with context.hiding_inputs(program.fingerprint, name):
        execution = context.workflows.start(
            plan,
            command.workflow_id,
            dict(command.inputs),  # type: ignore[arg-type]  # decoded values
            unit.now_ms,
            runner_id=kept_name(command.requested_by) or "",
            # From here on it is this deployment's: pollers leave all but the answers to its evaluators.
            lane=context.lanes.lane_of(command.workflow_id),
            traceparent=header(record.headers, TRACE_PARENT),
            trace_context=_trace_of(context, command.workflow_id, record),
        )
    unit.external.adopt(execution)
    unit.add(execution)
    unit.outputs.tell(execution.id, "workflow.started", workflow=plan.name, command_id=command.command_id)
    unit.evaluate(execution)
    return Outcome.APPLIED


def with_named_inputs(context: EvaluatorContext, record: Record, command: Command) -> Record:
    """Return the record of a refused start with headers that name its sensitive inputs: its writer may know none.

    A dead letter is read by people, and by audits that know no program.
    """
    if context.sensitive is None or not isinstance(command, StartWorkflow) or marked_names(record.headers):
        return record
    try:
        program, name = context.definitions.find(command.workflow, command.program)
    except AFLError:
        return record
    return record._replace(headers=(*record.headers, *context.sensitive.of_start(program, name, command.inputs)))


def _if_exists(record: Record) -> IfExists | None:
    """Return what a start says about a run that exists. Raises IfExistsUnknown."""
    found = header(record.headers, IF_EXISTS_HEADER)
    try:
        return None if found is None else IfExists(found)
    except ValueError:
        raise IfExistsUnknown(found or "") from None


def _check_existing(
    context: EvaluatorContext, command: StartWorkflow, run: WorkflowRow | Tombstone, if_exists: IfExists | None
) -> None:
    """Raise AlreadyExists or IdInUse unless the run that has the id, or had it, will do for a start."""
    if is_taken(run, command.workflow, if_exists):
        return
    sensitive = () if context.sensitive is None else context.sensitive.inputs_of(run.program, run.name)
    if differences := differences_of_start(run, command, context.definitions.do_the_same, sensitive):
        raise AlreadyExists(command.workflow_id, run.name, differences)


def _trace_of(context: EvaluatorContext, workflow_id: str, record: Record) -> str:
    """Return the trace that a run is part of, to be kept with it; where tracing is off, what its command names."""
    if context.tracing is not None:
        return context.tracing.started(record.headers, workflow_id)
    named = context_of(record.headers)
    return "" if named is None else named.text


def check_topics(context: EvaluatorContext, plan: WorkflowPlan) -> None:
    """Raise TopicMissing unless every event of a workflow has its topic."""
    topology = context.topology
    # What the runtime answers itself has no topic.
    carried = [
        facet.name for facet in plan.facets if facet.is_event and facet.library is None and topology.carries(facet.name)
    ]
    topics = {topology.facet(facet): facet for facet in carried}
    for topic in context.missing_topics(frozenset(topics)):
        raise context.topic_missing(topic, f"event facet {topics[topic]}")


def _repeat_start(unit: UnitOfWork, command: StartWorkflow, run: WorkflowRow | Tombstone) -> None:
    """Answer a start whose run exists, or existed."""
    if isinstance(run, Tombstone):
        if command.command_id is not None:
            unit.outputs.refuse(command, AlreadyPurged(run.workflow_id, run.name, run.status, run.ended_at_ms))
        return
    # Changes of this batch count, and are reported by themselves if they are the run's end.
    has_ended = run.status in ENDED_STATUSES and not unit.is_under_way(run.id)
    unit.outputs.repeat(command, run.status if has_ended else RUNNING, run if has_ended else None)


def cancel(context: EvaluatorContext, unit: UnitOfWork, command: CancelWorkflow) -> Outcome:
    """End a workflow. Raises NothingToCancel."""
    run = unit.execution(command.workflow_id, cancel_only=True) or context.store.tombstone(command.workflow_id)
    if run is None:
        raise NothingToCancel(command.workflow_id)
    if isinstance(run, Tombstone) or run.is_ended:
        unit.confirm(command.workflow_id)
        if run.status == CANCELLED:
            unit.outputs.repeat(command, run.status)
        elif command.command_id is not None:
            unit.outputs.refuse(command, AlreadyEnded(command.workflow_id, run.status))
        return Outcome.LATE
    unit.touch(run)
    run.cancel(kept_reason(command.reason))
    if command.command_id is not None:
        unit.outputs.tell(command.workflow_id, APPLIED, command_id=command.command_id)
    return Outcome.APPLIED


def describe(context: EvaluatorContext, unit: UnitOfWork, command: DescribeWorkflow) -> Outcome:
    """Report what the store knows of a workflow, or that this batch starts it.

    Other changes of this batch may be missing in the report.
    """
    row = unit.row(command.workflow_id)
    if row is None:
        unit.outputs.refuse(command, NothingToDescribe(command.workflow_id))
        return Outcome.REJECTED
    if row.revision:
        unit.outputs.describe(command, row, waiting_steps(context.store, row.id))
    else:
        # Neither it nor its steps are stored yet: none of them has asked an agent.
        unit.outputs.describe(command, row if row.status in ENDED_STATUSES else row._replace(status=RUNNING), ())
    return Outcome.APPLIED
