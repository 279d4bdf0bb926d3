"""Events that no agent has answered yet: which facet, which step, since when, and what would help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from afl.engine.model.plan import FacetPlan, WorkflowPlan
from afl.engine.operations.unanswered import WaitingStep, unanswered_facets, waiting_steps
from afl.stores.public.persistence import EngineStore
from afl_stream.client.client import Client, NotAnswered
from afl_stream.commands.invocation import Invocation, store_here
from afl_stream.commands.programs import program_of, stored_plan
from afl_stream.commands.reports import facets_of, result_form, wait_lines
from afl_stream.commands.run_status import shown_status
from afl_stream.commands.waiting.why_lines import why_lines
from afl_stream.transport import Transport, TransportError
from afl_stream.visibility.waiting.described import described_steps
from afl_stream.wire.command_answers import RefusedByEvaluator
from afl_stream.wire.messages import Lifecycle

if TYPE_CHECKING:
    from afl_stream.dev import LocalDeployment

#: Facets that are shown; --json has all.
_MOST_FACETS: Final = 10
#: How long to wait for the evaluators' answer about what a run waits for.
_ANSWER_TIMEOUT_S: Final = 3.0
_NO_FACETS: Final[Mapping[str, FacetPlan]] = {}


def unanswered_lines(
    invocation: Invocation, steps: Sequence[WaitingStep], facets: Mapping[str, FacetPlan] = _NO_FACETS
) -> list[str]:
    """Return for each facet the step that has waited longest, and the commands that would help.

    `facets` are those of the program, if it is known: they give the form of an answer. Before them come the steps that
    wait for external events and for times.
    """
    found = unanswered_facets(step for step in steps if not step.asks_nobody)
    lines = wait_lines(invocation, steps)
    for waits in found[:_MOST_FACETS]:
        plan = facets.get(waits.facet)
        result = "{...}" if plan is None else result_form(plan)
        by_hand = invocation.command_line("continue", waits.first.step_id, "--result", result)
        lines += [str(waits), f"  {agent_command(invocation, waits.facet)}", f"  by hand: {by_hand}"]
    if len(found) > _MOST_FACETS:
        lines.append(f"and {len(found) - _MOST_FACETS} more facets")
    return lines


def facets_of_steps(store: EngineStore, steps: Sequence[WaitingStep]) -> Mapping[str, FacetPlan]:
    """Return the facets of waiting steps, as their runs' programs declare them, as far as those are in the store."""
    found: dict[str, FacetPlan] = {}
    for waits in unanswered_facets(steps)[:_MOST_FACETS]:
        if waits.facet not in found and (row := store.load_workflow(waits.first.workflow_id)) is not None:
            found.update(facets_of(stored_plan(program_of(store, row), row)))
    return found


def agent_command(invocation: Invocation, facet: str) -> str:
    """Return what would answer a facet's events."""
    config = invocation.settings()
    if not config.dispatch.is_topic(facet):
        return f"its events are tasks (dispatch): a poller or runner on task list {config.dispatch.task_list} does them"
    until = () if invocation.is_shared() else ("--until-idle",)
    return f"an agent answers: {invocation.command_line('agent', '--handlers', 'MODULE', '--facet', facet, *until)}"


def report_unanswered(invocation: Invocation, heading: str, steps: Sequence[WaitingStep], plan: WorkflowPlan) -> None:
    """Warn of steps that wait, if there are any."""
    invocation.terminal().warn_of(heading, unanswered_lines(invocation, steps, facets_of(plan)))


def report_deferred(invocation: Invocation, workflow_id: str, steps: Sequence[WaitingStep], plan: WorkflowPlan) -> None:
    """Say which steps' handlers have left the answer to others, and how another terminal gives it."""
    lines: list[str] = []
    for waits in unanswered_facets(steps)[:_MOST_FACETS]:
        facet = facets_of(plan).get(waits.facet)
        result = "{...}" if facet is None else result_form(facet)
        by_hand = invocation.command_line("continue", waits.first.step_id, "--result", result)
        lines += [str(waits), f"  from another terminal: {by_hand}"]
    if lines:
        invocation.terminal().warn_of(f"Note: {workflow_id} waits for answers that its handlers leave to others", lines)


def report_not_ended(invocation: Invocation, deployment: LocalDeployment, workflow_id: str) -> None:
    """Warn of what a run still waits for after its time, including steps whose handlers run here."""
    lines = why_lines(invocation, deployment.store, deployment.transport, workflow_id)
    grace_s = deployment.config.agent.grace_s
    for waits in unanswered_facets(deployment.at_work(workflow_id))[:_MOST_FACETS]:
        lines += [str(waits), f"  its handler is here; one that is at work is waited for, up to {grace_s:g} s"]
    invocation.terminal().warn_of(f"Note: {workflow_id} has not ended", lines)


def why_it_waits(
    invocation: Invocation,
    transport: Transport,
    client: Client,
    workflow_id: str,
    facets: Mapping[str, FacetPlan] = _NO_FACETS,
) -> list[str]:
    """Return lines that say what a run waits for: from the store if it is at hand, else from the evaluators.

    Never raises for what it cannot find out: the lines say that.
    """
    config = invocation.settings()
    with store_here(config, transport) as store:
        if store is not None and store.load_workflow(workflow_id) is not None:
            steps: Sequence[WaitingStep] = waiting_steps(store, workflow_id)
            return unanswered_lines(invocation, steps, facets) or ["no event of it waits for an answer: it is running"]
    try:
        described = client.describe(workflow_id, answer_timeout_s=_ANSWER_TIMEOUT_S)
    except NotAnswered:
        evaluator = invocation.command_line("evaluator")
        return [f"no evaluator of group {config.evaluator_group} answers: start one with: {evaluator}"]
    except RefusedByEvaluator as refused:
        return [f"the evaluators say: {refused.reason.message}"]
    except TransportError as error:
        return [f"what it waits for is not known: {error}"]
    return described_lines(invocation, described, facets)


def described_lines(
    invocation: Invocation, described: Lifecycle, facets: Mapping[str, FacetPlan] = _NO_FACETS
) -> list[str]:
    """Return lines that say what a run waits for, by an evaluator's answer."""
    steps = described_steps(described.workflow_id, described.outputs or {})
    status = "at work" if described.status is None else shown_status(described.status)
    return unanswered_lines(invocation, steps, facets) or [f"no event of it waits for an answer: it is {status}"]
