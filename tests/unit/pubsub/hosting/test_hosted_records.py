"""The records of a hosted workflow: what each is to a worker, and what is written."""

from __future__ import annotations

import json

import pytest

from afl_stream.errors import EventTooLarge, Reason, Unreadable, ValueRefused
from afl_stream.partitioner import partition_for
from afl_stream.pubsub.event_stores.store import RequestStatus
from afl_stream.pubsub.hosting.records import EventReceived, Forwarded, RequestReport, StatusAsked, WorkflowRecords
from afl_stream.pubsub.hosting.topics import WorkflowTopics
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import OutputTopicEvent, PublishToTopicEvent
from afl_stream.settings.config import PubSubSettings, StreamConfig
from afl_stream.transport import Record
from afl_stream.wire.codec import single_object_codec
from afl_stream.wire.headers import NamedHeaders, header
from afl_stream.wire.schema_source import InMemorySchemaLog

PARTITIONS = 4
HOME = partition_for(b"r1", PARTITIONS)
CONTEXT = InvokeContext(assistant_request_id="r1", conversation_id="c1", attributes={"tone": "kind"})
EVENT = OutputTopicEvent("e1", "r1", "out", 3, {"sum": 42}, "adder", "Node", ("e0",), 1_700_000_000_000)


def records(form: str = "avro", max_event_bytes: int = 900_000) -> WorkflowRecords:
    config = StreamConfig(pubsub=PubSubSettings(format=form), max_event_bytes=max_event_bytes)
    topics = WorkflowTopics(config, "w", ["in", "out"])
    codec = single_object_codec(InMemorySchemaLog(), max_event_bytes=max_event_bytes)
    return WorkflowRecords(config, topics, codec, partitions=PARTITIONS, now_ms=lambda: 1_700_000_000_000)


def read(value: bytes | None, *, key: bytes | None = b"r1", topic: str = "in", partition: int = HOME) -> Record:
    return Record(f"afl.pubsub.w.{topic}", partition, 7, key, value, timestamp_ms=5)


@pytest.mark.parametrize("form", ["avro", "json"])
def test_an_input_comes_to_the_worker_as_its_client_sent_it(form: str) -> None:
    event = PublishToTopicEvent("e1", "r1", "in", 0, [1, 2.5, None, "é"], "client", "WorkflowClient", (), 5)

    outgoing = records(form).encoded(event, CONTEXT)

    received = records().decoded(Record(outgoing.topic, HOME, 7, outgoing.key, outgoing.value, outgoing.headers))
    assert received == EventReceived("r1", event, CONTEXT)


@pytest.mark.parametrize("form", ["avro", "json"])
def test_an_event_that_a_worker_has_stored_is_nothing_new_to_workers(form: str) -> None:
    outgoing = records(form).encoded(EVENT)

    record = Record(outgoing.topic, HOME, 7, outgoing.key, outgoing.value, outgoing.headers)
    assert records().decoded(record) is None
    assert records().output(record) == EVENT


def test_the_headers_of_an_event_are_those_of_cloud_events() -> None:
    outgoing = records().encoded(EVENT)

    assert [name for name, _ in outgoing.headers] == ["content-type", "afl", "afl_stored"]
    named = NamedHeaders(outgoing.headers)
    versions = {"afl_workflow_version", "afl_step_schema_version", "afl_runtime_version"}
    assert versions <= named.keys()
    assert {name: header(outgoing.headers, name) for name in named if name not in {*versions, "afl"}} == {
        "ce_specversion": "1.0",
        "ce_type": "afl.TopicEvent",
        "ce_source": "/workflows/w",
        "ce_id": "e1",
        "ce_time": "2023-11-14T22:13:20.000Z",
        "ce_subject": "r1",
        "content-type": "application/avro",
        "afl_stored": "afl.pubsub.w.out",
    }


@pytest.mark.parametrize(
    ("written", "data"),
    [
        (b'{"a": 1}', {"a": 1}),
        (b' {"type": "order"}', {"type": "order"}),
        (b"[1, 2]", [1, 2]),
        (b'"text"', "text"),
        (b"42", 42),
        (b"null", None),
        (b'{"type": "TopicEvent", "data": {"a": 1}}', {"a": 1}),
    ],
)
def test_json_of_any_program_is_an_event_with_an_id_of_its_place(written: bytes, data: object) -> None:
    received, again = records().decoded(read(written)), records().decoded(read(written))

    assert isinstance(received, EventReceived)
    assert (received.event.name, received.event.data, received.event.timestamp_ms) == ("in", data, 5)
    assert received == again
    other = records().decoded(read(written)._replace(offset=8))
    assert isinstance(other, EventReceived)
    assert other.event.event_id != received.event.event_id


