"""The command `show`: one run with everything that is known of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from afl_stream.commands.arguments import common
from afl_stream.commands.completing.values import run_ids
from afl_stream.commands.invocation import Invocation, described_store
from afl_stream.commands.runs.colours import colour_of
from afl_stream.commands.runs.topics_beside import record_reader, topics_option
from afl_stream.commands.runs.words import said_of
from afl_stream.commands.sensitive.shown import open_shown_store, reveal_option
from afl_stream.commands.terminal import Terminal, duration_text, time_text, value_text
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl_stream.dead_letters import WorkflowLetters
    from afl_stream.visibility.records import Answer
    from afl_stream.visibility.runs import RunDetail, StepDetail

#: Steps shown without --all.
_MOST_STEPS: Final = 40
#: Where the details of deeper steps begin: an id has to fit beside it.
_DEEPEST: Final = 8


@click.command("show")
@click.argument("workflow_id", shell_complete=run_ids)
@click.option("--all", "all_steps", is_flag=True, help="Show every step of the run.")
@topics_option
@reveal_option
@common
def show_command(
    invocation: Invocation, workflow_id: str, all_steps: bool, with_topics: bool, reveal: bool
) -> ExitCode:
    """Show the run WORKFLOW_ID (or the one whose id begins so): its steps as a tree, each with its state, times,
    attempts, inputs and results, who answered it, and the failures that were caught.

    Who answered a step, and when, stands in the control topic, which is read as far back as the run. How long a step
    took is known from there; the store does not keep it.

    \b
    Examples:
      afl-stream show order-17
      afl-stream show order-17 --no-topics
      afl-stream show order-17 --json | jq '.root | .. | .error? // empty'
    """
    from afl_stream.commands.waiting.pauses_here import pause_remarks
    from afl_stream.visibility.runs import show_workflow

    config, terminal = invocation.settings(), invocation.terminal()
    with open_shown_store(config, reveal=reveal) as store:
        with record_reader(invocation, config, with_topics=with_topics) as records:
            terminal.remark(described_store(config))
            run = show_workflow(store, workflow_id, records)
        # Afterwards: one process at a time reads an embedded log.
        pauses = [] if terminal.as_json else pause_remarks(invocation, store, [run.row], asks_broker=with_topics)
    if terminal.as_json:
        terminal.document(run.to_dict())
        return ExitCode.OK
    letters = None
    if run.records is not None:
        from afl_stream.commands.dlq.of_run import letters_of_run

        letters, problem = letters_of_run(invocation, config, run.row.id, run.row.created_at_ms)
        if problem:
            terminal.remark(f"whether answers were refused cannot be read now: {problem}")
    _show(invocation, terminal, run, letters, all_steps=all_steps)
    for line in pauses:
        terminal.line(line)
    return ExitCode.OK


def _show(
    invocation: Invocation, terminal: Terminal, run: RunDetail, letters: WorkflowLetters | None, *, all_steps: bool
) -> None:
    from afl_stream.commands.dlq.of_run import show_letters_of_steps
    from afl_stream.commands.reports import show_result

    summary = run.summary
    terminal.line(f"{summary.workflow}  {summary.workflow_id}")
    status = f"{summary.status}, runnable" if summary.runnable else summary.status
    started, took = time_text(summary.created_at_ms), duration_text(summary.duration_ms)
    terminal.coloured((status, colour_of(summary.status)), (f", started {started}, {took}", ""))
    terminal.line(f"program {summary.program}")
    if run.inputs:
        terminal.values("inputs", run.inputs.items())
    show_result(terminal, run.row, run.program)
    steps = run.steps()
    shown = steps if all_steps else steps[:_MOST_STEPS]
    for depth, step in shown[1:]:
        _show_step(terminal, depth - 1, step)
        if letters is not None:
            show_letters_of_steps(invocation, terminal, letters, [step.step_id])
    if len(shown) < len(steps):
        terminal.line(f"... and {len(steps) - len(shown):,} more steps (--all shows them)")
    for gap in () if run.records is None else run.records.gaps:
        terminal.remark(f"Note: {gap}")
    if run.summary.ended_at_ms is None:
        terminal.remark(f"its records: {invocation.command_line('trace', summary.workflow_id)}")


def _show_step(terminal: Terminal, depth: int, step: StepDetail) -> None:
    start = "  " * depth
    took = "" if step.duration_ms is None else f"  {duration_text(step.duration_ms)}"
    again = f"  attempt {step.attempt}" if step.attempt > 1 else ""
    terminal.coloured((f"{start}{step.label}  ", ""), (step.status, colour_of(step.status)), (f"{took}{again}", ""))
    inside = start[:_DEEPEST] + "    "
    for line in _details(step, terminal.width - len(inside)):
        terminal.line(f"{inside}{line}")


def _details(step: StepDetail, width: int) -> list[str]:
    lines = [f"step {step.step_id}", f"since {time_text(step.created_at_ms)}"]
    if step.deadline_ms is not None:
        lines.append(f"until {time_text(step.deadline_ms)}")
    for title, values in (("inputs", step.inputs), ("results", step.results)):
        if values:
            lines.append(f"{title} {_value(values, width - len(title) - 1)}")
    for answer in step.answers:
        # Refused ones are dead letters, and shown as those.
        if not answer.refused:
            lines += _answer_lines(answer)
    if step.last_failure is not None:
        lines.append(f"failed before: {step.last_failure.type}: {step.last_failure.message}")
    if step.caught is not None:
        lines.append(f"caught {step.caught.type}: {step.caught.message}")
    elif step.error is not None and step.error.step_id == step.step_id:
        lines.append(f"{step.error.type}: {step.error.message}")
    return lines


def _answer_lines(answer: Answer) -> Sequence[str]:
    by = answer.agent or "somebody who gives no name"
    attempt = "" if answer.attempt is None else f", attempt {answer.attempt}"
    lines = [f"{said_of(answer)} by {by}, {time_text(answer.at_ms)}{attempt}"]
    place = f"{answer.topic}[{answer.partition}]@{answer.offset}"
    lines.append(f"  {place}{f', group {answer.group}' if answer.group else ''}")
    if answer.error:
        lines.append(f"  {answer.error}")
    return lines


def _value(values: object, width: int) -> str:
    whole = value_text(values, width)
    return whole if len(whole) <= width else value_text(values, max(width - 50, 20))
