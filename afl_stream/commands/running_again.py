"""The commands `retry`, `rerun` and `reset`, by which an operator runs a run or its steps again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from afl.core.text.near_names import close_names
from afl_stream.commands.arguments import common, reason_option
from afl_stream.commands.completing.values import run_ids
from afl_stream.commands.invocation import Invocation, open_transport, store_here
from afl_stream.commands.refusals import CommandRefused, NotFound, no_such_run
from afl_stream.commands.runs.short_ids import meant_id
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl.engine.operations.operations import Action
    from afl.stores.public.persistence import EngineStore

#: The line for each kind of action, with the number of steps that it begins again.
_TOLD: Final = {
    "retry": "asked to retry {what}: {count} will be run again",
    "rerun": "asked to run {what} again: {count} will be run again",
    "reset": "asked to reset {what}: it runs again from its start",
}


@click.command("retry")
@click.argument("target", metavar="WORKFLOW_OR_STEP")
@reason_option
@common
def retry_command(invocation: Invocation, target: str, reason: str) -> ExitCode:
    """Ask for what has failed to be retried: all of a run, or a failed step, or what failed inside a step.

    A cancelled run continues where it was. Complete steps stay as they are, and steps that the failure had stopped
    continue. Events are sent again with a higher attempt; answers to the earlier ones do not count.

    \b
    Examples:
      afl-stream retry order-17
      afl-stream retry order-17:0a1b2c3d4e5f60718293a4b5 --reason "the bank is back"
    """
    from afl.engine.operations.operations import Action, Kind
    from afl_stream.wire.messages import check_workflow_id, workflow_of

    workflow_id = workflow_of(target) if ":" in target else check_workflow_id(target)
    step_id = target if ":" in target else None
    return _operate(invocation, workflow_id, Action(kind=Kind.RETRY, step_id=step_id, reason=reason))


@click.command("rerun")
@click.argument("step_id")
@reason_option
@common
def rerun_command(invocation: Invocation, step_id: str, reason: str) -> ExitCode:
    """Ask for the step STEP_ID to be run again, whatever its result, with all steps that depend on it.

    The run must have ended, or wait. The earlier steps stay in the store. Steps that do not depend on this one are not
    run again, and continue to wait for their answers.

    \b
    Examples:
      afl-stream rerun order-17:0a1b2c3d4e5f60718293a4b5 --reason "wrong price"
    """
    from afl.engine.operations.operations import Action, Kind
    from afl_stream.wire.messages import workflow_of

    return _operate(invocation, workflow_of(step_id), Action(kind=Kind.RERUN, step_id=step_id, reason=reason))


@click.command("reset")
@click.argument("workflow_id", shell_complete=run_ids)
@reason_option
@common
def reset_command(invocation: Invocation, workflow_id: str, reason: str) -> ExitCode:
    """Ask for the run WORKFLOW_ID to begin again, with the same inputs and program, whatever its result.

    \b
    Examples:
      afl-stream reset order-17
    """
    from afl.engine.operations.operations import Action, Kind
    from afl_stream.wire.messages import check_workflow_id

    return _operate(invocation, check_workflow_id(workflow_id), Action(kind=Kind.RESET, reason=reason))


def _operate(invocation: Invocation, workflow_id: str, action: Action) -> ExitCode:
    """Send an action, once it was tried on the store if that is at hand, and print what comes of it."""
    from afl.engine.operations.operations import Kind
    from afl_stream.client.client import Client, drawn_id
    from afl_stream.commands.asking import ask, what_comes_next

    config, terminal = invocation.settings(), invocation.terminal()
    steps: Sequence[str] | None = None
    with open_transport(config) as transport, Client(config, transport) as client:
        client.require_topics("commands")
        with store_here(config, transport) as store:
            if action.step_id is None:
                workflow_id = meant_id(store, terminal, workflow_id)
            if store is not None:
                steps = tried(store, workflow_id, action)
        give: Callable[..., str]
        if action.kind is Kind.RETRY:
            give = partial(client.retry, workflow_id, action.step_id)
        elif action.kind is Kind.RERUN:
            assert action.step_id is not None
            give = partial(client.rerun, action.step_id)
        else:
            give = partial(client.reset, workflow_id)
        command_id = drawn_id()
        give = partial(give, reason=action.reason, command_id=command_id)
        is_answered = ask(invocation, client, lambda timeout_s: give(answer_timeout_s=timeout_s)) is not None
    if terminal.as_json:
        terminal.document(
            {
                "action": action.kind.value,
                "workflow_id": workflow_id,
                "step_id": action.step_id,
                "reason": action.reason,
                "command_id": command_id,
                "steps": None if steps is None else list(steps),
                "answered": is_answered,
            }
        )
        return ExitCode.OK
    count = "the steps concerned" if steps is None else f"{len(steps):,} step{'s' * (len(steps) != 1)}"
    terminal.line(_TOLD[action.kind.value].format(what=action.step_id or workflow_id, count=count))
    terminal.remark(what_comes_next(invocation, "does", is_answered=is_answered))
    return ExitCode.OK


def tried(store: EngineStore, workflow_id: str, action: Action) -> Sequence[str]:
    """Return the steps that an evaluator would begin again now: computed here, and not stored.

    Raises NotFound and CommandRefused for what it would refuse.
    """
    from afl.engine.execution.task_dispatch import TaskDispatch
    from afl.engine.operations.operation_errors import OperationRefused, UnknownStep
    from afl.engine.workflow_cache import WorkflowCache

    workflows = WorkflowCache(store, TaskDispatch(), runs_scripts=True)
    try:
        opened = workflows.open_again(workflow_id, action)
    except UnknownStep as error:
        near = close_names(error.step_id, [step.id for step in store.load_steps(workflow_id)], min_likeness=0.8)
        raise NotFound("step", error.step_id, f"afl-stream status {workflow_id} lists those of its run", near) from None
    except OperationRefused as error:
        raise CommandRefused(str(error)) from None
    if opened is None:
        raise no_such_run(store, workflow_id, "afl-stream status lists them")
    return opened.steps
