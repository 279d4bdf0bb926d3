"""Records of every kind that a broker can hold, for the test that no reader ends of one: good ones, spoilt ones, and
what no writer of ours makes, in every field that a record has.
"""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hypothesis import strategies as st

from afl_stream.errors import NewerFormat, Unreadable
from afl_stream.limits import MAX_CLAIM_NUMBER
from afl_stream.transport import Headers, UnreadableHeaders
from afl_stream.wire.codec import Codec
from afl_stream.wire.framing import SingleObjectFraming
from afl_stream.wire.headers import HeaderForm, headers_for
from afl_stream.wire.messages import (
    STORE_KEY,
    CancelWorkflow,
    ContinueAsNew,
    Event,
    ExternalEvent,
    FailureReason,
    Lifecycle,
    Message,
    MigrateWorkflow,
    Pause,
    ProgramDefinition,
    ProgramPointer,
    RerunStep,
    ResetWorkflow,
    RetryStep,
    StartWorkflow,
    StepContinue,
    StepFailed,
    StepUpdate,
    StoreClaim,
    TopicEvent,
)
from afl_stream.wire.schedule_commands import (
    DeleteSchedule,
    PauseSchedule,
    PutSchedule,
    ResumeSchedule,
    TriggerSchedule,
)
from afl_stream.wire.versions import HEADERS

#: Ids that readers act on: of a run that is there, of none, and as long as they get.
_WORKFLOWS = ("known", "unknown", "x" * 128)
_LONGS = (-(2**63), -1, 0, 1, 2**31, 2**63 - 1)
#: Those that other readers take for a record of a newer release are left out: such a record pauses its partition.
_TELLING = ("content-type", "afl", "afl_attempt", "ce_id", "ce_subject", "ce_time", "traceparent", "afl.dlq.reason", "")

_FORMS = st.sampled_from(HeaderForm)


