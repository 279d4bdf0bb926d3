"""The command `status`: runs and their steps, read from the store while others write it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from afl.core.clock import epoch_ms
from afl.core.text.printable import printable
from afl.core.trace_context import trace_id_of
from afl_stream.commands.arguments import common
from afl_stream.commands.completing.values import run_ids
from afl_stream.commands.invocation import Invocation, described_store
from afl_stream.commands.refusals import NotFound
from afl_stream.commands.run_status import shown_status
from afl_stream.commands.runs.words import no_runs_text
from afl_stream.commands.sensitive.shown import open_shown_store, reveal_option
from afl_stream.commands.terminal import Terminal, duration_text, time_text
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl.compiled.program import CompiledProgram
    from afl.engine.model.store import ErrorRecord, StepDocument, WorkflowRow
    from afl.engine.model.tombstones import Tombstone
    from afl.stores.public.persistence import EngineStore
    from afl_stream.visibility.step_tree import TreeNode

#: Steps shown without --all.
_MOST_STEPS = 60
#: Names of pending events that are shown.
_MOST_NAMES = 10


@click.command("status")
@click.argument("workflow_id", required=False, shell_complete=run_ids)
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Most runs that are listed.")
@click.option("--all", "all_steps", is_flag=True, help="Show every step of the run.")
@reveal_option
@common
def status_command(
    invocation: Invocation, workflow_id: str | None, limit: int, all_steps: bool, reveal: bool
) -> ExitCode:
    """List the runs; with a WORKFLOW_ID (or the beginning of one) show its steps, outputs, and the first cause if it
    failed.

    Reads the store, so it works while `afl-stream dev` or an evaluator runs. Sensitive values are hidden.

    \b
    Examples:
      afl-stream status
      afl-stream status order-17
      afl-stream status order-17 --json | jq .outputs
    """
    config, terminal = invocation.settings(), invocation.terminal()
    with open_shown_store(config, reveal=reveal) as store:
        terminal.remark(described_store(config))
        if workflow_id is None:
            rows = store.list_workflows(limit=limit)
            _show_runs(invocation, terminal, store, rows)
            # The table is for programs, too: each of its lines is a run.
            _show_pauses(invocation, store, rows, terminal.remark)
        else:
            _show_run(invocation, terminal, store, workflow_id, all_steps=all_steps)
    return ExitCode.OK


def _show_runs(invocation: Invocation, terminal: Terminal, store: EngineStore, rows: Sequence[WorkflowRow]) -> None:
    if terminal.as_json:
        terminal.document([_row_document(row) for row in rows])
        return
    if not rows:
        terminal.remark(no_runs_text(invocation, store))
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
        whole=("workflow id",),
    )


def _show_pauses(
    invocation: Invocation, store: EngineStore, rows: Sequence[WorkflowRow], say: Callable[[str], None]
) -> None:
    """Say what is paused, to people who look at runs that have not ended."""
    from afl_stream.commands.waiting.pauses_here import pause_remarks

    if not invocation.as_json:
        for line in pause_remarks(invocation, store, rows):
            say(line)


def _show_run(
    invocation: Invocation, terminal: Terminal, store: EngineStore, workflow_id: str, *, all_steps: bool
) -> None:
    from afl.engine.execution.generations import current_steps
    from afl.engine.operations.unanswered import waiting_steps
    from afl_stream.commands.programs import program_of, stored_plan
    from afl_stream.commands.reports import show_result, show_waiting
    from afl_stream.visibility.step_tree import statement_names, step_tree
    from afl_stream.visibility.workflows import NoSuchWorkflow, find_workflow

    row = store.load_workflow(workflow_id)
    if row is None:
        if (tombstone := store.tombstone(workflow_id)) is not None:
            _show_purged(terminal, tombstone)
            return
        try:
            row = find_workflow(store, workflow_id)
        except NoSuchWorkflow as error:
            hint = "afl-stream status lists them"
            raise NotFound("run", workflow_id, hint, error.near or error.alike) from error
    documents = current_steps(store.load_steps(row.id), row.execution)
    program = program_of(store, row)
    plan = stored_plan(program, row)
    names = statement_names(plan)
    root = step_tree(documents, names)
    if terminal.as_json:
        nodes = {} if root is None else {node.step.id: node for _, node in root.walk()}
        steps = [_step_document(document, nodes.get(document.id), row, program) for document in documents]
        terminal.document({**_row_document(row, program), "steps": steps})
        return
    now_ms = epoch_ms()
    took = duration_text(max((row.ended_at_ms or now_ms) - row.created_at_ms, 0))
    terminal.line(f"{row.name}  {row.id}")
    again = f", run again {row.execution - 1:,} times" if row.execution > 1 else ""
    if row.executions_before:
        again += f", execution {row.execution_number:,}"
    terminal.line(f"{_status_text(row)}, started {time_text(row.created_at_ms)}, {took}, {row.steps:,} steps{again}")
    terminal.line(f"trace {trace_id_of(row.id, row.trace_context)}")
    if row.inputs:
        terminal.values("inputs", row.inputs.items())
    show_result(terminal, row, program)
    if root is not None:
        _show_tree(terminal, root, row, program, all_steps=all_steps)
    _show_pending(invocation, terminal, store, row)
    waiting = waiting_steps(store, row.id)
    if waiting:
        show_waiting(invocation, terminal, waiting, plan)
        _show_dead_letters(invocation, terminal, row, [step.step_id for step in waiting if not step.asks_nobody])
    _show_pauses(invocation, store, [row], terminal.line)


def _show_dead_letters(invocation: Invocation, terminal: Terminal, row: WorkflowRow, waiting: Sequence[str]) -> None:
    """Show which answers to waiting steps were refused, as far as the topics can be read now."""
    from afl_stream.commands.dlq.of_run import letters_of_run, show_letters_of_steps

    if not waiting:
        return
    letters, problem = letters_of_run(invocation, invocation.settings(), row.id, row.created_at_ms)
    show_letters_of_steps(invocation, terminal, letters, waiting)
    if problem:
        terminal.remark(f"whether answers were refused cannot be read now: {problem}")


def _show_pending(invocation: Invocation, terminal: Terminal, store: EngineStore, row: WorkflowRow) -> None:
    """Show how many external events no step has taken, by name."""
    from collections import Counter

    pending = store.pending_events([row.id]).get(row.id, [])
    if not pending:
        return
    names = Counter(printable(event.name) for event in pending)
    shown = ", ".join(f"{name} ({count:,})" if count > 1 else name for name, count in names.most_common(_MOST_NAMES))
    more = f" and {len(names) - _MOST_NAMES:,} more names" if len(names) > _MOST_NAMES else ""
    count = f"{len(pending):,} external event{'s' * (len(pending) != 1)}"
    look = invocation.command_line("history", row.id)
    terminal.line(f"{count} that no step has taken: {shown}{more}; {look}")


def _show_purged(terminal: Terminal, tombstone: Tombstone) -> None:
    if terminal.as_json:
        terminal.document({**asdict(tombstone), "purged": True})
        return
    ended, purged = time_text(tombstone.ended_at_ms), time_text(tombstone.purged_at_ms)
    terminal.line(f"{tombstone.name}  {tombstone.workflow_id}")
    terminal.line(f"{tombstone.status}, started {time_text(tombstone.created_at_ms)}, ended {ended}, purged {purged}")
    terminal.line("its steps, inputs and outputs are gone; its id is not used again")


def _show_tree(
    terminal: Terminal, root: TreeNode, row: WorkflowRow, program: CompiledProgram | None, *, all_steps: bool
) -> None:
    from afl_stream.visibility.step_tree import step_status

    lines = list(root.walk())
    shown = lines if all_steps else _most_telling(lines)
    rows = [
        (
            "  " * depth + node.label,
            step_status(node, row),
            str(node.step.attempt or ""),
            node.step.id,
            _failure(node, program),
        )
        for depth, node in shown
    ]
    terminal.table(("step", "state", "attempt", "step id", ""), rows, right=("attempt",), whole=("step id",))
    if len(shown) < len(lines):
        terminal.line(f"... and {len(lines) - len(shown):,} more steps (--all shows them)")


def _failure(node: TreeNode, program: CompiledProgram | None) -> str:
    """Return why a step has failed, or what it has caught.

    The steps above a failed step fail by its error, which is shown only where it happened.
    """
    error = node.step.error
    if node.is_failed and error is not None and error.step_id == node.step.id:
        return _error_text(error, program)
    return f"caught {node.caught.type}: {node.caught.message}" if node.caught is not None else ""


def _error_text(error: ErrorRecord, program: CompiledProgram | None) -> str:
    from afl_stream.commands.reports import place_of

    place = place_of(error, program)
    # The folder is in the line above; a table has no room for it.
    where = f"{str(place).rpartition('/')[2]}: " if place is not None and place.source_id else ""
    return f"{where}{error.type}: {error.message}"


def _most_telling(lines: Sequence[tuple[int, TreeNode]]) -> list[tuple[int, TreeNode]]:
    """Return the lines to show, in the tree's order: failures first, then waiting steps, then the highest."""
    if len(lines) <= _MOST_STEPS:
        return list(lines)
    ranked = sorted(
        range(len(lines)),
        key=lambda at: (
            not (lines[at][1].is_failed or lines[at][1].caught),
            lines[at][0] > 1 and not lines[at][1].is_waiting,
            lines[at][0],
            at,
        ),
    )
    return [lines[at] for at in sorted(ranked[:_MOST_STEPS])]


