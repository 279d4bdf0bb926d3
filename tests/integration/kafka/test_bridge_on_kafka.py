"""Bridges as processes on a broker: killed between any two steps, followed by another one, and two at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from afl.engine.model.history import HistoryKind
from afl.engine.model.store import COMPLETED
from afl_stream.bridge import Bridge
from tests.eventually import eventually
from tests.integration import bridge_declarations
from tests.integration.bridge_declarations import ORDERS, runs_file, topics_of
from tests.tiers import some_now
from tests.worlds.deployment import Deployment, unique_ids
from tests.worlds.processes import DEADLINE_S, Party
from tests.worlds.world import Deployments

MODULE = bridge_declarations.__name__


def prepared(deployments: Deployments) -> Deployment:
    deployment = deployments(ORDERS)
    bridge = Bridge(deployment.config)
    bridge_declarations.declare(bridge)
    bridge.apply_topics(deployment.transport)
    deployment.processes.evaluator()
    return deployment


def bridge_process(deployment: Deployment, at: str = "", passes: int = 1) -> Party:
    return deployment.processes.bridge(MODULE, at=at, passes=passes)


def start(deployment: Deployment, *orders: str) -> list[str]:
    return [deployment.client.start("orders.Order", {"order": order}, workflow_id=f"run-{order}") for order in orders]


def outputs(deployment: Deployment, workflow_id: str) -> Mapping[str, Any]:
    row = deployment.workflow(workflow_id)
    assert (row.status, row.error) == (COMPLETED, None)
    assert row.outputs is not None
    return row.outputs


def assert_done_once(deployment: Deployment, *orders: str) -> None:
    announced, _, _ = topics_of(deployment.config.prefix)
    ids = unique_ids(deployment.records(announced))
    assert len(ids) == len(orders)
    for order in orders:
        done = outputs(deployment, f"run-{order}")
        assert done["event_id"] in ids
        assert done["approved"] == {"order": order, "verdict": done["verdict"]}
        raised = [row for row in deployment.store.history(f"run-{order}") if row.kind is HistoryKind.EXTERNAL_EVENT]
        assert len(raised) == 1


def runs(deployment: Deployment) -> Counter[str]:
    lines = runs_file(deployment.config.store_path.parent).read_text().splitlines()
    return Counter(line.split()[0] for line in lines)


@pytest.mark.parametrize("point", some_now(["bridge.run", "bridge.raised", "bridge.published", "bridge.read"], 2))
def test_a_bridge_that_is_killed_is_followed_by_one_that_finishes(deployments: Deployments, point: str) -> None:
    deployment = prepared(deployments)
    doomed = bridge_process(deployment, point)
    start(deployment, "tea")
    doomed.when_dead()

    bridge_process(deployment)
    deployment.processes.finish(["run-tea"])

    assert_done_once(deployment, "tea")
    assert outputs(deployment, "run-tea")["verdict"] == "tea is fine"
    assert runs(deployment) == {"read": 1, "judge": 1}


@pytest.mark.parametrize("point", some_now(["bridge.answered", "bridge.asked"], 1))
def test_a_question_and_its_reply_outlive_the_process_that_asked(deployments: Deployments, point: str) -> None:
    deployment = prepared(deployments)
    _, questions, replies = topics_of(deployment.config.prefix)
    doomed = bridge_process(deployment, point)
    start(deployment, "large")
    if point == "bridge.asked":
        doomed.when_dead()
        doomed = bridge_process(deployment)
    eventually(lambda: deployment.records(questions), DEADLINE_S, interval_s=0.1)
    (request_id,) = {record.key for record in deployment.records(questions)}

    deployment.put(replies, b'"by half"', key=request_id)
    if point == "bridge.answered":
        doomed.when_dead()
        bridge_process(deployment)
    deployment.processes.finish(["run-large"])

    assert_done_once(deployment, "large")
    assert outputs(deployment, "run-large")["verdict"] == "by half"
    assert runs(deployment) == {"read": 1, "judge": 1, "settle": 1}


def test_two_bridges_share_the_work(deployments: Deployments) -> None:
    deployment = prepared(deployments)
    bridges = [bridge_process(deployment).when_ready() for _ in range(2)]
    for facet in ("orders.Review", "orders.Announce"):
        deployment.processes.await_members(deployment.config.agent_group(facet), 2)
    orders = [f"tea-{number}" for number in range(40)]

    started = start(deployment, *orders)
    deployment.processes.finish(started)

    counts = [bridge.stop() for bridge in bridges]
    assert_done_once(deployment, *orders)
    assert sum(each["published"] for each in counts) == len(orders)
    assert all(each["published"] for each in counts)
    assert runs(deployment) == {"read": len(orders), "judge": len(orders)}
