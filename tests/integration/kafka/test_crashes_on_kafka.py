"""SIGKILL at any step of an evaluator or an agent on a real broker: after a restart all is done, and each step once."""

import re
from collections.abc import Collection
from pathlib import Path

import pytest

import afl
import afl_stream
from afl_stream.embedded.transport import FAULT_POINTS
from tests.eventually import eventually
from tests.worlds.delivery_checks import assert_delivered, assert_no_offset_past_its_effect
from tests.worlds.deployment import Deployment
from tests.worlds.shop import SHOP, assert_one_answer_each, start_orders
from tests.worlds.world import Deployments

ORDERS = 2

#: Points that are reached only by who finds something: this crash before leaves it behind.
LEFT_BEHIND_BY = {"outbox.lanes_published": "control.persisted"}
#: Points that a short run passes once: taking partitions over happens when one joins.
PASSED_ONCE = {"outbox.lanes_published", "control.lanes_published", "control.positions_read"}


def probed() -> set[str]:
    """Every point of the sources at which a process can be made to die."""
    return {
        name
        for package in (afl_stream, afl)
        for source in Path(package.__path__[0]).rglob("*.py")
        for name in re.findall(r'probe\(\s*"([a-z_.]+)"', source.read_text())
    }


def points_of(*families: str) -> list[str]:
    return sorted(name for name in probed() if name.partition(".")[0] in families)


#: Of a commit on a MongoDB server without transactions.
DOCUMENT_POINTS = {"store.applied"}
#: Only large batches are committed beside the next one: tests/scenarios/test_commits_beside.py crashes there, here too.
BESIDE_POINTS = {"control.ahead"}
EVALUATOR_POINTS = [
    point for point in points_of("control", "outbox", "store") if point not in {*DOCUMENT_POINTS, *BESIDE_POINTS}
]
AGENT_POINTS = points_of("agent")
AUDIT_POINTS = points_of("audit")
SCRIPT_POINTS = points_of("scripts")
WAIT_POINTS = points_of("external", "timers")
#: These are reached by a start that finds events in the store.
EARLY_POINTS = {"external.found", "external.adopted"}
#: Of pollers and runners, which are not on Kafka, of purging, of claiming a deployment for a store, of schedules, of
#: events that are published again, of dead letters, of keys, of gateways, of runs that move to another version: tests
#: of their own crash there.
ELSEWHERE = points_of(
    *("task", "execute", "claude", "purge", "claim", "schedules", "republish", "dividing"),
    *("driver", "replay", "drop", "keys", "gateway", "migrate"),
)
#: Of event-driven workflows, subscriptions and bridges: their own tests crash there, on each transport and store.
PUBSUB_POINTS = points_of(
    *("run", "pubsub", "mongo_events", "state_topic", "bridge", "subscription", "republishing", "unreadable")
)
#: test_registry_on_kafka.py crashes there.
REGISTRY_POINTS = points_of("facet")

STAMPS = """
namespace stamps {
  workflow Stamp(n: Long) => (text: String) script {
    result["size"] = "big" if params["n"] > 1 else "small"
  } andThen script {
    result["text"] = "%d is %s" % (params["n"], params["size"])
  }
}
"""


WAITS = """
namespace waits {
  workflow Wait(round: Long = 1, heard: String = "") => (heard: String, round: Long) andThen when {
    case $.round > 1 => {
      yield Wait(heard = $.heard, round = $.round)
    }
    case _ => {
      early = afl.WaitForEvent(name = "word")
      late = afl.WaitForEvent(name = "word")
      pause = afl.Sleep(ms = 500)
      inputs = Inputs(heard = early.data ++ " " ++ late.data, woke_at = pause.woke_at)
      next = afl.ContinueAsNew(inputs = #{"round": 2, "heard": inputs.heard})
    }
  }
  facet Inputs(heard: String, woke_at: Long)
}
"""


def test_every_point_of_the_sources_belongs_to_a_party_here_or_to_the_embedded_transport() -> None:
    of_parties = {*EVALUATOR_POINTS, *SCRIPT_POINTS, *WAIT_POINTS, *AGENT_POINTS, *AUDIT_POINTS, *REGISTRY_POINTS}

    assert probed() == {*of_parties, *DOCUMENT_POINTS, *BESIDE_POINTS, *ELSEWHERE, *PUBSUB_POINTS, *FAULT_POINTS}


def assert_done(deployment: Deployment, orders: list[str]) -> None:
    deployment.processes.finish(orders)
    assert_delivered(deployment, orders)
    for order in orders:
        assert_one_answer_each(deployment, order)
    assert_no_offset_past_its_effect(deployment)


def kill_an_evaluator(deployment: Deployment, point: str, passes: int) -> None:
    """Have evaluators work until one dies at the point; agents are at work."""
    if point in LEFT_BEHIND_BY:
        deployment.processes.evaluator(LEFT_BEHIND_BY[point]).when_dead()
    deployment.processes.evaluator(point, passes).when_dead()


