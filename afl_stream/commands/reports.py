"""The report of a run, as a document for programs and as sentences for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from afl.compiled.program import CompiledProgram
from afl.core.text.printable import printable
from afl.engine.model.plan import FacetPlan, WorkflowPlan
from afl.engine.model.store import CANCELLED, COMPLETED, ERROR, ErrorRecord, WorkflowRow
from afl.engine.operations.unanswered import WaitingStep
from afl.engine.states import EventState
from afl.output.source_places import SourcePlace, find_place, lines_at, source_text
from afl_stream.commands.invocation import Invocation
from afl_stream.commands.run_status import shown_status
from afl_stream.commands.terminal import Terminal, duration_text, time_text, value_text
from afl_stream.evaluator.runs import Ending
from afl_stream.exit_codes import ExitCode
from afl_stream.visibility.waiting.result_form import result_form as result_form

#: Waiting steps that are listed with the command that answers each.
_MOST_WAITING = 10
_WORDS = {COMPLETED: "completed", ERROR: "failed", CANCELLED: "was cancelled"}


def run_document(ending: Ending, program: CompiledProgram | None = None) -> dict[str, object]:
    """Return a run as one JSON document."""
    row = ending.row
    document: dict[str, object] = {"workflow_id": ending.workflow_id, "status": status_of(ending)}
    if row is not None:
        document |= {
            "workflow": row.name,
            "outputs": None if row.outputs is None else dict(row.outputs),
            "error": error_document(row.error, program),
            "duration_ms": max(row.ended_at_ms - row.created_at_ms, 0) if row.ended_at_ms else None,
        }
    if ending.rejected is not None:
        document["error"] = {"type": ending.rejected.type, "message": ending.rejected.message}
    if ending.was_over:
        document["was_over"] = True
    if ending.waiting:
        document["waiting"] = [waiting_document(step) for step in ending.waiting]
    return document


def status_of(ending: Ending) -> str:
    """Return the run's status; REJECTED when it was never started."""
    if ending.rejected is not None:
        return "REJECTED"
    return "UNKNOWN" if ending.row is None else shown_status(ending.row.status)


def exit_code_of_run(ending: Ending) -> ExitCode:
    """Return the exit code of a command that waited for this run."""
    if ending.rejected is not None:
        return ExitCode.BAD_INPUT
    if ending.waiting:
        return ExitCode.WORK_LEFT
    if not ending.is_ended:
        return ExitCode.INTERRUPTED
    return ExitCode.OK if ending.row is not None and ending.row.status == COMPLETED else ExitCode.WORK_LEFT


def show_ending(
    invocation: Invocation, terminal: Terminal, ending: Ending, plan: WorkflowPlan, program: CompiledProgram
) -> None:
    """Show how a run ended, or what it waits for."""
    row = ending.row
    if ending.rejected is not None:
        terminal.warn(f"Error: refused by the evaluator: {ending.rejected.type}: {ending.rejected.message}")
    elif row is None or not (ending.is_ended or ending.waiting):
        terminal.line("interrupted; the run continues as soon as an evaluator and agents run")
    elif ending.waiting:
        show_waiting(invocation, terminal, ending.waiting, plan)
    else:
        if ending.was_over:
            terminal.warn(was_over_text(invocation, row))
        took = f" after {duration_text(max(row.ended_at_ms - row.created_at_ms, 0))}" if row.ended_at_ms else ""
        terminal.line(f"{row.name} {_WORDS.get(row.status, row.status)}{took}")
        show_result(terminal, row, program)


def was_over_text(invocation: Invocation, row: WorkflowRow) -> str:
    """Return a note that a run had ended before the command, and what runs it again."""
    ended = f" at {time_text(row.ended_at_ms)}" if row.ended_at_ms else ""
    again = what_runs_again(invocation, row.id, row.status)
    return f"Note: run {row.id} ended before, as {row.status}{ended}, and nothing was run now. {again}"


def what_runs_again(invocation: Invocation, workflow_id: str, status: str) -> str:
    """Return what can be done with an id whose run has ended with this status."""
    again = (
        f"from its start again: {invocation.command_line('reset', workflow_id)}"
        if status == COMPLETED
        else f"to retry what has failed: {invocation.command_line('retry', workflow_id)}"
    )
    return f"For a new run choose another --id; {again}"


