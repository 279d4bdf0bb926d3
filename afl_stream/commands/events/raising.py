"""The command `raise`: it raises an external event, which a run may wait for by its name."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from afl_stream.commands.arguments import common
from afl_stream.commands.completing.values import run_ids
from afl_stream.commands.invocation import Invocation, open_transport, store_here
from afl_stream.commands.refusals import CommandRefused
from afl_stream.commands.runs.short_ids import meant_id
from afl_stream.commands.runs.unknown_ids import UnknownId, unknown_in
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from afl.engine.types import Value
    from afl.stores.public.persistence import EngineStore
    from afl_stream.client.external_events import EventReceipt

#: How long --wait waits unless --timeout says it: longer than a rebalance among evaluators takes.
_ANSWER_TIMEOUT_S: Final = 10.0

#: A longer text is not repeated in an error.
_MOST_QUOTED: Final = 60


@click.command("raise")
@click.argument("workflow_id", shell_complete=run_ids)
@click.argument("name")
@click.argument("data", required=False)
@click.option("--data", "data_option", metavar="JSON", help="DATA, if it begins with a minus.")
@click.option("--id", "event_id", metavar="ID", help="The event's id; the same id twice counts once.")
@click.option("--wait", is_flag=True, help="Wait until an evaluator has read the event, and show what became of it.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help=f"Longest wait for the evaluator; {_ANSWER_TIMEOUT_S:g} by default.",
)
@common
def raise_command(
    invocation: Invocation,
    workflow_id: str,
    name: str,
    data: str | None,
    data_option: str | None,
    event_id: str | None,
    wait: bool,
    timeout_s: float | None,
) -> ExitCode:
    """Raise the external event NAME for the run WORKFLOW_ID, with DATA as JSON; @FILE or - reads it.

    A step that waits for an event of this name takes it, now or later: the event is kept until then. It may be raised
    before the run is started. Without DATA its data is null.

    With --wait the command ends with 2 if the event is refused, and with 4 if no evaluator has answered in time.

    \b
    Examples:
      afl-stream raise order-17 approval
      afl-stream raise order-17 approval '{"by": "ann", "approved": true}' --id approval-1
      afl-stream raise order-17 note '"a text has quotes of its own"'
      afl-stream raise order-17 invoice @invoice.json --wait
    """
    if data is not None and data_option is not None:
        raise click.UsageError("DATA and --data say the same: give one of them")
    if timeout_s is not None and not wait:
        raise click.UsageError("--timeout goes with --wait")
    from afl_stream.acls import not_listed
    from afl_stream.client.client import Client, RefusedByEvaluator
    from afl_stream.client.external_events import EventOutcome

    config = invocation.settings()
    value = _given_data(workflow_id, name, data if data_option is None else data_option)
    if wait and not invocation.is_shared():
        later = invocation.command_line("evaluator", "--until-idle")
        raise CommandRefused(
            "--wait: no process holds the embedded log for others, so no evaluator can answer while this command runs; "
            f"{invocation.command_line('server')} does; or call it without --wait, and then: {later}"
        )
    with open_transport(config) as transport, Client(config, transport) as client:
        topic = client.topology.external()
        if topic not in transport.admin().topic_names():
            raise not_listed(transport.admin(), topic, "external events", "--role producer")
        timeout_s = _ANSWER_TIMEOUT_S if timeout_s is None else timeout_s
        with store_here(config, transport) as store:
            workflow_id = meant_id(store, invocation.terminal(), workflow_id)
        receipt = client.raise_event(workflow_id, name, value, id=event_id, wait=wait, timeout_s=timeout_s)
        status = receipt.status
        with store_here(config, transport) as store:
            row = None if store is None else store.load_workflow(workflow_id)
            unknown = None if store is None else unknown_in(store, workflow_id)
            meant = () if store is None else _meant(store, workflow_id, name)
        if row is not None and status is None:
            status = row.status
    if receipt.outcome is EventOutcome.REFUSED and receipt.reason is not None:
        raise RefusedByEvaluator(workflow_id, receipt.reason)
    report(invocation, receipt, status, unknown)
    if meant and receipt.outcome in (None, EventOutcome.QUEUED):
        named = " and ".join(meant)
        invocation.terminal().warn(f"Note: {workflow_id} waits for event {named}, not for {name}: is that meant?")
    return ExitCode.OK


def _meant(store: EngineStore, workflow_id: str, name: str) -> Sequence[str]:
    """Return the names of events that the run waits for and this one resembles; none if it waits for this one."""
    from afl.core.text.near_names import close_names
    from afl.engine.operations.unanswered import waiting_steps

    awaited = {step.event_name for step in waiting_steps(store, workflow_id) if step.event_name is not None}
    return () if name in awaited else close_names(name, sorted(awaited), 3)


def _given_data(workflow_id: str, name: str, text: str | None) -> Value:
    """Return the event's data. Raises CommandRefused, which says how to quote a text, and ValueRefused."""
    import json
    import shlex

    from afl_stream.commands.inputs import json_value

    if text is None:
        return None
    if text.lstrip()[:1] in ("{", "["):
        # A shell has taken the quotation marks away, nearly always.
        remedy = '; in a shell JSON stands in single quotes: \'{"by": "ann"}\''
    else:
        quoted = shlex.join(["afl-stream", "raise", workflow_id, name, json.dumps(text, ensure_ascii=False)])
        remedy = f"; a text is quoted twice, for JSON and for the shell: {quoted}" if len(text) <= _MOST_QUOTED else ""
    return json_value(text, "DATA", remedy=remedy)


def report(invocation: Invocation, receipt: EventReceipt, status: str | None, unknown: UnknownId | None = None) -> None:
    """Print what was sent, and what has become of it as far as that is known. `unknown`: the store has no such run."""
    from afl.engine.model.store import ENDED_STATUSES
    from afl_stream.client.external_events import EventOutcome
    from afl_stream.commands.run_status import shown_status

    terminal, run = invocation.terminal(), receipt.workflow_id
    if terminal.as_json:
        shown = None if status is None else shown_status(status)
        terminal.document({**asdict(receipt), "status": shown, "answered": receipt.outcome is not None})
        return
    terminal.line(f"raised {receipt.name} for {run}, with id {receipt.id}")
    is_late = receipt.outcome is EventOutcome.LATE or (receipt.outcome is None and status in ENDED_STATUSES)
    if is_late:
        ended = "" if status is None else f" as {status}"
        terminal.warn(f"Note: {run} has ended{ended}: the event is kept in its history, and no step takes it")
    elif receipt.outcome is EventOutcome.TAKEN:
        terminal.remark(f"step {receipt.step_id} has taken it" if receipt.step_id else "a waiting step has taken it")
    elif receipt.outcome is EventOutcome.REPEATED:
        terminal.remark("an event of this id was raised before: nothing was changed")
    elif receipt.outcome is EventOutcome.QUEUED:
        until = "no step waits for it yet" if status is not None else f"there is no run {run} yet"
        terminal.remark(f"{until}: it is kept until a step does")
        if unknown is not None and unknown.near:
            terminal.remark(unknown.note)
    else:
        if unknown is not None:
            terminal.remark(
                unknown.note if unknown.near else f"{unknown.note}: the event is kept for one that is started later"
            )
        # Nobody was waited for, so nobody has failed to answer.
        is_open = receipt.outcome is None
        terminal.remark(invocation.who_applies_it("applies") if is_open else "an evaluator has accepted it")
