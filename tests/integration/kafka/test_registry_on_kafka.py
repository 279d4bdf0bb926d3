"""An agent follows the registry in the store, on a real broker: facets that come, change and go while it runs."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from afl.core.handlers.registration import HandlerRegistration
from afl_stream.commands.stored_handlers import StoredHandlers
from afl_stream.kafka.groups import NEVER_S
from tests.eventually import eventually
from tests.worlds.deployment import Deployment, program_of
from tests.worlds.processes import DEADLINE_S
from tests.worlds.world import Deployments

PROGRAM = """
namespace shop {
    event facet Pay(order: Long) => (by: String)
    event facet Ship(order: Long) => (by: String)
    workflow Paid(order: Long) => (by: String) andThen {
        paid = Pay(order = $.order)
        yield Paid(by = paid.by)
    }
    workflow Shipped(order: Long) => (by: String) andThen {
        sent = Ship(order = $.order)
        yield Shipped(by = sent.by)
    }
}
"""
LATE = """
namespace late {
    event facet Pay(order: Long) => (by: String)
    workflow Paid(order: Long) => (by: String) andThen {
        paid = Pay(order = $.order)
        yield Paid(by = paid.by)
    }
}
"""
PAY, SHIP = "shop.Pay", "shop.Ship"
#: A new facet's first record is to be seen in this time, with librdkafka's settings as they are shipped.
SEEN_WITHIN_S = 15.0
HANDLER = """
import pathlib, threading
CALLS = pathlib.Path(__file__).with_suffix(".calls")
lock = threading.Lock()
def handle(payload):
    with lock, CALLS.open("a") as calls:
        calls.write(f"{payload['_facet_name']} {payload['order']}\\n")
    threading.Event().wait(PACE_S)
    return {"by": "NAME " + payload.get("_handler_metadata", {}).get("region", "")}
