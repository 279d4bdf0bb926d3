"""The Kafka transport's parts that need no broker: what they remember, ask again and hide."""

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from afl_stream.kafka.errors import Connection
from afl_stream.kafka.offsets import GroupOffsets
from afl_stream.kafka.producer import KafkaProducer
from afl_stream.kafka.topic_ids import INTERVAL_S, NO_ID, TopicChanges, TopicIds
from afl_stream.offset_owner import with_topic, without_topic
from afl_stream.transport import (
    AuthenticationFailed,
    BrokerUnavailable,
    CommittedOffset,
    NotAuthorized,
    RecordTooLarge,
    TopicPartition,
    TransportError,
)

WHERE = TopicPartition("t", 0)


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


# --- commits that were refused ----------------------------------------------------------------------------------


class CommitsOnly:
    """A client that notes what it is told to commit."""

    def __init__(self) -> None:
        self.commits: list[tuple[str, int, int, str]] = []

    def commit(self, offsets: Sequence[KafkaPartition], asynchronous: bool) -> None:
        assert asynchronous
        self.commits += [(p.topic, p.partition, p.offset, p.metadata or "") for p in offsets]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def client() -> CommitsOnly:
    return CommitsOnly()


@pytest.fixture
def offsets(client: CommitsOnly, clock: Clock) -> GroupOffsets:
    offsets = GroupOffsets("g", Connection("here:1"), TopicIds(Descriptions(t="1"), clock), clock)
    offsets.use(client)  # type: ignore[arg-type]
    return offsets


def refused(offset: int) -> tuple[KafkaError, list[KafkaPartition]]:
    return KafkaError(KafkaError._TRANSPORT), [KafkaPartition("t", 0, offset)]


def test_a_commit_that_was_refused_is_made_again_after_a_while_with_its_metadata(
    offsets: GroupOffsets, client: CommitsOnly, clock: Clock
) -> None:
    offsets.commit({WHERE: CommittedOffset(offset=7, metadata="m")}, wait=False)
    offsets.on_commit(*refused(7))

    offsets.commit_again()
    at_once = len(client.commits)
    clock.now_s += 2
    offsets.commit_again()
    offsets.commit_again()

    assert at_once == 1
    assert client.commits == [("t", 0, 7, "m")] * 2


def test_a_refused_commit_never_comes_after_a_later_one(
    offsets: GroupOffsets, client: CommitsOnly, clock: Clock
) -> None:
    offsets.commit({WHERE: CommittedOffset(offset=7)}, wait=False)
    offsets.commit({WHERE: CommittedOffset(offset=9)}, wait=False)
    offsets.on_commit(*refused(7))
    clock.now_s += 2
    offsets.commit_again()

    assert [offset for _, _, offset, _ in client.commits] == [7, 9]


def test_a_refused_commit_of_a_partition_that_is_gone_is_the_next_owners_affair(
    offsets: GroupOffsets, client: CommitsOnly, clock: Clock
) -> None:
    offsets.commit({WHERE: CommittedOffset(offset=7)}, wait=False)
    offsets.on_commit(*refused(7))
    offsets.forget([WHERE])
    clock.now_s += 2
    offsets.commit_again()

    assert len(client.commits) == 1


class Committed(CommitsOnly):
    """The same, and tells what was committed last."""

    def committed(self, tps: Sequence[KafkaPartition], timeout: float) -> list[KafkaPartition]:
        topic, partition, offset, metadata = self.commits[-1]
        return [KafkaPartition(topic, partition, offset, metadata=metadata)]


def test_what_is_committed_names_the_topic_and_holds_for_no_other(clock: Clock) -> None:
    client, broker = Committed(), Descriptions(t="ab/c+12")
    offsets = GroupOffsets("g", Connection("here:1"), TopicIds(broker, clock), clock)
    offsets.use(client)  # type: ignore[arg-type]
    offsets.note_assigned([WHERE])
    offsets.commit({WHERE: CommittedOffset(offset=7, metadata="m n")}, wait=False)
    before = offsets.committed([WHERE])
    broker.ids["t"] = "another"
    offsets.note_assigned([WHERE])

    assert client.commits == [("t", 0, 7, "topic=ab/c+12 m n")]
    assert before == {WHERE: CommittedOffset(offset=7, metadata="m n")}
    assert offsets.committed([WHERE]) == {}


@pytest.mark.parametrize("metadata", ["", "m n", "topic=x", "topic=x y", "line\nline"])
def test_metadata_comes_back_beside_the_topic_and_without_one(metadata: str) -> None:
    assert without_topic(with_topic("ab/c+12", metadata)) == ("ab/c+12", metadata)
    assert with_topic("", metadata) == metadata
    assert without_topic("afl1 o c0:1") == ("", "afl1 o c0:1")


# --- recreated topics -------------------------------------------------------------------------------------------


class Descriptions:
    """Answers with the ids of its topics; one that is not there is an error."""

    def __init__(self, **ids: str) -> None:
        self.ids = ids
        self.asked: list[list[str]] = []

    def __call__(self, names: Sequence[str]) -> Mapping[str, Future[Any]]:
        self.asked.append(list(names))
        answers: dict[str, Future[Any]] = {}
        for name in names:
            answers[name] = Future()
            if name in self.ids:
                answers[name].set_result(SimpleNamespace(topic_id=self.ids[name]))
            else:
                answers[name].set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        return answers


def rounds(ids: TopicIds, clock: Clock, topics: Collection[str], *, gone: bool = False) -> set[str]:
    """Return what one question and its answer bring: recreated topics, or topics that are gone."""
    clock.now_s += INTERVAL_S
    news = [found for found in (ids.look(lambda: topics), ids.look(lambda: topics)) if found is not None]
    return {topic for found in news for topic in (found.gone if gone else found.recreated)}