def an_evaluator_dies(deployment: Deployment, point: str, passes: int = 1) -> None:
    """Kill an evaluator, start another, and look whether all is done."""
    orders = start_orders(deployment, ORDERS)
    deployment.processes.agent()

    kill_an_evaluator(deployment, point, passes)
    assert_no_offset_past_its_effect(deployment)
    deployment.processes.evaluator()

    assert_done(deployment, orders)


#: What a short run has time for: before and after the two moments that count, the commit and the acknowledgement.
QUICK_POINTS = {"control.applied", "control.persisted", "outbox.published", "agent.handled", "agent.acknowledged"}


def quick_first(points: list[str], quick: Collection[str] = frozenset(QUICK_POINTS)) -> list[object]:
    """All of them, those that are not quick in the long run only."""
    return [point if point in quick else pytest.param(point, marks=pytest.mark.long) for point in points]


@pytest.mark.parametrize("point", quick_first(EVALUATOR_POINTS))
def test_an_evaluator_killed_at_any_step_is_followed_by_one_that_loses_nothing(
    point: str, deployments: Deployments
) -> None:
    an_evaluator_dies(deployments(SHOP), point)


@pytest.mark.long
@pytest.mark.parametrize("point", [point for point in EVALUATOR_POINTS if point not in PASSED_ONCE])
def test_an_evaluator_killed_at_its_third_pass_is_followed_by_one_that_loses_nothing(
    point: str, deployments: Deployments
) -> None:
    an_evaluator_dies(deployments(SHOP), point, passes=3)


@pytest.mark.parametrize("point", quick_first(SCRIPT_POINTS, {"scripts.submitted"}))
def test_an_evaluator_killed_while_a_script_runs_is_followed_by_one_that_runs_it_again(
    point: str, deployments: Deployments
) -> None:
    deployment = deployments(STAMPS, settings={"AFL_EVALUATOR_ALLOW_SCRIPTS": "true"})
    run = deployment.client.start("stamps.Stamp", {"n": 3}, workflow_id="stamp-1")

    deployment.processes.evaluator(point).when_dead()
    assert_no_offset_past_its_effect(deployment)
    deployment.processes.evaluator()
    deployment.processes.finish([run])

    row = deployment.store.load_workflow(run)
    assert row is not None
    assert (row.error, row.outputs) == (None, {"text": "3 is big"})


@pytest.mark.parametrize("point", quick_first(WAIT_POINTS, {"external.given", "external.continued", "timers.fired"}))
def test_an_evaluator_killed_while_it_handles_events_and_times_is_followed_by_one_that_has_each_once(
    point: str, deployments: Deployments
) -> None:
    deployment = deployments(WAITS)
    # One is raised before its workflow exists, and both twice.
    for _ in range(2):
        deployment.client.raise_event("wait-1", "word", "first", id="e-1")
    if point in EARLY_POINTS:
        first = deployment.processes.evaluator()
        eventually(lambda: deployment.store.known_events([("wait-1", "e-1")]))
        first.stop()
    run = deployment.client.start("waits.Wait", workflow_id="wait-1")
    for _ in range(2):
        deployment.client.raise_event("wait-1", "word", "second", id="e-2")

    deployment.processes.evaluator(point).when_dead()
    assert_no_offset_past_its_effect(deployment)
    deployment.processes.evaluator()
    deployment.processes.finish([run])

    row = deployment.store.load_workflow(run)
    assert row is not None
    assert (row.error, row.outputs) == (None, {"heard": "first second", "round": 2})
    assert (row.execution_number, row.pending_events, deployment.store.timers_of(run)) == (2, 0, [])


def kill_an_agent(deployment: Deployment, point: str, passes: int) -> None:
    deployment.processes.evaluator()
    deployment.processes.agent(point, passes).when_dead()


@pytest.mark.parametrize("point", quick_first(AGENT_POINTS))
def test_an_agent_killed_at_any_step_is_followed_by_one_that_answers_every_event(
    point: str, deployments: Deployments
) -> None:
    deployment = deployments(SHOP)
    orders = start_orders(deployment, ORDERS)

    kill_an_agent(deployment, point, passes=1)
    assert_no_offset_past_its_effect(deployment)
    deployment.processes.agent()

    assert_done(deployment, orders)


@pytest.mark.long
@pytest.mark.parametrize("passes", [2, 4])
@pytest.mark.parametrize("point", ["agent.handled", "agent.produced", "agent.acknowledged"])
def test_an_agent_killed_at_a_later_event_is_followed_by_one_that_answers_every_event(
    point: str, passes: int, deployments: Deployments
) -> None:
    deployment = deployments(SHOP)
    orders = start_orders(deployment, ORDERS)

    kill_an_agent(deployment, point, passes)
    assert_no_offset_past_its_effect(deployment)
    deployment.processes.agent()

    assert_done(deployment, orders)


@pytest.mark.long
def test_evaluator_and_agent_killed_under_the_consumer_protocol_lose_nothing(deployments: Deployments) -> None:
    deployment = deployments(SHOP, protocol="consumer")
    orders = start_orders(deployment, ORDERS)

    deployment.processes.evaluator("control.persisted").when_dead()
    deployment.processes.evaluator()
    deployment.processes.agent("agent.produced").when_dead()
    assert_no_offset_past_its_effect(deployment)
    deployment.processes.agent()

    assert_done(deployment, orders)
