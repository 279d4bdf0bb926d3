"""Events of a run that was cancelled or reset are not handled; a handler at work learns of it when it asks."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event
from typing import Any

import pytest

from afl.engine.model.store import CANCELLED, COMPLETED, PAUSED
from afl_stream.agent.agent import HandlerContext, RetryPolicy
from afl_stream.agent.cancellations import Cancellations
from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.settings.config import AgentSettings
from tests.eventually import eventually
from tests.worlds.desk import ASK, DESK, SECOND, Desk
from tests.worlds.parties import Worker
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED

#: Some look at what the embedded transport reads.
WORLDS = EMBEDDED


class Asking:
    """A handler that notes what its context says."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int, bool]] = []

    def __call__(self, payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        self.seen.append((payload["question"], context.attempt, context.is_cancelled))
        return {"answer": payload["question"]}


def desk_with_evaluator(world: World, **agent: Any) -> Desk:
    return Desk(world.deployment(DESK, agent=AgentSettings(max_concurrent=4, max_crashes=50, **agent)))


def joined(desk: Desk, handlers: Mapping[str, Any]) -> Worker:
    """Return an agent that joined before the first event, and takes no turn until it is among the workers again."""
    worker = desk.deployment.worker(handlers)
    desk.deployment.settle()
    desk.deployment.workers.remove(worker)
    return worker


def works(desk: Desk, worker: Worker) -> None:
    desk.deployment.workers.append(worker)
    desk.deployment.settle()


def test_a_handler_learns_that_its_workflow_was_cancelled_while_it_ran(world: World) -> None:
    desk = desk_with_evaluator(world)
    desk.start()
    runs, learned = Event(), Event()

    def handle(payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        assert not context.is_cancelled
        runs.set()
        eventually(lambda: context.is_cancelled, 30)
        learned.set()
        return {"answer": payload["question"]}

    worker = desk.deployment.worker({ASK: handle})
    while not runs.is_set():
        worker.agent.turn(0.01)
    desk.deployment.client.cancel("wf-1", "enough")
    for _ in range(3):
        desk.evaluator.turn()
    desk.deployment.settle()

    assert learned.is_set()
    assert desk.deployment.workflow("wf-1").status == CANCELLED
    assert desk.deployment.outcomes()["late"] == 2


def test_what_was_cancelled_before_the_agent_began_is_known_too_and_other_workflows_are_not_affected(
    world: World,
) -> None:
    desk = desk_with_evaluator(world, skip_cancelled=False)
    seen: dict[str, bool] = {}

    def handle(payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        seen[context.workflow_id] = context.is_cancelled
        return {"answer": payload["question"]}

    worker = joined(desk, {ASK: handle})
    desk.start("wf-1")
    desk.start("wf-2")
    desk.deployment.client.cancel("wf-1")
    desk.deployment.settle()
    works(desk, worker)

    assert seen == {"wf-1": True, "wf-2": False}


@pytest.mark.parametrize("clock", [1_000, 0, -3_600_000])
def test_the_events_of_before_a_reset_are_cancelled_and_those_after_it_are_not(world: World, clock: int) -> None:
    desk, handler = desk_with_evaluator(world, skip_cancelled=False), Asking()
    worker = joined(desk, {ASK: handler})
    desk.start()
    if clock < 0:
        desk.deployment.clock.set_back(-clock)
    else:
        desk.deployment.clock.advance(clock)
    desk.deployment.client.reset("wf-1")
    desk.deployment.settle()
    assert desk.deployment.workflow("wf-1").status == PAUSED

    works(desk, worker)

    second = {attempt: is_cancelled for question, attempt, is_cancelled in handler.seen if question == SECOND}
    assert second == {1: True, 2: False}


def test_a_handler_that_never_asks_costs_no_consumer(world: World) -> None:
    desk = desk_with_evaluator(world, skip_cancelled=False)
    desk.start()
    worker = desk.deployment.worker({ASK: lambda payload, context: {"answer": payload["question"]}})

    desk.deployment.settle()

    assert isinstance(worker.transport, EmbeddedTransport)
    read = {place.topic for consumer in worker.transport._consumers for place in consumer.assignment()}
    assert desk.deployment.topology.lifecycle() not in read


def test_an_agent_that_cannot_read_the_lifecycle_topic_works_without_it(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    desk = desk_with_evaluator(world)
    desk.start()
    desk.deployment.remove(desk.evaluator, killed=False)
    desk.deployment.transport.admin().delete_topic(desk.deployment.topology.lifecycle())
    handler = Asking()

    desk.deployment.worker({ASK: handler}).agent.run_once(0.0)

    assert {is_cancelled for _, _, is_cancelled in handler.seen} == {False}
    assert len(desk.deployment.messages(desk.deployment.topology.control())) == len(handler.seen) == 2
    assert caplog.text.count("the lifecycle topic cannot be read now, so events of cancelled runs are handled too") == 1


def test_the_events_of_a_cancelled_run_are_skipped_and_counted_and_that_is_told_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    desk, handler = desk_with_evaluator(world), Asking()
    worker = joined(desk, {ASK: handler})
    desk.start("wf-1")
    desk.start("wf-2")
    desk.deployment.client.cancel("wf-1")
    desk.deployment.settle()

    with caplog.at_level("INFO", "afl_stream.agent.cancellations"):
        works(desk, worker)

    counts = worker.agent.counts
    assert (counts.cancelled, counts.handled, len(handler.seen)) == (2, 3, 3)
    assert caplog.text.count("run wf-1 was cancelled or reset, or continued as new") == 1
    assert len(desk.deployment.messages(desk.deployment.topology.control())) == 3
    topic = desk.deployment.topology.facet(ASK)
    committed = desk.deployment.committed(desk.deployment.agent_group, [topic])
    assert sum(offset.offset for offset in committed.values()) == 5
    statuses = [desk.deployment.workflow(name).status for name in ("wf-1", "wf-2")]
    assert statuses == [CANCELLED, COMPLETED]


@pytest.mark.parametrize("set_back_ms", [0, 3_600_000])
@pytest.mark.parametrize("how", ["reset", "retry"])
def test_a_cancelled_run_that_runs_again_hands_out_its_events_again(world: World, how: str, set_back_ms: int) -> None:
    desk, handler = desk_with_evaluator(world), Asking()
    worker = joined(desk, {ASK: handler})
    desk.start("wf-1")
    desk.deployment.client.cancel("wf-1")
    desk.deployment.settle()
    # Another evaluator may carry it out, and its clock be behind.
    desk.deployment.clock.set_back(set_back_ms)
    if how == "reset":
        desk.deployment.client.reset("wf-1")
    else:
        desk.deployment.client.retry("wf-1")
    desk.deployment.settle()
    works(desk, worker)

    assert worker.agent.counts.cancelled == 2
    assert [attempt for _, attempt, _ in handler.seen] == [2, 2, 1]
    assert not any(is_cancelled for _, _, is_cancelled in handler.seen)
    assert desk.deployment.workflow("wf-1").status == COMPLETED


def test_an_event_that_waits_for_its_next_try_is_skipped_when_its_run_is_cancelled_meanwhile(world: World) -> None:
    desk, tries = desk_with_evaluator(world), []

    def fails(payload: dict[str, Any]) -> dict[str, Any]:
        tries.append(payload["question"])
        raise ConnectionError("away")

    worker = desk.deployment.worker({})
    worker.agent.register(ASK, fails, retry=RetryPolicy(max_attempts=10_000, backoff_s=0.001, factor=1.0))
    desk.deployment.workers.clear()
    desk.start("wf-1")
    eventually(lambda: worker.agent.turn(0.01) or len(tries) > 4)
    desk.deployment.client.cancel("wf-1")
    while desk.evaluator.turn():
        pass

    eventually(lambda: worker.agent.turn(0.01) or worker.agent.counts.cancelled == 2)
    assert worker.agent.counts.failed == 0


@pytest.mark.parametrize(("age_ms", "is_looked_up"), [(0, False), (999, False), (1_000, True), (-3_600_000, True)])
def test_only_an_event_that_has_waited_is_looked_up(world: World, age_ms: int, is_looked_up: bool) -> None:
    desk = desk_with_evaluator(world)
    desk.start("wf-1")
    (event, _) = desk.deployment.events(ASK)
    desk.deployment.client.cancel("wf-1")
    desk.deployment.settle()
    transport = EmbeddedTransport(desk.deployment.broker)
    cancellations = Cancellations(
        transport,
        desk.deployment.codec,
        desk.deployment.topology.lifecycle(),
        now_ms=lambda: event.created_at + age_ms,
    )

    assert cancellations.skips(event, 1.0) is is_looked_up
    assert bool(transport._consumers) is is_looked_up
    transport.close()
