"""A bridge that dies between two steps is followed by one that finishes, and what comes twice counts once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from afl.engine.model.history import HistoryKind, HistoryRow
from afl.engine.model.store import COMPLETED
from afl_stream.bridge import Arrival, Bridge
from afl_stream.pubsub.event_stores.sqlite import SQLiteEventStore
from tests.eventually import eventually
from tests.scenarios.bridge_lives import BridgeLife, Newsroom
from tests.worlds.deployment import Deployment, unique_ids
from tests.worlds.world import World
from tests.worlds.worlds import MEMORY, in_worlds

RUN: Final = "run-1"
ORDERS: Final = """
namespace orders {
  event facet Announce(order: String) => (event_id: String)
  workflow Order(order: String) => (event_id: String, approved: Json) andThen {
    told = Announce(order = $.order)
    answer = afl.WaitForEvent(name = "approved")
    yield Order(event_id = told.event_id, approved = answer.data)
  }
}
"""


def topic(deployment: Deployment, name: str) -> str:
    return f"{deployment.config.prefix}{name}"


def external_events(deployment: Deployment) -> Iterable[HistoryRow]:
    return [row for row in deployment.store.history(RUN) if row.kind is HistoryKind.EXTERNAL_EVENT]


# --- publishing, and raising events ----------------------------------------------------------------------------------


class Announcing:
    """Publishes an order, and takes whatever is announced for its approval."""

    def __init__(self, world: World) -> None:
        self.deployment = world.deployment(ORDERS)
        self.announced = topic(self.deployment, "announced")

    def declare(self, bridge: Bridge) -> None:
        bridge.publish("orders.Announce", to=self.announced, request_id="order")
        bridge.raise_events(self.announced, name="approved", workflow_id=_run_of)

    def start(self) -> None:
        self.deployment.client.start("orders.Order", {"order": "7"}, workflow_id=RUN)

    def assert_done_once(self) -> None:
        assert len(unique_ids(self.deployment.records(self.announced))) == 1
        row = self.deployment.workflow(RUN)
        assert (row.status, row.error) == (COMPLETED, None)
        (event,) = external_events(self.deployment)
        assert row.outputs is not None
        assert row.outputs["approved"] == event.value == {"order": "7"}


def _run_of(arrival: Arrival) -> str | None:
    return arrival.header("afl_workflow_id")


def test_a_crash_after_the_acknowledgement_publishes_the_same_event_again(world: World) -> None:
    announcing = Announcing(world)
    first = BridgeLife(announcing.deployment, announcing.declare)
    first.dies_at("bridge.published")
    announcing.start()
    first.settle_until_it_dies()

    second = BridgeLife(announcing.deployment, announcing.declare)
    second.settle()
    eventually(lambda: first.bridge.counts.raised + second.bridge.counts.raised >= 2, 60)
    second.settle()
    second.end()

    assert len(announcing.deployment.records(announcing.announced)) == 2
    announcing.assert_done_once()


@pytest.mark.parametrize("point", ["bridge.read", "bridge.raised"])
def test_a_crash_while_an_event_is_raised_raises_it_once(world: World, point: str) -> None:
    announcing = Announcing(world)
    first = BridgeLife(announcing.deployment, announcing.declare)
    first.dies_at(point)
    announcing.start()
    first.settle()
    first.dies()

    second = BridgeLife(announcing.deployment, announcing.declare)
    eventually(lambda: second.bridge.counts.raised == 1, 60)
    second.settle()
    second.end()

    announcing.assert_done_once()


@in_worlds([MEMORY])
def test_a_crash_after_a_dead_letter_makes_the_same_one_again(world: World) -> None:
    announcing = Announcing(world)
    deployment = announcing.deployment
    first = BridgeLife(deployment, announcing.declare)
    first.dies_at("bridge.dead_lettered")
    deployment.put(announcing.announced, b"{", key=b"7")
    first.dies()

    second = BridgeLife(deployment, announcing.declare)
    eventually(lambda: second.bridge.counts.dead_lettered == 1)
    second.end()

    letters = deployment.dead_letters(announcing.announced)
    assert [(record.key, record.value) for record in letters] == [(b"7", b"{")] * 2
    assert letters[0].headers[:3] == letters[1].headers[:3]


@in_worlds([MEMORY])
def test_a_record_that_its_sender_repeats_counts_once(world: World) -> None:
    announcing = Announcing(world)
    deployment = announcing.deployment
    life = BridgeLife(deployment, announcing.declare)
    headers = (("ce_id", b"e1"), ("ce_source", b"/shop"), ("afl_workflow_id", RUN.encode()))
    for _ in range(2):
        deployment.put(announcing.announced, b"1", key=b"7", headers=headers)
    # The same id of another sender is another event.
    deployment.put(announcing.announced, b"2", key=b"7", headers=(*headers, ("ce_source", b"/desk")))
    eventually(lambda: life.bridge.counts.raised == 3)
    announcing.start()
    life.settle()
    life.end()

    assert sorted(event.value for event in external_events(deployment) if event.value in (1, 2)) == [1, 2]


# --- a workflow as an agent ------------------------------------------------------------------------------------------

REVIEWS: Final = """
namespace news {
  event facet Review(text: String) => (verdict: String, words: Long)
  workflow Publish(text: String) => (verdict: String, words: Long) andThen {
    r = Review(text = $.text)
    yield Publish(verdict = r.verdict, words = r.words)
  }
}
"""
SHORT, LONG = "a short text", "a text of many words"


class Reviewing:
    """A newsroom that answers a facet. Each life opens the store of its events anew."""

    def __init__(self, world: World, folder: Path) -> None:
        self.deployment = world.deployment(REVIEWS)
        self.questions, self.replies = (topic(self.deployment, name) for name in ("questions", "replies"))
        self._path = folder / "requests.sqlite3"
        self.rooms: list[Newsroom] = []

    def live(self) -> BridgeLife:
        return BridgeLife(self.deployment, self._declare)

    def _declare(self, bridge: Bridge) -> None:
        room = Newsroom(SQLiteEventStore(self._path))
        self.rooms.append(room)
        bridge.answer_with_workflow("news.Review", room.workflow, questions=self.questions, replies=self.replies)

    def start(self, text: str) -> None:
        self.deployment.client.start("news.Publish", {"text": text}, workflow_id=RUN)

    def runs(self) -> Counter[str]:
        return sum((room.runs for room in self.rooms), Counter())

    def reply(self) -> None:
        question = self.deployment.records(self.questions)[0]
        self.deployment.put(self.replies, b'"shorten it"', key=question.key)

    def outputs(self) -> object:
        row = self.deployment.workflow(RUN)
        assert (row.status, row.error) == (COMPLETED, None)
        return row.outputs


@pytest.mark.parametrize(("point", "text"), [("bridge.run", SHORT), ("bridge.run", LONG), ("bridge.asked", LONG)])
@in_worlds([MEMORY])
def test_a_request_that_was_run_is_not_run_again(world: World, tmp_path: Path, point: str, text: str) -> None:
    reviewing = Reviewing(world, tmp_path)
    first = reviewing.live()
    first.dies_at(point)
    reviewing.start(text)
    first.settle_until_it_dies()

    second = reviewing.live()
    second.settle()
    if text == LONG:
        assert len(unique_ids(reviewing.deployment.records(reviewing.questions))) == 1
        reviewing.reply()
        eventually(lambda: second.bridge.counts.replies == 1)
        second.settle()
    second.end()

    asked = text == LONG
    assert reviewing.outputs() == ({"verdict": "shorten it", "words": 99} if asked else {"verdict": "good", "words": 3})
    assert reviewing.runs() == Counter({"count": 1, "spell": 1, "edit": 1, **({"settle": 1} if asked else {})})


@pytest.mark.parametrize("node", ["count", "spell", "edit"])
@in_worlds([MEMORY])
def test_nodes_that_had_finished_do_not_run_again_when_a_node_kills_the_process(
    world: World, tmp_path: Path, node: str
) -> None:
    reviewing = Reviewing(world, tmp_path)
    first = reviewing.live()
    reviewing.rooms[0].dies_in = node
    reviewing.start(SHORT)
    first.settle_until_it_dies()

    second = reviewing.live()
    second.settle()
    second.end()

    assert reviewing.outputs() == {"verdict": "good", "words": 3}
    runs = reviewing.runs()
    assert runs[node] == 2
    if node == "edit":
        assert runs == {"count": 1, "spell": 1, "edit": 2}


@pytest.mark.parametrize("point", ["bridge.read", "bridge.run", "bridge.answered"])
@in_worlds([MEMORY])
def test_a_crash_while_a_reply_is_taken_loses_and_repeats_nothing(world: World, tmp_path: Path, point: str) -> None:
    reviewing = Reviewing(world, tmp_path)
    first = reviewing.live()
    reviewing.start(LONG)
    first.settle()
    first.dies_at(point)
    reviewing.reply()
    first.dies()

    second = reviewing.live()
    eventually(lambda: second.bridge.counts.replies == 1)
    second.settle()
    second.end()

    assert reviewing.outputs() == {"verdict": "shorten it", "words": 99}
    assert reviewing.runs() == {"count": 1, "spell": 1, "edit": 1, "settle": 1}


@in_worlds([MEMORY])
def test_a_reply_is_taken_by_another_process_than_the_one_that_asked(world: World, tmp_path: Path) -> None:
    reviewing = Reviewing(world, tmp_path)
    first = reviewing.live()
    reviewing.start(LONG)
    first.settle()
    first.end()

    second = reviewing.live()
    reviewing.reply()
    eventually(lambda: second.bridge.counts.answered == 1)
    second.settle()
    second.end()

    assert reviewing.outputs() == {"verdict": "shorten it", "words": 99}
    assert reviewing.rooms[1].runs == {"settle": 1}
