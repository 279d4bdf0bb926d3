"""What a probe says about an agent's answers."""

from dataclasses import replace

import pytest

from afl_stream.commands.probing.cases import Case, Cases
from afl_stream.commands.probing.judging import Sent, judged
from afl_stream.partitioner import partition_for
from afl_stream.transport import Headers, Record
from afl_stream.wire.codec import single_object_codec
from afl_stream.wire.event_writers import EventForm
from afl_stream.wire.messages import Answer, FailureReason, StepContinue, StepFailed
from afl_stream.wire.schema_source import InMemorySchemaLog

PARTITIONS = 6
TRACE: Headers = (("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),)


@pytest.fixture
def cases() -> dict[str, Case]:
    codec = single_object_codec(InMemorySchemaLog(), event_form=lambda _facet: EventForm.JSON)
    return {case.name: case for case in Cases(codec, "shop.Charge", {"order": "17"}, EventForm.JSON).all()}


def right(case: Case) -> StepContinue:
    event = case.event
    return StepContinue(
        step_id=event.step_id, event_id=event.id, attempt=event.attempt, answer_token=event.answer_token
    )


def sent(case: Case, answer: Answer, headers: Headers = TRACE, key: bytes | None = None) -> Sent:
    key = case.event.workflow_id.encode() if key is None else key
    return Sent(Record("afl.control", partition_for(key, PARTITIONS), 0, key, b"", headers), answer)


def faults(case: Case, *answers: Sent, letters: tuple[Record, ...] = ()) -> str:
    return "; ".join(judged(case, answers, letters, PARTITIONS).faults)


def test_an_answer_with_all_that_its_event_has_is_right(cases: dict[str, Case]) -> None:
    for case in cases.values():
        if case.name not in ("payload of a wrong type", "no JSON"):
            assert faults(case, sent(case, right(case))) == ""


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"event_id": None}, "event_id is None"),
        ({"attempt": 2}, "attempt is 2"),
        ({"answer_token": None}, "answer_token is not the event's"),
    ],
)
def test_each_member_that_an_answer_lacks_is_named(
    cases: dict[str, Case], changed: dict[str, object], said: str
) -> None:
    case = cases["good"]
    assert said in faults(case, sent(case, replace(right(case), **changed)))  # type: ignore[arg-type]  # of any field


def test_key_partition_and_trace_are_judged_too(cases: dict[str, Case]) -> None:
    case = cases["good"]
    answer = sent(case, right(case))
    elsewhere = answer.record._replace(partition=(answer.record.partition + 1) % PARTITIONS)

    assert "the key is b'another'" in faults(case, sent(case, right(case), key=b"another"))
    assert "is not where murmur2 puts the key" in faults(case, Sent(elsewhere, answer.answer))
    assert "traceparent" in faults(case, sent(case, right(case), headers=()))


def test_a_good_event_wants_a_result_and_a_bad_one_a_refusal(cases: dict[str, Case]) -> None:
    good, bad = cases["good"], cases["no JSON"]
    failed = StepFailed(step_id=good.event.step_id, error=FailureReason(type="Boom", message="no"))
    letter = Record("afl.dlq.events.shop.Charge", 0, 0, bad.event.step_id.encode(), bad.value, ())

    assert "it failed: Boom: no" in faults(good, sent(good, failed))
    assert "a result was expected" in faults(good)
    assert "a dead letter or a failure was expected" in faults(bad)
    assert "answered with a result" in faults(bad, sent(bad, right(bad)))
    assert "the dead letter lacks the header afl.dlq.reason" in faults(bad, letters=(letter,))
    assert judged(cases["of a cancelled run"], [], [], PARTITIONS).faults == ()
