"""Milestones of steps that ask agents, where the settings want them: in the order in which the steps moved."""

from __future__ import annotations

from typing import Any

import pytest

from afl.core.handlers.context import HandlerContext
from afl_stream.settings.config import LifecycleSettings
from afl_stream.wire.messages import Lifecycle
from tests.record_headers import headers_of
from tests.worlds.deployment import Deployment
from tests.worlds.naps import NAPS, answer, asked, fail, pass_time, start
from tests.worlds.world import World
from tests.worlds.worlds import DURABLE, EACH_ONCE, in_worlds

WORLDS = EACH_ONCE


def deployment_of(world: World, steps: str, *programs: str) -> Deployment:
    deployment = world.deployment(*(programs or (NAPS,)), lifecycle=LifecycleSettings(steps=steps))
    deployment.evaluator()
    deployment.settle()
    return deployment


def of_steps(deployment: Deployment, workflow_id: str = "wf-1") -> list[Lifecycle]:
    return [milestone for milestone in deployment.milestones(workflow_id) if milestone.kind.startswith("step.")]


def test_without_the_setting_nothing_is_told_of_a_step_that_succeeds_or_fails(world: World) -> None:
    deployment = deployment_of(world, "off")
    start(deployment, "Plain")
    start(deployment, "Plain", "wf-2")

    answer(deployment)
    fail(deployment, workflow_id="wf-2")

    assert [milestone.kind for milestone in deployment.milestones("wf-1")] == ["workflow.started", "workflow.completed"]
    assert [milestone.kind for milestone in deployment.milestones("wf-2")] == ["workflow.started", "workflow.error"]


def test_a_step_is_started_and_completed_between_the_start_and_the_end_of_its_run(world: World) -> None:
    deployment = deployment_of(world, "on")
    start(deployment, "Plain")
    sent_ms = deployment.clock.now_ms()
    deployment.clock.advance(5_000)

    answer(deployment, "me")

    told = deployment.milestones("wf-1")
    assert [milestone.kind for milestone in told] == [
        "workflow.started", "step.started", "step.completed", "workflow.completed",
    ]  # fmt: skip
    started, completed = told[1:3]
    step_id = asked(deployment).id
    assert (started.step_id, started.facet, started.workflow) == (step_id, "naps.Ask", "naps.Plain")
    assert (started.outputs, completed.outputs) == ({"attempt": 1}, None)
    assert (completed.step_id, completed.facet) == (step_id, "naps.Ask")
    assert started.at <= sent_ms
    assert completed.at >= started.at + 5_000


def test_results_are_told_where_the_setting_asks_for_them(world: World) -> None:
    deployment = deployment_of(world, "results")
    start(deployment, "Plain")

    answer(deployment, "me")

    assert of_steps(deployment)[-1].outputs == {"answer": "me"}


def test_each_attempt_is_started_and_only_the_last_one_fails_the_step(world: World) -> None:
    deployment = deployment_of(world, "on")
    start(deployment, "Choosy")

    fail(deployment, "Busy")
    pass_time(deployment, 500)
    fail(deployment, "Broken", attempt=2)

    told = of_steps(deployment)
    assert [(milestone.kind, (milestone.outputs or {}).get("attempt")) for milestone in told] == [
        ("step.started", 1), ("step.retrying", 1), ("step.started", 2), ("step.failed", None),
    ]  # fmt: skip
    assert told[-1].error is not None
    assert (told[-1].error.type, told[-1].error.message) == ("Broken", "not now")


def test_a_failure_that_is_caught_is_told_of_its_step_and_not_of_its_run(world: World) -> None:
    deployment = deployment_of(world, "on")
    start(deployment, "Patient")

    fail(deployment, "Busy")

    told = deployment.milestones("wf-1")
    assert [milestone.kind for milestone in told] == [
        "workflow.started", "step.started", "step.failed", "workflow.completed",
    ]  # fmt: skip
    assert told[2].error is not None
    assert told[2].error.type == "Busy"


def test_a_deadline_that_passes_fails_its_step(world: World) -> None:
    deployment = deployment_of(world, "on")
    start(deployment, "Urgent")

    pass_time(deployment, 61_000)

    assert [milestone.kind for milestone in of_steps(deployment)] == ["step.started", "step.failed"]


def test_every_milestone_has_an_id_of_its_own(world: World) -> None:
    deployment = deployment_of(world, "on")
    start(deployment, "Choosy")
    fail(deployment, "Busy")
    pass_time(deployment, 500)
    answer(deployment, attempt=2)

    records = deployment.records(deployment.topology.lifecycle())

    ids = [headers_of(record)["ce_id"] for record in records]
    assert len(set(ids)) == len(ids) == 6


def test_subscribers_learn_once_that_a_run_is_paused_and_that_it_goes_on(world: World) -> None:
    deployment = deployment_of(world, "off")
    start(deployment, "Plain")

    for _ in range(2):
        deployment.client.pause(workflow_id="wf-1", reason="a new price list")
    for _ in range(2):
        deployment.client.resume(workflow_id="wf-1")

    told = deployment.milestones("wf-1")
    assert [milestone.kind for milestone in told] == ["workflow.started", "workflow.paused", "workflow.resumed"]
    assert told[1].outputs == {"reason": "a new price list"}


@in_worlds(DURABLE)
def test_what_was_told_before_a_crash_is_told_once(world: World) -> None:
    deployment = deployment_of(world, "on")
    start(deployment, "Plain")

    deployment.crash_and_restart()
    deployment.evaluator()
    deployment.settle()
    answer(deployment)

    kinds = [milestone.kind for milestone in deployment.milestones("wf-1")]
    assert kinds == ["workflow.started", "step.started", "step.completed", "workflow.completed"]


#: A milestone names workflow and facet, which an answer to an event does not.
LONG_NAME = "n" * 120
LONG = f"namespace {LONG_NAME} {{ event facet Write() => (text: String) workflow W() andThen {{ w = Write() }} }}"


@pytest.mark.parametrize("steps", ["on", "results"])
def test_a_result_that_is_too_large_for_a_milestone_is_left_out_with_the_reason(world: World, steps: str) -> None:
    deployment = world.deployment(LONG, lifecycle=LifecycleSettings(steps=steps), max_event_bytes=2_000)
    deployment.evaluator()

    def write(_payload: dict[str, Any], _context: HandlerContext) -> dict[str, Any]:
        return {"text": "x" * 1_750}

    deployment.worker({f"{LONG_NAME}.Write": write})
    deployment.client.start(f"{LONG_NAME}.W", workflow_id="wf-1")
    deployment.settle()

    completed = of_steps(deployment)[-1]
    assert completed.kind == "step.completed"
    assert completed.outputs is None
    assert (completed.error is not None) == (steps == "results")
