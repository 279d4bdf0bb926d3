"""The lines of an audit, one of JSON for each record, and the file that keeps them."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Protocol

from afl.core.json_objects import write_json
from afl.core.process.private_files import make_private_file, protect
from afl.core.text.printable import MAX_SHOWN_CHARS, ascii_json, bounded, printable_json
from afl_stream.transport import Record, TopicPartition
from afl_stream.wire.messages import (
    CancelWorkflow,
    Command,
    ContinueAsNew,
    DescribeWorkflow,
    Event,
    ExternalEvent,
    Lifecycle,
    Message,
    RerunStep,
    ResetWorkflow,
    RetryStep,
    StartWorkflow,
    StepContinue,
    StepFailed,
    StepUpdate,
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

#: Bytes at a file's end that are read for the written offsets. A batch's lines take a small part of them.
TAIL_BYTES: Final = 16 * 1024 * 1024


def line_of(record: Record, message: Message) -> dict[str, object]:
    """Return the line of a record that could be read: where it was, which run and step it is about, what it says."""
    return {**_content(message), **_place(record)}


def unreadable_line(record: Record, reason: str, detail: str) -> dict[str, object]:
    """Return the line of a record that can never be read: where it was and why."""
    return {
        "kind": "unreadable",
        "reason": reason,
        "detail": detail,
        "key": None if record.key is None else bounded(record.key.decode("utf-8", "backslashreplace"), MAX_SHOWN_CHARS),
        "size_bytes": len(record.value or b""),
        **_place(record),
    }


def lost_line(partition: TopicPartition, expected: int, found: int) -> dict[str, object]:
    """Return the line for records that left the log before they were read: from `expected` up to `found`."""
    return {
        "kind": "lost",
        "topic": partition.topic,
        "partition": partition.partition,
        "expected_offset": expected,
        "found_offset": found,
    }


def encode_line(line: dict[str, object]) -> bytes:
    """Return the line as UTF-8 with its newline.

    Numbers that JSON does not have become their names. Characters that control a terminal are escaped: the line says
    the same, and is safe to look at.
    """
    return printable_json(write_json(line, indent=None, separators=(",", ":"))).encode() + b"\n"


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
        case _:
            return {"kind": type(message).__name__}


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


class LastWritten(NamedTuple):
    """The end of a partition's written lines: the offset of the last record, and the latest time of any."""

    offset: int
    time_ms: int


class AuditSink(Protocol):
    """The port that audit lines are written to."""

    def write(self, lines: Iterable[bytes]) -> None:
        """Take whole lines."""

    def sync(self) -> None:
        """Return when all written lines are durable."""

    def written(self, *, whole: bool = False) -> dict[TopicPartition, LastWritten]:
        """Return what is known to be written, by partition: from the end of the sink, or from the `whole` of it."""

    def close(self) -> None: ...


class AuditStream:
    """Lines into a binary stream that the caller opened, such as stdout. It does not remember what was written.

    With `in_ascii` other characters are JSON's escapes: for a terminal or a reader that takes no UTF-8.
    """

    def __init__(self, stream: BinaryIO, *, in_ascii: bool = False) -> None:
        self._stream = stream
        self._in_ascii = in_ascii

    def write(self, lines: Iterable[bytes]) -> None:
        text = b"".join(lines)
        self._stream.write(ascii_json(text.decode()).encode() if self._in_ascii else text)

    def sync(self) -> None:
        self._stream.flush()

    def written(self, *, whole: bool = False) -> dict[TopicPartition, LastWritten]:  # noqa: ARG002 - the sink port's signature
        return {}

    def close(self) -> None:
        self._stream.flush()


class AuditFile:
    """Lines at the end of a file. Opening the file removes a line that a crash has torn."""

    def __init__(self, path: Path) -> None:
        """Raise OSError when the file can neither be opened nor created."""
        make_private_file(path)
        protect(path)
        self._file = open(path, "a+b")  # noqa: SIM115 - open as long as the audit runs
        self._written = self._read_tail()

    def write(self, lines: Iterable[bytes]) -> None:
        self._file.write(b"".join(lines))
        self._file.flush()

    def sync(self) -> None:
        os.fsync(self._file.fileno())

    def written(self, *, whole: bool = False) -> dict[TopicPartition, LastWritten]:
        if not whole:
            return dict(self._written)
        self._file.seek(0)
        written: dict[TopicPartition, LastWritten] = {}
        for line in self._file:
            _note_line(written, line)
        return written

    def close(self) -> None:
        self._file.close()

    def _read_tail(self) -> dict[TopicPartition, LastWritten]:
        size = self._file.seek(0, io.SEEK_END)
        start = max(0, size - TAIL_BYTES)
        self._file.seek(start)
        tail = self._file.read()
        if not tail.endswith(b"\n"):
            self._file.truncate(start + tail.rfind(b"\n") + 1)
        lines = tail.split(b"\n")[0 if start == 0 else 1 : -1]
        written: dict[TopicPartition, LastWritten] = {}
        for line in lines:
            _note_line(written, line)
        return written


def _note_line(written: dict[TopicPartition, LastWritten], line: bytes) -> None:
    try:
        entry = json.loads(line)
        partition = TopicPartition(str(entry["topic"]), int(entry["partition"]))
        before = written.get(partition, LastWritten(-1, -1))
        offset, time_ms = int(entry["offset"]), int(entry["time_ms"])
        # The last offset, not the highest: a recreated topic counts from 0 again.
        written[partition] = LastWritten(offset, max(time_ms, before.time_ms))
    except (ValueError, KeyError, TypeError):
        return  # A line of someone else.
