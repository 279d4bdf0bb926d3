"""A workflow with much work yields its turn, and its owner continues it, whatever happens meanwhile."""

import pytest

from afl.core.clock import ManualClock
from afl.engine.model.store import PAUSED, RUNNING
from afl.engine.states import StepState
from afl_stream.settings.config import EvaluatorSettings
from afl_stream.transport import TopicPartition
from afl_stream.wire.messages import CancelWorkflow, StartWorkflow, StepContinue
from tests.scenarios.test_orphaned_outbox import run_until_it_crashes, two_evaluators
from tests.worlds.chain import CHAIN, LINKS, start_chain
from tests.worlds.deployment import Deployment
from tests.worlds.desk import DESK, FIRST, REPORT, THIRD
from tests.worlds.parties import Evaluator
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED

#: Turns are counted, and a broker of its own pace gives others.
WORLDS = EMBEDDED


def small_budget(world: World) -> Deployment:
    return world.deployment(CHAIN, DESK, evaluator=EvaluatorSettings(workflow_budget_steps=1))


def asked(deployment: Deployment) -> int:
    return len({event.id for event in deployment.events("chain.Ask")})


def turn_until_runnable(evaluator: Evaluator, workflow_id: str) -> None:
    while workflow_id not in evaluator.store.runnable_workflows():
        evaluator.turn()


def first_step(deployment: Deployment, workflow_id: str) -> str:
    return next(s.id for s in deployment.steps(workflow_id) if s.params.get("question") == FIRST)


def test_a_long_workflow_yields_and_one_started_after_it_is_answered_in_between(world: World) -> None:
    deployment = small_budget(world)
    evaluator = deployment.evaluator()
    start_chain(deployment, "long")
    turn_until_runnable(evaluator, "long")
    assert deployment.workflow("long").status == RUNNING
    deployment.client.start(REPORT, {"subject": FIRST}, workflow_id="short")
    for _ in range(5):
        evaluator.turn()

    deployment.send(StepContinue(step_id=first_step(deployment, "short"), result={"answer": THIRD}))
    evaluator.turn()

    (answered,) = [s for s in deployment.steps("short") if s.params.get("question") == FIRST]
    assert answered.returns == {"answer": THIRD}
    assert deployment.workflow("long").runnable
    deployment.settle()
    assert deployment.workflow("long").status == PAUSED
    assert asked(deployment) == LINKS


def test_what_was_runnable_is_continued_after_a_restart(world: World) -> None:
    deployment = small_budget(world)
    first = deployment.evaluator()
    start_chain(deployment, "long")
    turn_until_runnable(first, "long")
    deployment.remove(first, killed=True)

    deployment.evaluator()
    deployment.settle()

    assert asked(deployment) == LINKS
    assert deployment.store.runnable_workflows() == []


