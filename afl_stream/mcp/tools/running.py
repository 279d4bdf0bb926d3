"""Tools that move runs: `afl_execute_workflow`, `afl_continue_step`, `afl_resume_workflow` and `afl_raise`."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, Field

from afl.compiled.program import CompiledProgram
from afl.core.clock import epoch_ms
from afl.core.errors import AFLError
from afl.core.values import plain_value, plain_values
from afl.engine.planning.planner import plan_workflow
from afl.engine.planning.value_checks import check_inputs
from afl.engine.types import Value, workflow_id_v7
from afl_stream.acls import not_listed
from afl_stream.client.client import NotAnswered, RefusedByEvaluator
from afl_stream.client.external_events import EventOutcome
from afl_stream.commands.answers import check_result, waiting_step
from afl_stream.commands.invocation import store_here
from afl_stream.commands.programs import deployed_program
from afl_stream.commands.start import check_id
from afl_stream.commands.versions.judging import check_move, plain_store_here, workflows_of
from afl_stream.mcp.deployment import Connected, Deployment
from afl_stream.mcp.sources import SourceArguments, WorkflowToChoose, program_to_start, texts_of, workflow_names
from afl_stream.mcp.states import RunState, meant_run, state_of
from afl_stream.mcp.tool import Arguments, Result, Tool, Values
from afl_stream.programs.versions import meant_version
from afl_stream.wire.headers import IfExists
from afl_stream.wire.messages import check_workflow_id, workflow_of

#: How long a call may wait for a run, in seconds.
_MOST_WAIT_S: Final = 60.0
#: How long the evaluators' word about an external event is waited for.
_EVENT_TIMEOUT_S: Final = 5.0

WAIT = Field(
    default=5.0,
    ge=0,
    le=_MOST_WAIT_S,
    description="How long to wait, in seconds, until the run has ended or waits. On the embedded log an evaluator of "
    "this server works until it has nothing to do.",
)


class ExecuteArguments(SourceArguments):
    """What to start."""

    source: str = Field(default="", description="An AFL text to publish and start; without one a deployed program.")
    workflow: str = Field(default="", description="The workflow's name, in full or its last part.")
    inputs: Values = Field(default={}, description="Its inputs by name.")
    run_id: str | None = Field(
        default=None, description="An id of your choice: the same id, program and inputs again start nothing new."
    )
    if_exists: IfExists | None = Field(
        default=None,
        description="If a run has that id: `use` it, whatever version and inputs it was started with; or `refuse` the "
        "start. Without it, use it if it was started in the same way, else refuse.",
    )
    wait_s: float = WAIT


class Execution(RunState):
    """A run that was started, and where it stands."""

    program: str
    existed: bool = Field(description="A run of this id was there already; nothing new was started.")


class MigrateArguments(Arguments):
    """The run to move, and where to."""

    run_id: str = Field(description="A run that has not ended.")
    to: str = Field(
        description="The first digits of the program's id, as deploying it told; or `current`: the version that is "
        "deployed now."
    )
    reason: str = Field(default="", max_length=1_000, description="Kept with the run.")
    wait_s: float = WAIT


class Migrated(RunState):
    """A run that was asked to move, and where it stands."""

    program: str = Field(description="The version that it goes on by.")


class AnswerFailure(BaseModel):
    """A failure in place of a result."""

    type: str = Field(default="Failed", min_length=1, max_length=200, description="The error's class, by name.")
    message: str = Field(max_length=10_000)


class ContinueArguments(Arguments):
    """An answer to a step."""

    step_id: str = Field(description="The step that waits: `waiting` of a run has it.")
    result: Values | None = Field(default=None, description="The facet's returns by name.")
    failure: AnswerFailure | None = Field(default=None, description="To fail the step, in place of a result.")
    wait_s: float = WAIT


class ResumeArguments(Arguments):
    """The run to let go on."""

    run_id: str
    wait_s: float = WAIT


class RaiseArguments(Arguments):
    """An external event."""

    run_id: str = Field(description="The run, which need not be started yet.")
    name: str = Field(description="The event's name, which a step waits for.")
    data: Any = Field(default=None, description="Its data: any JSON value.")
    event_id: str | None = Field(default=None, description="The same id twice counts once.")
    wait_s: float = WAIT


class Raised(Result):
    """An external event that was raised, and where its run stands."""

    event_id: str
    outcome: str | None = Field(
        default=None,
        description="taken, queued (kept until a step waits for it), repeated or late; absent: not known yet.",
    )
    run: RunState


class OneAnswer(AFLError):
    """An answer has a result or a failure, and not both."""

    def __init__(self) -> None:
        super().__init__("give either `result` (an object with the facet's returns) or `failure`, and not both")


def _execute(deployment: Deployment, arguments: ExecuteArguments) -> Execution:
    if arguments.run_id is not None:
        check_workflow_id(arguments.run_id)
    texts = texts_of(arguments) if arguments.source.strip() else None
    own = None if texts is None else program_to_start(deployment.config, texts, arguments.strictness)
    with deployment.connected(create=own is not None) as connected:
        program, name = _chosen(connected, own, arguments.workflow)
        plan = plan_workflow(program, name)
        inputs = plain_values(arguments.inputs, "inputs")
        check_inputs(plan.facet, plan.schemas, inputs)
        known = check_id(
            deployment.config, connected.transport, arguments.run_id, name, program, inputs, arguments.if_exists
        )
        if own is not None:
            connected.client.apply_topics([own])
            connected.client.deploy(own)
        run_id = arguments.run_id or workflow_id_v7(epoch_ms())
        if known is None:
            deployment.ask(
                connected.client,
                lambda timeout_s: connected.client.ask_to_start(
                    name,
                    inputs,
                    workflow_id=run_id,
                    program=program.fingerprint,
                    answer_timeout_s=timeout_s,
                    if_exists=arguments.if_exists,
                ),
            )
    deployment.settle()
    state = state_of(deployment, run_id, arguments.wait_s)
    return Execution(**_members(state), program=program.fingerprint, existed=known is not None)


def _chosen(connected: Connected, own: CompiledProgram | None, workflow: str) -> tuple[CompiledProgram, str]:
    """Return the program to start, and the workflow's qualified name. Raises WorkflowToChoose and UnknownProgram."""
    if own is None:
        if not workflow:
            raise WorkflowToChoose([])
        return deployed_program(connected.client, connected.transport, workflow)
    names = workflow_names(own)
    if not workflow and len(names) != 1:
        raise WorkflowToChoose(names)
    return own, own.workflow(workflow or names[0]).qualified_name