"""


class Registry:
    """Writes handler modules and registers them in the store of a deployment."""

    def __init__(self, deployment: Deployment, folder: Path) -> None:
        self._stored = StoredHandlers(deployment.store)
        self._folder = folder

    def put(self, facet: str, name: str, *, pace_s: float = 0.0, region: str | None = None) -> None:
        path = self._folder / f"{facet.replace('.', '_')}.py"
        path.write_text(HANDLER.replace("NAME", name).replace("PACE_S", str(pace_s)))
        self._stored.save(
            HandlerRegistration(
                facet_name=facet,
                module_uri=path.as_uri(),
                checksum=name,
                metadata={} if region is None else {"region": region},
            )
        )

    def take(self, facet: str) -> None:
        assert self._stored.remove(facet)

    def calls(self, facet: str) -> list[str]:
        path = self._folder / f"{facet.replace('.', '_')}.calls"
        return path.read_text().splitlines() if path.exists() else []


def start(deployment: Deployment, workflow: str, *orders: int) -> list[str]:
    name = workflow.replace(".", "-")
    return [deployment.client.start(workflow, {"order": n}, workflow_id=f"{name}-{n}") for n in orders]


def by(deployment: Deployment, workflow_ids: list[str]) -> list[str]:
    outputs = [deployment.workflow(workflow_id).outputs for workflow_id in workflow_ids]
    return [str(found["by"]).strip() for found in outputs if found is not None]


def committed(deployment: Deployment, facet: str, group: str | None = None) -> int:
    topic = deployment.topology.facet(facet)
    offsets = deployment.committed(group or deployment.config.agent_group(facet), [topic])
    return sum(offset.offset for offset in offsets.values())


def has_left(deployment: Deployment, facet: str) -> bool:
    group = deployment.config.agent_group(facet)
    return (
        not deployment.kafka.admin.describe_consumer_groups([group], request_timeout=NEVER_S)[group].result(20).members
    )


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.long)])
def test_registrations_become_subscriptions_while_the_agent_runs(
    protocol: str, deployments: Deployments, tmp_path: Path
) -> None:
    deployment = deployments(PROGRAM, protocol=protocol)
    registry = Registry(deployment, tmp_path)
    deployment.processes.evaluator()
    agent = deployment.processes.registry_agent().when_ready()
    # Nothing is registered: the events wait.
    first = start(deployment, "shop.Paid", *range(5))
    registry.put(PAY, "one", region="eu")
    deployment.processes.finish(first)
    assert by(deployment, first) == ["one eu"] * 5

    registry.put(PAY, "two")
    registry.put(SHIP, "ships")
    agent.when_it_says(f"handles {PAY}, {SHIP}")
    changed = [*start(deployment, "shop.Paid", *range(5, 10)), *start(deployment, "shop.Shipped", *range(5))]
    deployment.processes.finish(changed)
    assert by(deployment, changed) == ["two"] * 5 + ["ships"] * 5

    registry.take(PAY)
    eventually(lambda: has_left(deployment, PAY), DEADLINE_S, interval_s=0.1)
    assert committed(deployment, PAY) == 10
    waiting = start(deployment, "shop.Paid", *range(10, 15))
    others = start(deployment, "shop.Shipped", *range(5, 10))
    deployment.processes.finish(others)
    assert not any(map(deployment.processes.has_ended, waiting))

    registry.put(PAY, "three")
    deployment.processes.finish(waiting)
    assert by(deployment, waiting) == ["three"] * 5
    # Each event was handled once, those from before the facet was left among them.
    assert sorted(registry.calls(PAY)) == sorted(f"{PAY} {n}" for n in range(15))
    assert sorted(registry.calls(SHIP)) == sorted(f"{SHIP} {n}" for n in range(10))
    assert agent.stop()["answered"] == 25


@pytest.mark.long
def test_one_group_for_all_goes_over_to_other_topics(deployments: Deployments, tmp_path: Path) -> None:
    deployment = deployments(PROGRAM)
    group = deployment.agent_group
    registry = Registry(deployment, tmp_path)
    registry.put(PAY, "pays", pace_s=0.05)
    deployment.processes.evaluator()
    agent = deployment.processes.registry_agent(group=group).when_ready()
    paid = start(deployment, "shop.Paid", *range(40))
    eventually(lambda: len(registry.calls(PAY)) > 3, DEADLINE_S)

    # In the middle of it the facet goes, and another comes.
    registry.take(PAY)
    registry.put(SHIP, "ships")
    agent.when_it_says("unsubscribed from ")
    assert committed(deployment, PAY, group) == len(registry.calls(PAY)) < 40
    shipped = start(deployment, "shop.Shipped", *range(5))
    deployment.processes.finish(shipped)

    registry.put(PAY, "again")
    deployment.processes.finish(paid)
    assert sorted(registry.calls(PAY)) == sorted(f"{PAY} {n}" for n in range(40))
    assert agent.stop()["answered"] == 45


@pytest.mark.long
def test_a_facet_that_is_deployed_later_is_seen_from_its_first_record(deployments: Deployments, tmp_path: Path) -> None:
    # Without the setting that the other tests look for new topics with.
    deployment = deployments(PROGRAM, settings={"AFL_KAFKA_TOPIC_METADATA_REFRESH_INTERVAL_MS": "300000"})
    registry = Registry(deployment, tmp_path)
    registry.put("Pay", "short")
    registry.put(SHIP, "never")
    deployment.processes.evaluator().when_ready()
    agent = deployment.processes.registry_agent("late.*").when_ready()

    program = program_of(LATE)
    deployment.client.apply_topics([program])
    deployment.client.deploy(program)
    began_s = time.monotonic()
    late = start(deployment, "late.Paid", 1)
    not_ours = start(deployment, "shop.Shipped", 1)
    deployment.processes.finish(late)

    assert time.monotonic() - began_s < SEEN_WITHIN_S
    assert by(deployment, late) == ["short"]
    assert not any(map(deployment.processes.has_ended, not_ours))
    assert agent.stop()["answered"] == 1


@pytest.mark.parametrize(
    "at",
    [
        "facet.left",
        pytest.param("agent.committed", marks=pytest.mark.long),
        pytest.param("agent.acknowledged", marks=pytest.mark.long),
    ],
)
def test_an_agent_that_is_killed_while_it_leaves_a_facet_loses_nothing(
    at: str, deployments: Deployments, tmp_path: Path
) -> None:
    deployment = deployments(PROGRAM)
    registry = Registry(deployment, tmp_path)
    registry.put(PAY, "one", pace_s=0.05)
    deployment.processes.evaluator()
    doomed = deployment.processes.registry_agent(at=at).when_ready()
    paid = start(deployment, "shop.Paid", *range(20))
    # It commits for the first time before it calls the handler.
    eventually(lambda: doomed.has_died() or bool(registry.calls(PAY)), DEADLINE_S)

    registry.take(PAY)
    doomed.when_dead()
    registry.put(PAY, "two")
    heir = deployment.processes.registry_agent()
    deployment.processes.finish(paid)

    assert {call.split()[1] for call in registry.calls(PAY)} == {str(n) for n in range(20)}
    answered = json.dumps(heir.stop())
    assert committed(deployment, PAY) == 20, answered
    assert deployment.dead_letters(deployment.topology.facet(PAY)) == []
