"""The operations of the gateway: each with its path, who may do it, its body, and what it returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from afl_stream.gateway.gateway import Gateway
from afl_stream.gateway.lease_operations import complete, defer, fail, give_back, heartbeat, poll, update
from afl_stream.gateway.requested import Requested
from afl_stream.gateway.run_operations import answer, external_event, migrate, start, status
from afl_stream.web.access import Role
from afl_stream.wire.headers import IfExists

Schema = Mapping[str, Any]
_TEXT: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 1_000}
_ID: Final[Schema] = {"type": "string", "maxLength": 1_000}
_OBJECT: Final[Schema] = {"type": "object"}
_FLAG: Final[Schema] = {"type": "boolean"}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
_OR_NULL: Final[Schema] = {"type": ["string", "null"]}


def _seconds(description: str, most: int, *, least: int = 0) -> Schema:
    return {"type": "number", "minimum": least, "maximum": most, "description": description}


_LEASE: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 20_000,
    "description": "The lease of an event, as the poll has given it.",
}
_MOST_S: Final = 86_400
_EVENT: Final[Schema] = {
    "type": "object",
    "required": ["lease", "until_ms", "facet", "event_id", "workflow_id", "step_id", "attempt", "tries", "payload"],
    "properties": {
        "lease": {"type": "string", "description": "For the answer, and for heartbeats."},
        "until_ms": {**_COUNT, "description": "When the lease runs out, in ms since the epoch."},
        "facet": _TEXT,
        "event_id": {**_TEXT, "description": "The same for every try: a key for work that must be done once."},
        "workflow_id": _TEXT,
        "step_id": _TEXT,
        "attempt": _COUNT,
        "tries": {**_COUNT, "description": "Which try for this event it is, from 1."},
        "deadline_ms": {"type": ["integer", "null"]},
        "traceparent": _OR_NULL,
        "payload": _OBJECT,
    },
}
_ANSWERED: Final[Schema] = {
    "type": "object",
    "required": ["leased"],
    "properties": {
        "leased": {**_FLAG, "description": "Whether the lease still held. Where it did not, another may have answered."}
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation. `members` are those of its body by name; `answer` is the schema of what it returns."""

    name: str
    method: str
    path: str
    summary: str
    tag: str
    role: Role
    act: Callable[[Gateway, Requested], Awaitable[Mapping[str, Any]]]
    members: Mapping[str, Schema] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    query: Mapping[str, Schema] = field(default_factory=dict)
    answer: Schema = field(default_factory=lambda: _OBJECT)
    status: int = 200


