"""Tools that look at runs: `afl_list`, `afl_show` and `afl_why`."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import BaseModel, Field

from afl.core.clock import epoch_ms
from afl_stream.commands.runs.choosing import filter_of
from afl_stream.commands.waiting.why import opened_sources, whole_id
from afl_stream.commands.waiting.why_lines import report_document
from afl_stream.mcp.bounds import (
    RUN_VALUE_CHARS,
    STEP_VALUE_CHARS,
    bounded_text,
    bounded_values,
    json_text,
    page_within,
    value_uri,
)
from afl_stream.mcp.deployment import Deployment
from afl_stream.mcp.shapes import Failure, RunLine, failure_of, line_of
from afl_stream.mcp.tool import Arguments, Names, Result, Tool, Values
from afl_stream.visibility.choosing import Choice
from afl_stream.visibility.runs import StepDetail, show_workflow
from afl_stream.visibility.waiting.explaining import explain
from afl_stream.visibility.workflows import WAITING, list_workflows

_TIME: Final = "An age such as 2h, 30m or 7d, or a time such as 2030-01-31T08:00."
#: Steps that wait, of one answer.
_MOST_WAITS: Final = 30
RUN_ID: Final = "A run's id, or the beginning of it that no other run has."


class ListArguments(Arguments):
    """Which runs to list; each argument narrows the list."""

    state: list[Literal["running", "waiting", "completed", "failed", "cancelled"]] = []
    workflow: Names = Field(default=[], description="Names of workflows, in full or their last part.")
    program: Names = Field(default=[], description="Fingerprints of programs, or beginnings of them.")
    facet: Names = Field(default=[], description="Runs with a step of one of these facets.")
    since: str | None = Field(default=None, description=f"Started since then. {_TIME}")
    until: str | None = Field(default=None, description=f"Started before then. {_TIME}")
    error: str = Field(default="", description="A part of the text of the first cause.")
    inputs: Values = Field(default={}, description="Inputs by name that a run has, with these values.")
    limit: int = Field(default=20, ge=1, le=100, description="Runs of a page.")
    after: str | None = Field(default=None, description="next_after of the page before.")


class RunPage(Result):
    """A page of runs, newest first."""

    runs: list[RunLine]
    next_after: str | None = Field(default=None, description="For `after`: the next page. absent: this is the last.")


class ShowArguments(Arguments):
    """The run to show."""

    run_id: str = Field(description=RUN_ID)
    offset: int = Field(default=0, ge=0, description="next_offset of the page of steps before.")
    limit: int = Field(default=40, ge=1, le=200, description="Steps of a page.")


class Step(BaseModel):
    """One step of a run, in the order of the tree."""

    step_id: str
    label: str = Field(description="As it stands in its body: `paid = Charge`, behind its place there.")
    depth: int
    facet: str
    status: str
    attempt: int
    inputs: dict[str, Any]
    results: dict[str, Any]
    error: Failure | None = None
    last_failure: Failure | None = Field(default=None, description="Of the attempt before, while it is retried.")
    caught: Failure | None = Field(default=None, description="The failure that its catch has run for.")
    created_at_ms: int
    deadline_ms: int | None = None


class Run(Result):
    """One run with its steps. Sensitive values are hidden; large ones are cut, and say how they are read."""

    run: RunLine
    inputs: dict[str, Any]
    outputs: dict[str, Any] | None = None
    steps: list[Step]
    steps_total: int
    next_offset: int | None = Field(
        default=None, description="For `offset`: the next steps. absent: these are the last."
    )


class WhyArguments(Arguments):
    """The run that waits."""

    run_id: str = Field(description=RUN_ID)


class Cause(BaseModel):
    """One cause, by its stable code, and the commands of afl-stream that would help."""

    code: str
    text: str
    commands: list[str] = []


class WaitingStep(BaseModel):
    """One step that waits, and why."""

    step_id: str
    path: str
    facet: str
    attempt: int
    causes: list[Cause]
    since_ms: int | None = None
    deadline_ms: int | None = None
    event_name: str | None = None
    file: str | None = None
    line: int | None = None
    source: str | None = Field(default=None, description="The line of AFL that calls it.")
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    group: str | None = None
    lag: int | None = None
    last_error: str | None = None


class Explanation(Result):
    """What a run waits for now."""

    run_id: str
    workflow: str
    status: str
    causes: list[Cause] = Field(description="Of the run as a whole.")
    waits: list[WaitingStep] = Field(description=f"Steps that wait; at most {_MOST_WAITS}.")
    waits_total: int
    unknown: list[str] = Field(description="What could not be found out, and why.")


def list_runs(deployment: Deployment, arguments: ListArguments) -> RunPage:
    """Return a page of runs."""
    choice = Choice(
        states=arguments.state,
        workflows=arguments.workflow,
        programs=arguments.program,
        facets=arguments.facet,
        since=arguments.since or "",
        until=arguments.until or "",
        error=arguments.error,
        inputs=[
            f"{name}={value if isinstance(value, str) else json_text(value)}"
            for name, value in arguments.inputs.items()
        ],
    )
    with deployment.store() as store:
        now_ms = epoch_ms()
        wanted = filter_of(store, choice, now_ms)
        page = list_workflows(store, wanted, after=arguments.after, limit=arguments.limit, now_ms=now_ms)
    runs = [line_of(found) for found in page.workflows]
    shown = list(page_within(runs, lambda run: len(run.model_dump_json())))
    return RunPage(runs=shown, next_after=page.next_after if len(shown) == len(runs) else shown[-1].run_id)


def show_run(deployment: Deployment, arguments: ShowArguments) -> Run:
    """Return a run with a page of its steps."""
    with deployment.store() as store:
        found = show_workflow(store, arguments.run_id)
    run_id, steps = found.row.id, found.steps()[1:]
    wanted = [step_of(run_id, depth - 1, step) for depth, step in steps[arguments.offset :][: arguments.limit]]
    shown = list(page_within(wanted, lambda step: len(step.model_dump_json())))
    end = arguments.offset + len(shown)
    return Run(
        run=line_of(found.summary),
        inputs=bounded_values(found.inputs, RUN_VALUE_CHARS, lambda name: value_uri(run_id, "-", "inputs", name)),
        outputs=None
        if found.outputs is None
        else bounded_values(found.outputs, RUN_VALUE_CHARS, lambda name: value_uri(run_id, "-", "outputs", name)),
        steps=shown,
        steps_total=len(steps),
        next_offset=end if end < len(steps) else None,
    )


def step_of(run_id: str, depth: int, step: StepDetail, limit: int = STEP_VALUE_CHARS) -> Step:
    """Return a step as results have it."""
    caught = None if step.caught is None else Failure(type=step.caught.type, message=bounded_text(step.caught.message))
    return Step(
        step_id=step.step_id,
        label=step.label,
        depth=depth,
        facet=step.facet,
        status=step.status,
        attempt=step.attempt,
        inputs=bounded_values(step.inputs, limit, lambda name: value_uri(run_id, step.step_id, "inputs", name)),
        results=bounded_values(step.results, limit, lambda name: value_uri(run_id, step.step_id, "results", name)),
        error=failure_of(step.error),
        last_failure=failure_of(step.last_failure),
        caught=caught,
        created_at_ms=step.created_at_ms,
        deadline_ms=step.deadline_ms,
    )


def _why(deployment: Deployment, arguments: WhyArguments) -> Explanation:
    with opened_sources(deployment.config) as (store, transport, unknown):
        run_id = whole_id(store, arguments.run_id)
        report = explain(deployment.config, run_id, store=store, transport=transport, unknown=unknown)
    document: dict[str, Any] = report_document(deployment.invocation, report)
    waits = [
        WaitingStep(
            causes=[Cause(**cause) for cause in wait["causes"]],
            **{name: wait[name] for name in WaitingStep.model_fields if name != "causes"},
        )
        for wait in document["waits"][:_MOST_WAITS]
    ]
    return Explanation(
        run_id=report.workflow_id,
        workflow=report.workflow,
        status=WAITING if report.status == "PAUSED" else report.status,
        causes=[Cause(**cause) for cause in document["causes"]],
        waits=list(page_within(waits, lambda wait: len(wait.model_dump_json()))),
        waits_total=len(report.waits),
        unknown=list(report.unknown),
    )


TOOLS = (
    Tool(
        name="afl_list",
        title="List runs",
        description="List runs, newest first, chosen by state, workflow, time, inputs or the text of their failure.",
        arguments=ListArguments,
        result=RunPage,
        run=list_runs,
    ),
    Tool(
        name="afl_show",
        title="Show a run",
        description="Show a run: its inputs and outputs, its first cause if it failed, and its steps as a tree with "
        "their states, values and failures. Sensitive values are hidden.",
        arguments=ShowArguments,
        result=Run,
        run=show_run,
    ),
    Tool(
        name="afl_why",
        title="Say why a run waits",
        description="Say what a run waits for, step by step, and why: no agent, a pause, a dead letter, an external "
        "event, a timer, no evaluator; with the commands of afl-stream that would help.",
        arguments=WhyArguments,
        result=Explanation,
        run=_why,
    ),
)
