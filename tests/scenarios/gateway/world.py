"""A small deployment in this process, with gateways over it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient
from starlette.types import ASGIApp

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.core.clock import Clock
from afl.core.probes import Probe, no_probe
from afl_stream.dev import LocalDeployment
from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.gateway.application import make_application
from afl_stream.gateway.gateway import Gateway
from afl_stream.settings.config import AgentSettings, EmbeddedSettings, StreamConfig
from afl_stream.settings.gateway import GatewaySettings
from afl_stream.transport import Transport
from afl_stream.web.access import Access
from tests.eventually import eventually

PROGRAM = """
namespace shop {
  event facet Charge(order: String, amount: Double) => (receipt: String)
  /** @sensitive password */
  event facet Login(password: String) => (ok: Boolean)

  workflow Checkout(order: String, amount: Double = 10.0) => (receipt: String) andThen {
    paid = Charge(order = $.order, amount = $.amount)
    yield Checkout(receipt = paid.receipt)
  }

  /** @sensitive password */
  workflow Enter(password: String) => (ok: Boolean) andThen {
    login = Login(password = $.password)
    yield Enter(ok = login.ok)
  }

  /** @sensitive code */
  workflow Secret(code: String) => (code: String) andThen { yield Secret(code = $.code) }

  workflow News() => (data: Json) andThen {
    heard = afl.WaitForEvent(name = "news")
    yield News(data = heard.data)
  }
}
"""
CHARGE = "shop.Charge"
ADDRESS = "http://127.0.0.1"


@dataclass(slots=True)
class Worker:
    """Somebody who speaks HTTP with a gateway."""

    gateway: Gateway
    http: TestClient

    def poll(self, facet: str = CHARGE, *, wait_s: float = 10, **members: Any) -> list[Any]:
        answer = self.http.post(f"/v1/facets/{facet}/poll", json={"wait_s": wait_s, **members})
        assert answer.status_code == 200, answer.text
        events: list[Any] = answer.json()["events"]
        return events

    def take(self, facet: str = CHARGE, **members: Any) -> Any:
        """Take one event."""
        events = self.poll(facet, **members)
        assert len(events) == 1
        return events[0]

    def lease(self, operation: str, event: Any, **members: Any) -> Any:
        """Do something with the lease of an event, and return the response."""
        return self.http.post(f"/v1/leases/{operation}", json={"lease": event["lease"], **members})

    def complete(self, event: Any, **result: Any) -> Any:
        answer = self.lease("complete", event, result=result)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def start(self, workflow: str, run: str, **inputs: Any) -> None:
        answer = self.http.post("/v1/runs", json={"workflow": workflow, "id": run, "inputs": inputs})
        assert answer.status_code == 202, answer.text

    def ended(self, run: str) -> Any:
        """Wait for the end of a run, and return how it is shown."""
        answer = self.http.get(f"/v1/runs/{run}", params={"wait_s": 20})
        assert answer.status_code == 200, answer.text
        shown = answer.json()
        assert shown["ended"], shown
        return shown


@dataclass(slots=True)
class Shop:
    """The deployment."""

    config: StreamConfig
    local: LocalDeployment

    @contextmanager
    def transport(self) -> Iterator[Transport]:
        transport = EmbeddedTransport(self.local.broker)
        try:
            yield transport
        finally:
            transport.close()

    @contextmanager
    def gateway(
        self,
        *,
        facets: str = CHARGE,
        clock: Clock | None = None,
        probe: Probe = no_probe,
        grace_s: int = 0,
        host: str = "127.0.0.1",
        answer_s: float = 10.0,
        **settings: Any,
    ) -> Iterator[Worker]:
        """Open a gateway; it drains at the end, unless it has crashed."""
        section = replace(GatewaySettings(requests_per_s=100_000, facets=facets), **settings)
        config = replace(self.config, gateway=section, agent=replace(AgentSettings(), grace_s=grace_s))
        with self.transport() as transport:
            gateway = Gateway(config, transport, clock=clock, probe=probe, answer_s=answer_s)
            gateway.start()
            app = make_application(gateway, Access.of_gateway(section, host))
            try:
                yield Worker(gateway, browser(app))
            finally:
                gateway.stop()

    def status(self, run: str) -> str:
        row = self.local.store.load_workflow(run)
        return "" if row is None else row.status

    def wait_for(self, run: str, *statuses: str) -> None:
        eventually(lambda: self.status(run) in statuses, 10)


def browser(app: ASGIApp) -> TestClient:
    """Return a client on this machine."""
    return TestClient(app, base_url=ADDRESS)


def program(text: str) -> CompiledProgram:
    return CompiledProgram(compile_text(text).program_json)


@contextmanager
def open_shop(folder: Path, **settings: Any) -> Iterator[Shop]:
    """Open the deployment, without agents."""
    config = replace(StreamConfig(embedded=EmbeddedSettings(data_dir=str(folder))), **settings)
    with LocalDeployment(config) as local:
        local.deploy(program(PROGRAM))
        local.run()
        yield Shop(config, local)
