"""Pollers heed pauses: a task of a paused facet or run waits in the store until it is resumed."""

from __future__ import annotations

from typing import Any

import pytest

from afl.engine.model.store import COMPLETED
from afl.evaluation.evaluator import Evaluator
from afl.workers.poller import AgentPoller
from afl_stream.settings.config import DispatchSettings
from tests.worlds.deployment import Deployment
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED_EVERY_STORE

WORLDS = EMBEDDED_EVERY_STORE

SOURCE = """namespace shop {
  event facet Charge(order: String) => (receipt: String)
  event facet Ship(order: String) => (label: String)
  workflow Both(order: String) => (receipt: String, label: String) andThen {
    c = Charge(order = $.order)
    s = Ship(order = $.order)
    yield Both(receipt = c.receipt, label = s.label)
  }
}
"""


class Shop:
    """A deployment whose events are tasks, a poller for them, and what the poller has done."""

    def __init__(self, world: World) -> None:
        self.deployment = world.deployment(SOURCE, dispatch=DispatchSettings(default="task"))
        self.deployment.evaluator()
        self.deployment.settle()
        clock = self.deployment.clock
        evaluator = Evaluator(self.deployment.store, clock=clock)
        self.poller = AgentPoller(self.deployment.store, evaluator, clock=clock)
        self.poller.register("shop.Charge", self.charge)
        self.poller.register("shop.Ship", self.ship)
        self.done: list[str] = []

    def charge(self, payload: dict[str, Any]) -> dict[str, Any]:
        self.done.append(f"charge {payload['order']}")
        return {"receipt": "r"}

    def ship(self, payload: dict[str, Any]) -> dict[str, Any]:
        self.done.append(f"ship {payload['order']}")
        return {"label": "l"}

    def start(self, *runs: str) -> None:
        for run in runs:
            self.deployment.client.start("shop.Both", {"order": run}, workflow_id=run)
        self.deployment.settle()

    def hear(self) -> None:
        """Let the evaluator hear of pauses, and the poller look again."""
        self.deployment.hear_pauses()
        self.deployment.clock.advance(1_000)
        self.deployment.settle()

    def work(self) -> list[str]:
        """Let the poller do what it may; return what it has done now."""
        self.done.clear()
        for _ in range(3):
            self.poller.poll_once()
            # Evaluators look for what pollers have answered from time to time.
            self.deployment.clock.advance(1_000)
            self.deployment.settle()
        return sorted(self.done)


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


def status(deployment: Deployment, *runs: str) -> set[str]:
    return {deployment.workflow(run).status for run in runs}


def test_tasks_of_a_paused_facet_wait_and_others_are_done(shop: Shop) -> None:
    shop.start("w1")
    shop.deployment.client.pause(facet="shop.Charge")
    shop.hear()
    assert shop.work() == ["ship w1"]

    shop.deployment.client.resume(facet="shop.Charge")
    shop.hear()
    assert shop.work() == ["charge w1"]
    assert status(shop.deployment, "w1") == {COMPLETED}


def test_tasks_of_a_paused_run_wait_and_those_behind_them_are_done(shop: Shop) -> None:
    shop.start("w1", "w11", "w2")
    shop.deployment.client.pause(workflow_id="w1")
    shop.hear()
    assert shop.work() == ["charge w11", "charge w2", "ship w11", "ship w2"]

    shop.deployment.client.resume(workflow_id="w1")
    shop.hear()
    assert shop.work() == ["charge w1", "ship w1"]
    assert status(shop.deployment, "w1", "w11", "w2") == {COMPLETED}


def test_nothing_is_done_while_all_is_paused(shop: Shop) -> None:
    shop.start("w1")
    shop.deployment.client.pause(everything=True)
    shop.hear()
    assert shop.work() == []

    shop.deployment.client.resume(everything=True)
    shop.hear()
    assert shop.work() == ["charge w1", "ship w1"]
