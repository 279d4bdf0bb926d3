"""The program and the handlers of the crash scenarios: answers say how often their event was handled before."""

from __future__ import annotations

from collections import Counter
from typing import Any

from afl.engine.model.store import StepDocument
from afl_stream.agent.agent import HandlerContext
from tests.worlds.deployment import Deployment
from tests.worlds.parties import Handler

SHOP = """
namespace shop {
  event facet Price(item: String) => (amount: Long, call: Long)
  event facet Ship(calls: [Long], total: Long) => (label: String)
  facet Sum(a: Long, b: Long) => (sum: Long) andThen { yield Sum(sum = $.a + $.b) }
  facet Quote(items: [String]) => (amounts: [Long], calls: [Long]) andThen foreach item in $.items {
    p = Price(item = $.item)
    yield Quote(amounts = [p.amount], calls = [p.call])
  }
  workflow Order(items: [String]) => (amounts: [Long], label: String) andThen {
    q = Quote(items = $.items)
    t = Sum(a = q.amounts[0], b = q.amounts[1])
    s = Ship(calls = q.calls, total = t.sum)
    yield Order(amounts = q.amounts, label = s.label)
  }
}
"""
ITEMS = ["tea", "sugar", "milk"]
ORDER = "shop.Order"


class Handlers:
    """Handlers that count: the answer to an event tells how many times it was handled, so answers can be told apart."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def __call__(self) -> dict[str, Handler]:
        return {"shop.Price": self.price, "shop.Ship": self.ship}

    def price(self, payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        self.calls[context.event_id] += 1
        return {"amount": len(payload["item"]), "call": self.calls[context.event_id]}

    def ship(self, payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
        self.calls[context.event_id] += 1
        return {"label": f"{payload['total']} for call {self.calls[context.event_id]}"}


def start_orders(deployment: Deployment, count: int, stem: str = "order") -> list[str]:
    return [deployment.client.start(ORDER, {"items": ITEMS}, workflow_id=f"{stem}-{n}") for n in range(count)]


def assert_one_answer_each(deployment: Deployment, workflow_id: str) -> None:
    """Return what the steps hold, what was made of it, and the outputs are of one and the same answer to each event."""
    steps = deployment.steps(workflow_id)
    prices: list[StepDocument] = [s for s in steps if s.facet_name == "shop.Price"]
    by_item = {s.params["item"]: s.returns for s in prices}
    assert list(by_item) == ITEMS
    (ship,) = [s for s in steps if s.facet_name == "shop.Ship"]
    assert ship.params == {"calls": [by_item[item]["call"] for item in ITEMS], "total": 3 + 5}
    assert deployment.workflow(workflow_id).outputs == {"amounts": [3, 5, 4], "label": ship.returns["label"]}
