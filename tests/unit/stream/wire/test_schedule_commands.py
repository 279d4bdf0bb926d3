"""The commands about schedules, and the one to continue as new: written, read, and refused when malformed."""

from __future__ import annotations

import json

import pytest

from afl_stream.audit.lines import line_of
from afl_stream.errors import IdRefused, Reason, Unreadable, ValueRefused
from afl_stream.transport import Record
from afl_stream.wire.codec import Codec, single_object_codec
from afl_stream.wire.headers import cloud_event_id, header, headers_for
from afl_stream.wire.messages import ContinueAsNew, Message
from afl_stream.wire.schedule_commands import (
    DeleteSchedule,
    PauseSchedule,
    PutSchedule,
    ResumeSchedule,
    ScheduleCommand,
    TriggerSchedule,
    check_schedule_id,
)
from afl_stream.wire.schema_source import InMemorySchemaLog

NIGHTLY = PutSchedule(
    schedule_id="nightly",
    workflow="shop.Report",
    inputs={"day": None, "kinds": ["a", 1]},
    program="f" * 64,
    cron="30 2 * * 1-5",
    time_zone="Europe/Berlin",
    start_at=1_764_000_000_000,
    end_at=1_765_000_000_000,
    overlap="queue",
    catch_up_ms=60_000,
    paused=False,
    command_id="c-1",
    requested_by="ann",
)
MESSAGES: list[Message] = [
    NIGHTLY,
    PutSchedule(schedule_id="often", workflow="shop.Poll", interval_ms=1_000),
    PutSchedule(schedule_id="often", workflow="shop.Poll", interval_ms=1_000, paused=True),
    DeleteSchedule(schedule_id="nightly", command_id="c-2"),
    PauseSchedule(schedule_id="nightly"),
    ResumeSchedule(schedule_id="nightly"),
    TriggerSchedule(schedule_id="nightly", command_id="c-3"),
    ContinueAsNew(workflow_id="meter-7", inputs={"total": 0}, program="f", reason="new tariff", command_id="c-4"),
    ContinueAsNew(workflow_id="meter-7"),
]


@pytest.fixture
def codec() -> Codec:
    return single_object_codec(InMemorySchemaLog())


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_command_reads_as_it_was_written(codec: Codec, message: Message) -> None:
    assert codec.decode(codec.encode(message)) == message


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            {"type": "PutSchedule", "schedule_id": "often", "workflow": "shop.Poll", "interval_ms": 1_000},
            PutSchedule(schedule_id="often", workflow="shop.Poll", interval_ms=1_000),
        ),
        (
            {"type": "PutSchedule", "schedule_id": "s", "workflow": "a.B", "cron": "* * * * *", "paused": True},
            PutSchedule(schedule_id="s", workflow="a.B", cron="* * * * *", paused=True),
        ),
        ({"type": "PauseSchedule", "schedule_id": "s"}, PauseSchedule(schedule_id="s")),
        ({"type": "ResumeSchedule", "schedule_id": "s"}, ResumeSchedule(schedule_id="s")),
        (
            {"type": "DeleteSchedule", "schedule_id": "s", "command_id": "c"},
            DeleteSchedule(schedule_id="s", command_id="c"),
        ),
        ({"type": "TriggerSchedule", "schedule_id": "s"}, TriggerSchedule(schedule_id="s")),
        ({"type": "ContinueAsNew", "workflow_id": "w"}, ContinueAsNew(workflow_id="w")),
        (
            {"type": "ContinueAsNew", "workflow_id": "w", "inputs": {"n": 1}},
            ContinueAsNew(workflow_id="w", inputs={"n": 1}),
        ),
    ],
)
def test_a_command_in_json_is_named_by_its_type(codec: Codec, entries: dict[str, object], message: Message) -> None:
    assert codec.decode(json.dumps(entries).encode(), json_allowed=True) == message


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ({"type": "PutSchedule", "schedule_id": "s"}, Reason.MISSING_FIELD),
        ({"type": "PutSchedule", "workflow": "a.B"}, Reason.MISSING_FIELD),
        ({"type": "PutSchedule", "schedule_id": "s", "workflow": "a.B", "paused": "yes"}, Reason.WRONG_TYPE),
        ({"type": "PutSchedule", "schedule_id": "s", "workflow": "a.B", "paused": 1}, Reason.WRONG_TYPE),
        ({"type": "PutSchedule", "schedule_id": "s", "workflow": "a.B", "interval_ms": 1.5}, Reason.WRONG_TYPE),
        ({"type": "PutSchedule", "schedule_id": "a b", "workflow": "a.B"}, Reason.BAD_ID),
        ({"type": "PauseSchedule", "schedule_id": "x" * 101}, Reason.BAD_ID),
        ({"type": "PauseSchedule", "schedule_id": "#republish"}, Reason.BAD_ID),
        ({"type": "ContinueAsNew", "workflow_id": "a b"}, Reason.BAD_ID),
        ({"type": "ContinueAsNew", "workflow_id": "w", "inputs": []}, Reason.WRONG_TYPE),
    ],
)
def test_a_malformed_command_is_unreadable_for_a_reason(
    codec: Codec, entries: dict[str, object], reason: Reason
) -> None:
    with pytest.raises(Unreadable) as caught:
        codec.decode(json.dumps(entries).encode(), json_allowed=True)
    assert caught.value.reason is reason


