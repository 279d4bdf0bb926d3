"""Evaluators that get in each other's way: frozen ones that come back, stale memory, and records in any partition."""

import logging
import threading
from random import Random

import pytest

from afl.engine.model.store import COMPLETED, Batch, Position, PositionMove
from afl_stream.agent.agent import HandlerContext
from afl_stream.embedded.transport import Faults
from afl_stream.settings.config import EvaluatorSettings
from afl_stream.transport import TopicPartition
from afl_stream.wire.messages import Event, StepContinue
from tests.eventually import eventually
from tests.scenarios.test_orphaned_outbox import two_evaluators
from tests.worlds.delivery_checks import assert_delivered, assert_no_offset_past_its_effect
from tests.worlds.deployment import Deployment, unique_ids
from tests.worlds.desk import DESK, FIRST, SECOND, THIRD, Desk, ask_again
from tests.worlds.parties import Evaluator, Interruptions
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED_EVERY_STORE, EVERYWHERE, in_worlds

WORLDS = EVERYWHERE

FLEET = """
namespace fleet {
  event facet Ping(host: Long) => (ms: Long)
  workflow Scan(hosts: [Long]) => (times: [Long]) andThen foreach host in $.hosts {
    p = Ping(host = $.host)
    yield Scan(times = [p.ms])
  }
}
"""
PING = "fleet.Ping"
WORKFLOWS, HOSTS = 5, 100


def ping(payload: dict[str, int], context: HandlerContext) -> dict[str, int]:
    return {"ms": payload["host"] * 2}


def start_scans(deployment: Deployment) -> list[str]:
    return [
        deployment.client.start("fleet.Scan", {"hosts": list(range(HOSTS))}, workflow_id=f"scan-{number}")
        for number in range(WORKFLOWS)
    ]


def assert_scanned(deployment: Deployment, workflow_ids: list[str]) -> None:
    assert_delivered(deployment, workflow_ids)
    for workflow_id in workflow_ids:
        assert deployment.workflow(workflow_id).outputs == {"times": [2 * host for host in range(HOSTS)]}


