"""A small shop that runs in this process, with its evaluator and agent, and a dashboard over it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient
from starlette.types import ASGIApp

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl_stream.agent.agent import Agent
from afl_stream.dashboard.application import make_application, make_dashboard
from afl_stream.dashboard.context import Dashboard
from afl_stream.dashboard.deployment import Deployment
from afl_stream.dev import LocalDeployment
from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.settings.config import EmbeddedSettings, StreamConfig
from afl_stream.settings.dashboard import DashboardSettings
from afl_stream.transport import Transport
from afl_stream.web.access import Access
from tests.eventually import eventually

#: A text that would be a script if it were not escaped.
MARKUP = "<script>alert('x')</script><b title=\"y\">&amp;"
PROGRAM = """
/** What a shop does. */
namespace shop {
  event facet Charge(order: String, amount: Double) => (receipt: String)
  event facet Approve(order: String) => (by: String)
  /** @sensitive password */
  event facet Login(password: String) => (ok: Boolean)

  facet Net(amount: Double) => (net: Double) andThen { yield Net(net = $.amount * 0.8) }

  /** Checks an order out. */
  workflow Checkout(order: String, amount: Double = 10.0, note: String = "none", gift: Boolean = false)
      => (receipt: String) andThen {
    price = Net(amount = $.amount)
    paid = Charge(order = $.order, amount = price.net)
    yield Checkout(receipt = paid.receipt)
  }

  /** Waits for a person. */
  workflow Approval(order: String) => (by: String) andThen {
    approved = Approve(order = $.order)
    yield Approval(by = approved.by)
  }

  /** @sensitive password */
  workflow Enter(password: String) => (ok: Boolean) andThen {
    login = Login(password = $.password)
    yield Enter(ok = login.ok)
  }

  workflow Many(items: [Long]) => (done: Boolean) andThen foreach item in $.items {
    price = Net(amount = 1.0)
  }

  workflow News() => (data: Json) andThen {
    heard = afl.WaitForEvent(name = "news")
    yield News(data = heard.data)
  }
}
"""


def _charge(payload: dict[str, Any]) -> dict[str, Any]:
    if payload["amount"] > 100:
        raise ValueError(f"declined {MARKUP}")
    return {"receipt": f"r-{payload['order']}"}


@dataclass(slots=True)
class Shop:
    """The shop, and the dashboards that tests open over it."""

    config: StreamConfig
    local: LocalDeployment
    dashboards: list[Dashboard] = field(default_factory=list)

    def deployment(self, *, can_be_answered: bool = True) -> Deployment:
        """Return the shop as a dashboard in its process sees it."""

        @contextmanager
        def transport() -> Iterator[Transport]:
            opened = EmbeddedTransport(self.local.broker)
            try:
                yield opened
            finally:
                opened.close()

        return Deployment(self.config, open_transport=transport, can_be_answered=can_be_answered)

    def application(
        self, *, host: str = "127.0.0.1", read_only: bool = False, waits: bool = True, **settings: Any
    ) -> ASGIApp:
        """Return the application of a dashboard over the shop. Without `waits` it waits for no evaluator's answer."""
        section = replace(DashboardSettings(requests_per_s=100_000), **settings)
        dashboard = make_dashboard(
            self.deployment(can_be_answered=waits), Access.of(section, host, read_only=read_only)
        )
        self.dashboards.append(dashboard)
        return make_application(dashboard)

    def browser(self, *, read_only: bool = False, **settings: Any) -> TestClient:
        """Return a browser on this machine."""
        return TestClient(self.application(read_only=read_only, **settings), base_url="http://127.0.0.1")

    def status(self, workflow_id: str) -> str:
        row = self.local.store.load_workflow(workflow_id)
        return "" if row is None else row.status

    def wait_for(self, workflow_id: str, *statuses: str) -> None:
        """Wait until a run has one of these statuses."""
        eventually(lambda: self.status(workflow_id) in statuses, 10)

    def waiting_step(self, workflow_id: str) -> str:
        """Return the id of the step of a run that waits for an answer."""
        waiting = self.local.unhandled(workflow_id)
        assert waiting
        return waiting[0].step_id


@contextmanager
def open_shop(folder: Path) -> Iterator[Shop]:
    """Open the shop with a few runs: one that is complete, one that failed, and two that wait."""
    config = StreamConfig(embedded=EmbeddedSettings(data_dir=str(folder)))

    def handlers(agent: Agent) -> None:
        agent.register("shop.Charge", _charge)

    with LocalDeployment(config, set_up_agent=handlers) as local:
        local.deploy(CompiledProgram(compile_text(PROGRAM).program_json))
        local.run()
        shop = Shop(config, local)
        local.start("Checkout", {"order": "1", "note": MARKUP}, workflow_id="good-1")
        local.start("Checkout", {"order": "2", "amount": 1_000.0}, workflow_id="bad-1")
        local.start("Approval", {"order": "3"}, workflow_id="wait-1")
        local.start("News", {}, workflow_id="news-1")
        shop.wait_for("good-1", "COMPLETED")
        shop.wait_for("bad-1", "ERROR")
        shop.wait_for("wait-1", "PAUSED")
        shop.wait_for("news-1", "PAUSED")
        try:
            yield shop
        finally:
            for dashboard in shop.dashboards:
                dashboard.deployment.close()


def csrf_of(text: str) -> str:
    """Return the token in the forms of a page."""
    found = re.search(r'name="csrf" value="([0-9a-f]+)"', text)
    assert found is not None, "the page has no form"
    return found[1]


def act(browser: TestClient, action: str, **values: str) -> Any:
    """Fill the form of an action and send it, as a person does; return the page that follows."""
    query = {name: value for name, value in values.items() if name in ("run", "step", "facet", "place", "schedule")}
    form = browser.get(f"/act/{action}", params=query)
    assert form.status_code == 200, form.text
    return browser.post(f"/act/{action}", data={**values, "csrf": csrf_of(form.text)}, follow_redirects=True)
