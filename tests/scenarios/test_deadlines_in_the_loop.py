"""Deadlines of events: a wait ends with Timeout, a catch sees it, and an answer that comes later is superseded."""

from __future__ import annotations

import pytest

from afl.engine.model.entities import TaskState
from afl.engine.model.store import ERROR, PAUSED
from afl.engine.states import EventState
from afl_stream.settings.config import DispatchSettings, EvaluatorSettings
from tests.worlds.deployment import Deployment
from tests.worlds.naps import (
    MINUTE_MS,
    NAPS,
    answer,
    asked,
    events_of,
    fail,
    outputs,
    pass_time,
    start,
    timers,
    told,
)
from tests.worlds.world import World
from tests.worlds.worlds import EVERYWHERE

WORLDS = EVERYWHERE


def deployment_of(world: World, **settings: EvaluatorSettings | DispatchSettings) -> Deployment:
    deployment = world.deployment(NAPS, **settings)  # type: ignore[arg-type]  # by name
    deployment.evaluator()
    deployment.settle()
    return deployment


def test_an_event_that_is_not_answered_in_time_fails_its_step_with_timeout(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Urgent")
    (event,) = events_of(deployment)
    assert event.deadline == event.created_at + MINUTE_MS

    deployment.clock.advance(event.deadline - deployment.clock.now_ms() - 60)
    deployment.settle()
    assert deployment.workflow("wf-1").status == PAUSED
    pass_time(deployment, 60)

    row = deployment.workflow("wf-1")
    assert row.status == ERROR
    assert row.error is not None
    assert (row.error.type, row.error.step_id, row.error.facet) == ("Timeout", event.step_id, "naps.Ask")
    assert asked(deployment).event_state == EventState.EXPIRED
    assert timers(deployment) == []
    (evaluator,) = deployment.evaluators
    assert (evaluator.stats.timers.fired, evaluator.stats.timers.deadlines) == (1, 1)


def test_a_catch_sees_the_timeout_and_a_late_answer_is_superseded_and_told(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Patient")

    pass_time(deployment, MINUTE_MS)
    answer(deployment, "too late")

    assert outputs(deployment) == {"answer": "Timeout"}
    assert told(deployment).count("answer.superseded") == 1
    assert deployment.outcomes()["superseded"] == 1


def test_an_answer_in_time_ends_the_deadline(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Urgent")

    answer(deployment, "me")
    assert timers(deployment) == []
    pass_time(deployment, 2 * MINUTE_MS)

    assert outputs(deployment) == {"answer": "me"}
    assert deployment.evaluators[0].stats.timers.fired == 0


def test_a_failure_in_time_ends_the_deadline_too(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Urgent")

    fail(deployment, "Busy")

    assert timers(deployment) == []
    error = deployment.workflow("wf-1").error
    assert error is not None
    assert error.type == "Busy"


def test_a_cancelled_run_leaves_no_deadline(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Urgent")

    deployment.client.cancel("wf-1")
    deployment.settle()

    assert timers(deployment) == []


def test_the_settings_give_deadlines_to_facets_of_which_the_program_gives_none(world: World) -> None:
    deployment = deployment_of(world, evaluator=EvaluatorSettings(deadlines="naps.*=10m, naps.Ask=5m"))
    start(deployment, "Plain", "plain")
    start(deployment, "Urgent", "urgent")
    (plain,), (urgent,) = events_of(deployment, "plain"), events_of(deployment, "urgent")
    assert plain.deadline == plain.created_at + 5 * MINUTE_MS
    assert urgent.deadline == urgent.created_at + MINUTE_MS

    pass_time(deployment, MINUTE_MS)
    assert [deployment.workflow(name).status for name in ("plain", "urgent")] == [PAUSED, ERROR]
    pass_time(deployment, 4 * MINUTE_MS)

    assert deployment.workflow("plain").status == ERROR


def test_without_a_deadline_an_event_waits_for_ever(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Plain")
    (event,) = events_of(deployment)
    assert event.deadline is None

    pass_time(deployment, 3 * 24 * 60 * MINUTE_MS)

    assert deployment.workflow("wf-1").status == PAUSED


def test_the_task_of_an_event_whose_time_is_over_fails_with_the_timeout(world: World) -> None:
    deployment = deployment_of(world, dispatch=DispatchSettings(default="task"))
    start(deployment, "Urgent")
    task_id = f"{asked(deployment).id}#1"
    task = deployment.store.get_task(task_id)
    assert task is not None
    assert task.state == TaskState.PENDING

    pass_time(deployment, MINUTE_MS)

    task = deployment.store.get_task(task_id)
    assert task is not None
    assert task.state == TaskState.FAILED
    assert "deadline" in str(task.error)
    assert deployment.workflow("wf-1").status == ERROR


def test_an_attempt_whose_time_is_over_is_followed_by_the_next_with_a_deadline_of_its_own(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Both")

    pass_time(deployment, MINUTE_MS)
    pass_time(deployment, 1_000)
    first, second = events_of(deployment)
    assert second.deadline == second.created_at + MINUTE_MS
    answer(deployment, "too late", event_id=first.id)
    assert deployment.outcomes()["superseded"] == 1
    answer(deployment, "in time", event_id=second.id)

    assert outputs(deployment) == {"answer": "in time"}
    assert timers(deployment) == []


@pytest.mark.parametrize("attempt", [None, 1])
def test_an_answer_between_a_timeout_and_the_next_attempt_is_superseded(world: World, attempt: int | None) -> None:
    deployment = deployment_of(world)
    start(deployment, "Both")
    pass_time(deployment, MINUTE_MS)
    assert asked(deployment).event_state == EventState.RETRYING

    answer(deployment, "too late", attempt=attempt)
    assert deployment.outcomes()["superseded"] == 1
    pass_time(deployment, 1_000)
    answer(deployment, "in time")

    assert outputs(deployment) == {"answer": "in time"}
