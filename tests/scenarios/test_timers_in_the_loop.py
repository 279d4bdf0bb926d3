"""Timers of the control loop: fired in order, at their time, and each once, through restarts, takeovers and crashes."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from afl.core.clock import Clock
from afl.engine.model.store import CANCELLED, COMPLETED, PAUSED, Batch, TimerKind, TimerRow
from afl.stores.memory.store import MemoryStore
from afl.stores.public.persistence import EngineStore
from afl_stream.embedded.transport import Crash
from afl_stream.settings.config import EvaluatorSettings, StreamConfig
from afl_stream.wire.messages import FailureReason, StepContinue, StepFailed
from tests.scenarios.test_orphaned_outbox import two_evaluators
from tests.tiers import in_one_run
from tests.worlds.delivery_checks import assert_no_offset_past_its_effect
from tests.worlds.deployment import Deployment, unique_ids
from tests.worlds.embedded_cluster import EmbeddedCluster
from tests.worlds.naps import (
    HOUR_MS,
    MINUTE_MS,
    NAPS,
    NOTE,
    answer,
    asked,
    events_of,
    outputs,
    pass_time,
    start,
    timers,
    told,
)
from tests.worlds.parties import Evaluator, Interruptions
from tests.worlds.stored_rows import file_of
from tests.worlds.stores import OneStore
from tests.worlds.world import World, embedded
from tests.worlds.worlds import (
    DURABLE,
    EMBEDDED_EVERY_STORE,
    EVERY_STORE_AND_KAFKA,
    KAFKA,
    MEMORY,
    MONGO,
    SQLITE,
    STANDALONE_MONGO,
    Crashing,
    in_worlds,
    with_values,
)

WORLDS = EVERY_STORE_AND_KAFKA


def deployment_of(world: World) -> Deployment:
    deployment = world.deployment(NAPS)
    deployment.evaluator()
    deployment.settle()
    return deployment


def fired(deployment: Deployment) -> int:
    return sum(evaluator.stats.timers.fired for evaluator in deployment.evaluators)


# --- at their time ---------------------------------------------------------------------------------------------------


def test_a_run_sleeps_as_long_as_it_was_told_to(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Doze", ms=MINUTE_MS)
    (timer,) = timers(deployment)
    assert timer == TimerRow(deployment.step("wf-1", "afl.Sleep").id, "wf-1", TimerKind.SLEEP, timer.due_at_ms)
    assert 0 <= timer.due_at_ms - MINUTE_MS - deployment.workflow("wf-1").created_at_ms <= 10

    deployment.clock.advance(timer.due_at_ms - deployment.clock.now_ms() - 60)
    deployment.settle()
    assert deployment.workflow("wf-1").status == PAUSED
    pass_time(deployment, 60)

    woke_at = outputs(deployment)["woke_at"]
    assert timer.due_at_ms <= woke_at <= timer.due_at_ms + 60
    assert timers(deployment) == []
    (evaluator,) = deployment.evaluators
    assert evaluator.stats.timers.fired == 1
    assert evaluator.stats.timers.late_ms == woke_at - timer.due_at_ms


def test_a_deployment_with_sleeping_runs_is_at_rest(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Doze", ms=MINUTE_MS)

    assert deployment.evaluators[0].is_idle
    deployment.clock.advance(MINUTE_MS)
    assert not deployment.evaluators[0].is_idle


class Witness(MemoryStore):
    """A store in memory that notes the workflows of each commit, in its order."""

    def __init__(self, config: StreamConfig, clock: Clock) -> None:
        super().__init__(prefix=config.prefix, clock=clock)
        self.commits: list[list[str]] = []

    def commit_batch(self, batch: Batch) -> int:
        if batch.changes:
            self.commits.append([change.workflow_id for change in batch.changes])
        return super().commit_batch(batch)


def witnessed(count: int, due_ms: Sequence[int]) -> tuple[Deployment, list[str], Witness]:
    """Return a deployment, its sleeping runs in the order in which they are due, and its store."""
    made: list[Witness] = []

    def make(config: StreamConfig, clock: Clock) -> EngineStore:
        made.append(Witness(config, clock))
        return made[-1]

    deployment = embedded(None, NAPS, stores=OneStore(make))
    deployment.evaluator()
    for number in range(count):
        deployment.client.start("naps.Doze", {"ms": due_ms[number]}, workflow_id=f"wf-{number}")
    deployment.settle()
    return deployment, [timer.workflow_id for timer in timers(deployment)], made[0]


def test_timers_that_are_due_at_once_fire_in_order_of_time_and_step_id() -> None:
    random = Random(1)
    deployment, expected, store = witnessed(1_300, [HOUR_MS + random.randrange(500) for _ in range(1_300)])
    store.commits.clear()

    pass_time(deployment, 2 * HOUR_MS)

    assert [workflow_id for commit in store.commits for workflow_id in commit] == expected
    # Bounded turns.
    assert max(map(len, store.commits)) == 500
    assert fired(deployment) == 1_300
    assert timers(deployment) == []


def test_timers_have_their_turns_while_records_come_and_records_while_timers_do(world: World) -> None:
    deployment = deployment_of(world)
    for number in range(30):
        deployment.client.start("naps.Doze", {"ms": HOUR_MS}, workflow_id=f"doze-{number}")
    deployment.settle()
    for number in range(30):
        deployment.client.start("naps.Doze", {"ms": 0}, workflow_id=f"quick-{number}")

    pass_time(deployment, HOUR_MS)

    for number in range(30):
        assert deployment.workflow(f"doze-{number}").status == COMPLETED
        assert deployment.workflow(f"quick-{number}").status == COMPLETED


# --- restarts and takeovers ------------------------------------------------------------------------------------------


@in_worlds(DURABLE)
def test_a_timer_outlives_the_process(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Nap", name="tea", ms=MINUTE_MS)

    deployment.crash_and_restart()
    deployment.clock.advance(HOUR_MS)
    deployment.evaluator()
    deployment.settle()

    assert timers(deployment) == []
    assert len(events_of(deployment, facet=NOTE)) == 1
    assert fired(deployment) == 1
    assert deployment.evaluators[0].stats.timers.late_ms >= HOUR_MS - MINUTE_MS - 100
    deployment.crash()


def test_whoever_takes_a_partition_over_fires_its_timers(world: World) -> None:
    deployment = world.deployment(NAPS)
    first, second = two_evaluators(deployment)
    names = [start(deployment, "Nap", deployment.id_in_partition(n), name="tea", ms=MINUTE_MS) for n in (0, 1)]
    deployment.remove(first, killed=False)
    deployment.settle()

    pass_time(deployment, MINUTE_MS)

    assert second.stats.timers.fired == 2
    for name in names:
        assert len(events_of(deployment, name, NOTE)) == 1


def test_each_of_two_evaluators_fires_the_timers_of_its_own_runs(world: World) -> None:
    deployment = world.deployment(NAPS)
    first, second = two_evaluators(deployment)
    names = [
        start(deployment, "Doze", deployment.id_in_partition(n, f"{stem}-{n}"), ms=MINUTE_MS)
        for n in (0, 1)
        for stem in ("a", "b", "c")
    ]

    pass_time(deployment, MINUTE_MS)

    assert {deployment.workflow(name).status for name in names} == {COMPLETED}
    assert (first.stats.timers.fired, second.stats.timers.fired) == (3, 3)
    assert (first.stats.conflicts, second.stats.conflicts) == (0, 0)


@in_worlds(EMBEDDED_EVERY_STORE)
@pytest.mark.parametrize("point", ["timers.taken", "timers.fired"])
def test_an_owner_that_was_replaced_while_it_fires_a_timer_has_no_second_effect(world: World, point: str) -> None:
    deployment, interruptions = world.deployment(NAPS), Interruptions()
    frozen = deployment.evaluator(interruptions)
    deployment.settle()
    start(deployment, "Nap", name="tea", ms=MINUTE_MS)
    successors: list[Evaluator] = []

    def another_fires_it() -> None:
        deployment.broker.expire(frozen.consumer())
        successors.append(deployment.evaluator())
        for _ in range(4):
            successors[0].turn()

    interruptions.happens_at(point, another_fires_it)
    deployment.clock.advance(MINUTE_MS)
    frozen.turn()
    deployment.settle()

    assert successors[0].stats.timers.fired == 1
    assert frozen.stats.timers.fired == 0
    assert len(unique_ids(deployment.records(deployment.topology.facet(NOTE)))) == 1
    assert timers(deployment) == []


@in_worlds(EMBEDDED_EVERY_STORE)
def test_a_timer_that_old_memory_knows_nothing_of_is_fired(world: World) -> None:
    """The owner has the step in memory as it was asked; another evaluator has read since that the attempt failed."""
    deployment = world.deployment(NAPS)
    first, second = two_evaluators(deployment)
    name = start(deployment, "Stubborn", deployment.id_in_partition(0))
    failure = StepFailed(step_id=asked(deployment, name).id, error=FailureReason(type="Busy", message="not now"))
    deployment.send(failure, partition=1)
    second.turn()
    assert [timer.kind for timer in timers(deployment)] == [TimerKind.RETRY]

    pass_time(deployment, 2_000)

    assert [event.attempt for event in events_of(deployment, name)] == [1, 2]
    assert (first.stats.timers.retries, second.stats.timers.retries) == (1, 0)


@in_worlds(EMBEDDED_EVERY_STORE)
def test_a_timer_that_has_taken_the_place_of_one_that_is_about_to_fire_stays(world: World) -> None:
    """Between the deadline of the first attempt and its turn, another evaluator reads that the attempt has failed."""
    deployment = world.deployment(NAPS)
    first, second = two_evaluators(deployment)
    name = start(deployment, "Both", deployment.id_in_partition(0))
    failure = StepFailed(step_id=asked(deployment, name).id, error=FailureReason(type="Busy", message="not now"))
    deployment.send(failure, partition=1)
    assert isinstance(first.faults, Interruptions)
    first.faults.happens_at("timers.taken", lambda: second_reads_it(second))
    deployment.clock.advance(MINUTE_MS)

    first.turn()

    assert [timer.kind for timer in timers(deployment)] == [TimerKind.RETRY]
    assert first.stats.timers.fired == 0
    pass_time(deployment, 1_000)
    answer(deployment, "second", name, attempt=2)
    assert outputs(deployment, name) == {"answer": "second"}


def second_reads_it(second: Evaluator) -> None:
    second.turn()


# --- crashes ---------------------------------------------------------------------------------------------------------

#: The steps of a timer's way, and of the batches that it is part of; how often a run comes by after its timer is due.
POINTS = {
    "timers.taken": 2,
    "timers.fired": 2,
    "control.applied": 2,
    "control.persisted": 2,
    "control.published": 2,
    "control.committed": 2,
    "store.compared": 2,
    "store.written": 2,
    "store.committed": 2,
    "outbox.before_publish": 1,
    "outbox.published": 1,
}
CRASHES = [Crashing(point, passes) for point, most in POINTS.items() for passes in range(most)]


def is_quick_on_servers(crash: object) -> bool:
    return crash in (Crashing("timers.fired", 0), Crashing("control.persisted", 0))


@pytest.mark.parametrize(
    ("world", "crash"),
    [
        *with_values(SQLITE, CRASHES),
        *with_values(MONGO, [crash for crash in CRASHES if crash.point != "store.compared"], is_quick_on_servers),
        *with_values(STANDALONE_MONGO, CRASHES),
        *with_values(KAFKA, [crash for crash in CRASHES if not crash.passes], is_quick_on_servers),
    ],
    indirect=["world"],
    ids=str,
)
def test_a_crash_between_any_two_steps_of_a_timer_fires_it_once(world: World, crash: Crashing) -> None:
    deployment = deployment_of(world)
    names = [f"wf-{number}" for number in range(4)]
    for number, name in enumerate(names):
        # Two turns: the second pair is due later.
        start(deployment, "Nap", name, name=name, ms=MINUTE_MS * (1 + number // 2))
    deployment.evaluators[0].faults.fail_at(crash.point, passes=crash.passes)

    with pytest.raises(Crash, match=crash.point):
        pass_two_minutes(deployment)
    deployment.crash_and_restart()
    deployment.evaluator()
    deployment.settle()
    pass_time(deployment, MINUTE_MS)

    assert timers(deployment) == []
    for name in names:
        step = deployment.step(name, NOTE)
        deployment.send(StepContinue(step_id=step.id, result={"noted": name}))
    deployment.settle()
    assert_delivered_but_for_sleeps(deployment, names)
    assert_no_offset_past_its_effect(deployment)
    deployment.crash()


def pass_two_minutes(deployment: Deployment) -> None:
    for _ in range(2):
        pass_time(deployment, MINUTE_MS)


def assert_delivered_but_for_sleeps(deployment: Deployment, names: Sequence[str]) -> None:
    """Check that each run has completed with one event, sent under one id, and slept once."""
    for name in names:
        assert outputs(deployment, name)["noted"] == name
        assert deployment.step(name, NOTE).attempt == deployment.step(name, "afl.Sleep").attempt == 1
    sent = unique_ids(deployment.records(deployment.topology.facet(NOTE)))
    assert sorted(sent) == sorted(f"{deployment.step(name, NOTE).id}#1" for name in names)
    assert deployment.store.outbox() == []
    assert deployment.store.runnable_workflows() == []


# --- what came in time wins ------------------------------------------------------------------------------------------


@in_worlds(DURABLE)
def test_an_answer_in_time_wins_over_a_deadline_that_passed_while_no_evaluator_ran(world: World) -> None:
    # Batches of three: the deadlines are due long before the last answer is read.
    deployment = world.deployment(NAPS, evaluator=EvaluatorSettings(batch_records=3))
    evaluator = deployment.evaluator()
    for number in range(20):
        start(deployment, "Urgent", f"wf-{number}")
    deployment.remove(evaluator, killed=True)
    for number in range(20):
        step = asked(deployment, f"wf-{number}")
        deployment.send(StepContinue(step_id=step.id, result={"answer": "in time"}))

    deployment.crash_and_restart()
    deployment.clock.advance(HOUR_MS)
    deployment.evaluator()
    deployment.settle()

    for number in range(20):
        assert outputs(deployment, f"wf-{number}") == {"answer": "in time"}
    assert fired(deployment) == 0
    deployment.crash()


@in_worlds(DURABLE)
def test_an_event_in_time_wins_over_a_wait_that_ended_while_no_evaluator_ran(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Expect", "came", name="go")
    start(deployment, "Expect", "came-not", name="go")
    deployment.remove(deployment.evaluators[0], killed=True)
    deployment.client.raise_event("came", "go", {"n": 1})

    deployment.crash_and_restart()
    deployment.clock.advance(2 * HOUR_MS)
    deployment.evaluator()
    deployment.settle()

    assert outputs(deployment, "came") == {"data": {"n": 1}, "timed_out": False}
    assert outputs(deployment, "came-not") == {"data": None, "timed_out": True}
    assert fired(deployment) == 1
    deployment.crash()


# Which batch has a record is a real broker's affair.
@in_worlds(EMBEDDED_EVERY_STORE)
def test_a_cancellation_comes_before_a_timer_of_the_same_batch(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Nap", name="tea", ms=MINUTE_MS)
    deployment.client.cancel("wf-1")

    pass_time(deployment, MINUTE_MS)

    assert deployment.workflow("wf-1").status == CANCELLED
    assert events_of(deployment, facet=NOTE) == []
    assert timers(deployment) == []


def test_the_first_of_an_answer_and_a_deadline_counts_and_the_other_changes_nothing(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Patient")
    answer(deployment, "first")
    pass_time(deployment, MINUTE_MS)
    assert outputs(deployment) == {"answer": "first"}
    start(deployment, "Patient", "wf-2")
    pass_time(deployment, MINUTE_MS)
    answer(deployment, "second", "wf-2")

    assert outputs(deployment, "wf-2") == {"answer": "Timeout"}
    assert (told(deployment).count("answer.superseded"), told(deployment, "wf-2").count("answer.superseded")) == (0, 1)


# --- what cannot be fired --------------------------------------------------------------------------------------------


#: A program of its own, which can be taken away.
LOST = """
namespace lost {
  workflow Doze(ms: Long) => (woke_at: Long) andThen { nap = afl.Sleep(ms = $.ms) yield Doze(woke_at = nap.woke_at) }
}
"""


def rename_program(deployment: Deployment, old: str, new: str) -> None:
    with file_of(deployment) as file:
        file.execute("UPDATE program SET fingerprint = ? WHERE fingerprint = ?", (new, old))
        file.commit()


@in_worlds((SQLITE,))
def test_a_run_that_cannot_be_read_holds_up_no_timer_of_another_and_is_tried_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = world.deployment(NAPS, LOST)
    deployment.evaluator()
    deployment.client.start("lost.Doze", {"ms": MINUTE_MS}, workflow_id="bad")
    for number in range(3):
        start(deployment, "Doze", f"good-{number}", ms=MINUTE_MS + number)
    fingerprint = deployment.workflow("bad").program
    deployment.crash_and_restart()
    rename_program(deployment, fingerprint, "taken away")
    deployment.clock.advance(HOUR_MS)
    deployment.evaluator()

    with caplog.at_level(logging.ERROR):
        deployment.settle()

    for number in range(3):
        assert deployment.workflow(f"good-{number}").status == COMPLETED
    assert [timer.workflow_id for timer in timers(deployment)] == ["bad"]
    (message,) = [row.getMessage() for row in caplog.records]
    assert message.startswith("workflow bad cannot be continued, and its timers wait: ")
    rename_program(deployment, "taken away", fingerprint)
    pass_time(deployment, 2_000)
    assert deployment.workflow("bad").status == COMPLETED
    deployment.crash()


@in_worlds((SQLITE,))
def test_a_timer_that_cannot_be_read_holds_up_timers_and_no_records(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = deployment_of(world)
    start(deployment, "Doze", ms=MINUTE_MS)
    path = Path(deployment.config.embedded.data_dir) / "store.sqlite3"
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE timer SET kind = 'one of a later release'")
    pass_time(deployment, MINUTE_MS + 1_000)
    start(deployment, "Urgent", workflow_id="wf-2")
    answer(deployment, workflow_id="wf-2")

    assert deployment.workflow("wf-2").status == COMPLETED
    assert deployment.workflow("wf-1").status == PAUSED
    assert "timers that cannot be read wait" in caplog.text
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE timer SET kind = 'sleep'")
    pass_time(deployment, 1_000)
    assert deployment.workflow("wf-1").status == COMPLETED
    assert fired(deployment) == 1


@in_worlds(EMBEDDED_EVERY_STORE)
def test_a_row_of_a_timer_whose_step_does_not_wait_is_deleted(world: World) -> None:
    deployment = deployment_of(world)
    start(deployment, "Plain")
    step = asked(deployment)
    stray = [
        TimerRow(step.id, "wf-1", TimerKind.SLEEP, 1),
        TimerRow("wf-1:gone", "wf-1", TimerKind.SLEEP, 2),
        TimerRow("nobody:1", "nobody", TimerKind.DEADLINE, 3),
    ]
    deployment.store.commit_batch(Batch(timers=stray))

    pass_time(deployment, 1_000)

    assert timers(deployment) == []
    assert deployment.workflow("wf-1").status == PAUSED
    answer(deployment, "me")
    assert outputs(deployment) == {"answer": "me"}


# --- random schedules ------------------------------------------------------------------------------------------------


class Schedule:
    """Runs of all kinds, and what happens to them and to their evaluators, in an order that a seed chooses."""

    def __init__(self, deployment: Deployment, seed: int) -> None:
        self.deployment, self.random = deployment, Random(seed)
        self.names: dict[str, str] = {}
        self.answered: set[str] = set()

    def begin(self) -> None:
        for _ in range(2):
            self.deployment.evaluator()
        self.deployment.settle()
        for number in range(12):
            workflow = self.random.choice(("Doze", "Nap", "Urgent", "Patient", "Stubborn", "Both", "Expect"))
            name = f"{workflow.lower()}-{number}"
            inputs: dict[str, object] = {"question": name}
            if workflow in ("Doze", "Nap"):
                inputs = {"ms": self.random.randrange(2 * MINUTE_MS)} | ({"name": name} if workflow == "Nap" else {})
            elif workflow == "Expect":
                inputs = {"name": "go"}
            self.deployment.client.start(f"naps.{workflow}", inputs, workflow_id=name)
            self.names[name] = workflow

    def step(self) -> None:
        deployment, random = self.deployment, self.random
        match random.randrange(9):
            case 0 | 1:
                deployment.clock.advance(random.randrange(30_000))
            case 2:
                self.answer()
            case 3:
                deployment.client.raise_event(random.choice(list(self.names)), "go", random.randrange(100))
            case 4 if len(deployment.evaluators) > 1:
                deployment.remove(random.choice(deployment.evaluators), killed=random.random() < 0.5)
            case 5 if len(deployment.evaluators) < 3:
                deployment.evaluator()
            case 6 if deployment.evaluators and isinstance(deployment.cluster, EmbeddedCluster):
                # Frozen for so long that others have its partitions; it does not know that yet.
                deployment.broker.expire(random.choice(deployment.evaluators).consumer())
            case _:
                for evaluator in deployment.evaluators:
                    evaluator.turn()

    def answer(self) -> None:
        """Answer an event that was sent, perhaps one that was answered or is over."""
        events = [event for facet in ("naps.Ask", NOTE) for event in self.deployment.events(facet)]
        if events:
            event = self.random.choice(events)
            field = "answer" if event.event_type == "naps.Ask" else "noted"
            answer = StepContinue(step_id=event.step_id, result={field: event.id}, event_id=event.id)
            self.deployment.send(answer)

    def end(self) -> None:
        """Let all time pass, and check that nothing is left over and that nothing happened twice."""
        deployment = self.deployment
        for _ in range(4):
            if not deployment.evaluators:
                deployment.evaluator()
            deployment.settle()
            pass_time(deployment, 2 * HOUR_MS)
        for name, workflow in self.names.items():
            row = deployment.workflow(name)
            left = [timer for timer in timers(deployment) if timer.workflow_id == name]
            assert left == [], f"{name} ({workflow}) has {left}"
            for step in deployment.steps(name):
                if step.facet_name in ("naps.Ask", NOTE) and step.attempt:
                    ids = {event.id for event in deployment.events(step.facet_name) if event.step_id == step.id}
                    assert ids == {f"{step.id}#{n}" for n in range(1, step.attempt + 1)}, name
            if workflow in ("Doze", "Expect", "Patient"):
                assert row.status == COMPLETED, f"{name}: {row.error}"
            kinds = told(deployment, name)
            assert kinds.count("workflow.completed") == (row.status == COMPLETED)
            if workflow == "Urgent" and row.error is not None:
                assert row.error.type == "Timeout"
            if workflow == "Both":
                assert asked(deployment, name).attempt <= 2


@in_worlds(EMBEDDED_EVERY_STORE)
@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_in_whatever_order_each_timer_has_its_effect_once(world: World, seed: int) -> None:
    schedule = Schedule(world.deployment(NAPS), seed)
    schedule.begin()

    for _ in range(60):
        schedule.step()

    schedule.end()


@pytest.mark.long
@in_worlds((MEMORY, SQLITE))
@pytest.mark.parametrize("first_seed", in_one_run(range(1_000, 2_000, 20), 12))
def test_a_thousand_random_schedules_keep_each_timer_to_one_effect(world: World, first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 20):
        print(f"seed {seed}")  # noqa: T201 - shown when it fails
        schedule = Schedule(world.deployment(NAPS), seed)
        schedule.begin()
        for _ in range(60):
            schedule.step()
        schedule.end()
        schedule.deployment.close()


@in_worlds(DURABLE)
@pytest.mark.parametrize("seed", range(3))
def test_one_restart_after_another_keeps_each_timer_to_one_effect(world: World, seed: int) -> None:
    deployment = world.deployment(NAPS)
    schedule = Schedule(deployment, seed)
    schedule.begin()
    for _ in range(4):
        for _ in range(15):
            schedule.step()
        deployment.crash_and_restart()
        deployment.clock.advance(schedule.random.randrange(MINUTE_MS))
        deployment.evaluator()

    schedule.end()
    deployment.crash()
