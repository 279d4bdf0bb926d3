"""Events without an answer are published again at half of their topic's retention, at the whole, and so on."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from afl.engine.model.store import Batch, WorkflowChange
from afl.engine.states import EventState
from afl_stream.embedded.transport import Crash
from afl_stream.errors import NotStorable
from afl_stream.settings.config import DispatchSettings
from afl_stream.wire.messages import StepContinue
from tests.record_headers import headers_of
from tests.scenarios.test_orphaned_outbox import two_evaluators
from tests.worlds.deployment import Deployment, unique_ids
from tests.worlds.naps import ASK, NAPS, answer, asked, events_of, fail, outputs, pass_time, start
from tests.worlds.parties import Interruptions
from tests.worlds.world import World
from tests.worlds.worlds import (
    DURABLE,
    EMBEDDED_DURABLE,
    EMBEDDED_EVERY_STORE,
    EVERYWHERE,
    FILES,
    SQLITE,
    in_worlds,
)

WORLDS = EVERYWHERE

#: Half of the seven days that `topics/facet.toml` gives to the topic of a facet.
HALF_MS = 7 * 24 * 3_600_000 // 2
DAY_MS = 24 * 3_600_000


def deployment_of(world: World) -> Deployment:
    deployment = world.deployment(NAPS)
    deployment.evaluator()
    deployment.settle()
    return deployment


def copies(deployment: Deployment, workflow_id: str = "wf-1") -> int:
    """Return how often a run's event was published."""
    return len(events_of(deployment, workflow_id))


def to(deployment: Deployment, moment_ms: int) -> None:
    """Move the clock on to a moment, and let the deployment come to rest."""
    pass_time(deployment, moment_ms - deployment.clock.now_ms())


