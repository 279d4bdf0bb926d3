"""Events as Avro and as JSON, by facet: agents, audits and dead letters read each, and a run may have all of them."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from afl.core.handlers.context import HandlerContext
from afl.engine.model.store import COMPLETED, ERROR
from afl_stream.settings.config import WireSettings
from afl_stream.wire.headers import NamedHeaders
from afl_stream.wire.messages import StepFailed
from tests.worlds.deployment import Deployment
from tests.worlds.shop import ITEMS, ORDER, SHOP, Handlers, start_orders
from tests.worlds.world import World
from tests.worlds.worlds import DURABLE, EACH_ONCE, in_worlds

WORLDS = EACH_ONCE


@pytest.mark.parametrize(
    ("wire", "contents"),
    [
        (WireSettings(events="json"), {"shop.Price": b"application/json", "shop.Ship": b"application/json"}),
        (
            WireSettings(events="cloudevents", facet_events="shop.Ship=avro"),
            {"shop.Price": b"application/cloudevents+json", "shop.Ship": b"application/avro"},
        ),
    ],
)
def test_a_run_ends_alike_whatever_form_its_events_have(
    world: World, wire: WireSettings, contents: dict[str, bytes]
) -> None:
    deployment = world.deployment(SHOP, wire=wire)
    deployment.evaluator()
    deployment.worker(Handlers()())
    (order,) = start_orders(deployment, 1)
    deployment.settle()

    assert deployment.workflow(order).status == COMPLETED
    assert deployment.workflow(order).outputs == {"amounts": [3, 5, 4], "label": "8 for call 1"}
    for facet, content in contents.items():
        records = deployment.records(deployment.topology.facet(facet))
        assert records
        for record in records:
            headers = NamedHeaders(record.headers)
            assert headers["content-type"] == content
            assert headers["ce_type"] == f"afl.event.{facet}".encode()
            assert deployment.codec.decode(record.value, record.headers, json_allowed=True).event_type == facet  # type: ignore[union-attr]  # it is an Event


def test_json_events_carry_the_headers_of_cloudevents_so_that_any_library_reads_them(world: World) -> None:
    deployment = world.deployment(SHOP, wire=WireSettings(events="json"))
    deployment.evaluator()
    start_orders(deployment, 1)
    deployment.settle()

    record = deployment.records(deployment.topology.facet("shop.Price"))[0]
    headers, data = dict(record.headers), json.loads(record.value or b"")
    assert headers["ce_specversion"] == b"1.0"
    assert headers["ce_id"] == data["id"].encode()
    assert headers["ce_subject"] == data["step_id"].encode() == record.key
    assert data["payload"]["item"] in ITEMS
    assert data["returns"] == {"required": ["amount", "call"], "optional": []}


def test_a_result_that_the_evaluator_would_refuse_fails_at_the_agent_in_json_too(world: World) -> None:
    deployment = world.deployment(SHOP, wire=WireSettings(events="json"))
    deployment.evaluator()

    def misspelling(_payload: dict[str, Any], _context: HandlerContext) -> dict[str, Any]:
        return {"amount": 1, "cal": 1}

    deployment.worker({"shop.Price": misspelling})
    (order,) = start_orders(deployment, 1)
    deployment.settle()

    assert deployment.workflow(order).status == ERROR
    answers = [deployment.codec.decode(each.value) for each in deployment.records(deployment.topology.control())]
    assert {type(each) for each in answers} == {StepFailed}
    assert "has cal, which shop.Price does not declare" in str(answers[0])


@in_worlds(DURABLE)
def test_events_of_a_form_that_was_changed_are_answered_all_the_same(world: World) -> None:
    deployment: Deployment = world.deployment(SHOP, wire=WireSettings(events="json"))
    deployment.evaluator()
    start_orders(deployment, 1)
    deployment.settle()

    deployment.crash()
    deployment.config = dataclasses.replace(deployment.config, wire=WireSettings(events="avro"))
    deployment.restart()
    deployment.evaluator()
    deployment.worker(Handlers()())
    deployment.client.start(ORDER, {"items": ITEMS}, workflow_id="later")
    deployment.settle()

    assert {deployment.workflow(run).status for run in ("order-0", "later")} == {COMPLETED}
