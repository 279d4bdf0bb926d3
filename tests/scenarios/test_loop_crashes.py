"""A crash at any step of the loop, followed by a restart: every workflow completes, every step once, nothing lost."""

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

import afl
import afl_stream
from afl_stream.embedded.transport import FAULT_POINTS, Crash, Faults
from tests.worlds.delivery_checks import assert_delivered, assert_no_offset_past_its_effect
from tests.worlds.deployment import Deployment
from tests.worlds.embedded_cluster import EmbeddedCluster
from tests.worlds.shop import SHOP, Handlers, assert_one_answer_each, start_orders
from tests.worlds.world import World
from tests.worlds.worlds import (
    EMBEDDED_DURABLE,
    KAFKA,
    MEMORY,
    MONGO,
    SQLITE,
    STANDALONE_MONGO_QUICK,
    in_worlds,
    with_values,
)

ORDERS = 2

#: Where each party can be crashed, and how often a point is passed before a later crash there.
EVALUATOR_POINTS = {
    "control.read": 2,
    "control.applied": 2,
    "control.persisted": 2,
    "control.published": 2,
    "control.committed": 2,
    "control.lanes_published": 1,
    "control.positions_read": 1,
    "outbox.before_publish": 2,
    "outbox.published": 2,
    "outbox.lanes_published": 1,
    "store.compared": 2,
    "store.written": 2,
    "store.committed": 2,
}
AGENT_POINTS = {
    "agent.polled": 1,
    "agent.started": 2,
    "agent.handled": 3,
    "agent.produced": 3,
    "agent.acknowledged": 3,
    "agent.committed": 2,
}
TRANSPORT_POINTS = {
    "produce.before_append": 4,
    "produce.after_append_before_ack": 4,
    "poll.before_deliver": 2,
    "commit.before": 2,
    "commit.after": 2,
    "rebalance.before_revoke": 1,
    "rebalance.after_revoke": 1,
    "rebalance.before_assign": 1,
    "close.before_leave": 1,
}
#: Of the broker itself: the process that writes the file dies.
BROKER_POINTS = {"log.before_write": 4, "log.after_write": 4}


