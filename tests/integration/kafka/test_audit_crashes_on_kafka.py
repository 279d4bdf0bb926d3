"""An audit killed at any step on a real broker: the file has every record once, whatever it was in the middle of."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.integration.kafka.test_crashes_on_kafka import AUDIT_POINTS, ORDERS, quick_first
from tests.worlds.deployment import Deployment
from tests.worlds.facets import facets_with_events
from tests.worlds.processes import DEADLINE_S
from tests.worlds.shop import SHOP, start_orders
from tests.worlds.world import Deployments

Places = Counter[tuple[str, int, int]]


def written(file: Path) -> Places:
    """Where each record of the file stands in the log; a line that is being written is left out."""
    text = file.read_text() if file.exists() else ""
    lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
    return Counter((line["topic"], line["partition"], line["offset"]) for line in lines)


def in_the_log(deployment: Deployment) -> Places:
    topology = deployment.topology
    topics = [topology.control(), topology.commands()]
    topics += [topology.facet(facet) for facet in facets_with_events(deployment.programs)]
    return Counter((r.topic, r.partition, r.offset) for topic in topics for r in deployment.records(topic))


@pytest.mark.parametrize("point", quick_first(AUDIT_POINTS, {"audit.written"}))
def test_an_audit_killed_at_any_step_is_followed_by_one_that_writes_each_record_once(
    point: str, deployments: Deployments, tmp_path: Path
) -> None:
    deployment = deployments(SHOP)
    file = tmp_path / "audit.jsonl"
    orders = start_orders(deployment, ORDERS)
    deployment.processes.evaluator()
    deployment.processes.agent()

    deployment.processes.audit(file, point).when_dead()
    deployment.processes.audit(file)
    deployment.processes.finish(orders)

    expected = in_the_log(deployment)
    eventually(lambda: written(file) == expected, DEADLINE_S, interval_s=0.1)