@in_worlds(EMBEDDED_EVERY_STORE)
def test_a_frozen_evaluator_that_comes_back_changes_nothing_and_says_why(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = world.deployment(DESK)
    interruptions = Interruptions()
    frozen = deployment.evaluator(interruptions)
    desk = Desk(deployment, frozen)
    desk.start()
    before = len(deployment.events("desk.Ask"))
    seen: list[int] = []

    def another_takes_over() -> None:
        deployment.broker.expire(frozen.consumer())
        successor = deployment.evaluator()
        for _ in range(3):
            successor.turn()
        seen.append(deployment.workflow("wf-1").revision)

    interruptions.happens_at("control.applied", another_takes_over)
    deployment.send(StepContinue(step_id=desk.step(FIRST).id, result={"answer": THIRD}))
    with caplog.at_level(logging.WARNING):
        frozen.turn()

    assert seen == [deployment.workflow("wf-1").revision]
    assert len(deployment.events("desk.Ask")) == before + 1
    assert frozen.stats.positions_lost == 1
    assert frozen.stats.outcomes.keys() == {"applied"}
    assert frozen.stats.owned == ()
    (message,) = [record.getMessage() for record in caplog.records]
    assert "lost its partitions" in message
    assert deployment.topology.control() in message

    deployment.settle()
    assert sorted(frozen.partitions() | deployment.evaluators[1].partitions()) == [0, 1]
    desk.finish()
    assert deployment.workflow("wf-1").status == COMPLETED


def test_a_position_that_somebody_else_has_moved_is_given_up_and_read_again(world: World) -> None:
    desk = Desk(world.deployment(DESK, control_partitions=1))
    deployment = desk.deployment
    desk.start()
    control = deployment.topology.control()
    deployment.send(StepContinue(step_id=desk.step(FIRST).id, result={"answer": "skipped by the other"}))
    deployment.send(StepContinue(step_id=desk.step(FIRST).id, result={"answer": THIRD}))
    topic_id = deployment.transport.admin().topics([control])[control].topic_id
    position = Position(deployment.transport.admin().cluster_id(), control, 0, topic_id)
    move = PositionMove(position=position, expected=deployment.store.positions().get(position), next_offset=1)
    deployment.store.commit_batch(Batch(positions=[move]))

    deployment.settle()

    assert desk.evaluator.stats.positions_lost == 1
    assert desk.step(FIRST).returns == {"answer": THIRD}
    assert deployment.store.positions()[position] == 2


class Stale:
    """Two evaluators, of which the first has a workflow in memory that the second has moved on since."""

    def __init__(self, world: World) -> None:
        self.deployment = world.deployment(DESK)
        self.first, self.second = two_evaluators(self.deployment)
        self.desk = Desk(self.deployment, self.first)
        self.workflow_id = self.desk.start(self.deployment.id_in_partition(0))

    def answer(self, evaluator: Evaluator, step_id: str, text: str) -> None:
        partition = min(evaluator.partitions())
        self.deployment.send(StepContinue(step_id=step_id, result={"answer": text}), partition=partition)
        evaluator.turn()

    def step_id(self, question: str) -> str:
        return self.desk.step(question, self.workflow_id).id


def test_an_answer_that_stale_memory_takes_for_early_is_applied_at_once(world: World) -> None:
    stale = Stale(world)
    stale.answer(stale.second, stale.step_id(FIRST), THIRD)

    stale.answer(stale.first, stale.step_id(THIRD), "three")

    assert stale.desk.step(THIRD, stale.workflow_id).returns == {"answer": "three"}
    assert stale.first.stats.conflicts == 1
    assert stale.first.stats.outcomes == {"applied": 2}
    assert stale.deployment.store.parked() == []


def test_an_answer_that_stale_memory_takes_for_a_duplicate_is_applied(world: World) -> None:
    stale = Stale(world)
    stale.answer(stale.first, stale.step_id(SECOND), "two")
    ask_again(stale.deployment, stale.desk.step(SECOND, stale.workflow_id))

    stale.answer(stale.first, stale.step_id(SECOND), "two, asked again")

    assert stale.desk.step(SECOND, stale.workflow_id).returns == {"answer": "two, asked again"}
    assert stale.first.stats.conflicts == 1


def test_an_answer_that_stale_memory_would_apply_a_second_time_is_a_duplicate(world: World) -> None:
    stale = Stale(world)
    stale.answer(stale.second, stale.step_id(FIRST), THIRD)

    stale.answer(stale.first, stale.step_id(FIRST), "again")

    assert stale.desk.step(FIRST, stale.workflow_id).returns == {"answer": THIRD}
    assert stale.first.stats.outcomes == {"applied": 1, "duplicate": 1}


# One thread serves all members: a commit that waits for a rebalance waits for those that it keeps from taking part.
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", range(3))
def test_evaluators_and_agents_come_and_go_in_the_middle_of_500_events(world: World, seed: int) -> None:
    random = Random(seed)
    settings = EvaluatorSettings(batch_records=7)
    deployment = world.deployment(FLEET, evaluator=settings, control_partitions=4)
    scans = start_scans(deployment)
    for _ in range(2):
        deployment.evaluator()
        deployment.worker({PING: ping})
    for turn in range(60):
        deployment.clock.advance(10)
        random.choice(deployment.parties()).turn()
        if turn in (15, 40):
            deployment.evaluator()
            deployment.worker({PING: ping})
        if turn in (25, 50):
            deployment.remove(random.choice(deployment.evaluators), killed=turn == 25)
            deployment.remove(random.choice(deployment.workers), killed=turn == 25)
    # On a busy broker a start may not even have been read yet.
    rows = [deployment.store.load_workflow(scan) for scan in scans]
    assert any(row is None or row.status != COMPLETED for row in rows), "it was over before the end"
    deployment.settle()
    deployment.clock.advance(11_000)
    deployment.settle()

    assert_scanned(deployment, scans)
    assert_no_offset_past_its_effect(deployment)


class AnyKey:
    """Answers each event once, or twice, under a random key; two of them share the work."""

    def __init__(self, deployment: Deployment, seed: int) -> None:
        self._deployment = deployment
        self._random = Random(seed)
        self._producer = deployment.cluster.transport(Faults()).producer()

    def answer(self, event: Event) -> None:
        answer = StepContinue(step_id=event.step_id, result={"ms": 2 * int(str(event.payload["host"]))})
        control = self._deployment.topology.control()
        for _ in range(self._random.choice((1, 1, 2))):
            key = self._random.choice((None, b"", b"same", str(self._random.random()).encode()))
            self._producer.produce(control, self._deployment.codec.encode(answer, control), key=key)

    def flush(self) -> None:
        assert self._producer.flush(10) == 0


@pytest.mark.parametrize("seed", range(3))
def test_answers_under_any_key_from_two_producers_at_once_are_all_applied_once(world: World, seed: int) -> None:
    settings = EvaluatorSettings(batch_records=20)
    deployment = world.deployment(FLEET, evaluator=settings, control_partitions=4)

    answer_under_any_key(deployment, seed)


def answer_under_any_key(deployment: Deployment, seed: int) -> None:
    """Two evaluators, two producers: each answer is applied once, whichever evaluator reads it."""
    random = Random(seed)
    for _ in range(2):
        deployment.evaluator()
    deployment.settle()
    scans = start_scans(deployment)
    deployment.settle()
    events = {event.id: event for event in deployment.events(PING)}
    assert len(events) == WORKFLOWS * HOSTS
    producers = [AnyKey(deployment, seed), AnyKey(deployment, seed + 100)]
    for event in events.values():
        random.choice(producers).answer(event)
    for producer in producers:
        producer.flush()
    for _ in range(200):
        random.choice(deployment.evaluators).turn()
    deployment.settle()
    deployment.clock.advance(11_000)
    deployment.settle()

    assert_scanned(deployment, scans)
    assert sum(evaluator.stats.conflicts for evaluator in deployment.evaluators) > 0
    assert deployment.outcomes()["applied"] == WORKFLOWS * HOSTS + WORKFLOWS


def test_two_evaluators_in_threads_of_their_own_share_workflows_and_finish_them(world: World) -> None:
    finish_in_threads(world.deployment(FLEET, control_partitions=4))


def finish_in_threads(deployment: Deployment, deadline_s: float = 60.0) -> None:
    """Two evaluators, each in a thread and with a store connection of its own, share workflows and finish them."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            evaluator = Evaluator(deployment, Interruptions())
            evaluator.service.run(stop)
        except BaseException as error:  # noqa: BLE001 - shown by the assertion below
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    scans = start_scans(deployment)
    topic = deployment.topology.facet(PING)
    eventually(lambda: failures or len(unique_ids(deployment.records(topic))) == WORKFLOWS * HOSTS, deadline_s)
    producer = AnyKey(deployment, 1)
    for event in {event.id: event for event in deployment.events(PING)}.values():
        producer.answer(event)
    producer.flush()
    eventually(lambda: failures or all(deployment.workflow(scan).status == COMPLETED for scan in scans), deadline_s)
    stop.set()
    for thread in threads:
        thread.join()

    assert failures == []
    assert_scanned(deployment, scans)
    deployment.crash()


def test_partitions_of_control_and_commands_go_together(world: World) -> None:
    deployment = world.deployment(DESK, control_partitions=4)
    for _ in range(3):
        deployment.evaluator()
    deployment.settle()

    for evaluator in deployment.evaluators:
        owned = {TopicPartition(place.topic.rpartition(".")[2], place.partition) for place in evaluator.stats.owned}
        assert {p.partition for p in owned if p.topic == "control"} == {
            p.partition for p in owned if p.topic == "commands"
        }
