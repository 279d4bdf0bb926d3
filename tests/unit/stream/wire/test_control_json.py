"""Records that people and simple clients write as JSON."""

import json

import pytest

from afl_stream.errors import NewerFormat, Reason, Unreadable
from afl_stream.wire.codec import Codec, single_object_codec
from afl_stream.wire.control_json import decode_json
from afl_stream.wire.messages import (
    CancelWorkflow,
    ExternalEvent,
    FailureReason,
    Message,
    StartWorkflow,
    StepContinue,
    StepFailed,
    StepUpdate,
)
from afl_stream.wire.schema_source import InMemorySchemaLog


@pytest.fixture
def codec() -> Codec:
    return single_object_codec(InMemorySchemaLog())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"step_id":"w:ab","result":{"ok":true}}', StepContinue(step_id="w:ab", result={"ok": True})),
        (
            '  \n{"step_id":"w:ab","result":{},"attempt":2,"event_id":"w:ab#2","note":"ignored"}',
            StepContinue(step_id="w:ab", attempt=2, event_id="w:ab#2"),
        ),
        ('{"type":"StepContinue","step_id":"w:ab"}', StepContinue(step_id="w:ab")),
        (
            '{"step_id":"w:ab","error":{"type":"Declined","message":"no"}}',
            StepFailed(step_id="w:ab", error=FailureReason(type="Declined", message="no")),
        ),
        ('{"step_id":"w:ab","partial":{"pct":40}}', StepUpdate(step_id="w:ab", partial={"pct": 40})),
        (
            '{"workflow_id":"w","workflow":"shop.Buy","inputs":{"n":null}}',
            StartWorkflow(workflow_id="w", workflow="shop.Buy", inputs={"n": None}),
        ),
        ('{"type":"CancelWorkflow","workflow_id":"w"}', CancelWorkflow(workflow_id="w")),
        ('{"workflow_id":"w","name":"paid","value":[1.5]}', ExternalEvent(workflow_id="w", name="paid", value=[1.5])),
    ],
)
def test_json_is_read_as_the_record_that_its_entries_tell(codec: Codec, text: str, message: Message) -> None:
    assert codec.decode(text.encode(), json_allowed=True) == message


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{", Reason.BAD_JSON),
        (b'{"step_id":"w:ab","result":{}} trailing', Reason.BAD_JSON),
        (b'{"step_id":"w:ab","result":"\xff"}', Reason.BAD_UTF8),
        (b'{"step_id":"w:ab","result":{"s":"\\ud800"}}', Reason.BAD_UTF8),
        (b'{"step_id":"w:ab"}', Reason.MISSING_FIELD),
        (b'{"result":{}}', Reason.MISSING_FIELD),
        (b'{"step_id":"w:ab","error":{"type":"x"}}', Reason.WRONG_TYPE),
        (b'{"step_id":7,"result":{}}', Reason.WRONG_TYPE),
        (b'{"step_id":null,"result":{}}', Reason.WRONG_TYPE),
        (b'{"step_id":"w:ab","result":[]}', Reason.WRONG_TYPE),
        (b'{"step_id":"w:ab","result":null}', Reason.WRONG_TYPE),
        (b'{"step_id":"w:ab","result":{},"attempt":"1"}', Reason.WRONG_TYPE),
        (b'{"step_id":"w:ab","result":{},"attempt":true}', Reason.WRONG_TYPE),
        (b'{"step_id":"w:ab","result":{},"attempt":1.0}', Reason.WRONG_TYPE),
        (b'{"step_id":"w:ab","result":{"n":1180591620717411303424}}', Reason.NUMBER_OUT_OF_RANGE),
        (b'{"step_id":"w:ab","result":{"n":9223372036854775808}}', Reason.NUMBER_OUT_OF_RANGE),
        (b'{"step_id":"w:ab","result":{"n":' + b"9" * 1_000_000 + b"}}", Reason.NUMBER_OUT_OF_RANGE),
        (b'{"step_id":"w:ab","result":{"n":1e999}}', Reason.NUMBER_OUT_OF_RANGE),
        (b'{"step_id":"w:ab","result":{"n":NaN}}', Reason.NUMBER_OUT_OF_RANGE),
        (b'{"step_id":"w:ab","result":{"n":' + b"[" * 101 + b"]" * 101 + b"}}", Reason.TOO_DEEP),
        (b'{"step_id":"w:ab","result":' + b'{"a":' * 100_000, Reason.TOO_DEEP),
        (b'{"step_id":"nonsense","result":{}}', Reason.BAD_ID),
        (b'{"step_id":"w:ab","workflow_id":"v","result":{}}', Reason.BAD_ID),
        (b'{"workflow_id":"a b","workflow":"x"}', Reason.BAD_ID),
        (b'{"type":"Event","step_id":"w:ab"}', Reason.MISSING_FIELD),
        (b'{"type":"Lifecycle","step_id":"w:ab"}', Reason.UNKNOWN_TYPE),
        (b'{"type":["x"]}', Reason.UNKNOWN_TYPE),
    ],
)
def test_json_that_is_no_record_is_unreadable_for_a_reason(codec: Codec, text: bytes, reason: Reason) -> None:
    with pytest.raises(Unreadable) as caught:
        codec.decode(text, json_allowed=True)
    assert caught.value.reason is reason


