"""The command `trace`: a run's events and answers, each with its place in its topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from afl_stream.commands.arguments import common
from afl_stream.commands.completing.values import run_ids
from afl_stream.commands.invocation import Invocation, described_store, open_transport
from afl_stream.commands.runs.words import exact_time, said_of
from afl_stream.commands.sensitive.shown import open_shown_store
from afl_stream.commands.terminal import Terminal, duration_text
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl_stream.visibility.records import Answer
    from afl_stream.visibility.runs import RunDetail


@click.command("trace")
@click.argument("workflow_id", shell_complete=run_ids)
@common
def trace_command(invocation: Invocation, workflow_id: str) -> ExitCode:
    """Show what the topics hold of the run WORKFLOW_ID (or the one whose id begins so), in order of time: each event
    with its topic, partition and offset, and each answer with its own, the agent and the group.

    An answer that an evaluator refused is shown with the reason, and the place of its dead letter. The records of the
    run's time are read, in the partitions of the run and of its steps. What retention has deleted is gone.

    \b
    Examples:
      afl-stream trace order-17
      afl-stream trace order-17 --json | jq '.records[] | select(.kind == "answer") | .agent'
    """
    from afl_stream.visibility.records import RunRecordReader
    from afl_stream.visibility.runs import show_workflow

    config, terminal = invocation.settings(), invocation.terminal()
    with open_shown_store(config) as store, open_transport(config) as transport:
        terminal.remark(described_store(config))
        run = show_workflow(store, workflow_id, RunRecordReader(config, transport))
    assert run.records is not None
    if terminal.as_json:
        labels = {step.step_id: step.label for _, step in run.steps()}
        records = [{**found.to_dict(), "label": labels.get(found.step_id)} for found in run.records.in_order()]
        head = {"workflow_id": run.row.id, "workflow": run.row.name, "status": run.summary.status}
        terminal.document({**head, "records": records, "gaps": list(run.records.gaps)})
    else:
        _show(terminal, run)
    return ExitCode.OK


def _show(terminal: Terminal, run: RunDetail) -> None:
    from afl_stream.visibility.records import Answer

    assert run.records is not None
    terminal.line(f"{run.summary.workflow}  {run.summary.workflow_id}")
    labels = {step.step_id: step.label for _, step in run.steps()}
    asked: dict[tuple[str, int | None], int] = {}
    for found in run.records.in_order():
        what = labels.get(found.step_id, "a step of an earlier execution")
        attempt = "" if found.attempt is None else f", attempt {found.attempt}"
        place = f"{found.topic}[{found.partition}]@{found.offset}"
        if isinstance(found, Answer):
            terminal.line(f"{exact_time(found.at_ms)}  {said_of(found)}  {what}{attempt}")
            since = asked.get((found.step_id, found.attempt))
            after = "" if since is None else f", after {duration_text(max(found.at_ms - since, 0))}"
            terminal.line(f"    at {place}{after}")
            for line in _of_answer(found):
                terminal.line(f"    {line}")
        else:
            asked.setdefault((found.step_id, found.attempt), found.at_ms)
            terminal.line(f"{exact_time(found.at_ms)}  event  {what}{attempt}")
            terminal.line(f"    at {place}")
            terminal.line(f"    step {found.step_id}")
    if not (run.records.events or run.records.answers):
        terminal.remark("the topics hold no record of this run")
    for gap in run.records.gaps:
        terminal.remark(f"Note: {gap}")


def _of_answer(answer: Answer) -> list[str]:
    lines = [f"by {answer.agent or 'somebody who gives no name'}{f', group {answer.group}' if answer.group else ''}"]
    if answer.error:
        lines.append(answer.error)
    if answer.refused:
        lines += [answer.refused, f"dead letter {answer.letter}"]
    return lines