def _continue(deployment: Deployment, arguments: ContinueArguments) -> RunState:
    run_id = workflow_of(arguments.step_id)
    failure = arguments.failure
    if (failure is None) == (arguments.result is None):
        raise OneAnswer
    result: dict[str, Value] = plain_values(arguments.result or {}, "result")
    attempt = None
    with deployment.connected() as connected:
        client = connected.client
        client.require_topics()
        with store_here(deployment.config, connected.transport) as store:
            if store is not None:
                row, step = waiting_step(store, arguments.step_id)
                attempt = step.attempt
                if failure is None:
                    check_result(store, row, step, result, "the result")
        if failure is None:
            deployment.ask(
                client,
                lambda timeout_s: client.continue_step(
                    arguments.step_id, result, attempt=attempt, answer_timeout_s=timeout_s
                ),
            )
        else:
            deployment.ask(
                client,
                lambda timeout_s: client.fail_step(
                    arguments.step_id, failure.message, failure.type, attempt=attempt, answer_timeout_s=timeout_s
                ),
            )
    deployment.settle()
    return state_of(deployment, run_id, arguments.wait_s)


def _migrate(deployment: Deployment, arguments: MigrateArguments) -> Migrated:
    with deployment.connected() as connected:
        client = connected.client
        client.require_topics()
        run_id = meant_run(deployment, connected, arguments.run_id)
        with plain_store_here(deployment.config, connected.transport) as store:
            row = None if store is None else store.load_workflow(run_id)
            stored = () if store is None else store.program_fingerprints()
            program = meant_version(client.definitions, arguments.to, None if row is None else row.name, stored)
            if store is not None and row is not None:
                check_move(store, workflows_of(store), client.definitions, run_id, row.name, program)
        deployment.ask(
            client,
            lambda timeout_s: client.migrate(run_id, program, reason=arguments.reason, answer_timeout_s=timeout_s),
        )
    deployment.settle()
    return Migrated(**_members(state_of(deployment, run_id, arguments.wait_s)), program=program)