def test_markers_of_transactions_behind_the_last_command_hold_up_no_runnable_workflow(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = small_budget(world)
    first = deployment.evaluator()
    start_chain(deployment, "long")
    turn_until_runnable(first, "long")
    deployment.remove(first, killed=True)
    for number in range(deployment.config.topics.control_partitions):
        deployment.broker.append_marker(TopicPartition(deployment.topology.commands(), number))

    deployment.evaluator()
    deployment.settle()

    assert asked(deployment) == LINKS
    assert "still to be read" not in caplog.text


class LeftRunnable:
    """A workflow of partition 0 that the owner of partition 1 has made runnable before it froze.

    Its group still counts it as a member, so no evaluator learns of the workflow by a rebalance.
    """

    def __init__(self, world: World) -> None:
        self.deployment = small_budget(world)
        owner, stranger = two_evaluators(self.deployment)
        self.workflow_id = self.deployment.id_in_partition(0)
        self.start = StartWorkflow(workflow_id=self.workflow_id, workflow="chain.Chain", inputs={"n": 0})
        self.deployment.send(self.start, partition=1)
        while not self.deployment.events("chain.Ask"):
            stranger.turn()
        (event,) = self.deployment.events("chain.Ask")
        self.answer = StepContinue(step_id=event.step_id, result={"n": 1})
        self.deployment.send(self.answer, partition=1)
        stranger.turn()
        self.deployment.evaluators.remove(stranger)
        self.deployment.settle()
        assert owner.partitions() == {0}
        assert self.deployment.store.runnable_workflows() == [self.workflow_id]
        assert asked(self.deployment) < LINKS


def test_a_runnable_workflow_that_nobody_took_over_is_continued_by_its_owner_after_ten_seconds(world: World) -> None:
    left = LeftRunnable(world)
    left.deployment.clock.advance(11_000)

    left.deployment.settle()

    assert asked(left.deployment) == LINKS


@pytest.mark.parametrize("which", ["answer", "start"])
def test_a_duplicate_for_a_runnable_workflow_evaluates_it_to_the_fixed_point(world: World, which: str) -> None:
    left = LeftRunnable(world)

    left.deployment.send(left.answer if which == "answer" else left.start)
    left.deployment.settle()

    assert left.deployment.outcomes() == {"duplicate": 1}
    assert asked(left.deployment) == LINKS


def test_a_flood_of_duplicates_gives_a_workflow_no_more_than_its_turn(world: World) -> None:
    deployment = small_budget(world)
    evaluator = deployment.evaluator()
    start_chain(deployment, "long")
    while not deployment.events("chain.Ask"):
        evaluator.turn()
    (event,) = deployment.events("chain.Ask")
    before = deployment.workflow("long").iterations
    for _ in range(50):
        deployment.send(StepContinue(step_id=event.step_id, result={"n": 1}))

    evaluator.turn()

    assert deployment.outcomes() == {"applied": 2, "duplicate": 49}
    assert deployment.workflow("long").iterations == before + 1


def test_a_runnable_workflow_can_be_cancelled(world: World) -> None:
    deployment = small_budget(world)
    evaluator = deployment.evaluator()
    start_chain(deployment, "long")
    turn_until_runnable(evaluator, "long")

    deployment.send(CancelWorkflow(workflow_id="long"))
    deployment.settle()

    assert not deployment.workflow("long").runnable
    assert asked(deployment) < LINKS


def test_a_crash_while_a_workflow_yields_changes_nothing_of_its_result(world: World) -> None:
    deployment = small_budget(world)
    start_chain(deployment, "long")
    for passes in range(LINKS):
        evaluator = deployment.evaluator()
        evaluator.faults.fail_at("control.applied", passes=passes % 3)
        run_until_it_crashes(evaluator)
        deployment.remove(evaluator, killed=True)
        if asked(deployment) == LINKS:
            break
    deployment.evaluator()
    deployment.settle()

    assert asked(deployment) == LINKS
    steps = deployment.steps("long")
    assert len({(s.block_id, s.container_id, s.statement_id) for s in steps}) == len(steps)
    assert sum(s.state == StepState.EVENT_TRANSMIT for s in steps) == LINKS


class PassingClock(ManualClock):
    """The clock of a machine on which everything takes time: 10 ms pass at each reading."""

    def now_ms(self) -> int:
        self.advance(10)
        return super().now_ms()

    def monotonic_s(self) -> float:
        self.advance(10)
        return super().monotonic_s()


def test_when_there_is_no_time_for_all_runnable_workflows_those_left_out_come_first_the_next_time(world: World) -> None:
    deployment = small_budget(world)
    deployment.clock = PassingClock(deployment.clock.now_ms())
    evaluator = deployment.evaluator()
    names = [start_chain(deployment, f"long-{number}") for number in range(7)]
    while len(evaluator.store.runnable_workflows()) < len(names):
        evaluator.turn()

    moved = []
    for _ in range(2 * LINKS):
        before = [deployment.workflow(name).iterations for name in names]
        evaluator.turn()
        after = [deployment.workflow(name).iterations for name in names]
        moved.append(sum(a != b for a, b in zip(after, before, strict=True)))
        assert max(after) - min(after) <= 2

    assert 0 < max(moved) < len(names)
    deployment.settle()
    assert asked(deployment) == len(names) * LINKS


def test_a_workflow_that_is_alone_in_its_batch_has_the_time_of_all_of_it(world: World) -> None:
    settings = EvaluatorSettings(batch_ms=100_000, workflow_budget_ms=1)
    deployment = world.deployment(CHAIN, DESK, evaluator=settings)
    deployment.clock = PassingClock(deployment.clock.now_ms())
    evaluator = deployment.evaluator()

    start_chain(deployment, "alone")
    while not asked(deployment):
        evaluator.turn()
    assert asked(deployment) == LINKS
    assert not deployment.workflow("alone").runnable

    for name in ("one", "two"):
        start_chain(deployment, name)
    while len(evaluator.store.runnable_workflows()) < 2:
        evaluator.turn()
    assert asked(deployment) < 2 * LINKS
    deployment.settle()
    assert asked(deployment) == 3 * LINKS