def test_the_content_type_makes_json_of_what_does_not_look_like_it(codec: Codec) -> None:
    with pytest.raises(Unreadable) as caught:
        codec.decode(b"[1]", [("content-type", b"application/json; charset=utf-8")], json_allowed=True)
    assert caught.value.reason is Reason.BAD_JSON


def test_json_is_not_read_where_it_is_not_allowed(codec: Codec) -> None:
    with pytest.raises(Unreadable) as caught:
        codec.decode(b'{"step_id":"w:ab","result":{}}')
    assert caught.value.reason is Reason.BAD_MAGIC


def test_json_of_a_newer_release_pauses_instead_of_being_dead_lettered(codec: Codec) -> None:
    with pytest.raises(NewerFormat):
        codec.decode(b'{"step_id":"w:ab","result":{},"step_schema_version":"2.0"}', json_allowed=True)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            {
                "type": "StepContinue",
                "step_id": "w:ab",
                "result": {"a": [None, 1, {"b": "é"}]},
                "attempt": 1,
                "group": "g",
            },
            StepContinue(step_id="w:ab", result={"a": [None, 1, {"b": "é"}]}, attempt=1, group="g"),
        ),
        (
            {"type": "StepFailed", "step_id": "w:ab", "error": {"type": "T", "message": "m"}},
            StepFailed(step_id="w:ab", error=FailureReason(type="T", message="m")),
        ),
        (
            {"type": "StepUpdate", "step_id": "w:ab", "partial": {"pct": 1.5}},
            StepUpdate(step_id="w:ab", partial={"pct": 1.5}),
        ),
        (
            {"type": "StartWorkflow", "workflow_id": "w", "workflow": "a.B", "inputs": {"x": None}, "created_at": 1},
            StartWorkflow(workflow_id="w", workflow="a.B", inputs={"x": None}, created_at=1),
        ),
        (
            {"type": "CancelWorkflow", "workflow_id": "w", "reason": "late"},
            CancelWorkflow(workflow_id="w", reason="late"),
        ),
        (
            {"type": "ExternalEvent", "workflow_id": "w", "name": "n", "value": {"a": 1}},
            ExternalEvent(workflow_id="w", name="n", value={"a": 1}),
        ),
    ],
)
def test_a_record_with_its_type_reads_as_what_it_says(entries: dict[str, object], message: Message) -> None:
    assert decode_json(json.dumps(entries, ensure_ascii=False).encode()) == message
