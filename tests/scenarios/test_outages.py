"""Brokers that do not answer: the evaluator waits, says so once, loses nothing, and gives up after a stated time."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace

import pytest

from afl_stream.embedded.transport import EmbeddedTransport, Faults
from afl_stream.evaluator.service import EvaluatorService
from afl_stream.outage import LONGEST_WAIT_S
from afl_stream.settings.config import KafkaSettings
from afl_stream.transport import BrokerUnavailable
from tests.worlds.deployment import Deployment, unique_ids
from tests.worlds.desk import ASK, DESK, FIRST, REPORT, THIRD, Desk
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED

AWAY = BrokerUnavailable("no broker answers at 127.0.0.1:9092")
FOR_EVER = 1_000_000
TIMEOUT_S = 60

#: Outages are made at the points of the embedded transport.
WORLDS = EMBEDDED


class Waiting(threading.Event):
    """A word to stop, on a clock of its own: who waits for it finds that the time has passed."""

    def __init__(self, stops_after: int | None = None) -> None:
        super().__init__()
        self.waits: list[float] = []
        self._stops_after = stops_after

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waits.append(timeout)
        if len(self.waits) == self._stops_after:
            self.set()
        return self.is_set()

    def monotonic_s(self) -> float:
        return sum(self.waits)


def service_of(deployment: Deployment, faults: Faults, stop: Waiting) -> EvaluatorService:
    config = replace(deployment.config, kafka=KafkaSettings(outage_timeout_s=TIMEOUT_S))
    transport = EmbeddedTransport(deployment.broker, probe=faults.probe)
    store = deployment.open_store(faults)
    return EvaluatorService(
        config, transport, store, clock=deployment.clock, probe=faults.probe, monotonic_s=stop.monotonic_s
    )


def outage_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_an_evaluator_waits_for_brokers_with_backoff_and_tells_of_it_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    deployment, faults, stop = world.deployment(DESK), Faults(), Waiting()
    service = service_of(deployment, faults, stop)
    deployment.client.start(REPORT, {"subject": FIRST}, workflow_id="wf-1")
    faults.fail_at("poll.before_deliver", times=8, error=AWAY)

    service.run(stop, on_idle=stop.set)

    # The command could not be read eight times, the definitions, which wait for themselves, not at all.
    assert stop.waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, LONGEST_WAIT_S, LONGEST_WAIT_S]
    begins, ends = outage_warnings(caplog)
    assert "127.0.0.1:9092" in begins
    assert "up to 60 s" in begins
    assert "is back after 16.3 s" in ends
    assert len(unique_ids(deployment.records(deployment.topology.facet(ASK)))) == 2


def test_an_outage_that_lasts_too_long_ends_the_service_and_the_next_one_continues(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    deployment, faults, stop = world.deployment(DESK), Faults(), Waiting()
    service = service_of(deployment, faults, stop)
    deployment.client.start(REPORT, {"subject": FIRST}, workflow_id="wf-1")
    faults.fail_at("poll.before_deliver", times=FOR_EVER, error=AWAY)

    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:9092; gave up after 60 s"):
        service.run(stop)
    assert sum(stop.waits) == TIMEOUT_S
    assert len(outage_warnings(caplog)) == 1

    deployment.evaluator()
    deployment.settle()
    assert len(deployment.events(ASK)) == 2


def test_a_second_outage_has_a_time_of_its_own(world: World, caplog: pytest.LogCaptureFixture) -> None:
    deployment, faults, stop = world.deployment(DESK), Faults(), Waiting()
    service = service_of(deployment, faults, stop)
    deployment.client.start(REPORT, {"subject": FIRST}, workflow_id="wf-1")
    faults.fail_at("poll.before_deliver", times=14, error=AWAY)

    def answer_or_stop(_: object = None) -> None:
        if len(outage_warnings(caplog)) > 2:
            stop.set()
            return
        deployment.client.start(REPORT, {"subject": FIRST}, workflow_id="wf-2")
        faults.fail_at("poll.before_deliver", times=14, error=AWAY)

    service.run(stop, on_idle=answer_or_stop)

    assert sum(stop.waits) > TIMEOUT_S
    assert len(outage_warnings(caplog)) == 4
    assert len(deployment.events(ASK)) == 4


def test_lanes_that_cannot_be_published_at_assignment_are_waited_for_before_anything_is_read(world: World) -> None:
    deployment, faults, stop = world.deployment(DESK, control_partitions=1), Faults(), Waiting()
    dying = Desk(deployment, deployment.evaluator(writer := Faults()))
    writer.fail_at("control.persisted", error=KeyboardInterrupt())
    deployment.client.start(REPORT, {"subject": FIRST}, workflow_id="wf-1")
    with pytest.raises(KeyboardInterrupt):
        deployment.settle()
    deployment.remove(dying.evaluator, killed=True)
    service = service_of(deployment, faults, stop)
    deployment.client.start(REPORT, {"subject": FIRST}, workflow_id="wf-2")
    faults.fail_at("produce.before_append", times=20, error=AWAY)

    service.run(stop, on_idle=stop.set)

    assert stop.waits
    assert deployment.store.outbox() == []
    assert len(deployment.events(ASK)) == 4, "no copies: nothing is sent twice from here"


@pytest.mark.parametrize("fails", [1, 2, 3, 7])
def test_what_was_committed_and_could_not_be_published_is_published_when_the_broker_is_back(
    world: World, fails: int
) -> None:
    deployment, faults, stop = world.deployment(DESK, control_partitions=1), Faults(), Waiting()
    earlier = Desk(deployment)
    # All schemas are announced by it.
    earlier.start("wf-0")
    deployment.remove(earlier.evaluator, killed=False)
    service = service_of(deployment, faults, stop)
    deployment.client.start(REPORT, {"subject": FIRST}, workflow_id="wf-1")
    faults.fail_at("produce.before_append", times=fails, error=AWAY)

    service.run(stop, on_idle=stop.set)

    assert deployment.store.outbox() == []
    assert len(deployment.events(ASK)) == 4
    assert [m.kind for m in deployment.milestones("wf-1")] == ["workflow.started"]


def test_the_word_to_stop_ends_the_wait_and_what_is_left_waits_in_the_store(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    deployment, faults, stop = world.deployment(DESK, control_partitions=1), Faults(), Waiting(stops_after=3)
    earlier = Desk(deployment)
    earlier.start("wf-0")
    deployment.remove(earlier.evaluator, killed=False)
    service = service_of(deployment, faults, stop)
    deployment.client.start(REPORT, {"subject": FIRST}, workflow_id="wf-1")
    faults.fail_at("produce.before_append", times=FOR_EVER, error=AWAY)

    service.run(stop)

    assert len(stop.waits) == 3
    assert "3 outbox records wait in the store for their lanes' next owner" in caplog.text
    assert len(deployment.store.outbox()) == 3
    deployment.evaluator()
    deployment.settle()
    assert deployment.store.outbox() == []
    assert len(deployment.events(ASK)) == 4
    deployment.crash()


def test_what_an_outage_held_up_is_handed_over_whole_to_an_evaluator_that_joins_then(world: World) -> None:
    deployment, faults = world.deployment(DESK), Faults()
    stop = Waiting()
    service = service_of(deployment, faults, stop)
    for number in range(6):
        deployment.client.start(REPORT, {"subject": FIRST}, workflow_id=f"wf-{number}")
    faults.fail_at("poll.before_deliver", times=5, error=AWAY)

    def another_joins() -> None:
        if deployment.evaluators:
            deployment.settle()
            stop.set()
        else:
            deployment.evaluator()

    service.run(stop, on_idle=another_joins)
    deployment.settle()

    assert len(unique_ids(deployment.records(deployment.topology.facet(ASK)))) == 12
    desk = Desk(deployment, deployment.evaluators[0])
    desk.answer(desk.step(FIRST, "wf-0").id, THIRD)
    assert desk.step(FIRST, "wf-0").returns == {"answer": THIRD}
