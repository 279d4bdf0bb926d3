"""Further attempts that the program asks for: after a pause, each with an event of its own, until one succeeds."""

from __future__ import annotations

from afl.engine.model.store import ERROR, PAUSED
from afl.engine.states import EventState
from tests.scenarios.test_orphaned_outbox import two_evaluators
from tests.worlds.deployment import Deployment
from tests.worlds.naps import NAPS, answer, asked, events_of, fail, outputs, pass_time, start, timers, told
from tests.worlds.world import World
from tests.worlds.worlds import DURABLE, EVERYWHERE, in_worlds

WORLDS = EVERYWHERE


def deployment_of(world: World) -> Deployment:
    deployment = world.deployment(NAPS)
    deployment.evaluator()
    deployment.settle()
    return deployment


def test_each_failed_attempt_is_followed_by_another_after_its_pause(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Stubborn")

    # The pauses: 1 s, twice as long, and as long as the limit.
    for attempt, pause_ms in ((1, 1_000), (2, 2_000), (3, 3_000)):
        before_ms = deployment.clock.now_ms()
        fail(deployment, "Busy", attempt=attempt)
        (timer,) = timers(deployment)
        assert before_ms + pause_ms <= timer.due_at_ms <= deployment.clock.now_ms() + pause_ms
        assert len(events_of(deployment)) == attempt
        pass_time(deployment, pause_ms)
    answer(deployment, "at last", attempt=4)

    assert outputs(deployment) == {"answer": "at last"}
    sent = events_of(deployment)
    assert [event.attempt for event in sent] == [1, 2, 3, 4]
    assert [event.id for event in sent] == [f"{asked(deployment).id}#{n}" for n in (1, 2, 3, 4)]
    assert {event.step_id for event in sent} == {asked(deployment).id}
    assert timers(deployment) == []
    assert deployment.evaluators[0].stats.timers.retries == 3


def test_a_step_whose_attempts_are_used_up_fails_with_the_last_failure(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Stubborn")
    for attempt in (1, 2, 3):
        fail(deployment, "Busy", attempt=attempt)
        pass_time(deployment, 3_000)

    fail(deployment, "Broken", attempt=4)

    row = deployment.workflow("wf-1")
    assert row.status == ERROR
    assert row.error is not None
    assert row.error.type == "Broken"
    assert timers(deployment) == []
    pass_time(deployment, 60_000)
    assert len(events_of(deployment)) == 4


def test_an_error_that_the_policy_does_not_name_is_not_retried(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Choosy")

    fail(deployment, "Busy")
    pass_time(deployment, 500)
    fail(deployment, "Broken", attempt=2)

    assert deployment.workflow("wf-1").status == ERROR
    assert len(events_of(deployment)) == 2


def test_subscribers_learn_which_attempt_has_failed_and_when_the_next_one_is(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Stubborn")

    fail(deployment, "Busy")
    (timer,) = timers(deployment)

    (milestone,) = [m for m in deployment.milestones("wf-1") if m.kind == "step.retrying"]
    assert (milestone.step_id, milestone.facet) == (asked(deployment).id, "naps.Ask")
    assert milestone.outputs == {"attempt": 1, "next_at_ms": timer.due_at_ms}
    assert milestone.error is not None
    assert (milestone.error.type, milestone.error.message) == ("Busy", "not now")
    pass_time(deployment, 1_000)
    fail(deployment, "Busy", attempt=2)
    assert told(deployment).count("step.retrying") == 2


def test_a_second_answer_to_an_attempt_that_has_failed_changes_nothing(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Stubborn")
    fail(deployment, "Busy", attempt=1)

    answer(deployment, "after all", attempt=1)
    assert deployment.outcomes()["duplicate"] == 1
    pass_time(deployment, 1_000)
    answer(deployment, "after all", attempt=1)
    assert deployment.outcomes()["superseded"] == 1

    assert deployment.workflow("wf-1").status == PAUSED
    answer(deployment, "second", attempt=2)
    assert outputs(deployment) == {"answer": "second"}


def test_a_run_that_is_cancelled_in_a_pause_sends_no_further_event(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Stubborn")
    fail(deployment)

    deployment.client.cancel("wf-1")
    # The command is read before the time has come.
    deployment.settle()
    pass_time(deployment, 10_000)

    assert timers(deployment) == []
    assert len(events_of(deployment)) == 1


@in_worlds(DURABLE)
def test_a_pause_outlives_the_process(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Stubborn")
    fail(deployment)
    assert asked(deployment).event_state == EventState.RETRYING

    deployment.crash_and_restart()
    deployment.clock.advance(3_600_000)
    deployment.evaluator()
    deployment.settle()
    answer(deployment, "after the restart", attempt=2)

    assert outputs(deployment) == {"answer": "after the restart"}
    deployment.crash()


def test_the_next_owner_makes_the_next_attempt_once(world: World) -> None:
    deployment = world.deployment(NAPS)
    first, second = two_evaluators(deployment)
    name = start(deployment, "Stubborn", deployment.id_in_partition(0))
    fail(deployment, workflow_id=name)
    deployment.remove(first, killed=False)
    deployment.settle()

    pass_time(deployment, 1_000)

    assert [event.attempt for event in events_of(deployment, name)] == [1, 2]
    assert second.stats.timers.retries == 1


def test_an_operators_retry_begins_a_new_series_of_attempts(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Choosy")
    for attempt in (1, 2, 3):
        fail(deployment, "Busy", attempt=attempt)
        pass_time(deployment, 500 * 2**attempt)
    assert deployment.workflow("wf-1").status == ERROR

    deployment.client.retry("wf-1")
    deployment.settle()
    fail(deployment, "Busy", attempt=4)
    pass_time(deployment, 500)
    answer(deployment, "the fifth", attempt=5)

    assert outputs(deployment) == {"answer": "the fifth"}