OPERATIONS: Final = (
    Operation(
        name="startRun",
        method="POST",
        path="/v1/runs",
        summary="Start a run. The same id, workflow and inputs again start nothing new.",
        tag="runs",
        role=Role.OPERATE,
        act=start,
        members={
            "workflow": {**_TEXT, "description": "Its name; a unique last part will do."},
            "inputs": _OBJECT,
            "id": _ID,
            "if_exists": {
                "type": "string",
                "enum": [*IfExists],
                "description": "If a run has the id: use it, whatever version and inputs it was started with; or "
                "refuse the start. Without it, use it if it was started in the same way, else refuse.",
            },
        },
        required=("workflow",),
        answer={
            "type": "object",
            "required": ["workflow_id", "answered"],
            "properties": {
                "workflow_id": _TEXT,
                "answered": {**_FLAG, "description": "Whether an evaluator has taken it; else it waits for one."},
            },
        },
        status=202,
    ),
    Operation(
        name="migrateRun",
        method="POST",
        path="/v1/runs/{run}/migrate",
        summary="Move a run that has not ended to another version of its program. What does not fit is named.",
        tag="runs",
        role=Role.MIGRATE,
        act=migrate,
        members={
            "to": {**_TEXT, "description": "The first digits of a deployed program's id, or current."},
            "reason": {**_ID, "description": "Kept with the run, with the name of the token."},
        },
        required=("to",),
        answer={
            "type": "object",
            "required": ["workflow_id", "program", "answered"],
            "properties": {
                "workflow_id": _TEXT,
                "program": {**_TEXT, "description": "The version that it moves to."},
                "answered": {**_FLAG, "description": "Whether an evaluator has moved it; else it waits for one."},
            },
        },
        status=202,
    ),
    Operation(
        name="showRun",
        method="GET",
        path="/v1/runs/{run}",
        summary="Show a run: its status, the steps that wait, and at its end outputs or error.",
        tag="runs",
        role=Role.READ,
        act=status,
        query={"wait_s": _seconds("Wait so long for its end.", _MOST_S)},
        answer={
            "type": "object",
            "required": ["workflow_id", "status", "ended", "waiting"],
            "properties": {
                "workflow_id": _TEXT,
                "status": _OR_NULL,
                "ended": _FLAG,
                "waiting": {"type": "array", "items": _OBJECT},
                "outputs": {"type": ["object", "null"]},
                "error": {"type": ["object", "null"]},
            },
        },
    ),
    Operation(
        name="raiseEvent",
        method="POST",
        path="/v1/runs/{run}/events/{name}",
        summary="Raise an external event for a run. The same id counts once.",
        tag="runs",
        role=Role.OPERATE,
        act=external_event,
        members={"data": {}, "id": _ID},
        status=202,
    ),
    Operation(
        name="answerStep",
        method="POST",
        path="/v1/steps/{step}/answer",
        summary="Answer a step that waits, with a result or an error.",
        tag="runs",
        role=Role.OPERATE,
        act=answer,
        members={
            "result": _OBJECT,
            "error": {
                "type": "object",
                "required": ["message"],
                "additionalProperties": False,
                "properties": {"type": _TEXT, "message": {"type": "string"}},
            },
            "attempt": {"type": "integer", "minimum": 0, "maximum": 1_000_000},
        },
        status=202,
    ),
    Operation(
        name="pollEvents",
        method="POST",
        path="/v1/facets/{facet}/poll",
        summary="Take events of a facet, each with a lease; wait for the first of them.",
        tag="work",
        role=Role.WORK,
        act=poll,
        members={
            "max": {"type": "integer", "minimum": 1, "maximum": 1_000, "default": 1},
            "wait_s": _seconds("Wait so long for an event; at most gateway.max_wait_s.", _MOST_S),
            "lease_s": _seconds("How long each lease is; by default gateway.lease_s.", _MOST_S, least=1),
        },
        answer={
            "type": "object",
            "required": ["events"],
            "properties": {"events": {"type": "array", "items": _EVENT}},
        },
    ),
    Operation(
        name="extendLease",
        method="POST",
        path="/v1/leases/heartbeat",
        summary="Extend a lease from now on.",
        tag="work",
        role=Role.WORK,
        act=heartbeat,
        members={"lease": _LEASE, "lease_s": _seconds("By default as long as before.", _MOST_S, least=1)},
        required=("lease",),
        answer={
            "type": "object",
            "required": ["until_ms", "cancelled", "stopping"],
            "properties": {
                "until_ms": _COUNT,
                "cancelled": {**_FLAG, "description": "Whether the answer is needed no more."},
                "stopping": {**_FLAG, "description": "Whether the gateway stops, or another member has the event now."},
            },
        },
    ),
    Operation(
        name="completeEvent",
        method="POST",
        path="/v1/leases/complete",
        summary="Answer an event with a result. It is on Kafka when this returns.",
        tag="work",
        role=Role.WORK,
        act=complete,
        members={"lease": _LEASE, "result": _OBJECT},
        required=("lease",),
        answer=_ANSWERED,
    ),
    Operation(
        name="failEvent",
        method="POST",
        path="/v1/leases/fail",
        summary="Answer an event with a failure. It is on Kafka when this returns.",
        tag="work",
        role=Role.WORK,
        act=fail,
        members={"lease": _LEASE, "type": _TEXT, "message": {"type": "string"}},
        required=("lease", "message"),
        answer=_ANSWERED,
    ),
    Operation(
        name="updateEvent",
        method="POST",
        path="/v1/leases/update",
        summary="Tell some returns of an event before its answer.",
        tag="work",
        role=Role.WORK,
        act=update,
        members={"lease": _LEASE, "partial": _OBJECT},
        required=("lease", "partial"),
        answer=_ANSWERED,
    ),
    Operation(
        name="deferEvent",
        method="POST",
        path="/v1/leases/defer",
        summary="End a lease without an answer: it comes later, by its lease, whenever that is.",
        tag="work",
        role=Role.WORK,
        act=defer,
        members={"lease": _LEASE},
        required=("lease",),
        answer=_ANSWERED,
    ),
    Operation(
        name="releaseEvent",
        method="POST",
        path="/v1/leases/release",
        summary="Give an event back: the next poll gets it at once, and no try is counted.",
        tag="work",
        role=Role.WORK,
        act=give_back,
        members={"lease": _LEASE},
        required=("lease",),
        answer=_ANSWERED,
    ),
)
