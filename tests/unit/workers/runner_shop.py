"""Runners for tests: with an HTTP server on any free port, and programs that the store holds."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from typing import Any

from afl.core.clock import ManualClock
from afl.engine.model.entities import (
    FlowDefinition,
    FlowIdentity,
    RunnerDefinition,
    RunnerState,
    SourceText,
    TaskDefinition,
    TaskState,
    WorkflowDefinition,
)
from afl.runtime import RunnerConfig, RunnerService, ToolRegistry
from tests.unit.workers.workshop import PROGRAM, Workshop, pay


class Flows:
    """Flows by id."""

    def __init__(self, *flows: FlowDefinition) -> None:
        self._flows = {flow.uuid: flow for flow in flows}

    def get_by_id(self, flow_id: str) -> FlowDefinition | None:
        return self._flows.get(flow_id)


def flow_of(*sources: SourceText, flow_id: str = "f1") -> FlowDefinition:
    return FlowDefinition(flow_id, FlowIdentity("shop", "shop", flow_id), compiled_sources=list(sources))


SHOP_FLOW = flow_of(SourceText("shop.afl", PROGRAM))


def runner_of(
    shop: Workshop, registry: ToolRegistry | None = None, flows: Flows | None = None, **config: Any
) -> RunnerService:
    """Return a runner that answers Pay, unless another registry is given."""
    if registry is None:
        registry = ToolRegistry()
        registry.register("shop.Pay", pay)
    settings = RunnerConfig(poll_interval_ms=20, heartbeat_interval_ms=50, http_host="127.0.0.1", http_port=0)
    for name, value in config.items():
        setattr(settings, name, value)
    return RunnerService(
        shop.store, shop.evaluator, settings, registry, flows=flows or Flows(SHOP_FLOW), clock=shop.clock
    )


def execute_task(task_id: str = "t1", *, task_list: str = "default", **data: object) -> TaskDefinition:
    """Return a task that asks for a workflow of the flow."""
    return TaskDefinition(
        task_id, "afl:execute", "", "", "", "", task_list_name=task_list, data={"flow_id": "f1", **data}
    )


def run_record(run_id: str = "run-1") -> RunnerDefinition:
    """Return a run that waits to be started."""
    workflow = WorkflowDefinition("wf-1", "Buy", "shop", "", "f1", "", "1.0")
    return RunnerDefinition(run_id, workflow.uuid, workflow, state=RunnerState.CREATED)


def asked(port: int | None, path: str, method: str = "GET") -> tuple[int, Any, dict[str, str]]:
    """Code, document and headers of a runner's answer."""
    assert port is not None
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        body = response.read()
        return response.status, json.loads(body) if body else None, dict(response.getheaders())
    finally:
        connection.close()


def clock_at(now_ms: int = 1_000_000) -> ManualClock:
    return ManualClock(now_ms)


def answered_from_afar(shop: Workshop, receipt: str | None = "from afar") -> None:
    """Act as an agent in another language: claim, write the returns, and end the task, without a resume."""
    claimed = shop.store.claim_task(["shop.Pay"])
    assert claimed is not None
    if receipt is not None:
        step = shop.store.get_step(claimed.step_id)
        assert step is not None
        step.set_attribute("receipt", receipt, is_return=True)
        shop.store.save_step(step)
    claimed.state = TaskState.COMPLETED
    shop.store.save_task(claimed)