def test_a_topic_with_another_id_is_told_once(clock: Clock) -> None:
    broker = Descriptions(a="1", b="1")
    ids = TopicIds(broker, clock)

    before = rounds(ids, clock, {"a", "b"})
    broker.ids["a"] = "2"
    reported = [rounds(ids, clock, {"a", "b"}) for _ in range(3)]

    assert before == set()
    assert reported == [{"a"}, set(), set()]


def test_a_topic_that_is_gone_is_told_and_again_when_it_comes_back_as_another(clock: Clock) -> None:
    broker = Descriptions(a="1")
    ids = TopicIds(broker, clock)
    rounds(ids, clock, {"a"})

    del broker.ids["a"]
    while_gone = [rounds(ids, clock, {"a"}, gone=True) for _ in range(2)]
    broker.ids["a"] = "2"

    assert while_gone == [set(), {"a"}], "one broker's word is not enough"
    assert rounds(ids, clock, {"a"}) == {"a"}


def test_the_ids_as_they_are_now_are_told_at_once(clock: Clock) -> None:
    broker = Descriptions(a="1", b=NO_ID)
    ids = TopicIds(broker, clock)

    assert ids.now({"a", "b", "c"}, 1.0) == {"a": "1", "b": "", "c": None}
    assert ids.others({"a": "1", "b": "7"}, 1.0) == TopicChanges(frozenset(), frozenset())
    broker.ids["a"] = "2"
    assert ids.others({"a": "1", "c": "1"}, 1.0) == TopicChanges(frozenset({"a"}), frozenset({"c"}))
    # Its reader gets the report as ever.
    assert rounds(ids, clock, {"a"}) == {"a"}


def test_a_broker_that_tells_no_ids_in_time_says_nothing_of_its_topics(clock: Clock) -> None:
    ids = TopicIds(lambda names: {name: Future() for name in names}, clock)

    assert ids.others({"a": "1"}, 0.0) == TopicChanges(frozenset(), frozenset())
    with pytest.raises(TimeoutError):
        ids.now({"a"}, 0.0)


def test_ids_are_asked_for_now_and_then_and_not_with_every_read(clock: Clock) -> None:
    broker = Descriptions(a="1")
    ids = TopicIds(broker, clock)

    for _ in range(100):
        ids.look(lambda: {"a"})

    assert broker.asked == [["a"]]


# --- what topics take -------------------------------------------------------------------------------------------


class TopicSizes:
    """How large a record each topic takes, as a broker tells that may be away."""

    def __init__(self, **sizes: int) -> None:
        self.sizes: dict[str, int] | None = sizes
        self.asked = 0

    def __call__(self, topic: str) -> int:
        self.asked += 1
        if self.sizes is None:
            raise BrokerUnavailable("away")
        return self.sizes[topic]


def producer_on(sizes: TopicSizes, clock: Clock) -> KafkaProducer:
    settings = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    return KafkaProducer(settings, Connection("127.0.0.1:1"), sizes, lambda topic: None, monotonic_s=clock)


def test_a_topic_that_was_enlarged_takes_what_it_refused(clock: Clock) -> None:
    sizes = TopicSizes(t=100)
    producer = producer_on(sizes, clock)
    refusals = 0
    for _ in range(3):
        with pytest.raises(RecordTooLarge):
            producer.produce("t", b"v" * 500)
        refusals += 1
    asked = sizes.asked

    sizes.sizes = {"t": 1000}
    clock.now_s += 6
    producer.produce("t", b"v" * 500)
    producer._client.purge()

    assert refusals == 3
    assert asked == 2, "the broker is not asked for each record"


def test_records_do_not_wait_one_by_one_for_a_broker_that_tells_no_limits(clock: Clock) -> None:
    sizes = TopicSizes()
    sizes.sizes = None
    producer = producer_on(sizes, clock)

    for _ in range(100):
        producer.produce("t", b"v")
    producer._client.purge()

    assert sizes.asked == 1


# --- what clients say -------------------------------------------------------------------------------------------


def test_no_error_tells_a_secret() -> None:
    connection = Connection("here:1", lambda text: text.replace("hunter2", "****"))

    connection.on_error(KafkaError(KafkaError._TRANSPORT, "cannot send hunter2"))
    unavailable = str(connection.unavailable())
    connection.on_error(KafkaError(KafkaError._AUTHENTICATION, "hunter2 is wrong"))
    with pytest.raises(AuthenticationFailed) as caught:
        connection.check()

    assert "hunter2" not in unavailable + str(caught.value)
    assert "cannot send ****" in unavailable


def test_connections_that_are_ended_at_once_give_a_hint_until_a_broker_answers() -> None:
    connection = Connection("here:1")
    for _ in range(3):
        connection.on_hung_up()
    hint = str(connection.unavailable("timed out"))
    connection.is_back()

    assert "security.protocol" in hint
    assert "security.protocol" not in str(connection.unavailable("timed out"))


def test_a_client_that_failed_for_good_stays_so_until_it_is_replaced() -> None:
    connection = Connection("here:1")
    connection.on_error(KafkaError(KafkaError.FENCED_INSTANCE_ID, "another one", fatal=True))
    first, second = connection.fatal, connection.fatal
    connection.replaced()

    assert isinstance(first, TransportError)
    assert not isinstance(first, BrokerUnavailable)
    assert first is second
    assert connection.fatal is None


def test_a_writer_that_may_not_write_at_all_is_refused() -> None:
    connection = Connection("here:1")
    connection.on_error(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "no", fatal=True))

    with pytest.raises(NotAuthorized):
        connection.check()