def _resume(deployment: Deployment, arguments: ResumeArguments) -> RunState:
    with deployment.connected() as connected:
        run_id = meant_run(deployment, connected, arguments.run_id)
        if any(pause.scope == "workflow" and pause.name == run_id for pause in connected.client.pauses()):
            connected.client.resume(workflow_id=run_id)
    deployment.settle()
    return state_of(deployment, run_id, arguments.wait_s)


def _raise(deployment: Deployment, arguments: RaiseArguments) -> Raised:
    run_id = check_workflow_id(arguments.run_id)
    data = plain_value(arguments.data, "data")
    with deployment.connected() as connected:
        client = connected.client
        topic = client.topology.external()
        if topic not in connected.transport.admin().topic_names():
            raise not_listed(connected.transport.admin(), topic, "external events", "--role producer")
        event_id = arguments.event_id or f"mcp-{workflow_id_v7(epoch_ms())}"
        outcome: EventOutcome | None = None
        try:
            receipt = client.raise_event(
                run_id, arguments.name, data, id=event_id, wait=deployment.is_shared, timeout_s=_EVENT_TIMEOUT_S
            )
            outcome = receipt.outcome
            if outcome is EventOutcome.REFUSED and receipt.reason is not None:
                raise RefusedByEvaluator(run_id, receipt.reason)
        except NotAnswered:
            outcome = None
    deployment.settle()
    state = state_of(deployment, run_id, arguments.wait_s)
    return Raised(event_id=event_id, outcome=None if outcome is None else outcome.value, run=state)


def _members(state: RunState) -> dict[str, Any]:
    return {name: getattr(state, name) for name in RunState.model_fields}


TOOLS = (
    Tool(
        name="afl_execute_workflow",
        title="Start a run",
        description="Start a run of a deployed workflow, or of an AFL text, which is compiled, published and given its "
        "topics first. Inputs are checked; if one does not fit, nothing is started. Returns where the run stands: "
        "its outputs, or the steps that wait for answers.",
        arguments=ExecuteArguments,
        result=Execution,
        run=_execute,
        writes=True,
    ),
    Tool(
        name="afl_continue_step",
        title="Answer a step",
        description="Answer a step that waits, in an agent's place: with a result, which is checked against the "
        "facet's returns, or with a failure. Returns where the run stands after that.",
        arguments=ContinueArguments,
        result=RunState,
        run=_continue,
        writes=True,
    ),
    Tool(
        name="afl_resume_workflow",
        title="Let a run go on",
        description="End a run's pause if it has one, apply what has arrived for it, and return where it stands.",
        arguments=ResumeArguments,
        result=RunState,
        run=_resume,
        writes=True,
        idempotent=True,
    ),
    Tool(
        name="afl_migrate_workflow",
        title="Move a run to another version",
        description="Let a run that has not ended go on by another version of its program. What it has done stays. If "
        "its steps or values do not fit the version, it stays as it is, and what does not fit is named.",
        arguments=MigrateArguments,
        result=Migrated,
        run=_migrate,
        writes=True,
        destructive=True,
    ),
    Tool(
        name="afl_raise",
        title="Raise an external event",
        description="Raise an external event for a run. A step that waits for its name takes it, now or later.",
        arguments=RaiseArguments,
        result=Raised,
        run=_raise,
        writes=True,
    ),
)
