"""The lines of an audit: JSON, one for each record."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from afl.core.json_objects import write_json
from afl.core.text.printable import MAX_SHOWN_CHARS, bounded, printable_json
from afl_stream.transport import Record, TopicPartition
from afl_stream.wire.dead_letters import DlqHeader, dlq_header
from afl_stream.wire.messages import (
    CancelWorkflow,
    Command,
    ContinueAsNew,
    DescribeWorkflow,
    Event,
    ExternalEvent,
    Lifecycle,
    Message,
    MigrateWorkflow,
    RerunStep,
    ResetWorkflow,
    RetryStep,
    StartWorkflow,
    StepContinue,
    StepFailed,
    StepUpdate,
    TopicEvent,
    workflow_of,
)
from afl_stream.wire.schedule_commands import (
    DeleteSchedule,
    PauseSchedule,
    PutSchedule,
    ResumeSchedule,
    ScheduleCommand,
    TriggerSchedule,
)


def line_of(record: Record, message: Message) -> dict[str, object]:
    """Return the line of a record that could be read: where it was, which run and step it is about, what it says."""
    return {**_content(message), **_place(record)}


def unreadable_line(record: Record, reason: str, detail: str) -> dict[str, object]:
    """Return the line of a record that can never be read: where it was and why."""
    return {
        "kind": "unreadable",
        "reason": reason,
        "detail": detail,
        "key": _shown_key(record),
        "size_bytes": len(record.value or b""),
        **_place(record),
    }


def lost_line(partition: TopicPartition, expected: int, found: int) -> dict[str, object]:
    """Return the line for records that left the log before they were read: from `expected` up to `found`."""
    return {"kind": "lost", "reason": "retention", **_gap(partition, expected, found)}


def filter_line(wanted: dict[str, object]) -> dict[str, object]:
    """Return the line before the lines of an audit that does not write all: what it writes."""
    return {"kind": "filter", **wanted}


def gap_line(partition: TopicPartition, expected: int, found: int, reason: str) -> dict[str, object]:
    """Return the line for offsets that the audit has no records of although none was lost, and why."""
    return {"kind": "gap", "reason": reason, **_gap(partition, expected, found)}


def _gap(partition: TopicPartition, expected: int, found: int) -> dict[str, object]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "expected_offset": expected,
        "found_offset": found,
    }


def dead_letter_line(record: Record) -> dict[str, object]:
    """Return the line of a dead letter: which record it is and why it was given up. Its value may be anything."""
    original = {
        name: dlq_header(record.headers, wanted)
        for name, wanted in (
            ("original_topic", DlqHeader.TOPIC),
            ("original_partition", DlqHeader.PARTITION),
            ("original_offset", DlqHeader.OFFSET),
        )
    }
    key = _shown_key(record)
    return {
        "kind": "dead_letter",
        "reason": dlq_header(record.headers, DlqHeader.REASON),
        "detail": dlq_header(record.headers, DlqHeader.ERROR),
        "workflow": None if key is None else key.partition(":")[0],
        "key": key,
        **{name: int(text) if text is not None and text.isdecimal() else text for name, text in original.items()},
        "replay": dlq_header(record.headers, DlqHeader.REPLAY),
        "size_bytes": len(record.value or b""),
        **_place(record),
    }


def encode_line(line: Mapping[str, object]) -> bytes:
    """Return the line as UTF-8 with its newline.

    Numbers that JSON does not have become their names. Characters that control a terminal are escaped: the line says
    the same, and is safe to look at.
    """
    return printable_json(write_json(line, indent=None, separators=(",", ":"))).encode() + b"\n"


def _shown_key(record: Record) -> str | None:
    return None if record.key is None else bounded(record.key.decode("utf-8", "backslashreplace"), MAX_SHOWN_CHARS)


def _place(record: Record) -> dict[str, object]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "time": _time_of(record.timestamp_ms),
        "time_ms": record.timestamp_ms,
    }


def _time_of(time_ms: int) -> str | None:
    """Return the time in words; None when no calendar has it, because a record's time is any number of 64 bits."""
    try:
        time = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _content(message: Message) -> dict[str, object]:
    match message:
        case Event():
            return {
                "kind": "event",
                "workflow": message.workflow_id,
                "step": message.step_id,
                "facet": message.event_type,
                "event_id": message.id,
                "attempt": message.attempt,
                "payload": message.payload,
            }
        case StepContinue() | StepFailed() | StepUpdate():
            return {
                "kind": "answer",
                "answer": type(message).__name__,
                "workflow": message.workflow_id or workflow_of(message.step_id),
                "step": message.step_id,
                "event_id": message.event_id,
                "attempt": message.attempt,
                "agent": message.agent,
                "group": message.group,
                **_answer(message),
            }
        case Lifecycle():
            error = message.error
            return {
                "kind": "lifecycle",
                "milestone": message.kind,
                "workflow": message.workflow_id,
                "step": message.step_id,
                "facet": message.facet,
                "outputs": message.outputs,
                "error": None if error is None else {"type": error.type, "message": error.message},
                "command_id": message.command_id,
                "status": message.status,
            }
        case (
            StartWorkflow()
            | CancelWorkflow()
            | DescribeWorkflow()
            | RetryStep()
            | RerunStep()
            | ResetWorkflow()
            | ContinueAsNew()
            | MigrateWorkflow()
        ):
            return {
                "kind": "command",
                "command": type(message).__name__,
                "workflow": message.workflow_id,
                **_command(message),
                "command_id": message.command_id,
            }
        case PutSchedule() | DeleteSchedule() | PauseSchedule() | ResumeSchedule() | TriggerSchedule():
            return {
                "kind": "command",
                "command": type(message).__name__,
                "workflow": None,
                "schedule": message.schedule_id,
                **_plan(message),
                "command_id": message.command_id,
            }
        case ExternalEvent():
            return {
                "kind": "external",
                "workflow": message.workflow_id,
                "name": message.name,
                "data": message.value,
                "event_id": message.id,
            }
        case TopicEvent():
            return _topic_event(message)
        case _:
            return {"kind": type(message).__name__}


