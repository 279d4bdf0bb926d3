"""The commands `continue`, `fail` and `cancel`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from afl.core.text.near_names import close_names
from afl_stream.commands.arguments import common, reason_option
from afl_stream.commands.completing.values import run_ids
from afl_stream.commands.invocation import Invocation, open_transport, store_here
from afl_stream.commands.refusals import CommandRefused, NotFound, no_such_run
from afl_stream.commands.runs.short_ids import meant_id
from afl_stream.commands.runs.unknown_ids import unknown_in
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl.engine.model.plan import FacetPlan
    from afl.engine.model.store import StepDocument, WorkflowRow
    from afl.engine.types import Value
    from afl.stores.public.persistence import EngineStore
    from afl_stream.wire.messages import Lifecycle


@click.command("continue")
@click.argument("step_id")
@click.option("--result", "result_text", required=True, metavar="JSON", help="An object; @FILE or - reads it.")
@common
def continue_command(invocation: Invocation, step_id: str, result_text: str) -> ExitCode:
    """Answer the step STEP_ID by hand. The result is checked against the facet's returns first.

    \b
    Examples:
      afl-stream continue order-17:0a1b2c --result '{"receipt": "r-1"}'
      afl-stream continue order-17:0a1b2c --result @receipt.json
    """
    from afl_stream.client.client import Client
    from afl_stream.commands.asking import ask
    from afl_stream.commands.inputs import json_object
    from afl_stream.wire.messages import workflow_of

    config = invocation.settings()
    workflow_of(step_id)
    result = json_object(result_text, "--result")
    attempt = None
    with open_transport(config) as transport, Client(config, transport) as client:
        client.require_topics("answers")
        with store_here(config, transport) as store:
            if store is not None:
                row, step = waiting_step(store, step_id)
                check_result(store, row, step, result)
                attempt = step.attempt

        def give(timeout_s: float | None) -> Lifecycle | None:
            return client.continue_step(step_id, result, attempt=attempt, answer_timeout_s=timeout_s)

        reply = ask(invocation, client, give)
    document = {"step_id": step_id, "result": result}
    return _report_sent(invocation, f"answered step {step_id}", document, reply)


@click.command("fail")
@click.argument("step_id")
@click.option("--message", default="failed by hand", show_default=True, help="What went wrong.")
@click.option("--type", "error_type", default="Failed", show_default=True, help="The error's class, by name.")
@common
def fail_command(invocation: Invocation, step_id: str, message: str, error_type: str) -> ExitCode:
    """Fail the step STEP_ID by hand.

    \b
    Examples:
      afl-stream fail order-17:0a1b2c --message "card declined" --type CardDeclined
    """
    from afl_stream.client.client import Client
    from afl_stream.commands.asking import ask
    from afl_stream.wire.messages import workflow_of

    config = invocation.settings()
    workflow_of(step_id)
    attempt = None
    with open_transport(config) as transport, Client(config, transport) as client:
        client.require_topics("answers")
        with store_here(config, transport) as store:
            if store is not None:
                _, step = waiting_step(store, step_id)
                attempt = step.attempt

        def give(timeout_s: float | None) -> Lifecycle | None:
            return client.fail_step(step_id, message, error_type, attempt=attempt, answer_timeout_s=timeout_s)

        reply = ask(invocation, client, give)
    document = {"step_id": step_id, "error": {"type": error_type, "message": message}}
    return _report_sent(invocation, f"failed step {step_id}", document, reply)


@click.command("cancel")
@click.argument("workflow_id", shell_complete=run_ids)
@reason_option
@common
def cancel_command(invocation: Invocation, workflow_id: str, reason: str) -> ExitCode:
    """Ask for the run WORKFLOW_ID to be cancelled, whatever it waits for.

    Later answers have no effect. A handler can ask its context whether its run was cancelled.

    \b
    Examples:
      afl-stream cancel order-17 --reason "ordered twice"
    """
    from afl.engine.model.store import CANCELLED, ENDED_STATUSES
    from afl_stream.client.client import Client
    from afl_stream.commands.asking import ask
    from afl_stream.errors import AlreadyEnded
    from afl_stream.wire.messages import check_workflow_id

    config = invocation.settings()
    check_workflow_id(workflow_id)
    with open_transport(config) as transport, Client(config, transport) as client:
        client.require_topics("commands")
        with store_here(config, transport) as store:
            workflow_id = meant_id(store, invocation.terminal(), workflow_id)
            row = None if store is None else store.load_workflow(workflow_id) or store.tombstone(workflow_id)
            unknown = None if store is None else unknown_in(store, workflow_id)
        # One that the store does not know may have been asked for, and not have been started yet.
        if row is not None and row.status in ENDED_STATUSES and row.status != CANCELLED:
            raise AlreadyEnded(workflow_id, row.status)
        if unknown is not None:
            invocation.terminal().warn(unknown.note)
        reply = ask(
            invocation, client, lambda timeout_s: client.cancel(workflow_id, reason, answer_timeout_s=timeout_s)
        )
    text = f"{'asked to cancel' if reply is None else 'cancelled'} {workflow_id}"
    return _report_sent(invocation, text, {"workflow_id": workflow_id, "reason": reason}, reply)


def waiting_step(store: EngineStore, step_id: str) -> tuple[WorkflowRow, StepDocument]:
    """Return the step, which waits for an answer. Raises NotFound, CommandRefused."""
    from afl.engine.model.store import ENDED_STATUSES
    from afl.engine.states import EventState, StepState
    from afl_stream.wire.messages import workflow_of

    workflow_id = workflow_of(step_id)
    row = store.load_workflow(workflow_id)
    if row is None:
        if (tombstone := store.tombstone(workflow_id)) is not None:
            raise CommandRefused(f"workflow {workflow_id} has ended as {tombstone.status}, and was purged")
        raise no_such_run(store, workflow_id, "afl-stream status lists them")
    steps = {step.id: step for step in store.load_steps(workflow_id)}
    step = steps.get(step_id)
    if step is None:
        near = close_names(step_id, steps, min_likeness=0.8)
        raise NotFound("step", step_id, f"afl-stream status {workflow_id} lists those of its run", near)
    if row.status in ENDED_STATUSES:
        raise CommandRefused(f"workflow {workflow_id} has ended: it is {row.status}; its steps take no answer")
    if step.event_state == EventState.CANCELED:
        raise CommandRefused(f"step {step_id} ({step.facet_name}) was run again since, under another id")
    if EventState.is_terminal(step.event_state):
        raise CommandRefused(f"step {step_id} ({step.facet_name}) has its answer already; the first one counts")
    if step.state != StepState.EVENT_TRANSMIT or not step.event_state:
        raise CommandRefused(
            f"step {step_id} ({step.facet_name or 'a block'}) is at {step.state}, and waits for no answer"
        )
    return row, step


def check_result(
    store: EngineStore, row: WorkflowRow, step: StepDocument, result: Mapping[str, Value], what: str = "--result"
) -> None:
    """Refuse a result that the evaluator would fail the step for. Raises CommandRefused, which calls it `what`."""
    from afl.engine.planning.planner import plan_workflow
    from afl.engine.planning.programs import stored_program
    from afl.engine.planning.value_checks import check_result as problem_of

    program = stored_program(store, row.program)
    if program is None:
        return
    plan = plan_workflow(program, row.name)
    facet = next((facet for facet in plan.facets if facet.name == step.facet_name), None)
    if facet is None:
        return
    problem = problem_of(facet, plan.schemas, result, facet.always_required, reported=step.returns)
    if problem is not None:
        raise CommandRefused(f"{what} does not fit: {problem}; {_returns_text(facet)}")


def _returns_text(facet: FacetPlan) -> str:
    from afl.core.types import type_name

    returns = ", ".join(f"{name}: {type_name(kind)}" for name, kind in facet.return_types.items())
    return f"it returns ({returns})" if returns else "it returns nothing"


def _report_sent(invocation: Invocation, text: str, document: Mapping[str, object], reply: object) -> ExitCode:
    """Print what was sent. `reply` is an evaluator's answer to it; None: none yet."""
    from afl_stream.commands.asking import what_comes_next
    from afl_stream.wire.command_answers import KEPT
    from afl_stream.wire.messages import Lifecycle

    terminal, is_answered = invocation.terminal(), reply is not None
    if terminal.as_json:
        terminal.document({**document, "answered": is_answered})
        return ExitCode.OK
    terminal.line(text)
    if isinstance(reply, Lifecycle) and reply.kind == KEPT:
        terminal.warn("Note: no step of this id waits for an answer yet: the evaluator keeps this one until it asks")
    else:
        terminal.remark(what_comes_next(invocation, "applies", is_answered=is_answered))
    return ExitCode.OK
