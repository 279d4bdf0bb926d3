"""Deployments write headers in one form, read both, and change from one to the other while workflows run."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from afl.core.handlers.context import HandlerContext
from afl.engine.model.store import COMPLETED
from afl_stream.settings.config import LifecycleSettings, WireSettings
from afl_stream.transport import Record
from afl_stream.wire.headers import HeaderForm, NamedHeaders
from tests.worlds.deployment import Deployment
from tests.worlds.desk import ASK, DESK, REPORT
from tests.worlds.world import World
from tests.worlds.worlds import DURABLE, EACH_ONCE, in_worlds

WORLDS = EACH_ONCE

LONG = {
    "ce_specversion", "ce_id", "ce_type", "ce_source", "content-type", "afl_workflow_version",
    "afl_step_schema_version", "afl_runtime_version",
}  # fmt: skip


def answer(payload: dict[str, Any], _context: HandlerContext) -> dict[str, Any]:
    if payload["question"] == "fail":
        raise ValueError("no answer")
    return {"answer": f"re: {payload['question']}"}


def all_records(deployment: Deployment) -> dict[str, list[Record]]:
    topology = deployment.topology
    topics = [
        topology.facet(ASK),
        topology.control(),
        topology.commands(),
        topology.external(),
        topology.lifecycle(),
        topology.definitions(),
    ]
    return {topic: deployment.records(topic) for topic in topics}


@pytest.mark.parametrize("form", list(HeaderForm))
def test_every_record_of_a_run_has_the_headers_that_the_deployment_asks_for(world: World, form: HeaderForm) -> None:
    wire, lifecycle = WireSettings(headers=form.value), LifecycleSettings(steps="on")
    deployment = world.deployment(DESK, wire=wire, lifecycle=lifecycle)
    deployment.evaluator()
    deployment.worker({ASK: answer})

    for workflow_id, subject in (("good", "first"), ("bad", "fail")):
        deployment.client.start(REPORT, {"subject": subject}, workflow_id=workflow_id)
    deployment.client.raise_event("good", "noted", "by hand")
    deployment.settle()

    assert deployment.workflow("good").status == COMPLETED
    for topic, records in all_records(deployment).items():
        assert records, topic
        for record in records:
            names = [name for name, _ in record.headers]
            if form is HeaderForm.COMPACT:
                assert names == ["content-type", "afl"], topic
            else:
                assert set(names) >= LONG, topic
                assert "afl" not in names
            # Either form answers to the names of the long one.
            assert NamedHeaders(record.headers).keys() >= LONG


@in_worlds(DURABLE)
@pytest.mark.parametrize(("before", "after"), [("compact", "cloudevents"), ("cloudevents", "compact")])
def test_rows_and_records_of_the_other_form_are_published_and_answered_after_a_change(
    world: World, before: str, after: str
) -> None:
    deployment = world.deployment(DESK, wire=WireSettings(headers=before))
    deployment.evaluator()
    deployment.client.start(REPORT, {"subject": "first"}, workflow_id="wf")
    deployment.settle()

    deployment.crash()
    deployment.config = dataclasses.replace(deployment.config, wire=WireSettings(headers=after))
    deployment.restart()
    deployment.evaluator()
    deployment.worker({ASK: answer})
    deployment.settle()

    row = deployment.workflow("wf")
    assert row.status == COMPLETED
    assert row.outputs == {"answers": ["re: first", "re: second", "re: re: first"]}
    forms = {("afl" in dict(record.headers)) for record in deployment.records(deployment.topology.facet(ASK))}
    assert forms == {True, False}