def _topic_event(event: TopicEvent) -> dict[str, object]:
    return {
        "kind": f"topic.{event.kind}",
        "request": event.request_id,
        "name": event.topic,
        "data": event.data,
        "publisher": event.publisher,
        "event_id": event.id,
    }


def _command(message: Command) -> dict[str, object]:
    match message:
        case StartWorkflow():
            return {"name": message.workflow, "program": message.program, "inputs": message.inputs}
        case CancelWorkflow():
            return {"reason": message.reason}
        case RetryStep() | RerunStep():
            return {"step": message.step_id, "reason": message.reason}
        case ResetWorkflow():
            return {"step": None, "reason": message.reason}
        case ContinueAsNew():
            return {"program": message.program, "inputs": message.inputs, "reason": message.reason}
        case MigrateWorkflow():
            return {"program": message.program, "reason": message.reason}
        case DescribeWorkflow():
            return {}


def _plan(command: ScheduleCommand) -> dict[str, object]:
    """Return what a schedule is to do, without what the command leaves open."""
    if not isinstance(command, PutSchedule):
        return {}
    plan = {
        "name": command.workflow,
        "program": command.program,
        "inputs": command.inputs,
        "cron": command.cron,
        "time_zone": command.time_zone,
        "interval_ms": command.interval_ms,
        "start_at": command.start_at,
        "end_at": command.end_at,
        "overlap": command.overlap,
        "catch_up_ms": command.catch_up_ms,
        "paused": command.paused,
        "requested_by": command.requested_by,
    }
    return {entry: value for entry, value in plan.items() if value is not None}


def _answer(message: StepContinue | StepFailed | StepUpdate) -> dict[str, object]:
    match message:
        case StepContinue():
            return {"result": message.result}
        case StepFailed():
            return {"error": {"type": message.error.type, "message": message.error.message}}
        case StepUpdate():
            return {"partial": message.partial}