class AnyRecord(NamedTuple):
    """A record, and the time that its writer gave it. A header's name is any bytes."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]
    timestamp_ms: int


def any_records(codec: Codec) -> st.SearchStrategy[AnyRecord]:
    """Make records; some are good or nearly good ones of every type, in the codec's own framing.

    None says that a newer release wrote it: that pauses a partition, on purpose.
    """

    def is_of_this_release(record: AnyRecord) -> bool:
        try:
            codec.decode(record.value, text_headers(record), json_allowed=True)
        except NewerFormat:
            return False
        except Unreadable:
            return True
        return True

    return _records(codec).filter(is_of_this_release)


def newer_records(codec: Codec, _now_ms: int) -> st.SearchStrategy[AnyRecord]:
    """Make records that a newer release wrote: each holds up its partition, on purpose."""

    def record(message: Message, header: str, version: str, form: HeaderForm) -> AnyRecord:
        headers = _own_headers(0, form) | {header: version.encode()}
        return _with(codec.encode(message), headers)

    def newer_form(message: Message, number: int) -> AnyRecord:
        return _with(codec.encode(message), {"afl": b'{"afl":%d}' % number})

    versions = st.builds("{}.{}".format, st.integers(2, 99), st.integers(0, 9))
    messages = st.sampled_from(_messages())
    return st.one_of(
        st.builds(record, messages, st.sampled_from(sorted(HEADERS)), versions, _FORMS),
        st.builds(newer_form, messages, st.integers(2, 99)),
    )


def records_without_schema(_codec: Codec, now_ms: int) -> st.SearchStrategy[AnyRecord]:
    """Make records with all headers of ours and a schema that no topic has: each holds up its partition where the
    schemas topic has lost records.
    """

    def record(fingerprint: int, body: bytes, at_ms: int, ce_time: bytes | None, form: HeaderForm) -> AnyRecord:
        headers = _own_headers(at_ms, form)
        if ce_time:
            headers["ce_time"] = ce_time
        return _with(SingleObjectFraming().frame(fingerprint, body), headers)

    return st.builds(
        record,
        # None of ours is among them.
        fingerprint=st.integers(0, 2**32),
        body=st.binary(max_size=40),
        at_ms=st.sampled_from([0, now_ms - 1, now_ms, now_ms + 1, 253_402_300_799_000]),
        ce_time=st.none() | st.sampled_from([b"", b"yesterday", b"\xff"]),
        form=_FORMS,
    )


def _own_headers(at_ms: int, form: HeaderForm) -> dict[str, bytes | None]:
    """Return what a release of ours gives a record that it writes at that time."""
    return dict(headers_for(StepContinue(step_id="known:0f"), source="/any", at_ms=at_ms, form=form))


def _with(value: bytes, headers: Mapping[str, bytes | None]) -> AnyRecord:
    return AnyRecord(b"known", value, tuple((name.encode(), content) for name, content in headers.items()), 0)


def text_headers(record: AnyRecord) -> Headers:
    """Return the headers as a transport delivers them."""
    try:
        return tuple((name.decode(), value) for name, value in record.headers)
    except UnicodeDecodeError:
        return UnreadableHeaders()


def _records(codec: Codec) -> st.SearchStrategy[AnyRecord]:
    return _records_of(_keys(), _values([codec.encode(message) for message in _messages()])) | _claims(codec)


def _claims(codec: Codec) -> st.SearchStrategy[AnyRecord]:
    """Claims of stores, under their key and others. None has a number that counts: who may write one that does may give
    the deployment another store. Of several with number 1 the first counts, until the log is compacted.
    """
    numbers = [n for n in (*_LONGS, MAX_CLAIM_NUMBER + 1) if not 1 <= n <= MAX_CLAIM_NUMBER]
    values = [
        codec.encode(StoreClaim(store=store, mark="m", number=number, location="\0", host="x" * 5_000, at=number))
        for number in numbers
        for store in ("strange", "")
    ]
    return _records_of(st.just(STORE_KEY.encode()) | _keys(), st.sampled_from(values))


def _keys() -> st.SearchStrategy[bytes | None]:
    return st.none() | st.binary(max_size=20) | st.sampled_from([name.encode() for name in _WORKFLOWS])


def _records_of(
    keys: st.SearchStrategy[bytes | None], values: st.SearchStrategy[bytes | None]
) -> st.SearchStrategy[AnyRecord]:
    return st.builds(
        AnyRecord,
        key=keys,
        value=values,
        headers=_headers(),
        # The broker takes no time that is much later than its own.
        timestamp_ms=st.sampled_from([-(2**62), -62_135_596_800_001, -1, 0, 1])
        | st.integers(-(2**62), 1_700_000_000_000),
    )


def _values(good: Sequence[bytes]) -> st.SearchStrategy[bytes | None]:
    spoilt = st.builds(_spoilt, st.sampled_from(good), st.integers(0, 10_000), st.binary(max_size=12), st.booleans())
    return st.one_of(
        st.none(),
        st.binary(max_size=40),
        st.sampled_from(good),
        spoilt,
        _json_records().map(lambda entries: json.dumps(entries).encode()),
        st.sampled_from([b"{", b"[1]", b'{"result": ' + b"[" * 5_000, b'{"step_id": "\xff"}', b'{"a": 1, "a": 2}']),
        st.sampled_from(_schemas()),
    )


def _spoilt(good: bytes, at: int, noise: bytes, ends_there: bool) -> bytes:
    place = at % (len(good) + 1)
    return good[:place] + noise + (b"" if ends_there else good[place + len(noise) :])


def _headers() -> st.SearchStrategy[tuple[tuple[bytes, bytes | None], ...]]:
    names = st.binary(max_size=12) | st.sampled_from([name.encode() for name in _TELLING])
    contents = st.none() | st.binary(max_size=30) | st.sampled_from([b"application/json", b"known:0f#1", b"9" * 40])
    some = st.lists(st.tuples(names, contents), max_size=4).map(tuple)
    many = st.tuples(names, contents).map(lambda pair: (pair,) * 2_000)
    return st.one_of(some, some, some, many)


def _json_records() -> st.SearchStrategy[dict[str, object]]:
    text = st.text(max_size=8) | st.sampled_from([*_WORKFLOWS, "known:0f", "unknown:0f", "\ud800", "", "x" * 5_000])
    anything = st.recursive(
        st.none() | st.booleans() | st.sampled_from([*_LONGS, 2**64, 1e308, 0.5]) | text,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
        max_leaves=6,
    )
    return st.fixed_dictionaries(
        {},
        optional={
            "type": text | st.sampled_from([
                "StepContinue", "StepFailed", "StartWorkflow", "CancelWorkflow", "ExternalEvent", "ContinueAsNew",
                "PutSchedule", "TopicEvent",
            ]),
            "step_id": text, "workflow_id": text, "result": anything, "error": anything, "partial": anything,
            "workflow": text, "inputs": anything, "name": text, "data": anything, "schedule_id": text,
            "paused": anything, "consumed": anything, "context": anything, "offset": anything, "kind": text,
            "id": text, "event_id": text, "attempt": anything, "reason": text,
        },
    )  # fmt: skip


def _messages() -> list[Message]:
    """One or more of every type, with numbers at the edges of what its fields take."""
    reason = FailureReason(type="\0", message="x" * 20_000)
    found: list[Message] = []
    for workflow, number in zip((*_WORKFLOWS, *_WORKFLOWS), _LONGS, strict=True):
        step_id = f"{workflow}:0f"
        found += [
            StepContinue(step_id=step_id, result={"n": number}, attempt=number),
            StepFailed(step_id=step_id, error=reason, attempt=number),
            StepUpdate(step_id=step_id, partial={"n": [number, None, {}]}, attempt=number),
            StartWorkflow(workflow_id=workflow, workflow="any.Thing", inputs={"n": number}),
            StartWorkflow(workflow_id=workflow, workflow="nobody.Knows", program="0" * 64),
            CancelWorkflow(workflow_id="unknown", reason="x" * 20_000),
            RetryStep(workflow_id=workflow, step_id=step_id, command_id="\0"),
            RerunStep(workflow_id=workflow, step_id=step_id),
            ResetWorkflow(workflow_id=workflow),
            ExternalEvent(workflow_id=workflow, name="", value=number, created_at=number),
            ExternalEvent(workflow_id=workflow, name="any", value={"n": number}, id="\0", created_at=number),
            ExternalEvent(name="any"),
            ContinueAsNew(workflow_id=workflow, inputs={"n": number}, command_id="\0"),
            MigrateWorkflow(workflow_id=workflow, program="\0" * 70, reason="x" * 20_000, command_id="\0"),
            MigrateWorkflow(workflow_id=workflow, program="0" * 64),
            PutSchedule(schedule_id=workflow, workflow="any.Thing", interval_ms=number, start_at=number, paused=True),
            PutSchedule(schedule_id="any", workflow="any.Thing", cron="\0", time_zone="\0", overlap="\0"),
            DeleteSchedule(schedule_id=workflow),
            PauseSchedule(schedule_id=workflow, command_id="\0"),
            ResumeSchedule(schedule_id=""),
            TriggerSchedule(schedule_id=workflow),
            TopicEvent(data=number),
            TopicEvent(
                id="\0", request_id=workflow, topic="any", kind="consume", offset=2**63 - 1, consumed=["\0"],
                context={"n": number}, created_at=number, status="\0", number=number, last=number, after="\0",
            ),
            Lifecycle(workflow_id=workflow, kind="workflow.cancelled", at=number, step_id=step_id),
            ProgramDefinition(fingerprint=workflow, encoding="zlib", program=b"\0no program"),
            ProgramPointer(workflow=workflow, fingerprint="\0"),
            # Of no scope that there is, and with a name of none.
            Pause(scope="\0", name=workflow, is_paused=True, at=number, reason="x" * 20_000),
            Pause(scope="facet", name="", is_paused=True, at=number),
            Event(
                id=f"{step_id}#1", workflow_id=workflow if number else "", execution_id="", step_id=step_id,
                event_type="any.Ask", state="", payload={"n": 1}, attempt=number, created_at=number, deadline=number,
            ),
        ]  # fmt: skip
    return found


def _schemas() -> list[bytes]:
    """Texts for the schemas topic that are not schemas, or schemas that are too costly to use."""
    nested: object = "string"
    for _ in range(100):
        nested = {"type": "array", "items": nested}
    record = {"type": "record", "name": "afl.v1.StepContinue", "fields": [{"name": "x", "type": nested}]}
    itself = {"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}
    weightless = {"type": "array", "items": "null"}
    return [json.dumps(schema).encode() for schema in (record, itself, weightless, ["null"] * 3, "R", {}, 7, None)]
