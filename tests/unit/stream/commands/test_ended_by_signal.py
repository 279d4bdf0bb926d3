"""Waits that a drain can do without end at once when the process is told to end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from afl.core.process.stopping import PROCESS_STOP, StopFlag
from afl.engine.model.store import Batch, OutboxRecord
from afl.stores.memory.store import MemoryStore
from afl_stream.embedded.transport import EmbeddedBroker, EmbeddedTransport, Faults
from afl_stream.errors import SchemaUnavailable
from afl_stream.evaluator.outbox_publisher import OutboxPublisher
from afl_stream.kafka.waits import in_thread, result_of
from afl_stream.reading.topic_log import TopicLog
from afl_stream.transport import BrokerUnavailable, Stopping, produce_acknowledged

#: By itself each wait would take far longer than this.
AT_ONCE_S = 20.0
WOULD_TAKE_S = 600.0


@pytest.fixture
def told_to_end() -> Iterator[None]:
    PROCESS_STOP.set()
    yield
    PROCESS_STOP.clear()


def assert_at_once(began_s: float) -> None:
    assert time.monotonic() - began_s < AT_ONCE_S


def test_an_answer_of_the_broker_is_waited_for_no_longer() -> None:
    stop = StopFlag()
    stop.set()
    began_s = time.monotonic()

    with pytest.raises(Stopping, match="what topics there are"):
        result_of(Future(), WOULD_TAKE_S, "what topics there are", stop)
    assert_at_once(began_s)


def test_an_answer_that_is_there_is_taken_all_the_same() -> None:
    stop, answer = StopFlag(), Future[int]()
    stop.set()
    answer.set_result(7)

    assert result_of(answer, WOULD_TAKE_S, "x", stop) == 7


def test_an_answer_in_time_is_the_calls_own_result_or_error() -> None:
    def fails() -> int:
        raise ValueError("no")

    assert result_of(in_thread(lambda: 7), 60, "x") == 7
    with pytest.raises(ValueError, match="no"):
        result_of(in_thread(fails), 60, "x")
    with pytest.raises(TimeoutError):
        result_of(Future(), 0.01, "x")


@pytest.mark.usefixtures("told_to_end")
def test_a_schema_that_cannot_be_read_is_waited_for_no_longer() -> None:
    faults = Faults()
    transport = EmbeddedTransport(EmbeddedBroker(), probe=faults.probe)
    transport.admin().create_topic("schemas", partitions=1)
    produce_acknowledged(transport.producer(), "schemas", b"v", key=b"k", timeout_s=60)
    faults.swallow("poll.before_deliver")
    began_s = time.monotonic()

    with pytest.raises(SchemaUnavailable, match="told to end"):
        TopicLog(transport, "schemas", timeout_s=WOULD_TAKE_S).read_to_end()
    assert_at_once(began_s)


class Unacknowledged:
    """A producer whose broker acknowledges nothing."""

    def __init__(self) -> None:
        self.queued = 0

    def produce(self, topic: str, value: bytes | None, **rest: object) -> None:
        self.queued += 1

    def poll(self, timeout_s: float = 0.0) -> int:
        return 0

    def flush(self, timeout_s: float) -> int:
        time.sleep(min(timeout_s, 0.01))
        return self.queued

    def close(self) -> None:
        return


@pytest.mark.usefixtures("told_to_end")
def test_an_acknowledgement_that_a_start_needs_is_waited_for_no_longer() -> None:
    began_s = time.monotonic()

    with pytest.raises(BrokerUnavailable, match="before the process was told to end"):
        produce_acknowledged(Unacknowledged(), "t", b"v", key=b"k", timeout_s=WOULD_TAKE_S)
    assert_at_once(began_s)


@pytest.mark.usefixtures("told_to_end")
def test_lanes_that_a_new_owner_publishes_are_waited_for_no_longer_and_stay_in_the_store() -> None:
    store = MemoryStore()
    store.commit_batch(Batch(outbox=[OutboxRecord("control/0", "t", b"k", b"v", ())]))
    publisher = OutboxPublisher(store, Unacknowledged())
    began_s = time.monotonic()

    with pytest.raises(BrokerUnavailable, match="1 outbox records were not acknowledged"):
        publisher.publish_lanes(["control/0"], WOULD_TAKE_S)
    assert_at_once(began_s)
    assert len(store.outbox()) == 1
