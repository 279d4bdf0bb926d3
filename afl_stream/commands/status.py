"""The command `status`: runs and their steps, read from the store while others write it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from afl.compiled import CompiledProgram, ProgramError
from afl.core.clock import epoch_ms
from afl.errors import AFLError
from afl.runtime.generations import current_steps
from afl.runtime.persistence import EngineStore, ErrorRecord, StepDocument, WorkflowRow
from afl.runtime.plan import WorkflowPlan
from afl.runtime.planner import plan_workflow
from afl.runtime.programs import stored_program
from afl.runtime.states import StepState
from afl.runtime.tombstones import Tombstone
from afl_stream.commands.invocation import Invocation, open_store, told_store
from afl_stream.commands.refusals import NotFound
from afl_stream.commands.reports import error_document, place_of, show_result, show_waiting
from afl_stream.commands.step_tree import TreeNode, statement_names, step_tree
from afl_stream.commands.terminal import Terminal, duration_text, time_text
from afl_stream.exit_codes import ExitCode
from afl_stream.runs import waiting_steps

#: Steps shown to a person who does not ask for all.
_MOST_STEPS = 60
#: What people call the states in which a step stays; the others are on the way.
_STATES = {StepState.STATEMENT_COMPLETE: "complete", StepState.STATEMENT_ERROR: "failed"}


def status(invocation: Invocation, workflow_id: str | None, *, limit: int, all_steps: bool) -> ExitCode:
    """Show the runs, or one of them with its steps."""
    config, terminal = invocation.settings(), invocation.terminal()
    with open_store(config) as store:
        terminal.remark(told_store(config))
        if workflow_id is None:
            _show_runs(terminal, store.list_workflows(limit=limit))
        else:
            _show_run(invocation, terminal, store, workflow_id, all_steps=all_steps)
    return ExitCode.OK


def _show_runs(terminal: Terminal, rows: Sequence[WorkflowRow]) -> None:
    if terminal.as_json:
        terminal.document([_row_document(row) for row in rows])
        return
    if not rows:
        terminal.remark("no runs yet; start one with: afl-stream start WORKFLOW")
        return
    now_ms = epoch_ms()
    terminal.table(
        ("workflow id", "workflow", "status", "steps", "started", "duration"),
        [
            (
                row.id,
                row.name,
                _status_text(row),
                f"{row.steps:,}",
                time_text(row.created_at_ms),
                duration_text(max((row.ended_at_ms or now_ms) - row.created_at_ms, 0)),
            )
            for row in rows
        ],
        right=("steps", "duration"),
    )


def _show_run(
    invocation: Invocation, terminal: Terminal, store: EngineStore, workflow_id: str, *, all_steps: bool
) -> None:
    row = store.load_workflow(workflow_id)
    if row is None:
        known = [other.id for other in store.list_workflows(limit=1_000)]
        if (tombstone := store.tombstone(workflow_id)) is not None:
            _show_purged(terminal, tombstone)
            return
        near = [other for other in known if workflow_id and other.startswith(workflow_id)]
        if len(near) != 1:
            raise NotFound("run", workflow_id, "afl-stream status lists them", near[:3])
        row = store.load_workflow(near[0])
        assert row is not None
    documents = current_steps(store.load_steps(row.id), row.execution)
    program = _program_of(store, row)
    plan = _plan_of(program, row)
    names = statement_names(plan)
    root = step_tree(documents, names)
    if terminal.as_json:
        labels = {} if root is None else {node.step.id: node.label for _, node in root.walk()}
        steps = [_step_document(document, labels.get(document.id), program) for document in documents]
        terminal.document({**_row_document(row, program), "steps": steps})
        return
    now_ms = epoch_ms()
    took = duration_text(max((row.ended_at_ms or now_ms) - row.created_at_ms, 0))
    terminal.line(f"{row.name}  {row.id}")
    again = f", run again {row.execution - 1:,} times" if row.execution > 1 else ""
    terminal.line(f"{_status_text(row)}, started {time_text(row.created_at_ms)}, {took}, {row.steps:,} steps{again}")
    if row.inputs:
        terminal.values("inputs", row.inputs.items())
    show_result(terminal, row, program)
    if root is not None:
        _show_tree(terminal, root, program, all_steps=all_steps)
    waiting = waiting_steps(store, row.id)
    if waiting:
        show_waiting(invocation, terminal, waiting, plan)


def _show_purged(terminal: Terminal, tombstone: Tombstone) -> None:
    if terminal.as_json:
        terminal.document({**asdict(tombstone), "purged": True})
        return
    ended, purged = time_text(tombstone.ended_at_ms), time_text(tombstone.purged_at_ms)
    terminal.line(f"{tombstone.name}  {tombstone.workflow_id}")
    terminal.line(f"{tombstone.status}, started {time_text(tombstone.created_at_ms)}, ended {ended}, purged {purged}")
    terminal.line("its steps, inputs and outputs are gone; its id is not used again")


def _show_tree(terminal: Terminal, root: TreeNode, program: CompiledProgram | None, *, all_steps: bool) -> None:
    lines = list(root.walk())
    shown = lines if all_steps else _most_telling(lines)
    rows = []
    for depth, node in shown:
        step = node.step
        # Those above a failed step fail by its error: it is told where it happened.
        error = _error_text(step.error, program) if step.error and step.error.step_id == step.id else ""
        rows.append(("  " * depth + node.label, _state_text(node), str(step.attempt or ""), error))
    terminal.table(("step", "state", "attempt", ""), rows, right=("attempt",))
    if len(shown) < len(lines):
        terminal.line(f"... and {len(lines) - len(shown):,} more steps (--all shows them)")


def _error_text(error: ErrorRecord, program: CompiledProgram | None) -> str:
    place = place_of(error, program)
    # The folder stands in the line above; a table has no room for it.
    where = f"{str(place).rpartition('/')[2]}: " if place is not None and place.source_id else ""
    return f"{where}{error.type}: {error.message}"


def _most_telling(lines: Sequence[tuple[int, TreeNode]]) -> list[tuple[int, TreeNode]]:
    """As many as a person reads: failures first, then what waits, then the highest; in the tree's order."""
    if len(lines) <= _MOST_STEPS:
        return list(lines)
    ranked = sorted(
        range(len(lines)),
        key=lambda at: (not lines[at][1].is_failed, lines[at][0] > 1 and not lines[at][1].is_waiting, lines[at][0], at),
    )
    return [lines[at] for at in sorted(ranked[:_MOST_STEPS])]


