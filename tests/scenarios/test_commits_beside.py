"""Batches that are computed while the one before is being committed: nothing is lost, done twice, or out of order."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from afl.core.clock import Clock
from afl.engine.errors import WorkflowConflict
from afl.engine.model.store import CANCELLED, COMPLETED, Batch, WorkflowChange
from afl.stores.memory.store import MemoryStore
from afl_stream.embedded.transport import Crash, Faults
from afl_stream.settings.config import EvaluatorSettings, StreamConfig
from afl_stream.wire.messages import CancelWorkflow, StepContinue, event_id_of
from tests.worlds.delivery_checks import assert_delivered, assert_no_offset_past_its_effect
from tests.worlds.deployment import Deployment
from tests.worlds.desk import ASK, DESK, FIRST, REPORT, SECOND
from tests.worlds.parties import Evaluator, Interruptions
from tests.worlds.stores import OneStore
from tests.worlds.world import World, embedded
from tests.worlds.worlds import EVERYWHERE, MEMORY, SQLITE, in_worlds, with_values

WORLDS = EVERYWHERE

RUNS = 8
#: So small that a handful of answers make several batches, each of which is committed beside the next.
BESIDE = EvaluatorSettings(batch_records=3, commit_beside_records=1)
ONE_BY_ONE = EvaluatorSettings(batch_records=3, commit_beside_records=1_000)


class Seen(Interruptions):
    """Faults of an evaluator that note the points it passes."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: list[str] = []

    def probe(self, point: str) -> None:
        self.passed.append(point)
        super().probe(point)


def answered(deployment: Deployment, faults: Faults | None = None) -> tuple[list[str], Evaluator]:
    """Start runs, which an evaluator has in memory, and answer their first two questions, which it has not read yet."""
    evaluator = deployment.evaluator(faults)
    runs = [deployment.client.start(REPORT, {"subject": FIRST}, workflow_id=f"run-{n}") for n in range(RUNS)]
    deployment.settle()
    answer_all(deployment)
    return runs, evaluator


def answer_all(deployment: Deployment) -> int:
    """Answer each open question as an agent does, with the question itself; return how many there were."""
    answered = {a.step_id for a in deployment.messages(deployment.topology.control()) if isinstance(a, StepContinue)}
    events = {event.step_id: event for event in deployment.events(ASK)}
    for step_id, event in events.items():
        if step_id not in answered:
            deployment.send(
                StepContinue(
                    step_id=step_id,
                    result={"answer": str(event.payload["question"])},
                    workflow_id=event.workflow_id,
                    event_id=event_id_of(step_id, event.attempt),
                    attempt=event.attempt,
                    agent="tests",
                    group="workers",
                )
            )
    return len(events.keys() - answered)


def finish(deployment: Deployment) -> None:
    deployment.settle()
    while answer_all(deployment):
        deployment.settle()


def assert_reported(deployment: Deployment, runs: list[str]) -> None:
    assert_delivered(deployment, runs)
    for run in runs:
        assert deployment.workflow(run).outputs == {"answers": [FIRST, SECOND, FIRST]}