def test_an_event_is_published_again_at_half_of_the_retention_and_at_the_whole(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Plain")
    created_ms = asked(deployment).created_at_ms

    to(deployment, created_ms + HALF_MS - 1_000)
    assert copies(deployment) == 1
    to(deployment, created_ms + HALF_MS)
    assert copies(deployment) == 2
    to(deployment, created_ms + 2 * HALF_MS - 1_000)
    assert copies(deployment) == 2
    to(deployment, created_ms + 2 * HALF_MS)
    assert copies(deployment) == 3
    assert deployment.evaluators[0].stats.republished == 2


def test_a_copy_has_the_id_and_the_bytes_of_the_event(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Plain")

    pass_time(deployment, HALF_MS)

    first, copy = deployment.records(deployment.topology.facet(ASK))
    assert (copy.key, copy.value, copy.partition) == (first.key, first.value, first.partition)
    assert headers_of(copy)["ce_id"] == headers_of(first)["ce_id"] == f"{asked(deployment).id}#1".encode()


def test_the_answer_to_a_copy_is_the_answer_to_the_event_and_the_second_one_is_a_duplicate(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Plain")
    pass_time(deployment, HALF_MS)

    for event in events_of(deployment):
        deployment.send(StepContinue(step_id=event.step_id, result={"answer": "me"}, event_id=event.id))
    deployment.settle()

    assert outputs(deployment) == {"answer": "me"}
    assert deployment.outcomes()["duplicate"] == 1


def test_events_that_are_answered_and_runs_that_have_ended_are_left_alone(world: World) -> None:
    deployment = deployment_of(world)
    for name in ("answered", "cancelled", "failed", "waiting"):
        start(deployment, "Plain", name)
    answer(deployment, workflow_id="answered")
    fail(deployment, workflow_id="failed")
    deployment.client.cancel("cancelled")
    deployment.settle()

    pass_time(deployment, HALF_MS)
    pass_time(deployment, HALF_MS)

    assert [copies(deployment, name) for name in ("answered", "cancelled", "failed", "waiting")] == [1, 1, 1, 3]


def test_what_waits_for_the_runtime_sends_nothing(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Doze", "sleeps", ms=100 * DAY_MS)
    start(deployment, "Stubborn", "pauses")
    fail(deployment, workflow_id="pauses")

    before = len(deployment.store.outbox())
    # In the pause after the first attempt, which has its answer.
    assert deployment.evaluators[0].stats.republished == before == 0
    pass_time(deployment, HALF_MS)
    pass_time(deployment, HALF_MS)

    assert [event.attempt for event in events_of(deployment, "pauses")].count(1) == 1


def test_a_later_attempt_is_published_again_under_its_own_id(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Stubborn")
    fail(deployment, attempt=1)
    pass_time(deployment, 1_000)

    pass_time(deployment, HALF_MS)

    assert [event.attempt for event in events_of(deployment)] == [1, 2, 2]
    _, second, copy = events_of(deployment)
    assert second.id == copy.id
    answer(deployment, "me", event_id=copy.id)
    assert outputs(deployment) == {"answer": "me"}


def test_tasks_are_no_records_and_are_not_repeated(world: World) -> None:
    deployment = world.deployment(NAPS, dispatch=DispatchSettings(default="task"))
    deployment.evaluator()
    deployment.settle()
    start(deployment, "Plain")

    pass_time(deployment, 3 * HALF_MS)

    assert asked(deployment).attempt == 1
    assert deployment.evaluators[0].stats.republished == 0


@in_worlds(EMBEDDED_EVERY_STORE)
@pytest.mark.parametrize(
    "settings", [{"retention.ms": "-1"}, {}, {"cleanup.policy": "compact", "retention.ms": "1000"}]
)
def test_a_topic_that_keeps_its_records_gets_no_copies(world: World, settings: dict[str, str]) -> None:
    deployment = world.deployment(NAPS)
    topic, admin = deployment.topology.facet(ASK), deployment.transport.admin()
    partitions = admin.topics([topic])[topic].partitions
    admin.delete_topic(topic)
    admin.create_topic(topic, partitions=partitions, settings=settings)
    deployment.evaluator()
    deployment.settle()
    start(deployment, "Plain")

    pass_time(deployment, 10 * HALF_MS)

    assert copies(deployment) == 1


@in_worlds(EMBEDDED_EVERY_STORE)
def test_each_topic_has_the_times_of_its_own_retention(world: World) -> None:
    deployment = world.deployment(NAPS)
    topic, admin = deployment.topology.facet(ASK), deployment.transport.admin()
    partitions = admin.topics([topic])[topic].partitions
    admin.delete_topic(topic)
    admin.create_topic(topic, partitions=partitions, settings={"retention.ms": "20000000"})
    deployment.evaluator()
    deployment.settle()
    start(deployment, "Plain")
    created_ms = asked(deployment).created_at_ms

    to(deployment, created_ms + 9_990_000)
    assert copies(deployment) == 1
    to(deployment, created_ms + 10_000_000)
    assert copies(deployment) == 2


@in_worlds(DURABLE)
def test_after_a_restart_an_event_is_not_published_twice_in_one_period(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Plain")
    pass_time(deployment, HALF_MS)
    assert copies(deployment) == 2

    for _ in range(2):
        deployment.crash_and_restart()
        deployment.evaluator()
        pass_time(deployment, DAY_MS)

    assert copies(deployment) == 2
    pass_time(deployment, 2 * DAY_MS)
    assert copies(deployment) == 3
    deployment.crash()


@in_worlds(DURABLE)
def test_an_evaluator_that_was_stopped_for_weeks_catches_up_with_one_copy(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Plain")

    deployment.crash_and_restart()
    deployment.clock.advance(5 * HALF_MS)
    deployment.evaluator()
    deployment.settle()

    assert copies(deployment) == 2
    deployment.crash()


def test_two_evaluators_publish_each_event_once_and_so_does_who_takes_over(world: World) -> None:
    deployment = world.deployment(NAPS)
    first, second = two_evaluators(deployment)
    names = [start(deployment, "Plain", deployment.id_in_partition(number)) for number in (0, 1)]

    pass_time(deployment, HALF_MS)
    assert [copies(deployment, name) for name in names] == [2, 2]
    assert (first.stats.republished, second.stats.republished) == (1, 1)
    deployment.remove(first, killed=False)
    pass_time(deployment, DAY_MS)

    assert [copies(deployment, name) for name in names] == [2, 2]


@in_worlds(EMBEDDED_EVERY_STORE)
def test_an_owner_that_was_replaced_meanwhile_publishes_no_second_copy(world: World) -> None:
    deployment, interruptions = world.deployment(NAPS, control_partitions=1), Interruptions()
    frozen = deployment.evaluator(interruptions)
    deployment.settle()
    start(deployment, "Plain")

    def another_publishes() -> None:
        deployment.broker.expire(frozen.consumer())
        successor = deployment.evaluator()
        for _ in range(6):
            successor.turn()

    interruptions.happens_at("republish.encoded", another_publishes)
    pass_time(deployment, HALF_MS)

    assert copies(deployment) == 2


@in_worlds(EMBEDDED_EVERY_STORE)
def test_an_answer_that_comes_while_its_event_is_about_to_be_repeated_wins(world: World) -> None:
    deployment, interruptions = world.deployment(NAPS, control_partitions=1), Interruptions()
    deployment.evaluator(interruptions)
    deployment.settle()
    start(deployment, "Plain")

    def it_is_answered() -> None:
        """Change the run, as another evaluator does that has its answer."""
        row = deployment.workflow("wf-1")
        step = asked(deployment)._replace(revision=row.revision + 1, event_state=EventState.COMPLETED)
        change = WorkflowChange(row._replace(revision=row.revision + 1), row.revision, [step])
        deployment.store.commit_batch(Batch(changes=[change], now_ms=deployment.clock.now_ms()))

    interruptions.happens_at("republish.encoded", it_is_answered)
    pass_time(deployment, HALF_MS)

    assert copies(deployment) == 1


POINTS = [
    "republish.found",
    "republish.encoded",
    "control.persisted",
    "control.published",
    "store.written",
    "store.committed",
]


@in_worlds(EMBEDDED_DURABLE)
@pytest.mark.parametrize("point", POINTS)
def test_a_crash_at_any_step_leaves_one_copy_of_each_event(world: World, point: str) -> None:
    deployment = deployment_of(world)
    names = [start(deployment, "Plain", f"wf-{number}") for number in range(5)]
    deployment.evaluators[0].faults.fail_at(point)

    with pytest.raises(Crash, match=point):
        pass_time(deployment, HALF_MS)
    deployment.crash_and_restart()
    deployment.evaluator()
    deployment.settle()

    # A record may come twice through a crash of its writer; the outbox has each once.
    assert len(set(unique_ids(deployment.records(deployment.topology.facet(ASK))))) == len(names)
    published = sum(copies(deployment, name) for name in names)
    assert published >= 2 * len(names)
    if point in ("republish.found", "republish.encoded", "store.written"):
        assert published == 2 * len(names)
    before = published
    pass_time(deployment, DAY_MS)
    assert sum(copies(deployment, name) for name in names) == before
    deployment.crash()


@in_worlds([SQLITE])
def test_a_run_that_cannot_be_read_keeps_no_other_event_from_being_published_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = deployment_of(world)
    start(deployment, "Plain", workflow_id="wf-0")
    start(deployment, "Plain", workflow_id="wf-1")
    with closing(sqlite3.connect(Path(deployment.config.embedded.data_dir) / "store.sqlite3")) as file, file:
        file.execute("UPDATE step SET document = x'00' WHERE id GLOB 'wf-0:*'")

    to(deployment, asked(deployment).created_at_ms + HALF_MS)

    assert copies(deployment, "wf-1") == 2
    assert "run wf-0" in caplog.text


def test_many_events_are_published_again_in_bounded_turns(world: World) -> None:
    deployment = deployment_of(world)
    names = [f"wf-{number}" for number in range(230)]
    for name in names:
        deployment.client.start("naps.Plain", {"question": name}, workflow_id=name)
    deployment.settle()
    (evaluator,) = deployment.evaluators
    deployment.clock.advance(HALF_MS)
    most, before = 0, 0
    for _ in range(20):
        evaluator.turn()
        most, before = max(most, evaluator.stats.republished - before), evaluator.stats.republished
    deployment.settle()

    assert most == 100
    assert evaluator.stats.republished == len(names)
    assert len(unique_ids(deployment.records(deployment.topology.facet(ASK)))) == len(names)


@in_worlds(FILES)
@pytest.mark.parametrize("is_newer", [False, True], ids=["damaged", "of a newer release"])
def test_a_run_that_cannot_be_read_holds_up_the_events_of_no_other(world: World, is_newer: bool) -> None:
    deployment = deployment_of(world)
    names = [start(deployment, "Plain", f"wf-{number}") for number in range(4)]
    path = deployment.config.store_path
    deployment.crash()
    with closing(sqlite3.connect(path)) as file, file:
        document = "CAST(replace(CAST(document AS TEXT), '1.0 1.0', '2.0 2.0') AS BLOB)" if is_newer else "x'00'"
        file.execute(f"UPDATE step SET document = {document} WHERE id LIKE 'wf-1:%'")
    deployment.restart()
    deployment.evaluator()
    deployment.settle()

    pass_time(deployment, HALF_MS)

    assert [copies(deployment, name) for name in names] == [2, 1, 2, 2]
    deployment.crash()


@in_worlds(EMBEDDED_EVERY_STORE)
def test_events_that_are_too_large_for_one_commit_are_published_again_in_several(world: World) -> None:
    deployment = world.deployment(NAPS, control_partitions=1)
    deployment.evaluator()
    deployment.settle()
    names = [start(deployment, "Plain", f"wf-{number}") for number in range(5)]
    deployment.evaluators[0].faults.fail_at("republish.encoded", times=2, error=NotStorable(ValueError("too large")))

    pass_time(deployment, HALF_MS)

    assert [copies(deployment, name) for name in names] == [2] * 5