def _status_text(row: WorkflowRow) -> str:
    status = shown_status(row.status)
    return f"{status}, runnable" if row.runnable else status


def _row_document(row: WorkflowRow, program: CompiledProgram | None = None) -> dict[str, object]:
    from afl_stream.commands.reports import error_document

    return {
        "workflow_id": row.id,
        "workflow": row.name,
        "status": shown_status(row.status),
        "runnable": row.runnable,
        "execution": row.execution,
        "execution_number": row.execution_number,
        "pending_events": row.pending_events,
        "steps_made": row.steps,
        "program": row.program,
        "trace_id": trace_id_of(row.id, row.trace_context),
        "inputs": dict(row.inputs),
        "outputs": None if row.outputs is None else dict(row.outputs),
        "error": error_document(row.error, program),
        "created_at_ms": row.created_at_ms,
        "updated_at_ms": row.updated_at_ms,
        "ended_at_ms": row.ended_at_ms or None,
    }


def _step_document(
    step: StepDocument, node: TreeNode | None, row: WorkflowRow, program: CompiledProgram | None
) -> dict[str, object]:
    from afl_stream.commands.reports import error_document
    from afl_stream.visibility.step_tree import step_status

    return {
        "step_id": step.id,
        "label": None if node is None else node.label,
        "status": None if node is None else step_status(node, row),
        "caught": None if node is None or node.caught is None else asdict(node.caught),
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
