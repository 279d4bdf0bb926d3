"""The commands about schedules: their effects and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from afl.engine.errors import ScriptsNotAllowed
from afl.engine.planning.value_checks import check_inputs
from afl_stream.errors import NewerFormat, SchemaUnavailable, StreamError
from afl_stream.evaluator.outcomes import Outcome
from afl_stream.evaluator.refusals import REFUSALS
from afl_stream.evaluator.schedules.book import with_command
from afl_stream.schedules.documents import Schedule, ScheduleUnreadable
from afl_stream.schedules.firings import Firing, ScheduleState, pass_over, run_id, trigger
from afl_stream.schedules.spec import Overlap, ScheduleSpec, check_fires, spec_of
from afl_stream.wire.bounded_texts import kept_error, kept_id
from afl_stream.wire.command_answers import APPLIED, REFUSED, REPEATED
from afl_stream.wire.messages import Lifecycle
from afl_stream.wire.schedule_commands import (
    DeleteSchedule,
    PauseSchedule,
    PutSchedule,
    ScheduleCommand,
    TriggerSchedule,
)

if TYPE_CHECKING:
    from afl_stream.evaluator.context import EvaluatorContext
    from afl_stream.evaluator.unit_of_work import UnitOfWork
    from afl_stream.transport import Record


class NoSuchSchedule(StreamError):
    """A command is about a schedule that does not exist."""

    def __init__(self, schedule_id: str) -> None:
        super().__init__(f"there is no schedule {schedule_id}; afl-stream schedule list shows those that there are")
        self.schedule_id = schedule_id


def apply(context: EvaluatorContext, unit: UnitOfWork, command: ScheduleCommand, record: Record) -> Outcome:
    """Carry out a command about a schedule, and answer it; a refused one becomes a dead letter as well.

    A command whose id the schedule knows was carried out before, as was one whose effect exists: it is repeated.
    Raises SchemaUnavailable and NewerFormat.
    """
    try:
        done = _carry_out(context, unit, command)
    except (SchemaUnavailable, NewerFormat):
        raise
    except (StreamError, *REFUSALS) as error:
        unit.outputs.tell(command.schedule_id, REFUSED, error=kept_error(error), command_id=command.command_id)
        said = f"{type(command).__name__} of schedule {command.schedule_id} is refused"
        unit.outputs.dead_letter(record, error, said)
        return Outcome.REJECTED
    if command.command_id is not None:
        milestone = Lifecycle(
            workflow_id=command.schedule_id,
            kind=REPEATED if done is None else APPLIED,
            at=unit.now_ms,
            outputs=done or None,
            command_id=kept_id(command.command_id),
        )
        context.dispatch.tell(unit.batch, milestone)
    return Outcome.DUPLICATE if done is None else Outcome.APPLIED


def _carry_out(context: EvaluatorContext, unit: UnitOfWork, command: ScheduleCommand) -> Mapping[str, object] | None:
    """Carry a command out, and return what its answer tells; None if there was nothing to do."""
    command_id, book = kept_id(command.command_id), unit.schedules
    if isinstance(command, DeleteSchedule):
        if not book.exists(command.schedule_id):
            raise NoSuchSchedule(command.schedule_id)
        book.delete(command.schedule_id)
        return {}
    if isinstance(command, PutSchedule):
        return {} if _put(context, unit, command, command_id) else None
    schedule = book.find(command.schedule_id)
    if schedule is None:
        raise NoSuchSchedule(command.schedule_id)
    if schedule.state.knows(command_id):
        return None
    told: Mapping[str, object] = {}
    if isinstance(command, TriggerSchedule):
        firing, state = trigger(schedule.id, schedule.state, unit.now_ms)
        book.start(schedule, firing)
        told = {"workflow_id": firing.workflow_id}
    else:
        is_paused = isinstance(command, PauseSchedule)
        if schedule.state.paused is is_paused:
            return None
        state = replace(pass_over(schedule.spec, schedule.state, unit.now_ms), paused=is_paused)
    book.keep(with_command(schedule._replace(state=state), command_id))
    return told


def _put(context: EvaluatorContext, unit: UnitOfWork, command: PutSchedule, command_id: str | None) -> bool:
    """Create a schedule, or replace what it says. It keeps what it has done, and fires from now on only."""
    try:
        known = unit.schedules.find(command.schedule_id)
    except ScheduleUnreadable:
        known = None  # It is repaired by this.
    if known is not None and known.state.knows(command_id):
        return False
    spec, sensitive = _checked(context, command)
    paused = command.paused if command.paused is not None else known is not None and known.state.paused
    if known is not None and known[1:] == (spec, replace(known.state, paused=paused), sensitive):
        return False
    check_fires(spec, unit.now_ms)
    if known is None:
        state = ScheduleState(decided_ms=unit.now_ms)
    else:
        state = pass_over(known.spec, known.state, unit.now_ms)
        if spec.overlap is not Overlap.QUEUE:
            state = replace(state, queued_ms=None)
    schedule = Schedule(command.schedule_id, spec, replace(state, paused=paused), sensitive)
    unit.schedules.check_start(schedule, Firing(run_id(schedule.id, unit.now_ms), unit.now_ms))
    unit.schedules.keep(with_command(schedule, command_id))
    return True


def _checked(context: EvaluatorContext, command: PutSchedule) -> tuple[ScheduleSpec, frozenset[str]]:
    """Return what a schedule is to say, with its workflow's full name, and the names of its sensitive inputs.

    What each start would find is found here. Raises ScheduleRefused, UnknownProgram, InputError, SensitiveSchedule,
    EncryptedSchedule, and what planning the workflow raises.
    """
    spec = spec_of(command)
    program, name = context.definitions.find(spec.workflow, spec.program)
    plan = context.workflows.plan(program, name)
    if plan.scripted and not context.workflows.runs_scripts:
        raise ScriptsNotAllowed(declaration=plan.scripted[0])
    with context.hiding_inputs(program.fingerprint, name):
        check_inputs(plan.facet, plan.schemas, dict(spec.inputs))  # type: ignore[arg-type]  # decoded values
    values, sensitive = context.sensitive, frozenset[str]()
    if values is not None:
        sensitive = values.of_schedule(command.schedule_id, spec.inputs, program, name)
    return replace(spec, workflow=name), sensitive
