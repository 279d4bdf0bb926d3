"""The wall clock is set back an hour, and everything continues within its interval."""

from __future__ import annotations

from pathlib import Path

import pytest

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.core.clock import CLOCK_TOLERANCE_MS, ManualClock
from afl.engine.limits import POLL_ONCE_LEASE_MS
from afl.engine.model.entities import HandlerRegistration, TaskState
from afl.engine.model.store import COMPLETED
from afl.evaluation.evaluator import Evaluator
from afl.stores.memory.store import MemoryStore
from afl.workers.poller import AgentPoller, AgentPollerConfig
from afl.workers.registry_runner import RegistryRunner, RegistryRunnerConfig
from afl_stream.settings.config import DispatchSettings, EvaluatorSettings
from tests.scenarios.handlers import counting
from tests.scenarios.test_orphaned_outbox import leave_in_a_lane_of_its_own
from tests.worlds.chain import CHAIN, start_chain
from tests.worlds.desk import ASK, DESK, FIRST, THIRD, Desk, step_id_of
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED

#: Clocks are set back, and no broker hears of it.
WORLDS = EMBEDDED

HOUR_MS = 3_600_000
LEASE_MS = 9_000


def test_orphaned_outbox_rows_are_published(world: World) -> None:
    deployment = world.deployment(DESK)
    leave_in_a_lane_of_its_own(deployment)
    deployment.evaluator()
    deployment.settle()
    deployment.clock.set_back(HOUR_MS)

    deployment.clock.advance(10_500)
    deployment.settle()

    assert [event.payload["question"] for event in deployment.events(ASK)].count(THIRD) == 1
    assert deployment.store.outbox() == []


def test_a_sweep_lock_whose_holder_died_holds_up_nobody(world: World) -> None:
    deployment = world.deployment(DESK)
    leave_in_a_lane_of_its_own(deployment)
    assert deployment.store.acquire_lock("outbox-sweep", 10_000)
    deployment.clock.set_back(HOUR_MS)

    deployment.clock.advance(10_500)
    deployment.settle()

    assert deployment.store.outbox() == []


def test_a_parked_answer_is_judged_within_a_second(world: World) -> None:
    desk = Desk(world.deployment(DESK))
    desk.start()
    desk.answer(step_id_of(THIRD, "wf-1"), "known before it was asked")
    desk.deployment.clock.set_back(HOUR_MS)

    desk.answer(desk.step(FIRST).id, THIRD)
    desk.deployment.clock.advance(1_000)
    desk.deployment.settle()

    assert desk.step(THIRD).returns == {"answer": "known before it was asked"}


def test_an_evaluator_continues_with_what_a_poller_has_answered(world: World) -> None:
    deployment = world.deployment(DESK, dispatch=DispatchSettings(task_facets=ASK))
    desk = Desk(deployment)
    desk.start()
    poller = AgentPoller(deployment.store, Evaluator(deployment.store, clock=deployment.clock), clock=deployment.clock)
    poller.register(ASK, lambda payload: {"answer": payload["question"]})
    assert poller.poll_once() == 2
    deployment.clock.set_back(HOUR_MS)

    deployment.clock.advance(400)
    deployment.settle()
    assert poller.poll_once() == 1
    deployment.clock.advance(400)
    deployment.settle()

    assert deployment.workflow("wf-1").status == COMPLETED


class SetBackAtEachLook(ManualClock):
    """A wall clock that goes backwards all the time; 10 ms pass at each reading of the other one."""

    def now_ms(self) -> int:
        self.set_back(1_000)
        return super().now_ms()

    def monotonic_s(self) -> float:
        self._monotonic_ms += 10
        return super().monotonic_s()


def test_a_workflow_yields_its_turn_when_its_time_is_over(world: World) -> None:
    settings = EvaluatorSettings(workflow_budget_ms=20, batch_ms=20, workflow_budget_steps=1_000_000)
    deployment = world.deployment(CHAIN, evaluator=settings)
    deployment.clock = SetBackAtEachLook(deployment.clock.now_ms())
    evaluator = deployment.evaluator()
    start_chain(deployment, "long")

    while deployment.store.load_workflow("long") is None:
        evaluator.turn()

    # It has not run to its end in one go.
    assert evaluator.store.runnable_workflows() == ["long"]


