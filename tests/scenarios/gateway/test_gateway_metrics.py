"""What a gateway tells of its work: requests, leases, and what agents tell."""

from __future__ import annotations

import logging
import socket
from dataclasses import replace
from itertools import repeat

import pytest

from afl.core.clock import ManualClock
from afl.core.monitoring.histograms import Histogram
from afl.core.monitoring.metrics import Distribution, Family, one
from afl.core.monitoring.status_server import USUAL_NAMES
from afl_stream.agent.metrics import READ, TURN_AGE, AgentMetrics
from afl_stream.agent.observer import HANDLER_TIME, AgentObserver
from afl_stream.gateway.metrics import GATEWAY_METRICS, GatewayMetrics, of_several
from afl_stream.web.serving import serve
from tests.eventually import eventually
from tests.scenarios.gateway.world import CHARGE, Shop, Worker

LOGIN = "shop.Login"


def measured(shop: Shop) -> Shop:
    return Shop(replace(shop.config, metrics=replace(shop.config.metrics, port=0)), shop.local)


def value(worker: Worker, name: str, *labels: str) -> float:
    families = {family.metric.name: family for family in GatewayMetrics(worker.gateway).collect()}
    found = families.get(name, Family(GATEWAY_METRICS[0], {})).values.get(labels, 0.0)
    return float(sum(found.counts)) if isinstance(found, Distribution) else found


def test_requests_and_leases_are_counted(shop: Shop) -> None:
    clock = ManualClock(1_000_000)
    with measured(shop).gateway(clock=clock) as worker:
        worker.start("Checkout", "r-1", order="1")
        worker.start("Checkout", "r-2", order="2")
        eventually(lambda: value(worker, "afl_gateway_events_waiting", CHARGE) == 2)
        first, second = worker.poll(max=2)
        assert value(worker, "afl_gateway_leases", CHARGE) == 2
        worker.complete(first, receipt="r1")
        clock.advance(3_600_000)
        eventually(lambda: value(worker, "afl_gateway_leases_ended_total", CHARGE, "ran_out") == 1)
        (again,) = worker.poll()
        assert again["step_id"] == second["step_id"]
        assert worker.http.get("/v1/nothing").status_code == 404

        assert value(worker, "afl_gateway_leases_total", CHARGE) == 3
        assert value(worker, "afl_gateway_leases_ended_total", CHARGE, "done") == 1
        assert value(worker, "afl_gateway_requests_total", "startRun", "202") == 2
        assert value(worker, "afl_gateway_requests_total", "completeEvent", "200") == 1
        assert value(worker, "afl_gateway_requests_total", "other", "404") == 1
        assert value(worker, "afl_gateway_request_seconds", "pollEvents") == 2


def test_a_client_that_goes_away_in_its_body_is_not_told_that_it_is_too_long(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    with measured(shop).gateway() as worker:
        served = serve(worker.http.app, "127.0.0.1", 0, USUAL_NAMES, "gateway", on_shutdown=lambda: None)
        try:
            host, _, port = served.address.removeprefix("http://").partition(":")
            with socket.create_connection((host, int(port))) as connection:
                head = f"POST /v1/runs HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
                connection.sendall(f"{head}Content-Length: 1000\r\n\r\n{{".encode())
            eventually(lambda: value(worker, "afl_gateway_requests_total", "startRun", "499") == 1)
        finally:
            served.stop()
        # One that does not say its length, and does not end.
        endless = worker.http.post(
            "/v1/runs", content=repeat(b" " * 100_000, 41), headers={"Content-Type": "application/json"}
        )

        assert endless.status_code == 413
        assert value(worker, "afl_gateway_requests_total", "startRun", "413") == 1
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == []


def test_its_agents_are_told_of_as_one(shop: Shop) -> None:
    with measured(shop).gateway(facets=f"{CHARGE},{LOGIN}") as worker:
        worker.start("Checkout", "r-1", order="1")
        worker.start("Enter", "r-2", password="secret")
        worker.complete(worker.take(), receipt="r1")
        worker.complete(worker.take(LOGIN), ok=True)
        worker.ended("r-1")
        worker.ended("r-2")

        eventually(lambda: value(worker, "afl_agent_deferred_total") == 2)
        families = list(GatewayMetrics(worker.gateway).collect())
        assert len({family.metric.name for family in families}) == len(families)
        assert value(worker, "afl_agent_records_read_total") == 2
        agents = [running.agent for running in worker.gateway.agents]
        ages = [AgentMetrics(agent, agent.config.observer or AgentObserver()).turn_age_s for agent in agents]
        # Of two ages it is the greater one, not the sum; it has grown a little since.
        assert min(ages) > 0
        assert max(ages) <= value(worker, "afl_agent_turn_age_seconds") < sum(ages) + 30
        assert GatewayMetrics(worker.gateway).health(180).is_ready


def test_of_several_agents_counts_are_summed_and_the_greatest_age_counts() -> None:
    times = Histogram(HANDLER_TIME, (1.0,))
    times.observe_all([(0.5, CHARGE), (3.0, CHARGE)])

    found = dict(
        of_several([one(READ, 3), one(TURN_AGE, 7), times.family(), one(READ, 5), one(TURN_AGE, 2), times.family()])
    )

    assert found == {
        READ: {(): 8},
        TURN_AGE: {(): 7},
        HANDLER_TIME: {(CHARGE,): Distribution((1.0,), (2, 2), 7.0)},
    }


def test_a_gateway_whose_agent_has_ended_is_not_ready(shop: Shop) -> None:
    with measured(shop).gateway() as worker:
        worker.gateway.agents[0].error = RuntimeError("the group is gone")

        assert GatewayMetrics(worker.gateway).health(180).reasons == ("the group is gone",)
        worker.gateway.agents[0].error = None