def show_result(terminal: Terminal, row: WorkflowRow, program: CompiledProgram | None = None) -> None:
    """Print a run's outputs, or why it failed: with the line of the source, if the file is here and unchanged."""
    if row.status == CANCELLED:
        reason = "" if row.error is None else row.error.message
        terminal.line(f"cancelled{'' if reason in ('', 'cancelled') else f': {printable(reason)}'}")
    elif row.error is not None:
        place = place_of(row.error, program)
        terminal.line(error_text(row.error, place))
        for line in () if place is None else lines_at(place, source_text(place)):
            terminal.line(line)
    elif row.outputs:
        terminal.values("outputs", row.outputs.items())


def show_waiting(
    invocation: Invocation, terminal: Terminal, waiting: Sequence[WaitingStep], plan: WorkflowPlan | None
) -> None:
    """List the events that have no handler here, each with the command that answers it, and what else it waits for."""
    for line in wait_lines(invocation, waiting):
        terminal.line(line)
    waiting = [step for step in waiting if not step.asks_nobody]
    if not waiting:
        return
    facets = facets_of(plan)
    count = len(waiting)
    terminal.line(f"{count} event{'s wait' if count > 1 else ' waits'} for an answer:")
    for step in waiting[:_MOST_WAITING]:
        terminal.line(f"  {step.facet}({value_text(dict(step.payload), 200)})")
        again = f", attempt {step.attempt}" if step.attempt > 1 else ""
        if step.until_ms is not None:
            again += f", until {time_text(step.until_ms)}"
        terminal.line(f"    step {step.step_id}, waits since {time_text(step.since_ms)}{again}")
        result = "{...}" if step.facet not in facets else result_form(facets[step.facet])
        terminal.line(f"    {invocation.command_line('continue', step.step_id, '--result', result)}")
    if count > _MOST_WAITING:
        terminal.line(f"  ... and {count - _MOST_WAITING} more")


def wait_lines(invocation: Invocation, waiting: Sequence[WaitingStep]) -> list[str]:
    """Return what steps wait for that ask no agent: external events, with the command that raises each, and times."""
    waits = [step for step in waiting if step.asks_nobody]
    lines: list[str] = []
    for step in waits[:_MOST_WAITING]:
        until = "" if step.until_ms is None else f" until {time_text(step.until_ms)}"
        if step.event_name is not None:
            what = f" for event {printable(step.event_name)}"
        elif step.event_state == EventState.RETRYING:
            what = f" for attempt {step.attempt + 1} of {step.facet}"
        else:
            what = f" ({step.facet})"
        lines += [f"waits{until}{what}", f"  step {step.step_id}"]
        if step.event_name is not None:
            lines.append(f"  {invocation.command_line('raise', step.workflow_id, step.event_name, 'DATA')}")
    if len(waits) > _MOST_WAITING:
        lines.append(f"... and {len(waits) - _MOST_WAITING} more waits")
    return lines


def facets_of(plan: WorkflowPlan | None) -> Mapping[str, FacetPlan]:
    """Return the facets of a program by name; none when it is unknown."""
    return {} if plan is None else {facet.name: facet for facet in plan.facets}


def waiting_document(step: WaitingStep) -> dict[str, object]:
    """Return a waiting step as JSON."""
    return {
        "workflow_id": step.workflow_id,
        "step_id": step.step_id,
        "facet": step.facet,
        "attempt": step.attempt,
        "since_ms": step.since_ms,
        "event": step.event_name,
        "until_ms": step.until_ms,
        "payload": dict(step.payload),
    }


def error_document(error: ErrorRecord | None, program: CompiledProgram | None = None) -> dict[str, object] | None:
    """Return a first cause as JSON; with its place in the source if the program has it."""
    if error is None:
        return None
    place = place_of(error, program)
    known = {} if place is None or not place.source_id else {"place": str(place)}
    return {**error._asdict(), **known}


def error_text(error: ErrorRecord, place: SourcePlace | None = None) -> str:
    """Return a first cause as a sentence: where, which facet, what it said."""
    where = str(place) if place is not None else f"line {error.line}" if error.line else ""
    called = ", ".join(part for part in (error.facet, where) if part)
    facet = f" ({called})" if called else ""
    return (
        f"{error.path or error.step_id or 'the run'}{facet} failed: {printable(error.type)}: {printable(error.message)}"
    )


def place_of(error: ErrorRecord | None, program: CompiledProgram | None) -> SourcePlace | None:
    """Return file and line of a first cause, if the run's program has them."""
    if error is None or program is None:
        return None
    return find_place(program, error.path, error.facet, error.line)