def test_json_may_name_its_id_and_its_request() -> None:
    written = json.dumps({"type": "TopicEvent", "id": "mine", "request_id": "r1", "data": 1, "publisher": "faust"})

    received = records().decoded(read(written.encode(), key=None))

    assert isinstance(received, EventReceived)
    assert (received.request_id, received.event.event_id, received.event.publisher_name) == ("r1", "mine", "faust")


def test_a_record_on_another_partition_goes_to_its_own_as_the_same_event() -> None:
    astray = read(b"42", partition=(HOME + 1) % PARTITIONS)

    forwarded = records().decoded(astray)

    assert isinstance(forwarded, Forwarded)
    outgoing = forwarded.outgoing
    assert (outgoing.topic, outgoing.key) == (astray.topic, b"r1")
    arrived = records().decoded(Record(outgoing.topic, HOME, 0, outgoing.key, outgoing.value, outgoing.headers))
    moved_again = records().decoded(astray)
    assert isinstance(arrived, EventReceived)
    assert arrived.event.data == 42
    assert moved_again == forwarded


def test_a_question_is_answered_and_no_event() -> None:
    outgoing = records().question("in", "r1", "q1")

    assert records().decoded(Record(outgoing.topic, HOME, 7, outgoing.key, outgoing.value, outgoing.headers)) == (
        StatusAsked("r1", "q1")
    )


@pytest.mark.parametrize("form", ["avro", "json"])
def test_a_report_comes_to_clients_as_it_was_told(form: str) -> None:
    report = RequestReport(
        request_id="r1",
        status=RequestStatus.FAILED,
        heard=frozenset({"e1", "q1"}),
        outputs={"out": (3, 17), "other": (1, None)},
        node="adder",
        error="out of paper",
    )

    outgoing = records(form).told(report)

    assert outgoing.topic == "afl.pubsub.w.status"
    assert records().report(Record(outgoing.topic, HOME, 7, outgoing.key, outgoing.value, outgoing.headers)) == report


@pytest.mark.parametrize("written", [b"1", b'{"type": "TopicEvent", "kind": "status", "data": {}}', b"{}"])
def test_what_is_no_report_is_refused(written: bytes) -> None:
    with pytest.raises(Unreadable):
        records().report(read(written, topic="status"))


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (read(b""), Reason.EMPTY_VALUE),
        (read(b"\xff"), Reason.BAD_MAGIC),
        (read(b'"\xff"'), Reason.BAD_UTF8),
        (read(b"[" * 100_000), Reason.TOO_DEEP),
        (read(b'{"a": 1, "a": 2}'), Reason.BAD_JSON),
        (read(b"9223372036854775808"), Reason.NUMBER_OUT_OF_RANGE),
        (read(b"1", key=b""), Reason.EMPTY_KEY),
        (read(b'{"type": "TopicEvent", "kind": "other"}'), Reason.WRONG_TYPE),
    ],
)
def test_what_cannot_be_an_event_is_said_to_be_so(record: Record, reason: Reason) -> None:
    found = records().decoded(record)

    assert isinstance(found, Unreadable)
    assert found.reason is reason


@pytest.mark.parametrize("form", ["avro", "json"])
def test_an_event_that_cannot_be_written_is_refused(form: str) -> None:
    with pytest.raises(EventTooLarge):
        records(form, max_event_bytes=1_000).encoded(EVENT._replace(data="x" * 2_000))
    with pytest.raises(ValueRefused, match=r"TopicEvent\.data"):
        records(form).encoded(EVENT._replace(data=float("nan")))


def test_a_dead_letter_without_its_value_says_how_large_it_was() -> None:
    letter = records().dead_letter(read(b"12345"), ValueError("no"))

    bare = records().without_value(letter)

    assert (letter.topic, letter.key, letter.value) == ("afl.dlq.pubsub.w", b"r1", b"12345")
    assert bare.value is None
    assert header(bare.headers, "afl.dlq.value_omitted") == "5 bytes"