def test_paused_is_a_boolean_where_it_is_written_too(codec: Codec) -> None:
    with pytest.raises(ValueRefused, match=r"PutSchedule\.paused: .*Boolean"):
        codec.encode(PutSchedule(schedule_id="s", workflow="a.B", paused="yes"))  # type: ignore[arg-type]  # the mistake


def test_a_schedules_id_leaves_room_for_the_time_in_the_ids_of_its_runs() -> None:
    longest = "x" * 100

    assert check_schedule_id(longest) == longest
    assert len(f"{longest}-20261129T093000Z") <= 128
    with pytest.raises(IdRefused, match="schedule id"):
        check_schedule_id(longest + "x")


@pytest.mark.parametrize(
    ("command", "identity"),
    [
        (NIGHTLY, "nightly:PutSchedule:c-1"),
        (PauseSchedule(schedule_id="s"), "s:PauseSchedule"),
        (ContinueAsNew(workflow_id="w", command_id="c"), "w:ContinueAsNew:c"),
    ],
)
def test_a_command_that_is_sent_again_has_the_same_id(command: ScheduleCommand | ContinueAsNew, identity: str) -> None:
    assert cloud_event_id(command) == identity
    assert header(headers_for(command, source="/here"), "ce_subject") == identity.partition(":")[0]


def line(message: Message) -> dict[str, object]:
    record = Record("afl.commands", 0, 1, b"k", b"v", (), 0)
    place = {"topic", "partition", "offset", "time", "time_ms"}
    return {name: value for name, value in line_of(record, message).items() if name not in place}


def test_an_audit_tells_what_a_schedule_is_to_do() -> None:
    assert line(PutSchedule(schedule_id="often", workflow="shop.Poll", interval_ms=1_000, command_id="c")) == {
        "kind": "command",
        "command": "PutSchedule",
        "workflow": None,
        "schedule": "often",
        "name": "shop.Poll",
        "inputs": {},
        "interval_ms": 1_000,
        "command_id": "c",
    }
    assert line(DeleteSchedule(schedule_id="often"))["schedule"] == "often"


def test_an_audit_tells_how_a_run_is_to_continue() -> None:
    assert line(ContinueAsNew(workflow_id="w", inputs={"n": 1}, reason="r")) == {
        "kind": "command",
        "command": "ContinueAsNew",
        "workflow": "w",
        "program": None,
        "inputs": {"n": 1},
        "reason": "r",
        "command_id": None,
    }
