"""Paused facets and workflows: nothing of them is begun, nothing is lost, whatever dies meanwhile."""

import pytest

from afl.engine.model.store import COMPLETED, RUNNING
from afl_stream.agent.agent import HandlerContext
from tests.eventually import eventually
from tests.worlds.deployment import Deployment
from tests.worlds.processes import DEADLINE_S
from tests.worlds.world import World
from tests.worlds.worlds import DURABLE, in_worlds

SOURCE = """namespace shop {
  event facet Charge(order: String) => (receipt: String)
  event facet Ship(receipt: String) => (label: String)
  workflow Checkout(order: String) => (label: String) andThen {
    paid = Charge(order = $.order)
    sent = Ship(receipt = paid.receipt)
    yield Checkout(label = sent.label)
  }
}
"""


class Shop:
    """Handlers that count their calls by facet."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def charge(self, payload: dict[str, str], _context: HandlerContext) -> dict[str, str]:
        self.calls.append("Charge")
        return {"receipt": f"r-{payload['order']}"}

    def ship(self, payload: dict[str, str], _context: HandlerContext) -> dict[str, str]:
        self.calls.append("Ship")
        return {"label": payload["receipt"].upper()}


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def deployment(world: World, shop: Shop) -> Deployment:
    made = world.deployment(SOURCE)
    made.evaluator()
    made.worker({"shop.Charge": shop.charge, "shop.Ship": shop.ship})
    return made


def settled(deployment: Deployment) -> None:
    """Let what was written on the definitions topic be heard, then run until no work is left."""
    deployment.hear_pauses()
    deployment.settle()


def go_on(deployment: Deployment, shop: Shop) -> None:
    """Run until both handlers were called: a busy broker may take a while to send from partitions that were paused."""

    def has_gone_on() -> bool:
        settled(deployment)
        return len(shop.calls) >= 2

    eventually(has_gone_on, DEADLINE_S)


def start(deployment: Deployment, workflow_id: str = "w1") -> None:
    deployment.client.start("shop.Checkout", {"order": "17"}, workflow_id=workflow_id)


def test_a_paused_facet_is_not_started_and_goes_on_when_it_is_resumed(deployment: Deployment, shop: Shop) -> None:
    deployment.settle()
    assert deployment.client.pause(facet="shop.Ship")
    settled(deployment)
    start(deployment)

    deployment.settle()
    while_paused = list(shop.calls)
    published = len(deployment.events("shop.Ship"))
    deployment.client.resume(facet="shop.Ship")
    go_on(deployment, shop)
    settled(deployment)

    assert while_paused == ["Charge"]
    assert published == 0
    assert shop.calls == ["Charge", "Ship"]
    assert deployment.workflow("w1").outputs == {"label": "R-17"}


def test_events_that_were_published_before_the_pause_stay_on_their_topic(world: World, shop: Shop) -> None:
    deployment = world.deployment(SOURCE)
    deployment.evaluator()
    start(deployment)
    deployment.settle()
    assert len(deployment.events("shop.Charge")) == 1
    deployment.client.pause(facet="shop.Charge")
    deployment.worker({"shop.Charge": shop.charge, "shop.Ship": shop.ship})

    settled(deployment)
    while_paused = list(shop.calls)
    deployment.client.resume(facet="shop.Charge")
    go_on(deployment, shop)
    settled(deployment)

    assert while_paused == []
    assert shop.calls == ["Charge", "Ship"]
    assert deployment.workflow("w1").status == COMPLETED


def test_a_paused_workflow_keeps_the_answer_and_makes_no_further_step(deployment: Deployment, shop: Shop) -> None:
    deployment.settle()
    deployment.client.pause(workflow_id="w1")
    settled(deployment)
    start(deployment)
    start(deployment, "w2")

    deployment.settle()
    while_paused = deployment.workflow("w1")
    deployment.client.resume(workflow_id="w1")
    settled(deployment)

    assert (while_paused.status, while_paused.runnable) == (RUNNING, True)
    assert shop.calls == ["Charge", "Ship"] * 2
    assert [deployment.workflow(name).status for name in ("w1", "w2")] == [COMPLETED, COMPLETED]


def test_an_answer_that_comes_during_the_pause_is_applied_and_kept(world: World, shop: Shop) -> None:
    deployment = world.deployment(SOURCE)
    deployment.evaluator()
    start(deployment)
    deployment.settle()
    deployment.client.pause(workflow_id="w1")
    settled(deployment)
    deployment.worker({"shop.Charge": shop.charge, "shop.Ship": shop.ship})

    deployment.settle()
    charged = deployment.step("w1", "shop.Charge")
    calls = list(shop.calls)
    deployment.client.resume(workflow_id="w1")
    settled(deployment)

    assert charged.returns == {"receipt": "r-17"}
    assert calls == ["Charge"]
    assert deployment.workflow("w1").outputs == {"label": "R-17"}


def test_all_is_paused_and_resumed_at_once(deployment: Deployment, shop: Shop) -> None:
    deployment.settle()
    deployment.client.pause(everything=True, reason="upgrade")
    settled(deployment)
    start(deployment)

    deployment.settle()
    while_paused = list(shop.calls)
    deployment.client.resume(everything=True)
    go_on(deployment, shop)
    settled(deployment)

    assert while_paused == []
    assert deployment.workflow("w1").outputs == {"label": "R-17"}


@in_worlds(DURABLE)
@pytest.mark.parametrize("scope", ["facet", "workflow", "all"])
def test_a_pause_survives_the_death_of_every_process(deployment: Deployment, shop: Shop, scope: str) -> None:
    what = {"facet": {"facet": "shop.Ship"}, "workflow": {"workflow_id": "w1"}, "all": {"everything": True}}[scope]
    deployment.settle()
    deployment.client.pause(**what)  # type: ignore[arg-type]
    settled(deployment)
    start(deployment)
    deployment.settle()
    deployment.crash_and_restart()
    deployment.evaluator()
    deployment.worker({"shop.Charge": shop.charge, "shop.Ship": shop.ship})

    settled(deployment)
    while_paused = shop.calls.count("Ship")
    deployment.client.resume(**what)  # type: ignore[arg-type]
    go_on(deployment, shop)
    settled(deployment)

    assert while_paused == 0
    assert shop.calls == ["Charge", "Ship"]
    assert deployment.workflow("w1").outputs == {"label": "R-17"}


def test_a_rebalance_during_a_pause_loses_no_event_and_publishes_none_twice(deployment: Deployment, shop: Shop) -> None:
    deployment.settle()
    deployment.client.pause(facet="shop.Ship")
    settled(deployment)
    start(deployment)
    deployment.settle()
    deployment.rebalance()
    deployment.settle()

    held = len(deployment.events("shop.Ship"))
    deployment.client.resume(facet="shop.Ship")
    settled(deployment)

    assert held == 0
    assert len(deployment.events("shop.Ship")) == 1
    assert deployment.workflow("w1").status == COMPLETED