class WaitingTask:
    """A store of tasks with a run that waits for one answer, by a clock of the test's own."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_700_000_000_000)
        self.store = MemoryStore(clock=self.clock)
        self.evaluator = Evaluator(self.store, clock=self.clock)
        program = compile_text(
            "namespace docs { event facet Count(words: [String]) => (count: Long)"
            " workflow Counting() => (count: Long) andThen { c = Count(words = []) yield Counting(count = c.count) } }"
        )
        self.evaluator.execute("docs.Counting", {}, CompiledProgram(program.program_json), workflow_id="run")
        (self.task_id,) = [task.uuid for task in self.store.get_pending_tasks("default")]

    def poller(self) -> AgentPoller:
        poller = AgentPoller(self.store, self.evaluator, AgentPollerConfig(lease_ms=LEASE_MS), clock=self.clock)
        poller.register("docs.Count", lambda payload: {"count": 0})
        return poller

    def state(self) -> str:
        task = self.store.get_task(self.task_id)
        assert task is not None
        return task.state


def polled_for(waiting: WaitingTask, poller: AgentPoller, duration_ms: int) -> int:
    """Poll every second for so long; how many tasks were done."""
    done = 0
    for _ in range(duration_ms // 1_000):
        waiting.clock.advance(1_000)
        done += poller.poll_once()
    return done


@pytest.mark.parametrize("renewed_for_ms", [0, 2 * HOUR_MS])
def test_the_task_of_an_owner_that_died_is_taken_over(renewed_for_ms: int) -> None:
    waiting = WaitingTask()
    assert waiting.store.claim_task(["docs.Count"], owner="dead", lease_ms=LEASE_MS)
    waiting.clock.advance(renewed_for_ms)
    waiting.store.renew_leases([waiting.task_id], "dead", LEASE_MS)
    poller = waiting.poller()
    assert polled_for(waiting, poller, 3_000) == 0
    waiting.clock.set_back(HOUR_MS)

    # The length of a lease that was renewed often is unknown: it may be one of poll_once.
    patience_ms = 3 * LEASE_MS if not renewed_for_ms else POLL_ONCE_LEASE_MS + CLOCK_TOLERANCE_MS

    assert polled_for(waiting, poller, patience_ms - 5_000) == 0
    assert polled_for(waiting, poller, 10_000) == 1
    assert waiting.state() == TaskState.COMPLETED


def test_the_task_of_an_owner_that_lives_stays_its_own() -> None:
    waiting = WaitingTask()
    assert waiting.store.claim_task(["docs.Count"], owner="alive", lease_ms=LEASE_MS)
    waiting.clock.set_back(HOUR_MS)
    poller = waiting.poller()

    for _ in range(100):
        waiting.store.renew_leases([waiting.task_id], "alive", LEASE_MS)
        assert polled_for(waiting, poller, 3_000) == 0

    assert waiting.state() == TaskState.RUNNING


def test_a_poller_continues_with_a_workflow_that_its_owner_left() -> None:
    waiting = WaitingTask()
    (step,) = [step for step in waiting.store.load_steps("run") if step.attempt]
    waiting.evaluator.continue_step(step.id, {"count": 7})
    waiting.clock.set_back(HOUR_MS)

    polled_for(waiting, waiting.poller(), LEASE_MS + 1_000)

    row = waiting.store.load_workflow("run")
    assert row is not None
    assert row.status == COMPLETED


def test_registrations_are_read_again() -> None:
    waiting = WaitingTask()
    runner = RegistryRunner(
        waiting.store, waiting.evaluator, RegistryRunnerConfig(registry_refresh_interval_ms=30_000), clock=waiting.clock
    )
    assert runner.registered_names() == []
    uri = Path(counting.__file__).as_uri()
    waiting.store.save_handler_registration(HandlerRegistration("docs.Count", uri))
    waiting.clock.set_back(HOUR_MS)

    waiting.clock.advance(29_000)
    assert runner.registered_names() == []
    waiting.clock.advance(1_000)
    assert runner.registered_names() == ["docs.Count"]
