"""The commands `retry`, `rerun` and `reset`, by which an operator runs a run or its steps again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial

from afl.engine.execution.task_dispatch import TaskDispatch
from afl.engine.operations.operation_errors import OperationRefused, UnknownStep
from afl.engine.operations.operations import Action, Kind
from afl.engine.workflow_cache import WorkflowCache
from afl.stores.public.persistence import EngineStore
from afl_stream.client.client import Client, drawn_id
from afl_stream.commands.asking import ask, what_comes_next
from afl_stream.commands.invocation import Invocation, open_transport, store_here
from afl_stream.commands.refusals import CommandRefused, NotFound
from afl_stream.exit_codes import ExitCode
from afl_stream.wire.messages import check_workflow_id, workflow_of

#: The line for each action, with the number of steps that it begins again.
_TOLD = {
    Kind.RETRY: "asked to retry {what}: {count} will be run again",
    Kind.RERUN: "asked to run {what} again: {count} will be run again",
    Kind.RESET: "asked to reset {what}: it runs again from its start",
}


def retry(invocation: Invocation, target: str, reason: str) -> ExitCode:
    """Ask for what has failed in a run, or in a step, to be retried."""
    workflow_id, step_id = _target(target)
    return _operate(invocation, workflow_id, Action(kind=Kind.RETRY, step_id=step_id, reason=reason))


def rerun(invocation: Invocation, step_id: str, reason: str) -> ExitCode:
    """Ask for a step to be run again, with all steps that depend on it."""
    return _operate(invocation, workflow_of(step_id), Action(kind=Kind.RERUN, step_id=step_id, reason=reason))


def reset(invocation: Invocation, workflow_id: str, reason: str) -> ExitCode:
    """Ask for a run to begin again."""
    return _operate(invocation, check_workflow_id(workflow_id), Action(kind=Kind.RESET, reason=reason))


def _target(text: str) -> tuple[str, str | None]:
    """Return a run's id, or a step's with that of its run."""
    return (workflow_of(text), text) if ":" in text else (check_workflow_id(text), None)


def _operate(invocation: Invocation, workflow_id: str, action: Action) -> ExitCode:
    config, terminal = invocation.settings(), invocation.terminal()
    steps: Sequence[str] | None = None
    with open_transport(config) as transport, Client(config, transport) as client:
        client.require_topics()
        with store_here(config, transport) as store:
            if store is not None:
                steps = _tried(store, workflow_id, action)
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
    terminal.line(_TOLD[action.kind].format(what=action.step_id or workflow_id, count=count))
    terminal.remark(what_comes_next(invocation, "does", is_answered=is_answered))
    return ExitCode.OK


def _tried(store: EngineStore, workflow_id: str, action: Action) -> Sequence[str]:
    """Return the steps that an evaluator would begin again now: computed here, and not stored.

    Raises NotFound and CommandRefused for what it would refuse.
    """
    workflows = WorkflowCache(store, TaskDispatch(), runs_scripts=True)
    try:
        opened = workflows.open_again(workflow_id, action)
    except UnknownStep as error:
        near = get_close_matches(error.step_id, [step.id for step in store.load_steps(workflow_id)], 1, 0.8)
        raise NotFound("step", error.step_id, f"afl-stream status {workflow_id} lists those of its run", near) from None
    except OperationRefused as error:
        raise CommandRefused(str(error)) from None
    if opened is None:
        raise NotFound("run", workflow_id, "afl-stream status lists them")
    return opened.steps
