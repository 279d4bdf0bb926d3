"""The command `history`: what happened to a run in order of time, read from the store while others write it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from afl_stream.commands.arguments import common
from afl_stream.commands.completing.values import run_ids
from afl_stream.commands.invocation import Invocation, described_store
from afl_stream.commands.refusals import NotFound, no_such_run
from afl_stream.commands.runs.topics_beside import record_reader
from afl_stream.commands.sensitive.shown import open_shown_store, reveal_option
from afl_stream.commands.terminal import Terminal, time_text, value_text
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl.engine.model.history import HistoryRow
    from afl.engine.model.workflow_rows import WorkflowRow
    from afl.stores.public.persistence import EngineStore
    from afl_stream.visibility.records import RunRecordReader
    from afl_stream.visibility.runs import RunDetail
    from afl_stream.visibility.timeline import Transition

#: Characters of data and inputs that are shown, so that a line has 80 at most; --json has all of it.
_LONGEST_DATA: Final = 68
#: The same where not all are shown, which the line says.
_CUT_DATA: Final = 30


@click.command("history")
@click.argument("workflow_id", shell_complete=run_ids)
@click.option("--execution", type=click.IntRange(min=1), metavar="N", help="Only that execution, from 1.")
@click.option("--topics", "with_topics", is_flag=True, help="Also read the events and answers that the topics hold.")
@reveal_option
@common
def history_command(
    invocation: Invocation, workflow_id: str, execution: int | None, with_topics: bool, reveal: bool
) -> ExitCode:
    """Show what happened to the run WORKFLOW_ID in order of time: its start, its steps as they were created, its
    external events, the waits for them, how its executions followed each other, its log entries, and its end.

    The store does not keep when a step changed its state: of each step you see when it was created and its state now.
    With --topics, the records of its events and answers are read too. Of an execution that continued as new, or was run
    again, the steps are gone.

    An event has the number of the execution in which it was raised. With --execution, the history of that one: also
    events of earlier ones that were carried into it.

    Reads the store, so it works while `afl-stream dev` or an evaluator runs. Sensitive values are hidden.

    \b
    Examples:
      afl-stream history order-17
      afl-stream history meter-7 --execution 3
      afl-stream history order-17 --json | jq '.history[] | select(.pending)'
    """
    from afl.stores.public.history import history_rows
    from afl_stream.visibility.timeline import NOT_KEPT, timeline_of
    from afl_stream.wire.messages import check_workflow_id

    config, terminal = invocation.settings(), invocation.terminal()
    check_workflow_id(workflow_id)
    transitions: Sequence[Transition] = ()
    with (
        open_shown_store(config, reveal=reveal) as store,
        record_reader(invocation, config, with_topics=with_topics) as records,
    ):
        terminal.remark(described_store(config))
        run = _run_of(store, workflow_id, records)
        workflow_id, row = (workflow_id, None) if run is None else (run.row.id, run.row)
        rows = list(history_rows(store, workflow_id, execution))
        is_purged = row is None and store.tombstone(workflow_id) is not None
        if run is not None:
            transitions = timeline_of(store, run, execution)
        elif not rows and not is_purged:
            raise no_such_run(store, workflow_id)
    if row is not None and execution is not None and execution > row.execution_number:
        raise NotFound("execution", f"{execution} of {workflow_id}", f"its last is {row.execution_number}")
    gaps = () if run is None or run.records is None else run.records.gaps
    if terminal.as_json:
        terminal.document(
            {
                "workflow_id": workflow_id,
                "workflow": None if row is None else row.name,
                "execution": None if row is None else row.execution_number,
                "history": [row_document(each) for each in rows],
                "transitions": [each.to_dict() for each in transitions],
                "not_kept": list(NOT_KEPT),
                "gaps": list(gaps),
            }
        )
        return ExitCode.OK
    _show(invocation, terminal, workflow_id, row, _in_order(rows, transitions), is_purged=is_purged)
    for gap in gaps:
        terminal.remark(f"Note: {gap}")
    return ExitCode.OK


def _run_of(store: EngineStore, workflow_id: str, records: RunRecordReader | None) -> RunDetail | None:
    """Return a run in detail, by its id or the beginning of one; None where there is none.

    Events may be there before their run, and a purged run has left its history's place.
    """
    from afl_stream.visibility.runs import show_workflow
    from afl_stream.visibility.workflows import NoSuchWorkflow

    if store.load_workflow(workflow_id) is None and store.history(workflow_id, limit=1):
        return None
    try:
        return show_workflow(store, workflow_id, records)
    except NoSuchWorkflow as error:
        if len(error.near) > 1 and store.tombstone(workflow_id) is None:
            raise
        return None


def _in_order(rows: Sequence[HistoryRow], transitions: Sequence[Transition]) -> list[HistoryRow | Transition]:
    """Return both in order of time; rows of the history that the timeline names too stand once, in full."""
    from afl.engine.model.history import HistoryKind

    kinds = {kind.value for kind in HistoryKind}
    kept: list[HistoryRow | Transition] = [each for each in transitions if each.kind not in kinds]
    return sorted([*kept, *rows], key=lambda each: each.at_ms)


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
    rows: Sequence[HistoryRow | Transition],
    *,
    is_purged: bool,
) -> None:
    from afl.engine.model.store import ENDED_STATUSES
    from afl_stream.commands.run_status import shown_status
    from afl_stream.visibility.timeline import Transition

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
        if isinstance(each, Transition):
            terminal.line(f"{time_text(each.at_ms)}  execution {each.execution:,}  {each.kind}")
            for detail in (each.text, f"step {each.step_id}" if each.step_id else ""):
                if detail:
                    terminal.line(f"    {detail}")
            continue
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
