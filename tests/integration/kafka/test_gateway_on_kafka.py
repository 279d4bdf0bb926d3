"""A gateway and a worker that speaks HTTP only, beside an evaluator on a real broker: its kill loses nothing."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from tests.eventually import eventually
from tests.worlds.deployment import Deployment
from tests.worlds.metric_pages import samples
from tests.worlds.processes import DEADLINE_S, Party
from tests.worlds.world import Deployments

pytestmark = pytest.mark.long

TILL = """
namespace till {
    event facet Pay(order: Long) => (by: String)
    workflow Sell(order: Long) => (paid: String) andThen {
        p = Pay(order = $.order)
        yield Sell(paid = p.by)
    }
}
"""
PAY = "till.Pay"
ORDERS = 40


def post(address: str, path: str, body: Mapping[str, Any]) -> Any:
    request = Request(address + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=30) as answer:
        return json.load(answer)


def work(address: Callable[[], str], is_over: threading.Event) -> None:
    """Take events and answer them; go on with the next gateway when one is gone."""
    while not is_over.is_set():
        try:
            for event in post(address(), f"/v1/facets/{PAY}/poll", {"max": 5, "wait_s": 1})["events"]:
                result = {"by": f"order {event['payload']['order']}"}
                post(address(), "/v1/leases/complete", {"lease": event["lease"], "result": result})
        except (URLError, HTTPError, OSError):
            is_over.wait(0.1)


def gateway(deployment: Deployment) -> tuple[Party, str]:
    party = deployment.processes.command("gateway", "--port", "0", "--facet", PAY, "--metrics-port", "0")
    eventually(lambda: party.check_alive() and party.lines, DEADLINE_S)
    return party, party.lines[0]


def test_a_worker_without_kafka_sells_everything_though_the_gateway_is_killed(deployments: Deployments) -> None:
    deployment = deployments(TILL)
    deployment.processes.evaluator().when_ready()
    party, address = gateway(deployment)
    addresses, is_over = [address], threading.Event()
    worker = threading.Thread(target=work, args=(lambda: addresses[-1], is_over))
    worker.start()
    try:
        sales = [f"sale-{number}" for number in range(ORDERS)]
        for number, sale in enumerate(sales):
            post(address, "/v1/runs", {"workflow": "till.Sell", "inputs": {"order": number}, "id": sale})
            if number == ORDERS // 2:
                party.kill()
                party, address = gateway(deployment)
                addresses.append(address)
        deployment.processes.finish(sales)
    finally:
        is_over.set()
        worker.join()

    assert [deployment.workflow(sale).outputs for sale in sales] == [
        {"paid": f"order {number}"} for number in range(ORDERS)
    ]
    served = re.search(r"(http://\S+) has /metrics", party.log)
    assert served is not None
    with urlopen(f"{served[1]}/metrics", timeout=30) as page:
        found = samples(page.read().decode())
    # The second gateway has answered at least what was started after the first was killed.
    assert found["afl_gateway_leases_ended_total", frozenset({("ending", "done"), ("facet", PAY)})] >= ORDERS // 2 - 1
    assert found["afl_agent_records_read_total", frozenset()] >= ORDERS // 2 - 1
    party.ask_to_stop()
    assert party.exit_code() == 0