#: A commit by transaction, and one by commit document, have different steps.
TRANSACTION_POINTS = {"store.written", "store.committed"}
DOCUMENT_POINTS = {"store.compared", "store.written", "store.applied", "store.committed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Who crashes, where, and after how many passes."""

    party: str
    point: str
    passes: int

    def __str__(self) -> str:
        return f"{self.party}-{self.point}-{self.passes}"


def places() -> list[Place]:
    parties = (
        ("evaluator", EVALUATOR_POINTS | TRANSPORT_POINTS),
        ("agent", AGENT_POINTS | TRANSPORT_POINTS),
        ("broker", BROKER_POINTS),
    )
    return [
        Place(party=party, point=point, passes=passes)
        for party, points in parties
        for point, later in points.items()
        for passes in (0, later)
    ]


class Life:
    """One process with an evaluator and an agent in it, from its start to its clean end or its crash."""

    def __init__(self, deployment: Deployment, handlers: Handlers, faults: dict[str, Faults]) -> None:
        self._deployment = deployment
        self._handlers = handlers
        self._faults = faults

    def live(self) -> None:
        deployment = self._deployment
        evaluator = deployment.evaluator(self._faults["evaluator"])
        worker = deployment.worker(self._handlers(), self._faults["agent"])
        # The second round is for a first read of the agent, before others join it.
        deployment.round()
        deployment.round()
        for _ in range(2):
            # Everybody gives partitions up and takes them again, while outbox rows wait to be deleted.
            deployment.rebalance()
            guest = deployment.worker(self._handlers())
            guest.join()
            deployment.round()
            deployment.remove(guest, killed=False)
            worker.turn()
        deployment.settle()
        deployment.remove(worker, killed=False)
        deployment.remove(evaluator, killed=False)


def faults_of(deployment: Deployment) -> dict[str, Faults]:
    """Return the faults of each party, and of the broker where it is in the test's hands."""
    faults = {"evaluator": Faults(), "agent": Faults()}
    if isinstance(deployment.cluster, EmbeddedCluster):
        faults["broker"] = deployment.broker_faults
    return faults


def faults_at(deployment: Deployment, place: Place) -> dict[str, Faults]:
    faults = faults_of(deployment)
    faults[place.party].fail_at(place.point, passes=place.passes)
    return faults


#: What a short run has time for on servers: around the commit.
QUICK_ON_SERVERS = {*DOCUMENT_POINTS, "control.applied", "control.persisted"}


def is_quick_on_servers(place: object) -> bool:
    assert isinstance(place, Place)
    return place.point in QUICK_ON_SERVERS and not place.passes


def places_of_store(points: set[str]) -> list[Place]:
    """Where the loop can crash, on a store that has these points."""
    elsewhere = [place for place in places() if not place.point.startswith("store.")]
    own = [Place(party="evaluator", point=point, passes=passes) for point in sorted(points) for passes in (0, 2)]
    return [*own, *elsewhere]


#: On Kafka the parties can be crashed, and the transport and the brokers cannot. How many batches there are is the
#: broker's matter, so the first pass it is; nothing is left in a lane there, where test_crashes_on_kafka.py leaves it.
PLACES_ON_KAFKA = [
    place
    for place in places()
    if place.point in {*EVALUATOR_POINTS, *AGENT_POINTS} - {"outbox.lanes_published"} and not place.passes
]


@pytest.mark.parametrize(
    ("world", "place"),
    [
        *with_values(SQLITE, places()),
        *with_values(MONGO, places_of_store(TRANSACTION_POINTS), is_quick_on_servers),
        *with_values(STANDALONE_MONGO_QUICK, places_of_store(DOCUMENT_POINTS), is_quick_on_servers),
        *with_values(KAFKA, PLACES_ON_KAFKA, is_quick_on_servers),
    ],
    indirect=["world"],
    ids=str,
)
def test_a_crash_anywhere_and_a_restart_lose_nothing_and_do_nothing_twice(world: World, place: Place) -> None:
    crash_and_continue(world.deployment(SHOP), place)


def crash_and_continue(deployment: Deployment, place: Place) -> None:
    """Crash at the place, restart, and check what then must be true."""
    handlers = Handlers()
    orders = start_orders(deployment, ORDERS)

    with pytest.raises(Crash, match=place.point):
        Life(deployment, handlers, faults_at(deployment, place)).live()
    deployment.crash_and_restart()
    assert_no_offset_past_its_effect(deployment)
    Life(deployment, handlers, faults_of(deployment)).live()

    assert_delivered(deployment, orders)
    for order in orders:
        assert_one_answer_each(deployment, order)
    assert_no_offset_past_its_effect(deployment)
    deployment.crash()


#: The store in memory has no crash points: each of its commits is whole, or is not.
LONELY_DEATHS = [
    point
    for point in (*EVALUATOR_POINTS, *TRANSPORT_POINTS)
    if not point.startswith(("store.", "close.", "rebalance."))
]


@pytest.mark.parametrize(
    ("world", "point"),
    [
        *with_values(MEMORY, LONELY_DEATHS),
        *with_values(SQLITE, LONELY_DEATHS),
        *with_values(
            KAFKA, [point for point in LONELY_DEATHS if point in EVALUATOR_POINTS], QUICK_ON_SERVERS.__contains__
        ),
    ],
    indirect=["world"],
)
def test_an_evaluator_that_dies_alone_is_followed_by_one_that_continues(world: World, point: str) -> None:
    # Broker and agents live on, as they do on Kafka: what was handed to them before the crash counts.
    deployment, handlers = world.deployment(SHOP), Handlers()
    orders = start_orders(deployment, ORDERS)
    deployment.worker(handlers())
    crashes = 0
    # The first leaves an outbox behind that the next finds.
    for place, passes in [("control.persisted", 0), *((point, passes) for passes in range(4))]:
        evaluator = deployment.evaluator()
        evaluator.faults.fail_at(place, passes=passes)
        try:
            deployment.settle()
        except Crash:
            crashes += 1
            deployment.remove(evaluator, killed=True)
            assert_no_offset_past_its_effect(deployment)
        else:
            deployment.remove(evaluator, killed=False)
    deployment.evaluator()
    deployment.settle()

    assert crashes > 1
    assert_delivered(deployment, orders)
    for order in orders:
        assert_one_answer_each(deployment, order)


@in_worlds(EMBEDDED_DURABLE)
@pytest.mark.parametrize("seed", range(8))
def test_one_crash_after_another_loses_nothing_either(world: World, seed: int) -> None:
    random = Random(seed)
    everywhere = list(places())
    deployment, handlers = world.deployment(SHOP), Handlers()
    orders = start_orders(deployment, ORDERS)

    for _ in range(5):
        place = random.choice(everywhere)
        with suppress(Crash):
            Life(deployment, handlers, faults_at(deployment, place)).live()
        deployment.crash_and_restart()
        assert_no_offset_past_its_effect(deployment)
    Life(deployment, handlers, faults_of(deployment)).live()

    assert_delivered(deployment, orders)
    for order in orders:
        assert_one_answer_each(deployment, order)
    deployment.crash()


def test_every_crash_point_of_the_sources_is_crashed_at_here_or_in_another_test() -> None:
    probed: set[str] = set()
    for package in (afl_stream, afl):
        for source in Path(package.__path__[0]).rglob("*.py"):
            probed |= set(re.findall(r'probe\(\s*"([a-z_.]+)"', source.read_text()))
    here = {*EVALUATOR_POINTS, *AGENT_POINTS, *TRANSPORT_POINTS, *BROKER_POINTS}
    others = "".join(path.read_text() for path in Path(__file__).parents[1].rglob("*.py") if path != Path(__file__))

    # Nothing changes at a look: it may go unanswered, and is not a crash point here.
    assert set(FAULT_POINTS) - {"view.before_answer"} == set(TRANSPORT_POINTS) | set(BROKER_POINTS)
    assert here <= probed
    # Of parties and of work that this loop does not have.
    assert [point for point in sorted(probed - here) if f'"{point}"' not in others] == []