def _program_of(store: EngineStore, row: WorkflowRow) -> CompiledProgram | None:
    """A run's program; None when it is not there or not to be read: the steps can be shown without."""
    try:
        return stored_program(store, row.program)
    except (ProgramError, AFLError):
        return None


def _plan_of(program: CompiledProgram | None, row: WorkflowRow) -> WorkflowPlan | None:
    try:
        return None if program is None else plan_workflow(program, row.name)
    except (ProgramError, AFLError):
        return None


def _status_text(row: WorkflowRow) -> str:
    return f"{row.status}, runnable" if row.runnable else row.status


def _state_text(node: TreeNode) -> str:
    if node.is_waiting:
        return "waits for an answer" if node.step.event_state else "waits for its turn"
    return _STATES.get(node.step.state, "runs")


def _row_document(row: WorkflowRow, program: CompiledProgram | None = None) -> dict[str, object]:
    return {
        "workflow_id": row.id,
        "workflow": row.name,
        "status": row.status,
        "runnable": row.runnable,
        "execution": row.execution,
        "steps_made": row.steps,
        "program": row.program,
        "inputs": dict(row.inputs),
        "outputs": None if row.outputs is None else dict(row.outputs),
        "error": error_document(row.error, program),
        "created_at_ms": row.created_at_ms,
        "updated_at_ms": row.updated_at_ms,
        "ended_at_ms": row.ended_at_ms or None,
    }


def _step_document(step: StepDocument, label: str | None, program: CompiledProgram | None) -> dict[str, object]:
    return {
        "step_id": step.id,
        "label": label,
        "type": step.object_type,
        "facet": step.facet_name,
        "state": step.state,
        "event_state": step.event_state or None,
        "attempt": step.attempt,
        "params": dict(step.params),
        "returns": dict(step.returns),
        "error": error_document(step.error, program),
        "container_id": step.container_id,
        "block_id": step.block_id,
        "foreach_index": step.foreach_index,
        "created_at_ms": step.created_at_ms,
    }
