"""The header `afl`, which holds what CloudEvents have a header each for."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl_stream.errors import NewerFormat, Reason, Unreadable
from afl_stream.transport import Headers
from afl_stream.wire.codec import Codec, single_object_codec
from afl_stream.wire.headers import (
    ContinueHeaders,
    EventHeaders,
    HeaderForm,
    MilestoneHeaders,
    NamedHeaders,
    header,
    headers_for,
    packed,
    unpacked,
)
from afl_stream.wire.messages import CancelWorkflow, Event, Lifecycle, StepContinue
from afl_stream.wire.schema_source import InMemorySchemaLog

AVRO = ("content-type", b"application/avro")
TRACE = (("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), ("tracestate", b"a=b"))
EVENT = Event(
    id="w:ab#2",
    workflow_id="w",
    execution_id="e",
    step_id="w:ab",
    event_type="billing.Pay",
    state="event.Created",
    payload={},
    attempt=2,
    created_at=1_700_000_000_123,
)
#: Half of a surrogate pair is no text that a record can hold.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@pytest.fixture
def codec() -> Codec:
    return single_object_codec(InMemorySchemaLog())


def structured(**members: Any) -> Headers:
    return (AVRO, ("afl", json.dumps(members).encode()))


def test_a_record_has_two_headers_and_those_of_its_trace() -> None:
    answer = StepContinue(step_id="w:ab", event_id="w:ab#2", attempt=2)

    assert [name for name, _ in headers_for(EVENT, source="/afl/evaluator")] == ["content-type", "afl"]
    assert headers_for(answer, source="/afl/agent", caused_by=TRACE)[2:] == TRACE


def test_the_header_is_a_cloud_event_in_json_without_its_data() -> None:
    (_, (_, content)) = headers_for(EVENT, source="/afl/evaluator")

    assert json.loads(content or b"") == {
        "afl": 1,
        "versions": "1.0/1.0/0.1.0",
        "specversion": "1.0",
        "source": "/afl/evaluator",
        "type": "afl.event.billing.Pay",
        "id": "w:ab#2",
        "subject": "w:ab",
        "time": "2023-11-14T22:13:20.123Z",
        "attempt": 2,
    }


def test_what_is_not_said_is_no_member() -> None:
    (_, (_, content)) = headers_for(CancelWorkflow(workflow_id="w"), source="/me")

    assert json.loads(content or b"").keys() == {"afl", "versions", "specversion", "source", "type", "id", "subject"}


@given(TEXTS, TEXTS, TEXTS, st.integers(0, 2**40))
def test_any_text_is_read_as_it_was_written(source: str, kind: str, workflow_id: str, at: int) -> None:
    message = Lifecycle(workflow_id=workflow_id, kind=kind, at=at)

    compact = headers_for(message, source=source, form=HeaderForm.COMPACT)
    plain = headers_for(message, source=source, form=HeaderForm.CLOUDEVENTS)

    assert {name: header(compact, name) for name, _ in plain} == {name: header(plain, name) for name, _ in plain}


@pytest.mark.parametrize("form", list(HeaderForm))
@given(TEXTS.filter(bool), TEXTS.filter(bool), st.integers(1, 2**40))
def test_headers_made_once_are_those_of_any_record(form: HeaderForm, event_id: str, step_id: str, at: int) -> None:
    event = replace(EVENT, id=event_id, step_id=step_id, created_at=at)
    answer = StepContinue(step_id=step_id, event_id=event_id, attempt=2)

    made = EventHeaders("billing.Pay", source="/e", form=form).of(
        event_id=event_id, step_id=step_id, attempt=2, created_at_ms=at
    )
    of_answer = ContinueHeaders(source="/a", form=form).of(event=event, at_ms=at, caused_by=unpacked(made))

    assert _same(unpacked(made), headers_for(event, source="/e", form=form))
    assert _same(of_answer, headers_for(answer, source="/a", at_ms=at, form=form))


@pytest.mark.parametrize("form", list(HeaderForm))
@pytest.mark.parametrize(
    "milestone",
    [
        Lifecycle(workflow_id="w", kind="workflow.completed", at=5, outputs={"r": 1}),
        Lifecycle(workflow_id="w", kind="step.started", at=6, step_id='w:"ab', outputs={"attempt": 2}),
        Lifecycle(workflow_id="w", kind="workflow.continued", at=7, outputs={"execution": 2}),
        Lifecycle(workflow_id="日本", kind="step.retried", at=0, command_id="c"),
    ],
)
def test_headers_of_milestones_are_those_of_any_record(form: HeaderForm, milestone: Lifecycle) -> None:
    recurring = MilestoneHeaders(source="/e", form=form)

    assert recurring.of(milestone) == recurring.of(milestone) == packed(headers_for(milestone, source="/e", form=form))


def _same(one: Headers, other: Headers) -> bool:
    """Members may stand in any order."""
    named = [{k: json.loads(v or b"") if k == "afl" else v for k, v in each} for each in (one, other)]
    return named[0] == named[1] and len(one) == len(other)


def test_an_event_with_a_trace_has_it_beside_its_two_headers() -> None:
    made = EventHeaders("billing.Pay", source="/e").of(
        event_id="w:ab#2", step_id="w:ab", attempt=2, created_at_ms=5, trace=(("traceparent", b"00-ab-cd-01"),)
    )

    assert [name for name, _ in unpacked(made)] == ["content-type", "afl", "traceparent"]


def test_a_row_keeps_the_one_header_and_gives_back_two() -> None:
    headers = headers_for(EVENT, source="/e")

    assert packed(headers) == headers[1][1]
    assert unpacked(packed(headers)) == headers


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (AVRO,),
        (AVRO, ("afl", None)),
        (("content-type", b"application/json"), ("afl", b"{}")),
        (AVRO, ("afl", b"{}"), ("own", b"1")),
        headers_for(EVENT, source="/e", form=HeaderForm.CLOUDEVENTS),
    ],
)
def test_a_row_keeps_all_other_headers_in_full(headers: Headers) -> None:
    assert unpacked(packed(headers)) == packed(headers) == headers


def test_a_header_of_its_own_wins_over_the_structured_one() -> None:
    headers = (*headers_for(EVENT, source="/e"), ("ce_id", b"mine"))

    assert (header(headers, "ce_id"), header(headers, "ce_subject")) == ("mine", "w:ab")
    assert (NamedHeaders(headers)["ce_id"], NamedHeaders(headers)["ce_subject"]) == (b"mine", b"w:ab")


def test_headers_by_name_have_either_form() -> None:
    named = NamedHeaders((*headers_for(EVENT, source="/e"), ("own", None)))

    assert named["content-type"] == b"application/avro"
    assert named["own"] is None
    assert named["afl_attempt"] == b"2"
    assert {"ce_id", "ce_type", "ce_source", "ce_time", "ce_subject", "afl_step_schema_version", "afl"} <= named.keys()
    assert len(named) == len(list(named))
    with pytest.raises(KeyError):
        named["missing"]


def test_a_newer_form_waits_for_a_newer_reader(codec: Codec) -> None:
    value = codec.encode(StepContinue(step_id="w:ab"))

    with pytest.raises(NewerFormat, match=r"header afl 2"):
        codec.decode(value, structured(afl=2, versions="1.0/1.0/0.1.0"))


def test_newer_versions_in_the_header_wait_and_additions_do_not(codec: Codec) -> None:
    value = codec.encode(StepContinue(step_id="w:ab"))

    with pytest.raises(NewerFormat, match="step_schema_version 2"):
        codec.decode(value, structured(afl=1, versions="1.0/2.1/0.1.0"))
    for content in (
        structured(afl=1, versions="1.0/1.9/0.9.3", more="of a later release"),
        structured(afl=1, versions="1.0/1.0/0.1.0/7"),
        structured(id="by hand"),
    ):
        assert codec.decode(value, content) == StepContinue(step_id="w:ab")


@pytest.mark.parametrize(
    "content",
    [
        b"", b"no json", b"[]", b"\xff", b"[" * 100_000, b'{"afl":"one"}', b'{"afl":true}', b'{"versions":"1.0"}',
        b'{"versions":7}', b'{"id":"a","id":"b"}', b'{"afl":1' + b"0" * 5_000,
    ],
)  # fmt: skip
def test_a_header_that_cannot_be_read_makes_the_record_unreadable(codec: Codec, content: bytes) -> None:
    value = codec.encode(StepContinue(step_id="w:ab"))

    with pytest.raises(Unreadable) as caught:
        codec.decode(value, (AVRO, ("afl", content)))
    assert caught.value.reason is Reason.BAD_HEADERS
    assert header(((AVRO), ("afl", content)), "ce_id") is None


def test_a_version_that_is_none_is_refused(codec: Codec) -> None:
    with pytest.raises(Unreadable, match="is not a version"):
        codec.decode(codec.encode(StepContinue(step_id="w:ab")), structured(afl=1, versions="1.0/x/0.1.0"))


@pytest.mark.parametrize("member", ["7", "true", "null", "[]", "{}", '"\\ud800"'])
def test_members_of_other_types_are_passed_over(member: str) -> None:
    content = f'{{"afl":1,"id":{member},"attempt":{member}}}'.encode()

    assert header((("afl", content),), "ce_id") in (None, "?")
    assert header((("afl", content),), "afl_attempt") in (None, "7", "?")
