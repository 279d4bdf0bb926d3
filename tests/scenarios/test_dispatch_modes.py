"""Agents of topics and pollers of the store side by side on one deployment: each event goes one way, done once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any

import pytest

from afl.core.ids import event_id_of
from afl.engine.model.entities import TaskDefinition, TaskState
from afl.engine.operations.operation_errors import RunByDeployment
from afl.evaluation.evaluator import Evaluator as DirectEvaluator
from afl.runtime import AgentPoller, AgentPollerConfig, RegistryRunner, RegistryRunnerConfig
from afl_stream.agent.agent import HandlerContext, NoHandlers
from afl_stream.embedded.transport import Crash, Faults
from afl_stream.errors import ConfigError
from afl_stream.settings.config import DispatchSettings, StreamConfig
from afl_stream.wire.messages import StepContinue
from tests.worlds.world import embedded

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


class Desk:
    """A deployment of mixed modes with an evaluator, an agent, and pollers of its store."""

    def __init__(self, directory: Path | None, dispatch: DispatchSettings = MIXED, **settings: Any) -> None:
        self.deployment = embedded(directory, SHOP, dispatch=dispatch, **settings)
        self.work = Work()

    def agent(self, faults: Faults | None = None) -> None:
        self.deployment.worker({PAY: self.work.pay, SHIP: self.work.ship}, faults)

    def poller(self, probe: Callable[[str], None] = lambda step: None) -> AgentPoller:
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
        assert self.deployment.topology.facet(APPROVE) not in self.deployment.broker.topics()


def test_each_facet_goes_its_way_through_one_workflow(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.deployment.evaluator()
    desk.agent()
    poller = desk.poller()
    runs = desk.start(4)
    desk.deployment.settle()

    assert poller.poll_once() == 3
    assert poller.poll_once() == 1
    desk.notice()

    desk.assert_done(runs)
    assert set(desk.work.done.values()) == {1}
    assert sum(desk.work.done.values()) == 12
    # What a poller of the store resumed would have been tasks: it left that to the evaluator.
    assert poller.poll_once() == 0


def test_facets_may_be_tasks_by_default_and_some_of_them_topics(tmp_path: Path) -> None:
    desk = Desk(tmp_path, DispatchSettings(default="task", topic_facets="shop.Pay, shop.Ship"))
    desk.deployment.evaluator()
    desk.agent()
    runs = desk.start(1)
    desk.deployment.settle()
    desk.poller().poll_once()
    desk.notice()

    desk.assert_done(runs)


def test_an_answer_by_topic_ends_the_task_of_a_facet_that_is_one(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.deployment.evaluator()
    desk.agent()
    (run,) = desk.start(1)
    desk.deployment.settle()
    (task,) = desk.tasks(run)
    assert task.state == TaskState.PENDING

    desk.deployment.send(StepContinue(step_id=task.step_id, result={"by": "hand"}))
    desk.deployment.settle()

    assert desk.deployment.workflow(run).outputs == {"parcel": "0: hand"}
    assert [task.state for task in desk.tasks(run)] == [TaskState.COMPLETED]
    assert desk.poller().poll_once() == 0


def test_the_first_answer_wins_when_both_ways_are_taken(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.deployment.evaluator()
    desk.agent()
    (run,) = desk.start(1)
    desk.deployment.settle()
    step_id = desk.deployment.step(run, APPROVE).id

    # The poller's answer is stored, and the evaluator has not seen it yet: its memory is older than the store.
    desk.poller().poll_once()
    desk.deployment.send(StepContinue(step_id=step_id, result={"by": "hand"}))
    desk.deployment.settle()

    assert desk.deployment.workflow(run).outputs == {"parcel": "0: r-0, approved"}
    assert desk.deployment.outcomes()["duplicate"] == 1


def test_a_cancelled_run_leaves_no_task_to_do(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.deployment.evaluator()
    (run,) = desk.start(1, "shop.Ask")
    desk.deployment.settle()

    desk.deployment.client.cancel(run, "enough")
    desk.deployment.settle()

    assert [task.state for task in desk.tasks(run)] == [TaskState.CANCELED]
    assert desk.poller().poll_once() == 0


def test_a_failed_task_fails_its_run(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.deployment.evaluator()
    poller = desk.poller()

    def refuse(payload: dict[str, Any]) -> dict[str, Any]:
        raise PermissionError("nobody may")

    poller.register(APPROVE, refuse)
    (run,) = desk.start(1, "shop.Ask")
    desk.deployment.settle()
    poller.poll_once()
    desk.notice()

    row = desk.deployment.workflow(run)
    assert row.status == "ERROR"
    assert row.error is not None
    assert (row.error.type, row.error.message) == ("PermissionError", "nobody may")
    assert [milestone.kind for milestone in desk.deployment.milestones(run)] == ["workflow.started", "workflow.error"]


def test_a_direct_resume_of_a_deployments_run_writes_nothing_and_says_how_it_stands(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.deployment.evaluator()
    desk.agent()
    (run,) = desk.start(1)
    desk.deployment.settle()
    desk.poller().poll_once()
    direct = DirectEvaluator(desk.deployment.store, clock=desk.deployment.clock)
    before = desk.deployment.workflow(run)

    found = direct.resume(run)

    assert (found.success, found.status) == (True, "PAUSED")
    assert desk.deployment.workflow(run) == before
    assert len(desk.tasks(run)) == 1
    desk.notice()
    assert direct.resume(run).outputs == {"parcel": "0: r-0, approved"}


def test_a_direct_answer_to_a_topic_facet_is_gone_on_with_by_the_evaluator(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.deployment.evaluator()
    (run,) = desk.start(1)
    desk.deployment.settle()
    direct = DirectEvaluator(desk.deployment.store, clock=desk.deployment.clock)

    direct.continue_step(desk.deployment.step(run, PAY).id, {"receipt": "by hand"})
    direct.resume(run)
    desk.notice()

    assert [(task.name, dict(task.data or {})) for task in desk.tasks(run)] == [(APPROVE, {"receipt": "by hand"})]


def test_a_deployments_run_is_not_ended_behind_its_back(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.deployment.evaluator()
    (run,) = desk.start(1, "shop.Ask")
    desk.deployment.settle()
    direct = DirectEvaluator(desk.deployment.store, clock=desk.deployment.clock)

    with pytest.raises(RunByDeployment, match=f"afl-stream cancel {run}"):
        direct.cancel(run)

    assert desk.deployment.workflow(run).status == "PAUSED"


def test_a_run_that_was_started_on_the_store_stays_one_of_tasks(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.deployment.evaluator()
    direct = DirectEvaluator(desk.deployment.store, clock=desk.deployment.clock)
    direct.execute("shop.Checkout", {"order": 1}, desk.deployment.programs[0], workflow_id="direct")
    step_id = desk.deployment.step("direct", PAY).id

    # Somebody answers it by topic, so that it is the evaluator that goes on with it.
    desk.deployment.send(StepContinue(step_id=step_id, result={"receipt": "r"}))
    desk.deployment.settle()

    assert [(task.name, task.state) for task in desk.tasks("direct")] == [
        (PAY, TaskState.COMPLETED),
        (APPROVE, TaskState.PENDING),
    ]
    assert desk.deployment.events(PAY) == []


def test_a_registry_runner_does_the_tasks_of_a_deployment_too(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.deployment.evaluator()
    desk.agent()
    module = tmp_path / "approving.py"
    module.write_text("def handle(payload): return {'by': payload['receipt'] + ', approved'}")
    store = desk.deployment.open_store(Faults())
    runner = RegistryRunner(
        store, DirectEvaluator(store, clock=desk.deployment.clock), RegistryRunnerConfig(), clock=desk.deployment.clock
    )
    runner.register_handler(APPROVE, module.as_uri())
    runs = desk.start(2)
    desk.deployment.settle()
    assert runner.poll_once() == 2
    desk.notice()

    desk.assert_done(runs)


@pytest.mark.parametrize("seed", range(6))
def test_crashes_and_copies_do_no_event_twice(seed: int, tmp_path: Path) -> None:
    """Evaluators, agents and pollers die at drawn points, answers come twice: every run ends as it should."""
    draw = Random(seed)
    desk = Desk(tmp_path, control_partitions=2)
    runs = desk.start(8)
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
            desk.deployment.evaluator(evaluator_faults)
            desk.deployment.evaluator()
            desk.agent(agent_faults)
            poller = desk.poller(poller_faults.probe)
            for _ in range(draw.randrange(2, 8)):
                desk.deployment.round()
                poller.poll_once()
                send_a_copy(desk, draw)
                desk.deployment.clock.advance(NOTICED_MS)
        except Crash:
            deaths += 1
        desk.deployment.crash_and_restart()
        # The leases of whoever died run out.
        desk.deployment.clock.advance(3_600_000)

    desk.deployment.evaluator()
    desk.agent()
    poller = desk.poller()
    for _ in range(6):
        desk.deployment.settle()
        while poller.poll_once():
            pass
        desk.notice()

    desk.assert_done(runs)
    for run in runs:
        assert all(step.attempt <= 1 for step in desk.deployment.steps(run))
    # A handler runs again only because its process died before its answer was stored.
    assert sum(desk.work.done.values()) <= 3 * len(runs) + 4 * (deaths + 6)
    desk.deployment.crash()


def send_a_copy(desk: Desk, draw: Random) -> None:
    """Answer a step that has its answer once more, with something else."""
    run = draw.choice(["run-0", "run-1", "run-2"])
    if desk.deployment.store.load_workflow(run) is None:
        return
    answered = [step for step in desk.deployment.steps(run) if step.event_state == "event.Completed"]
    for step in answered[:1]:
        desk.deployment.send(StepContinue(step_id=step.id, result={"receipt": "a copy"}))


@pytest.mark.parametrize(
    "settings", [{"task_facets": "a.B", "default": "task"}, {"topic_facets": "a.B"}, {"default": "both"}]
)
def test_settings_that_say_it_twice_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        StreamConfig(dispatch=DispatchSettings(**settings))


def test_an_agent_leaves_the_facets_that_are_tasks_to_pollers(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.deployment.worker({PAY: desk.work.pay, APPROVE: desk.work.approve}).join()
    lost = desk.deployment.worker({APPROVE: desk.work.approve})

    with pytest.raises(NoHandlers, match=r"events of shop\.Approve are tasks in this deployment"):
        lost.join()