def test_every_run_ends_as_when_each_commit_is_waited_for(world: World) -> None:
    deployment = world.deployment(DESK, evaluator=BESIDE)
    seen = Seen()
    runs, _ = answered(deployment, seen)

    finish(deployment)

    assert_reported(deployment, runs)
    # Positions and publishing follow their own commit, in the order of the batches.
    assert seen.passed.count("control.ahead") > 2
    steps = [point for point in seen.passed if point in ("control.persisted", "control.published", "control.committed")]
    assert steps == ["control.persisted", "control.published", "control.committed"] * (len(steps) // 3)


def test_a_batch_of_few_answers_is_committed_at_once(world: World) -> None:
    deployment = world.deployment(DESK, evaluator=ONE_BY_ONE)
    seen = Seen()
    runs, _ = answered(deployment, seen)

    finish(deployment)

    assert "control.ahead" not in seen.passed
    assert_reported(deployment, runs)


POINTS = [
    "control.ahead",
    "control.applied",
    "control.persisted",
    "control.published",
    "control.committed",
    "outbox.before_publish",
    "outbox.published",
    "store.compared",
    "store.written",
    "store.committed",
]


@pytest.mark.parametrize(
    ("world", "point"),
    [
        *with_values(MEMORY, [point for point in POINTS if not point.startswith("store.")]),
        *with_values(SQLITE, POINTS),
    ],
    indirect=["world"],
)
@pytest.mark.parametrize("passes", range(3))
def test_a_crash_beside_a_commit_loses_nothing_and_does_nothing_twice(world: World, point: str, passes: int) -> None:
    deployment = world.deployment(DESK, evaluator=BESIDE)
    faults = Faults()
    runs, evaluator = answered(deployment, faults)
    faults.fail_at(point, passes=passes)

    with pytest.raises(Crash, match=point):
        deployment.settle()
    deployment.remove(evaluator, killed=True)
    assert_no_offset_past_its_effect(deployment)
    deployment.evaluator()
    finish(deployment)

    assert_reported(deployment, runs)


@in_worlds([MEMORY, SQLITE])
@pytest.mark.parametrize("passes", range(3))
def test_a_rebalance_meets_a_commit_that_is_over(world: World, passes: int) -> None:
    deployment = world.deployment(DESK, evaluator=BESIDE)
    seen = Seen()
    runs, _ = answered(deployment, seen)
    # Asked for while a batch is applied: the group is told at the next read, when that batch is being committed.
    seen.happens_at("control.applied", deployment.rebalance, passes=passes)

    finish(deployment)

    assert_reported(deployment, runs)
    assert_no_offset_past_its_effect(deployment)


@in_worlds([MEMORY, SQLITE])
def test_another_owner_goes_on_behind_the_commit_that_was_in_flight(world: World) -> None:
    deployment = world.deployment(DESK, evaluator=BESIDE)
    seen = Seen()
    runs, _ = answered(deployment, seen)

    def another_joins() -> None:
        deployment.evaluator()

    seen.happens_at("control.ahead", another_joins)

    finish(deployment)

    assert_reported(deployment, runs)
    assert_no_offset_past_its_effect(deployment)


@in_worlds([MEMORY, SQLITE])
def test_a_command_among_the_answers_meets_what_the_answers_before_it_have_written(world: World) -> None:
    deployment = world.deployment(DESK, evaluator=BESIDE)
    runs, _ = answered(deployment)
    deployment.send(CancelWorkflow(workflow_id=runs[0]))

    finish(deployment)

    # The cancellation of a batch counts before its workflow continues; the answers of earlier batches were taken.
    assert deployment.workflow(runs[0]).status in (COMPLETED, CANCELLED)
    for run in runs[1:]:
        assert deployment.workflow(run).outputs == {"answers": [FIRST, SECOND, FIRST]}


class FailsAtTheEnd(MemoryStore):
    """A store whose commits can fail in the second part of their work, when the caller has gone on."""

    def __init__(self, prefix: str, clock: Clock) -> None:
        super().__init__(prefix=prefix, clock=clock)
        self.fails: Callable[[Batch], Exception | None] = lambda _: None
        self.refused = 0

    def stage_batch(self, batch: Batch) -> Callable[[], int]:
        error = self.fails(batch)
        if error is None:
            return super().stage_batch(batch)

        def fail() -> int:
            self.refused += 1
            raise error

        return fail


def failing_once(after: int, error: Exception) -> tuple[Deployment, FailsAtTheEnd]:
    made: list[FailsAtTheEnd] = []

    def make(config: StreamConfig, clock: Clock) -> FailsAtTheEnd:
        made.append(FailsAtTheEnd(config.prefix, clock))
        return made[-1]

    deployment = embedded(None, DESK, stores=OneStore(make), evaluator=BESIDE)
    count = 0

    def fails(batch: Batch) -> Exception | None:
        nonlocal count
        count += 1
        return error if count == after + 1 else None

    made[0].fails = fails
    return deployment, made[0]


@pytest.mark.parametrize("after", range(4))
def test_a_conflict_in_the_commit_in_flight_throws_away_what_was_computed_on_it(after: int) -> None:
    deployment, store = failing_once(after, WorkflowConflict(workflow_ids=("run-0",)))
    runs, evaluator = answered(deployment)

    finish(deployment)

    assert store.refused == 1
    assert evaluator.stats.conflicts == 1
    assert_reported(deployment, runs)
    assert_no_offset_past_its_effect(deployment)


@pytest.mark.parametrize("after", range(3))
def test_a_store_that_is_gone_at_the_end_of_a_commit_ends_the_evaluator_and_the_next_one_continues(after: int) -> None:
    deployment, store = failing_once(after, ConnectionError("the disk is gone"))
    runs, evaluator = answered(deployment)

    with pytest.raises(ConnectionError, match="the disk is gone"):
        deployment.settle()
    with suppress(ConnectionError):
        deployment.remove(evaluator, killed=True)
    deployment.evaluator()
    finish(deployment)

    assert store.refused == 1
    assert_reported(deployment, runs)
    assert_no_offset_past_its_effect(deployment)


@pytest.mark.parametrize("after", range(4))
@pytest.mark.parametrize("passes", range(3))
def test_what_was_computed_across_a_rebalance_is_forgotten_when_another_writer_was_first(
    after: int, passes: int
) -> None:
    deployment, store = failing_once(0, WorkflowConflict(workflow_ids=()))
    count = 0

    def other_writer(batch: Batch) -> Exception | None:
        nonlocal count
        count += 1
        if count == after + 1:
            rows = [row for change in batch.changes if (row := store.load_workflow(change.workflow_id)) is not None]
            again = [WorkflowChange(row._replace(revision=row.revision + 1), row.revision, []) for row in rows]
            store.commit_batch(Batch(changes=list(again)))
        return None

    store.fails = other_writer
    seen = Seen()
    runs, evaluator = answered(deployment, seen)
    seen.happens_at("control.applied", deployment.rebalance, passes=passes)

    finish(deployment)

    assert evaluator.stats.conflicts >= 1
    assert_reported(deployment, runs)
