"""What is right or wrong in what an agent sent about an event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from afl_stream.commands.probing.cases import Case, Wanted
from afl_stream.partitioner import partition_for
from afl_stream.transport import Record
from afl_stream.wire.headers import TRACE_PARENT, header
from afl_stream.wire.messages import Answer, StepContinue, StepFailed, StepUpdate


class Sent(NamedTuple):
    """A record of the agent on the control topic, and what it says."""

    record: Record
    answer: Answer


class Verdict(NamedTuple):
    """What came for a case, and what is wrong in it: nothing, where it is as it has to be."""

    case: str
    came: str
    faults: tuple[str, ...]


def judged(case: Case, answers: Sequence[Sent], letters: Sequence[Record], control_partitions: int) -> Verdict:
    """Judge what came for a case; `letters` are dead letters of its record."""
    ends = [one for one in answers if not isinstance(one.answer, StepUpdate)]
    words = [_named(one.answer) for one in ends] + ["dead letter"] * len(letters)
    faults = [fault for one in answers for fault in _faults(case, one, control_partitions)]
    results = [one for one in ends if isinstance(one.answer, StepContinue)]
    if case.wanted in (Wanted.RESULT, Wanted.RESULT_OR_NOTHING):
        if not results:
            faults.insert(0, f"{Wanted.RESULT.value} was expected")
        if letters:
            faults.append("an event that can be read is no dead letter")
    elif case.wanted is Wanted.REFUSAL:
        if results:
            faults.insert(0, "an event that cannot be read was answered with a result")
        elif not words:
            faults.insert(0, f"{Wanted.REFUSAL.value} was expected")
        faults += [fault for letter in letters for fault in _faults_of_letter(letter)]
    return Verdict(case.name, ", ".join(words) or "nothing", tuple(dict.fromkeys(faults)))


def _named(answer: Answer) -> str:
    return f"failure {answer.error.type}" if isinstance(answer, StepFailed) else "result"


def _faults(case: Case, sent: Sent, control_partitions: int) -> list[str]:
    record, answer, event = sent.record, sent.answer, case.event
    faults = []
    if record.key != event.workflow_id.encode():
        faults.append(f"the key is {record.key!r}, not the workflow id {event.workflow_id}")
    elif record.partition != partition_for(record.key, control_partitions):
        faults.append(f"partition {record.partition} is not where murmur2 puts the key")
    for name, found, right in (
        ("event_id", answer.event_id, event.id),
        ("attempt", answer.attempt, event.attempt),
    ):
        if found != right:
            faults.append(f"{name} is {found!r}, not the event's {right!r}")
    is_refusal = case.wanted is Wanted.REFUSAL
    if answer.answer_token != event.answer_token and not is_refusal:
        faults.append("answer_token is not the event's: refused where tokens are required")
    if not is_refusal and header(record.headers, TRACE_PARENT) is None:
        faults.append("the header traceparent of the event is not repeated")
    if isinstance(answer, StepFailed) and case.wanted in (Wanted.RESULT, Wanted.RESULT_OR_NOTHING):
        faults.append(f"it failed: {answer.error.type}: {answer.error.message}")
    return faults


def _faults_of_letter(letter: Record) -> list[str]:
    wanted = ("afl.dlq.topic", "afl.dlq.partition", "afl.dlq.offset", "afl.dlq.reason", "afl.dlq.error")
    return [f"the dead letter lacks the header {name}" for name in wanted if header(letter.headers, name) is None]
