"""The command `watch`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from afl.core.process.signals import draining
from afl.core.process.stopping import StopFlag
from afl_stream.commands.arguments import common, timeout_option
from afl_stream.commands.audits.moments import Begin
from afl_stream.commands.completing.values import run_ids
from afl_stream.commands.invocation import Invocation, open_transport
from afl_stream.commands.sensitive.shown import open_shown_store
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl_stream.commands.runs.unknown_ids import UnknownId
    from afl_stream.commands.terminal import Terminal
    from afl_stream.wire.messages import Lifecycle

#: One read of the lifecycle topic, and the time between two looks at a store. Too short for a person to notice.
_READ_S: Final = 0.3

#: Returns the milestones since the last call, after a wait of so many seconds at most, and whether more are there.
Read = Callable[[float], "tuple[list[Lifecycle], bool]"]


@click.command("watch")
@click.argument("workflow_id", required=False, shell_complete=run_ids)
@click.option(
    "--from",
    "begin",
    type=Begin(),
    metavar="WHERE",
    help="Without a WORKFLOW_ID: `latest` (the default), `beginning`, or a time: 2026-11-30T08:15, 2h ago as 2h.",
)
@timeout_option
@common
def watch_command(
    invocation: Invocation, workflow_id: str | None, begin: int | str | None, timeout_s: float | None
) -> ExitCode:
    """Show the milestones of a run, or of all runs, as they happen.

    With a WORKFLOW_ID it begins with the run's start, and ends with the run: with 0 if it completed, and 1 if it failed
    or was cancelled. Without one it shows all runs until Ctrl-C, which ends it with 130.

    On Kafka it reads the lifecycle topic, which has milestones of steps where `lifecycle.steps` is on. On the embedded
    log it looks at the store, so it works while `afl-stream dev` runs, and shows a run's steps.

    \b
    Examples:
      afl-stream watch
      afl-stream watch order-17
      afl-stream watch --json | jq 'select(.kind == "workflow.error")'
    """
    if workflow_id is not None and begin is not None:
        raise click.UsageError("--from is for all runs: a run is shown from its start")
    from afl_stream.wire.messages import check_workflow_id

    if workflow_id is not None:
        check_workflow_id(workflow_id)
    config = invocation.settings()
    source = _milestones_of_topic if config.is_kafka else _milestones_of_store
    stop = StopFlag()
    with ExitStack() as opened, draining(stop.set, lambda: "closing the reader; no run is touched"):
        read = opened.enter_context(source(invocation, workflow_id, begin, stop))
        return _follow(invocation, read, workflow_id, stop, timeout_s)


def _follow(
    invocation: Invocation, read: Read, workflow_id: str | None, stop: StopFlag, timeout_s: float | None
) -> ExitCode:
    """Show what is read until the run has ended, the time is over, or a signal has come."""
    from afl_stream.client.milestones import NotInTime
    from afl_stream.commands.watching.milestone_lines import MilestoneLines, is_shown
    from afl_stream.wire.milestone_kinds import WORKFLOW_COMPLETED, WORKFLOW_ENDS, WORKFLOW_OPENINGS

    terminal, lines = invocation.terminal(), MilestoneLines(of_one_run=workflow_id is not None)
    began_s, end, is_seen, is_told = time.monotonic(), "", False, False
    while not stop.is_set():
        left_s = _READ_S if timeout_s is None else min(_READ_S, began_s + timeout_s - time.monotonic())
        found, has_more = read(max(left_s, 0.0))
        for milestone in filter(is_shown, found):
            is_seen = True
            if milestone.kind in WORKFLOW_ENDS:
                end = milestone.kind
            elif milestone.kind in WORKFLOW_OPENINGS:
                end = ""
            _show(invocation, lines, milestone)
        if end and workflow_id is not None and not has_more:
            return ExitCode.OK if end == WORKFLOW_COMPLETED else ExitCode.WORK_LEFT
        if workflow_id is not None and not (is_seen or is_told or has_more):
            is_told = True
            terminal.remark(f"nothing is known of a run {workflow_id} yet; waiting for its start")
        if timeout_s is not None and time.monotonic() - began_s >= timeout_s:
            if workflow_id is None:
                return ExitCode.OK
            raise NotInTime(f"the end of workflow {workflow_id}", timeout_s)
    return ExitCode.INTERRUPTED


def _show(invocation: Invocation, lines: Any, milestone: Lifecycle) -> None:
    from afl_stream.commands.watching.milestone_lines import colour_of, document_of

    if not invocation.as_json:
        *before, line = lines.of(milestone)
        terminal = invocation.terminal()
        for day in before:
            terminal.line(day)
        start, kind, rest = line.partition(milestone.kind)
        terminal.coloured((start, ""), (kind, colour_of(milestone)), (rest, ""))
        return
    from afl.core.json_objects import write_json
    from afl.core.process.standard_streams import json_for
    from afl.core.text.printable import printable_json

    out = invocation.out or sys.stdout
    text = printable_json(write_json(document_of(milestone), indent=None, separators=(",", ":")))
    out.write(json_for(out, text) + "\n")
    out.flush()


def _tell_unknown(terminal: Terminal, unknown: Iterable[UnknownId]) -> None:
    """Say which run may be meant. One that resembles no other is just one that has not begun."""
    for each in unknown:
        if each.near:
            terminal.remark(each.note)


@contextmanager
def _milestones_of_topic(
    invocation: Invocation, workflow_id: str | None, begin: int | str | None, stop: StopFlag
) -> Iterator[Read]:
    from afl_stream.client.client import Client
    from afl_stream.commands.runs.unknown_ids import meant_here, unknown_ids
    from afl_stream.reading.watchdog import Watchdog
    from afl_stream.sensitive.redaction import Redaction
    from afl_stream.transport import BrokerUnavailable

    config, terminal = invocation.settings(), invocation.terminal()
    with open_transport(config) as transport, Client(config, transport) as client:
        if workflow_id is not None:
            workflow_id = meant_here(config, transport, terminal, workflow_id)
            _tell_unknown(terminal, unknown_ids(config, transport, [workflow_id]))
        from_beginning = workflow_id is not None or begin == "beginning"
        since_ms = begin if isinstance(begin, int) else None
        redaction = Redaction(config.sensitive.patterns)
        milestones = client.milestones(
            workflow_id, from_beginning=from_beginning, since_ms=since_ms, redaction=redaction
        )
        with closing(milestones):
            watchdog = Watchdog(config.kafka, "the watch")
            terminal.remark(
                f"milestones of {workflow_id or 'all runs'} on {client.topology.lifecycle()}; Ctrl-C ends it"
            )

            def read(timeout_s: float) -> tuple[list[Lifecycle], bool]:
                try:
                    found = milestones.read(timeout_s)
                except BrokerUnavailable as error:
                    stop.wait(min(watchdog.failed(error), timeout_s))
                    return [], True
                watchdog.read(milestones.consumer, len(found))
                return found, not milestones.has_read_what_was_there

            yield read


@contextmanager
def _milestones_of_store(
    invocation: Invocation, workflow_id: str | None, begin: int | str | None, stop: StopFlag
) -> Iterator[Read]:
    from afl.core.clock import epoch_ms
    from afl_stream.commands.invocation import described_store
    from afl_stream.commands.runs.short_ids import meant_id
    from afl_stream.commands.runs.unknown_ids import unknown_in
    from afl_stream.commands.watching.shown_pauses import ShownPauses
    from afl_stream.commands.watching.stored_runs import StoredRuns

    config, terminal = invocation.settings(), invocation.terminal()
    since_ms = begin if isinstance(begin, int) else epoch_ms()
    whole = workflow_id is not None or begin == "beginning"
    with open_shown_store(config) as store:
        if workflow_id is not None:
            workflow_id = meant_id(store, terminal, workflow_id)
            _tell_unknown(terminal, filter(None, [unknown_in(store, workflow_id)]))
        runs = StoredRuns(store, workflow_id, since_ms=None if whole else since_ms)
        terminal.remark(f"milestones of {workflow_id or 'all runs'} in {described_store(config)}; Ctrl-C ends it")
        is_first, pauses = True, ShownPauses(invocation, store, workflow_id)

        def read(timeout_s: float) -> tuple[list[Lifecycle], bool]:
            nonlocal is_first
            if not is_first:
                stop.wait(timeout_s)
            is_first = False
            for line in pauses.look():
                terminal.remark(line)
            return runs.look(), False

        yield read
