"""A handler that asks its context learns that its workflow was cancelled or reset, from the lifecycle topic."""

from __future__ import annotations

from threading import Event
from typing import Any

import pytest

from afl.runtime.persistence import CANCELLED, PAUSED
from afl_stream.agent import HandlerContext
from tests.eventually import eventually
from tests.scenarios.desk import ASK, DESK, SECOND, Desk
from tests.scenarios.loop_harness import Deployment


class Asking:
    """A handler that notes what its context says."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int, bool]] = []

    def __call__(self, payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        self.seen.append((payload["question"], context.attempt, context.is_cancelled))
        return {"answer": payload["question"]}


def desk_with_evaluator() -> Desk:
    return Desk(Deployment(None, DESK))


def test_a_handler_learns_that_its_workflow_was_cancelled_while_it_ran() -> None:
    desk = desk_with_evaluator()
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


def test_what_was_cancelled_before_the_agent_began_is_known_too_and_other_workflows_are_not_affected() -> None:
    desk = desk_with_evaluator()
    desk.start("wf-1")
    desk.start("wf-2")
    desk.deployment.client.cancel("wf-1")
    desk.deployment.settle()
    seen: dict[str, bool] = {}

    def handle(payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        seen[context.workflow_id] = context.is_cancelled
        return {"answer": payload["question"]}

    desk.deployment.worker({ASK: handle})
    desk.deployment.settle()

    assert seen == {"wf-1": True, "wf-2": False}


def test_the_events_of_before_a_reset_are_cancelled_and_those_after_it_are_not() -> None:
    desk = desk_with_evaluator()
    desk.start()
    desk.deployment.clock.advance(1_000)
    desk.deployment.client.reset("wf-1")
    # The reset is told in one batch, and the events are sent in the next one.
    desk.deployment.round()
    desk.deployment.clock.advance(1_000)
    desk.deployment.settle()
    assert desk.deployment.workflow("wf-1").status == PAUSED
    handler = Asking()

    desk.deployment.worker({ASK: handler})
    desk.deployment.settle()

    second = {attempt: is_cancelled for question, attempt, is_cancelled in handler.seen if question == SECOND}
    assert second == {1: True, 2: False}


def test_a_handler_that_never_asks_costs_no_consumer() -> None:
    desk = desk_with_evaluator()
    desk.start()
    worker = desk.deployment.worker({ASK: lambda payload, context: {"answer": payload["question"]}})

    desk.deployment.settle()

    read = {place.topic for consumer in worker.transport._consumers for place in consumer.assignment()}
    assert desk.deployment.topology.lifecycle() not in read


def test_an_agent_that_cannot_read_the_lifecycle_topic_works_without_it(caplog: pytest.LogCaptureFixture) -> None:
    desk = desk_with_evaluator()
    desk.start()
    desk.deployment.remove(desk.evaluator, killed=False)
    desk.deployment.transport.admin().delete_topic(desk.deployment.topology.lifecycle())
    handler = Asking()

    desk.deployment.worker({ASK: handler}).agent.run_once(0.0)

    assert {is_cancelled for _, _, is_cancelled in handler.seen} == {False}
    assert len(desk.deployment.messages(desk.deployment.topology.control())) == len(handler.seen) == 2
    assert caplog.text.count("handlers cannot learn now whether their workflows were cancelled") == 1
