"""The topics of a request: offsets of each consumer, room, and what is let go."""

import asyncio

import pytest

from afl_stream.pubsub.model.events import OutputTopicEvent, PublishToTopicEvent, TopicEvent
from afl_stream.pubsub.model.topics import InWorkflowOutputTopic, OutputTopic, Topic
from afl_stream.pubsub.running.room import RoomQueue
from afl_stream.pubsub.running.topic_log import TopicLog
from tests.unit.pubsub.running.small_workflows import run, turns


def log_of(*consumers: str, max_lag: int = 10) -> TopicLog:
    return TopicLog(Topic("numbers"), consumers, max_lag)


def published(log: TopicLog, count: int) -> list[TopicEvent]:
    """Publish so many events."""
    events = []
    for _ in range(count):
        offset = log.end
        log.end += 1
        event = log.make((f"e{offset}", "r1", log.name, offset, offset, "", "", (), 0))
        log.publish(event)
        events.append(event)
    return events


def test_each_consumer_takes_every_event_once_in_order() -> None:
    log = log_of("a", "b")
    events = published(log, 3)

    assert list(log.consume("a", 2)) == events[:2]
    assert list(log.consume("a")) == events[2:]
    assert list(log.consume("a")) == []
    assert list(log.consume("b")) == events


def test_a_consumer_can_consume_until_it_has_taken_everything() -> None:
    log = log_of("a")

    assert not log.can_consume("a")
    published(log, 1)
    assert log.can_consume("a")
    log.consume("a")
    assert not log.can_consume("a")


def test_what_every_consumer_has_committed_is_let_go() -> None:
    log = log_of("a", "b")
    events = published(log, 3)
    log.consume("a")
    log.consume("b", 1)

    log.commit("a", 2)
    assert log.events == events
    log.commit("b", 0)

    assert log.events == events[1:]
    assert list(log.consume("b")) == events[1:]


def test_a_topic_without_consumers_keeps_nothing() -> None:
    log = log_of(max_lag=1)
    published(log, 100)

    assert log.events == []
    assert not log.is_full()


def test_a_commit_that_comes_twice_changes_nothing() -> None:
    log = log_of("a")
    published(log, 3)
    log.consume("a")
    log.commit("a", 2)
    log.commit("a", 0)

    assert log.events == []
    assert log.cursors["a"].committed == 3


def test_a_topic_is_full_when_its_slowest_consumer_lags_by_the_bound() -> None:
    log = log_of("fast", "slow", max_lag=2)
    published(log, 1)
    assert not log.is_full()
    published(log, 1)
    assert log.is_full()

    log.commit("fast", 1)
    assert log.is_full()
    log.commit("slow", 0)
    assert not log.is_full()


def test_the_room_of_everything_that_is_let_go_at_once_comes_back() -> None:
    log = log_of("a", max_lag=3)
    published(log, 3)

    log.commit("a", 2)

    published(log, 2)
    assert not log.is_full()
    published(log, 1)
    assert log.is_full()


def test_room_that_was_granted_to_a_publisher_who_is_cancelled_comes_back() -> None:
    async def check() -> None:
        log, rooms = log_of("a", max_lag=1), RoomQueue()
        published(log, 1)
        waiting = asyncio.create_task(rooms.until_granted(rooms.enter(log)))
        await turns()
        log.commit("a", 0)

        rooms.grant_free()
        assert log.is_full(), "the room is kept for the publisher"
        waiting.cancel()
        await asyncio.wait([waiting])

        assert not log.is_full()

    run(check())


@pytest.mark.parametrize(
    ("topic", "kind"),
    [
        (Topic("t"), PublishToTopicEvent),
        (OutputTopic("t"), OutputTopicEvent),
        (InWorkflowOutputTopic("t", reply_to="answer"), OutputTopicEvent),
    ],
)
def test_events_for_the_caller_have_their_own_type(topic: Topic, kind: type) -> None:
    made = TopicLog(topic, (), 1).make(("e", "r1", "t", 0, None, "n", "Node", ("t:0-0",), 7))

    assert type(made) is kind
    assert made == ("e", "r1", "t", 0, None, "n", "Node", ("t:0-0",), 7)
