"""The command `history`: a run's external events and executions, read from the store while others write it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from afl_stream.commands.arguments import common
from afl_stream.commands.invocation import Invocation, described_store, open_store
from afl_stream.commands.refusals import NotFound
from afl_stream.commands.terminal import Terminal, time_text, value_text
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl.engine.model.history import HistoryRow
    from afl.engine.model.workflow_rows import WorkflowRow

#: Characters of data and inputs that are shown, so that a line has 80 at most; --json has all of it.
_LONGEST_DATA: Final = 68
#: The same where not all are shown, which the line says.
_CUT_DATA: Final = 30


@click.command("history")
@click.argument("workflow_id")
@click.option("--execution", type=click.IntRange(min=1), metavar="N", help="Only that execution, from 1.")
@common
def history_command(invocation: Invocation, workflow_id: str, execution: int | None) -> ExitCode:
    """Show the external events of the run WORKFLOW_ID, the waits for them, and how its executions followed each other.

    An event has the number of the execution in which it was raised. With --execution, the history of that one: also
    events of earlier ones that were carried into it.

    Reads the store, so it works while `afl-stream dev` or an evaluator runs.

    \b
    Examples:
      afl-stream history order-17
      afl-stream history meter-7 --execution 3
      afl-stream history order-17 --json | jq '.history[] | select(.pending)'
    """
    from afl.stores.public.history import history_rows
    from afl_stream.wire.messages import check_workflow_id

    config, terminal = invocation.settings(), invocation.terminal()
    check_workflow_id(workflow_id)
    with open_store(config) as store:
        terminal.remark(described_store(config))
        row = store.load_workflow(workflow_id)
        rows = list(history_rows(store, workflow_id, execution))
        is_purged = row is None and store.tombstone(workflow_id) is not None
    if row is None and not rows and not is_purged:
        raise NotFound("run", workflow_id, "afl-stream status lists them")
    if row is not None and execution is not None and execution > row.execution_number:
        raise NotFound("execution", f"{execution} of {workflow_id}", f"its last is {row.execution_number}")
    if terminal.as_json:
        terminal.document(
            {
                "workflow_id": workflow_id,
                "workflow": None if row is None else row.name,
                "execution": None if row is None else row.execution_number,
                "history": [row_document(each) for each in rows],
            }
        )
        return ExitCode.OK
    _show(invocation, terminal, workflow_id, row, rows, is_purged=is_purged)
    return ExitCode.OK


def row_document(row: HistoryRow) -> dict[str, object]:
    """Return a row of the history as programs read it: what its kind has, and nothing else."""
    from afl.engine.model.history import HistoryKind

    document: dict[str, object] = {
        "number": row.number,
        "kind": row.kind.value,
        "execution": row.execution,
        "at_ms": row.at_ms,
    }
    match row.kind:
        case HistoryKind.EXTERNAL_EVENT:
            return document | {
                "name": row.name,
                "id": row.event_id,
                "data": row.value,
                "pending": row.is_pending,
                "step_id": row.step_id or None,
                "until_execution": row.until_execution or None,
                "dropped": row.dropped or None,
                "expires_at_ms": row.expires_at_ms or None,
            }
        case HistoryKind.EXTERNAL_SUBSCRIBED:
            return document | {"name": row.name, "step_id": row.step_id}
        case HistoryKind.CONTINUED_AS_NEW:
            return document | (dict(row.value) if isinstance(row.value, dict) else {"value": row.value})


def _show(
    invocation: Invocation,
    terminal: Terminal,
    workflow_id: str,
    row: WorkflowRow | None,
    rows: Sequence[HistoryRow],
    *,
    is_purged: bool,
) -> None:
    from afl.engine.model.store import ENDED_STATUSES
    from afl_stream.commands.reports import shown_status

    if row is not None:
        terminal.line(f"{row.name}  {row.id}")
        terminal.line(f"{shown_status(row.status)}, execution {row.execution_number:,}")
    elif is_purged:
        terminal.line(f"{workflow_id} was purged")
    else:
        start = invocation.command_line("start", "WORKFLOW", "--id", workflow_id)
        terminal.line(f"there is no run {workflow_id} yet: its events wait for {start}")
    if not rows:
        terminal.remark("no external event, no wait for one, and no execution that continued as new")
        return
    for each in rows:
        terminal.line(f"{time_text(each.at_ms)}  execution {each.execution:,}  {each.kind.value} {each.name}".rstrip())
        for detail in _details(each, has_ended=row is not None and row.status in ENDED_STATUSES):
            terminal.line(f"    {detail}")


def _details(row: HistoryRow, *, has_ended: bool) -> list[str]:
    """Return what is said of a row, in lines of its own: an id is never cut, and data may be long."""
    from afl.engine.model.history import HistoryKind

    if row.kind is HistoryKind.EXTERNAL_EVENT:
        return [f"data {_shown(row.value)}", _became(row, has_ended=has_ended), f"id {row.event_id}"]
    if row.kind is HistoryKind.EXTERNAL_SUBSCRIBED:
        return [f"step {row.step_id}"]
    if row.kind is HistoryKind.CONTINUED_AS_NEW and isinstance(row.value, dict):
        steps, abandoned = row.value.get("steps"), row.value.get("abandoned")
        left = f", {len(abandoned):,} unanswered" if isinstance(abandoned, list) and abandoned else ""
        return [f"after {steps} steps{left}", f"inputs {_shown(row.value.get('inputs'))}"]
    return []


def _shown(value: object) -> str:
    whole = value_text(value, _LONGEST_DATA)
    return whole if len(whole) <= _LONGEST_DATA else value_text(value, _CUT_DATA)


def _became(row: HistoryRow, *, has_ended: bool) -> str:
    """Return what has become of an event; `has_ended` is its run."""
    if row.dropped:
        return f"dropped: {row.dropped}"
    if row.expires_at_ms:
        return f"pending until {time_text(row.expires_at_ms)}"
    if row.is_pending and not has_ended:
        return "pending"
    if not row.step_id:
        return "never taken: the run has ended"
    carried = f" in execution {row.until_execution:,}" if row.until_execution > row.execution else ""
    return f"taken{carried} by step {row.step_id}"
