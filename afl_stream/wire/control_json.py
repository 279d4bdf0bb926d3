"""Records as JSON, for people with kcat and writers without Avro: `{"step_id": "...", "result": {...}}` is enough."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from afl.core.declared_returns import DeclaredReturns
from afl_stream.errors import Reason, Unreadable
from afl_stream.wire.event_writers import RETURNS_MEMBER
from afl_stream.wire.json_values import read_json_value
from afl_stream.wire.messages import Message
from afl_stream.wire.shapes import build_message, shape_of
from afl_stream.wire.versions import SUPPORTED, check_version

#: The entry that determines the type of a record without "type"; the first one present decides.
_TELLING_ENTRIES: Final = (
    ("result", "StepContinue"),
    ("error", "StepFailed"),
    ("partial", "StepUpdate"),
    ("workflow", "StartWorkflow"),
    ("name", "ExternalEvent"),
    ("payload", "Event"),
)
_JSON_TYPES: Final = (
    "StepContinue",
    "StepFailed",
    "StepUpdate",
    "StartWorkflow",
    "CancelWorkflow",
    "RetryStep",
    "RerunStep",
    "ResetWorkflow",
    "DescribeWorkflow",
    "ContinueAsNew",
    "MigrateWorkflow",
    "PutSchedule",
    "DeleteSchedule",
    "PauseSchedule",
    "ResumeSchedule",
    "TriggerSchedule",
    "ExternalEvent",
    "TopicEvent",
    "Event",
)


def looks_like_json(value: bytes) -> bool:
    """Return whether a value's first byte, blanks aside, is a brace. No Avro framing begins with one."""
    return value[:64].lstrip(b" \t\r\n").startswith(b"{")


def decode_json(value: bytes) -> Message:
    """Read an answer, command or event, alone or as the data of a CloudEvent in structured mode.

    Raises Unreadable or NewerFormat, and nothing else.
    """
    entries = _entries(value)
    for component in SUPPORTED:
        if isinstance(version := entries.get(component), str):
            check_version(component, version)
    return build_message(shape_of(_type_of(entries)), entries)


@lru_cache(maxsize=16)  # An agent asks before and after the handler.
def returns_in_json(value: bytes) -> DeclaredReturns | None:
    """Return what an event in JSON says about its facet's returns; None when it says nothing."""
    try:
        returns = _entries(value).get(RETURNS_MEMBER)
    except Unreadable:
        return None
    if not isinstance(returns, dict):
        return None
    required, optional = returns.get("required"), returns.get("optional", [])
    if not isinstance(required, list) or not isinstance(optional, list):
        return None
    return DeclaredReturns(tuple(map(str, required)), tuple(map(str, optional)))


def _entries(value: bytes) -> dict[str, object]:
    entries = read_json_value(value)
    if isinstance(entries, dict) and "specversion" in entries and isinstance(entries.get("data"), dict):
        entries = entries["data"]
    if not isinstance(entries, dict):
        raise Unreadable(Reason.BAD_JSON, "a record is a JSON object")
    return entries


def _type_of(entries: Mapping[str, object]) -> str:
    named = entries.get("type")
    if named is None:
        for entry, record in _TELLING_ENTRIES:
            if entry in entries:
                return record
        raise Unreadable(Reason.MISSING_FIELD, "an object without type, result, error, partial, workflow and name")
    if not isinstance(named, str) or named not in _JSON_TYPES:
        raise Unreadable(Reason.UNKNOWN_TYPE, f"type {str(named)[:40]!r} is none of {', '.join(_JSON_TYPES)}")
    return named
