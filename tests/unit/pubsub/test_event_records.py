"""Events of requests travel as records, and come back as they were."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl_stream.errors import Reason, Unreadable
from afl_stream.pubsub.event_stores.records import (
    RecordPlace,
    context_of,
    entries_of_context,
    event_of,
    placed_record_of,
    record_of,
)
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import (
    ConsumeFromTopicEvent,
    OutputTopicEvent,
    PublishToTopicEvent,
    StoredEvent,
)
from afl_stream.resources import schema_text
from afl_stream.wire.codec import single_object_codec
from afl_stream.wire.messages import TopicEvent
from afl_stream.wire.schema_source import InMemorySchemaLog

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
LONGS = st.integers(-(2**63), 2**63 - 1)
#: What afl.core.values takes for a value.
VALUES = st.recursive(
    st.none() | st.booleans() | LONGS | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
PLACES = (TEXTS, TEXTS, TEXTS, st.integers(0, 2**63 - 1), VALUES)
TIMES = st.integers(0, 2**53)
TAKEN = st.lists(TEXTS, max_size=3).map(tuple)
EVENTS: st.SearchStrategy[StoredEvent] = st.one_of(
    st.builds(PublishToTopicEvent, *PLACES, TEXTS, TEXTS, TAKEN, TIMES),
    st.builds(OutputTopicEvent, *PLACES, TEXTS, TEXTS, TAKEN, TIMES),
    st.builds(ConsumeFromTopicEvent, *PLACES, TEXTS, TEXTS, TIMES),
)
CONTEXTS = st.builds(
    InvokeContext,
    assistant_request_id=TEXTS,
    conversation_id=TEXTS,
    invoke_id=TEXTS,
    user_id=TEXTS,
    attributes=st.dictionaries(TEXTS, VALUES, max_size=3),
)
CODEC = single_object_codec(InMemorySchemaLog())
SCHEMA = fastavro.parse_schema(json.loads(schema_text("topic_event")))


def read(value: bytes, *, json_allowed: bool = False) -> TopicEvent:
    record = CODEC.decode(value, json_allowed=json_allowed)
    assert isinstance(record, TopicEvent)
    return record


def same(left: object, right: object) -> bool:
    """Whether two values are the same, and not only equal: 1, 1.0 and true are three."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


@given(EVENTS)
def test_an_event_comes_back_as_it_was(event: StoredEvent) -> None:
    found = event_of(read(CODEC.encode(record_of(event))))

    assert type(found) is type(event)
    assert found == event
    assert same(found.data, event.data)


@given(EVENTS, CONTEXTS)
def test_it_does_so_through_json_too(event: StoredEvent, context: InvokeContext) -> None:
    place = RecordPlace(event.assistant_request_id, "waiting", 3, 4, "w")
    record = placed_record_of(event, place, entries_of_context(context))
    entries = {name: value for name in TopicEvent.__slots__ if (value := getattr(record, name)) is not None}

    found = read(json.dumps({"type": "TopicEvent", **entries}).encode(), json_allowed=True)

    assert found == record
    assert event_of(found) == event


@given(EVENTS)
def test_another_library_reads_the_same_data(event: StoredEvent) -> None:
    read_by_another: Any = fastavro.schemaless_reader(io.BytesIO(CODEC.encode(record_of(event))[10:]), SCHEMA)

    assert same(plain(read_by_another["data"]), event.data)
    assert read_by_another["id"] == event.event_id


def plain(value: Any) -> Any:
    """Return what a record afl.v1.Value holds."""
    inner = value["value"]
    if isinstance(inner, list):
        return [plain(item) for item in inner]
    return {key: plain(item) for key, item in inner.items()} if isinstance(inner, dict) else inner


@given(CONTEXTS)
def test_a_context_comes_back_as_it_was(context: InvokeContext) -> None:
    assert context_of(entries_of_context(context), context.assistant_request_id) == context


@pytest.mark.parametrize("entries", [{"user_id": 7}, {"conversation_id": None}, {"attributes": []}])
def test_a_context_of_another_form_is_unreadable(entries: dict[str, object]) -> None:
    with pytest.raises(Unreadable, match=rf"context\.{next(iter(entries))}") as caught:
        context_of(entries, "r-1")
    assert caught.value.reason is Reason.WRONG_TYPE


def test_what_a_later_release_adds_to_a_context_is_left_out() -> None:
    assert context_of({"user_id": "ann", "shoe_size": 42}, "r-1") == InvokeContext(
        assistant_request_id="r-1", user_id="ann"
    )


def test_a_record_about_a_status_holds_no_event() -> None:
    with pytest.raises(Unreadable, match="holds no event"):
        event_of(TopicEvent(id="e-1", kind="status", status="finished"))
