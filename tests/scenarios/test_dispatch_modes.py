"""Agents of topics and pollers of the store side by side on one deployment: each event goes one way, done once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any

import pytest

from afl.core.ids import event_id_of
from afl.core.probes import Probe, no_probe
from afl.engine.model.entities import TaskDefinition, TaskState
from afl.engine.operations.operation_errors import RunByDeployment
from afl.evaluation.evaluator import Evaluator as DirectEvaluator
from afl.runtime import AgentPoller, AgentPollerConfig, RegistryRunner, RegistryRunnerConfig
from afl_stream.agent.agent import HandlerContext, NoHandlers
from afl_stream.embedded.transport import Crash, Faults
from afl_stream.errors import ConfigError
from afl_stream.settings.config import DispatchSettings, StreamConfig
from afl_stream.wire.messages import StepContinue
from tests.worlds.world import World
from tests.worlds.worlds import DURABLE, EVERY_STORE_AND_KAFKA, SQLITE, in_worlds

WORLDS = EVERY_STORE_AND_KAFKA

SHOP = """
namespace shop {
    event facet Pay(order: Long) => (receipt: String)
    event facet Approve(receipt: String) => (by: String)
    event facet Ship(order: Long, by: String) => (parcel: String)
    workflow Checkout(order: Long) => (parcel: String) andThen {
        paid = Pay(order = $.order)
        approved = Approve(receipt = paid.receipt)
        sent = Ship(order = $.order, by = approved.by)
        yield Checkout(parcel = sent.parcel)
    }
    workflow Ask(order: Long) => (by: String) andThen {
        approved = Approve(receipt = "none")
        yield Ask(by = approved.by)
    }
}
"""
PAY, APPROVE, SHIP = "shop.Pay", "shop.Approve", "shop.Ship"
MIXED = DispatchSettings(task_facets="shop.Appr*")
#: Long enough for pollers' answers to be noticed, by the deployment's clock.
NOTICED_MS = 400


class Work:
    """The handlers of all facets, which count."""

    def __init__(self) -> None:
        self.done: Counter[tuple[str, str]] = Counter()
        self._lock = Lock()

    def _count(self, facet: str, event_id: str) -> None:
        with self._lock:
            self.done[facet, event_id] += 1

    def pay(self, payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        self._count(PAY, context.event_id)
        return {"receipt": f"r-{payload['order']}"}

    def approve(self, payload: dict[str, Any], context: Any) -> dict[str, Any]:
        self._count(APPROVE, context.event_id)
        return {"by": f"{payload['receipt']}, approved"}

    def ship(self, payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        self._count(SHIP, context.event_id)
        return {"parcel": f"{payload['order']}: {payload['by']}"}


class Checkout:
    """A deployment of mixed modes with an evaluator, an agent, and pollers of its store: each has its part."""

    def __init__(self, world: World, dispatch: DispatchSettings = MIXED, control_partitions: int = 2) -> None:
        self.deployment = world.deployment(SHOP, dispatch=dispatch, control_partitions=control_partitions)
        self.work = Work()

    def agent(self, faults: Faults | None = None) -> None:
        self.deployment.worker({PAY: self.work.pay, SHIP: self.work.ship}, faults)

    def poller(self, probe: Probe = no_probe) -> AgentPoller:
        store = self.deployment.open_store(Faults())
        direct = DirectEvaluator(store, clock=self.deployment.clock)
        poller = AgentPoller(
            store, direct, AgentPollerConfig(max_concurrent=3), clock=self.deployment.clock, probe=probe
        )
        poller.register(APPROVE, self.work.approve)
        return poller

    def start(self, count: int, workflow: str = "shop.Checkout") -> list[str]:
        return [self.deployment.client.start(workflow, {"order": n}, workflow_id=f"run-{n}") for n in range(count)]

    def notice(self) -> None:
        """Let the evaluators look at what pollers have answered."""
        self.deployment.clock.advance(NOTICED_MS)
        self.deployment.settle()

    def tasks(self, workflow_id: str) -> list[TaskDefinition]:
        store = self.deployment.store
        found = [store.get_task(event_id_of(s.id, s.attempt)) for s in self.deployment.steps(workflow_id) if s.attempt]
        return [task for task in found if task is not None]

    def assert_done(self, runs: list[str]) -> None:
        for number, run in enumerate(runs):
            assert self.deployment.workflow(run).status == "COMPLETED"
            assert self.deployment.workflow(run).outputs == {"parcel": f"{number}: r-{number}, approved"}
            # Each event was written one way only, and once.
            assert [(task.name, task.state) for task in self.tasks(run)] == [(APPROVE, TaskState.COMPLETED)]
        assert len({event.id for event in self.deployment.events(PAY)}) == len(runs)
        assert len({event.id for event in self.deployment.events(SHIP)}) == len(runs)
        assert self.deployment.topology.facet(APPROVE) not in self.deployment.transport.admin().topic_names()


def test_each_facet_goes_its_way_through_one_workflow(world: World) -> None:
    checkout = Checkout(world)
    checkout.deployment.evaluator()
    checkout.agent()
    poller = checkout.poller()
    runs = checkout.start(4)
    checkout.deployment.settle()

    assert poller.poll_once() == 3
    assert poller.poll_once() == 1
    checkout.notice()

    checkout.assert_done(runs)
    assert set(checkout.work.done.values()) == {1}
    assert sum(checkout.work.done.values()) == 12
    # What a poller of the store resumed would have been tasks: it left that to the evaluator.
    assert poller.poll_once() == 0


def test_facets_may_be_tasks_by_default_and_some_of_them_topics(world: World) -> None:
    checkout = Checkout(world, DispatchSettings(default="task", topic_facets="shop.Pay, shop.Ship"))
    checkout.deployment.evaluator()
    checkout.agent()
    runs = checkout.start(1)
    checkout.deployment.settle()
    checkout.poller().poll_once()
    checkout.notice()

    checkout.assert_done(runs)


def test_an_answer_by_topic_ends_the_task_of_a_facet_that_is_one(world: World) -> None:
    checkout = Checkout(world)
    checkout.deployment.evaluator()
    checkout.agent()
    (run,) = checkout.start(1)
    checkout.deployment.settle()
    (task,) = checkout.tasks(run)
    assert task.state == TaskState.PENDING

    checkout.deployment.send(StepContinue(step_id=task.step_id, result={"by": "hand"}))
    checkout.deployment.settle()

    assert checkout.deployment.workflow(run).outputs == {"parcel": "0: hand"}
    assert [task.state for task in checkout.tasks(run)] == [TaskState.COMPLETED]
    assert checkout.poller().poll_once() == 0


def test_the_first_answer_wins_when_both_ways_are_taken(world: World) -> None:
    checkout = Checkout(world)
    checkout.deployment.evaluator()
    checkout.agent()
    (run,) = checkout.start(1)
    checkout.deployment.settle()
    step_id = checkout.deployment.step(run, APPROVE).id

    # The poller's answer is stored, and the evaluator has not seen it yet: its memory is older than the store.
    checkout.poller().poll_once()
    checkout.deployment.send(StepContinue(step_id=step_id, result={"by": "hand"}))
    checkout.deployment.settle()

    assert checkout.deployment.workflow(run).outputs == {"parcel": "0: r-0, approved"}
    assert checkout.deployment.outcomes()["duplicate"] == 1


def test_a_cancelled_run_leaves_no_task_to_do(world: World) -> None:
    checkout = Checkout(world)
    checkout.deployment.evaluator()
    (run,) = checkout.start(1, "shop.Ask")
    checkout.deployment.settle()

    checkout.deployment.client.cancel(run, "enough")
    checkout.deployment.settle()

    assert [task.state for task in checkout.tasks(run)] == [TaskState.CANCELED]
    assert checkout.poller().poll_once() == 0


def test_a_failed_task_fails_its_run(world: World) -> None:
    checkout = Checkout(world)
    checkout.deployment.evaluator()
    poller = checkout.poller()

    def refuse(payload: dict[str, Any]) -> dict[str, Any]:
        raise PermissionError("nobody may")

    poller.register(APPROVE, refuse)
    (run,) = checkout.start(1, "shop.Ask")
    checkout.deployment.settle()
    poller.poll_once()
    checkout.notice()

    row = checkout.deployment.workflow(run)
    assert row.status == "ERROR"
    assert row.error is not None
    assert (row.error.type, row.error.message) == ("PermissionError", "nobody may")
    assert [milestone.kind for milestone in checkout.deployment.milestones(run)] == [
        "workflow.started",
        "workflow.error",
    ]


def test_a_direct_resume_of_a_deployments_run_writes_nothing_and_says_how_it_stands(world: World) -> None:
    checkout = Checkout(world)
    checkout.deployment.evaluator()
    checkout.agent()
    (run,) = checkout.start(1)
    checkout.deployment.settle()
    checkout.poller().poll_once()
    direct = DirectEvaluator(checkout.deployment.store, clock=checkout.deployment.clock)
    before = checkout.deployment.workflow(run)

    found = direct.resume(run)

    assert (found.success, found.status) == (True, "PAUSED")
    assert checkout.deployment.workflow(run) == before
    assert len(checkout.tasks(run)) == 1
    checkout.notice()
    assert direct.resume(run).outputs == {"parcel": "0: r-0, approved"}


def test_a_direct_answer_to_a_topic_facet_is_continued_by_the_evaluator(world: World) -> None:
    checkout = Checkout(world)
    checkout.deployment.evaluator()
    (run,) = checkout.start(1)
    checkout.deployment.settle()
    direct = DirectEvaluator(checkout.deployment.store, clock=checkout.deployment.clock)

    direct.continue_step(checkout.deployment.step(run, PAY).id, {"receipt": "by hand"})
    direct.resume(run)
    checkout.notice()

    assert [(task.name, dict(task.data or {})) for task in checkout.tasks(run)] == [(APPROVE, {"receipt": "by hand"})]


def test_a_deployments_run_is_not_ended_behind_its_back(world: World) -> None:
    checkout = Checkout(world)
    checkout.deployment.evaluator()
    (run,) = checkout.start(1, "shop.Ask")
    checkout.deployment.settle()
    direct = DirectEvaluator(checkout.deployment.store, clock=checkout.deployment.clock)

    with pytest.raises(RunByDeployment, match=f"afl-stream cancel {run}"):
        direct.cancel(run)

    assert checkout.deployment.workflow(run).status == "PAUSED"


def test_a_run_that_was_started_on_the_store_stays_one_of_tasks(world: World) -> None:
    checkout = Checkout(world)
    checkout.deployment.evaluator()
    direct = DirectEvaluator(checkout.deployment.store, clock=checkout.deployment.clock)
    direct.execute("shop.Checkout", {"order": 1}, checkout.deployment.programs[0], workflow_id="direct")
    step_id = checkout.deployment.step("direct", PAY).id

    # It is answered by topic, so the evaluator continues it.
    checkout.deployment.send(StepContinue(step_id=step_id, result={"receipt": "r"}))
    checkout.deployment.settle()

    assert [(task.name, task.state) for task in checkout.tasks("direct")] == [
        (PAY, TaskState.COMPLETED),
        (APPROVE, TaskState.PENDING),
    ]
    assert checkout.deployment.events(PAY) == []


def test_a_registry_runner_does_the_tasks_of_a_deployment_too(world: World, tmp_path: Path) -> None:
    checkout = Checkout(world)
    checkout.deployment.evaluator()
    checkout.agent()
    module = tmp_path / "approving.py"
    module.write_text("def handle(payload): return {'by': payload['receipt'] + ', approved'}")
    store = checkout.deployment.open_store(Faults())
    runner = RegistryRunner(
        store,
        DirectEvaluator(store, clock=checkout.deployment.clock),
        RegistryRunnerConfig(),
        clock=checkout.deployment.clock,
    )
    runner.register_handler(APPROVE, module.as_uri())
    runs = checkout.start(2)
    checkout.deployment.settle()
    assert runner.poll_once() == 2
    checkout.notice()

    checkout.assert_done(runs)


@in_worlds((SQLITE,))
@pytest.mark.parametrize("seed", range(6))
def test_crashes_and_copies_do_no_event_twice(seed: int, world: World) -> None:
    assert_crashes_and_copies_do_nothing_twice(seed, world)


# Half a minute each.
@in_worlds(tuple(world for world in DURABLE if world != SQLITE))
@pytest.mark.parametrize("seed", range(2))
def test_crashes_and_copies_do_no_event_twice_on_databases_and_brokers(seed: int, world: World) -> None:
    assert_crashes_and_copies_do_nothing_twice(seed, world)


def assert_crashes_and_copies_do_nothing_twice(seed: int, world: World) -> None:
    """Let evaluators, agents and pollers die at drawn points and answers come twice: every run ends as it should."""
    draw = Random(seed)
    checkout = Checkout(world, control_partitions=2)
    runs = checkout.start(8)
    deaths = 0
    for _ in range(6):
        evaluator_faults, agent_faults, poller_faults = Faults(), Faults(), Faults()
        chosen = draw.choice([
            (evaluator_faults, "control.applied"),
            (evaluator_faults, "control.persisted"),
            (evaluator_faults, "store.committed"),
            (evaluator_faults, "outbox.published"),
            (agent_faults, "agent.handled"),
            (agent_faults, "agent.acknowledged"),
            (poller_faults, "task.handled"),
            (poller_faults, "task.answered"),
        ])  # fmt: skip
        chosen[0].fail_at(chosen[1], passes=draw.randrange(4))
        try:
            checkout.deployment.evaluator(evaluator_faults)
            checkout.deployment.evaluator()
            checkout.agent(agent_faults)
            poller = checkout.poller(poller_faults.probe)
            for _ in range(draw.randrange(2, 8)):
                checkout.deployment.round()
                poller.poll_once()
                send_a_copy(checkout, draw)
                checkout.deployment.clock.advance(NOTICED_MS)
        except Crash:
            deaths += 1
        checkout.deployment.crash_and_restart()
        # The leases of the dead process expire.
        checkout.deployment.clock.advance(3_600_000)

    checkout.deployment.evaluator()
    checkout.agent()
    poller = checkout.poller()
    for _ in range(6):
        checkout.deployment.settle()
        while poller.poll_once():
            pass
        checkout.notice()

    checkout.assert_done(runs)
    for run in runs:
        assert all(step.attempt <= 1 for step in checkout.deployment.steps(run))
    # A handler runs again only because its process died before its answer was stored.
    assert sum(checkout.work.done.values()) <= 3 * len(runs) + 4 * (deaths + 6)


def send_a_copy(checkout: Checkout, draw: Random) -> None:
    """Answer a step that has its answer once more, with something else."""
    run = draw.choice(["run-0", "run-1", "run-2"])
    if checkout.deployment.store.load_workflow(run) is None:
        return
    answered = [step for step in checkout.deployment.steps(run) if step.event_state == "event.Completed"]
    for step in answered[:1]:
        checkout.deployment.send(StepContinue(step_id=step.id, result={"receipt": "a copy"}))


@pytest.mark.parametrize(
    "settings", [{"task_facets": "a.B", "default": "task"}, {"topic_facets": "a.B"}, {"default": "both"}]
)
def test_settings_that_say_it_twice_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        StreamConfig(dispatch=DispatchSettings(**settings))


def test_an_agent_leaves_the_facets_that_are_tasks_to_pollers(world: World) -> None:
    checkout = Checkout(world)
    checkout.deployment.worker({PAY: checkout.work.pay, APPROVE: checkout.work.approve}).join()
    lost = checkout.deployment.worker({APPROVE: checkout.work.approve})

    with pytest.raises(NoHandlers, match=r"events of shop\.Approve are tasks in this deployment"):
        lost.join()
