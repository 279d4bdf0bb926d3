"""`afl_manage_runner`: look at runs, and pause, resume, cancel, retry or reset one."""

from __future__ import annotations

from functools import partial
from typing import Literal

from pydantic import Field

from afl.engine.model.store import CANCELLED, ENDED_STATUSES
from afl.engine.operations.operations import Action, Kind
from afl_stream.commands.running_again import tried
from afl_stream.errors import AlreadyEnded
from afl_stream.mcp.deployment import Connected, Deployment
from afl_stream.mcp.shapes import RunLine
from afl_stream.mcp.states import RunState, known_run, meant_run, state_of
from afl_stream.mcp.tool import Arguments, Result, RunNeeded, Tool
from afl_stream.mcp.tools.looking import RUN_ID, ListArguments, list_runs
from afl_stream.mcp.tools.running import WAIT


class LookArguments(Arguments):
    """What to look at."""

    action: Literal["list", "get"] = Field(description="list: the newest runs; get: where one stands.")
    runner_id: str = Field(default="", description=f"For get. {RUN_ID}")
    limit: int = Field(default=20, ge=1, le=100, description="For list: runs of a page.")
    after: str | None = Field(default=None, description="For list: next_after of the page before.")


class ManageArguments(LookArguments):
    """What to look at, or to do."""

    action: Literal["list", "get", "pause", "resume", "cancel", "retry", "reset"] = Field(  # type: ignore[assignment]  # more actions
        description="list and get look. pause: no further step starts; resume ends that. cancel: later answers have no "
        "effect. retry: what has failed is run again. reset: the run begins again."
    )
    reason: str = Field(default="", max_length=2_000, description="Kept with the run.")
    wait_s: float = WAIT


class Managed(Result):
    """The runs, or where one stands."""

    action: str
    changed: bool = Field(description="Something was asked for that was not so already.")
    runs: list[RunLine] = []
    next_after: str | None = None
    run: RunState | None = None


def _look(deployment: Deployment, arguments: LookArguments) -> Managed:
    if arguments.action == "list":
        page = list_runs(deployment, ListArguments(limit=arguments.limit, after=arguments.after))
        return Managed(action="list", changed=False, runs=page.runs, next_after=page.next_after)
    if not arguments.runner_id:
        raise RunNeeded(arguments.action)
    run_id = known_run(deployment, arguments.runner_id)
    return Managed(action="get", changed=False, run=state_of(deployment, run_id))


def _manage(deployment: Deployment, arguments: ManageArguments) -> Managed:
    if arguments.action in ("list", "get"):
        return _look(deployment, arguments)
    if not arguments.runner_id:
        raise RunNeeded(arguments.action)
    with deployment.connected() as connected:
        connected.client.require_topics()
        run_id = meant_run(deployment, connected, arguments.runner_id)
        changed = _do(deployment, connected, run_id, arguments)
    deployment.settle()
    return Managed(action=arguments.action, changed=changed, run=state_of(deployment, run_id, arguments.wait_s))


def _do(deployment: Deployment, connected: Connected, run_id: str, arguments: ManageArguments) -> bool:
    """Send what is asked for, and return whether it changes anything."""
    client, reason = connected.client, arguments.reason
    if arguments.action == "pause":
        return client.pause(workflow_id=run_id, reason=reason or None)
    if arguments.action == "resume":
        return client.resume(workflow_id=run_id)
    if arguments.action == "cancel":
        with deployment.store_beside(connected) as store:
            row = None if store is None else store.load_workflow(run_id)
        if row is not None and row.status in ENDED_STATUSES:
            if row.status != CANCELLED:
                raise AlreadyEnded(run_id, row.status)
            return False
        deployment.ask(client, lambda timeout_s: client.cancel(run_id, reason, answer_timeout_s=timeout_s))
        return True
    kind = Kind.RETRY if arguments.action == "retry" else Kind.RESET
    with deployment.store_beside(connected) as store:
        if store is not None:
            tried(store, run_id, Action(kind=kind, step_id=None, reason=reason))
    give = partial(client.retry if kind is Kind.RETRY else client.reset, run_id, reason=reason)
    deployment.ask(client, lambda timeout_s: give(answer_timeout_s=timeout_s))
    return True


TOOLS = (
    Tool(
        name="afl_manage_runner",
        title="Look at runs",
        description="List runs, or return where one stands. Changing runs needs a server with --write.",
        arguments=LookArguments,
        result=Managed,
        run=_look,
    ),
)
WRITING_TOOLS = (
    Tool(
        name="afl_manage_runner",
        title="Look at runs, and change them",
        description="List runs, return where one stands, or pause, resume, cancel, retry or reset it.",
        arguments=ManageArguments,
        result=Managed,
        run=_manage,
        writes=True,
        destructive=True,
    ),
)
