"""The shape of each record type, taken from the shipped schemas, and checks of records of any origin."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from afl.core.values import (
    Flaw,
    Refused,
    check_boolean,
    check_entries,
    check_integer,
    check_json,
    check_string,
    describe_value,
)
from afl_stream.errors import IdRefused, Reason, Unreadable
from afl_stream.resources import schema_text
from afl_stream.wire.avro.schema import WriterSchema, branches_of, kind_of, parse_schema_text
from afl_stream.wire.messages import (
    CancelWorkflow,
    ContinueAsNew,
    DescribeWorkflow,
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
    check_event_name,
    check_workflow_id,
    workflow_of,
)
from afl_stream.wire.schedule_commands import (
    DeleteSchedule,
    PauseSchedule,
    PutSchedule,
    ResumeSchedule,
    TriggerSchedule,
    check_schedule_id,
)
from afl_stream.wire.topic_events import TopicEvent, check_topic_event
from afl_stream.wire.versions import check_versions

#: Record name to class and shipped schema.
RECORD_TYPES: Final[Mapping[str, tuple[type[Message], str]]] = {
    "Event": (Event, "facet_event"),
    "StepContinue": (StepContinue, "step_continue"),
    "StepFailed": (StepFailed, "step_failed"),
    "StepUpdate": (StepUpdate, "step_update"),
    "StartWorkflow": (StartWorkflow, "start_workflow"),
    "CancelWorkflow": (CancelWorkflow, "cancel_workflow"),
    "RetryStep": (RetryStep, "retry_step"),
    "RerunStep": (RerunStep, "rerun_step"),
    "ResetWorkflow": (ResetWorkflow, "reset_workflow"),
    "DescribeWorkflow": (DescribeWorkflow, "describe_workflow"),
    "ContinueAsNew": (ContinueAsNew, "continue_as_new"),
    "MigrateWorkflow": (MigrateWorkflow, "migrate_workflow"),
    "PutSchedule": (PutSchedule, "put_schedule"),
    "DeleteSchedule": (DeleteSchedule, "delete_schedule"),
    "PauseSchedule": (PauseSchedule, "pause_schedule"),
    "ResumeSchedule": (ResumeSchedule, "resume_schedule"),
    "TriggerSchedule": (TriggerSchedule, "trigger_schedule"),
    "ExternalEvent": (ExternalEvent, "external_event"),
    "Lifecycle": (Lifecycle, "lifecycle"),
    "ProgramDefinition": (ProgramDefinition, "program_definition"),
    "ProgramPointer": (ProgramPointer, "program_pointer"),
    "StoreClaim": (StoreClaim, "store_claim"),
    "Pause": (Pause, "pause"),
    "TopicEvent": (TopicEvent, "topic_event"),
}

#: Why a record cannot be read that holds such a value.
_REASONS: Final[Mapping[Flaw, Reason]] = {
    Flaw.WRONG_TYPE: Reason.WRONG_TYPE,
    Flaw.NUMBER_OUT_OF_RANGE: Reason.NUMBER_OUT_OF_RANGE,
    Flaw.BAD_TEXT: Reason.BAD_UTF8,
    Flaw.TOO_DEEP: Reason.TOO_DEEP,
}

# Tuples made once: `A | B` in an isinstance makes a new object for each record.
_ANSWERS: Final = (StepContinue, StepFailed, StepUpdate)
_OF_STEPS: Final = (RetryStep, RerunStep)
_OF_WORKFLOWS: Final = (
    *(StartWorkflow, CancelWorkflow, ResetWorkflow, DescribeWorkflow, ContinueAsNew, MigrateWorkflow),
)
_OF_SCHEDULES: Final = (PutSchedule, DeleteSchedule, PauseSchedule, ResumeSchedule, TriggerSchedule)
_TELL_VERSIONS: Final = (Event, ProgramDefinition)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldShape:
    """One field. `kind` is string, long, boolean, bytes, entries, failure or any.

    `default` makes the value of a field that is left out and not required. `names` are those that a writer may give the
    field: the first one that is there counts.
    """

    name: str
    kind: str
    nullable: bool
    required: bool
    default: Callable[[], object]
    names: tuple[str, ...]

    @property
    def depth(self) -> int:
        """The depth of the field's own value: the entries of a map are values of their own, each of depth 0."""
        return -1 if self.kind == "entries" else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageShape:
    """One record type: its class, its writer schema and its fields in the order of that schema."""

    name: str
    message_class: type[Message]
    schema: WriterSchema
    fields: tuple[FieldShape, ...]


@cache
def shape_of(name: str) -> MessageShape:
    """Return the shape of a record type by its short name."""
    message_class, file = RECORD_TYPES[name]
    schema = parse_schema_text(schema_text(file))
    members = {f.name: f for f in dataclasses.fields(message_class)}
    aliases = {entry["name"]: entry.get("aliases", ()) for entry in json.loads(schema.text)["fields"]}
    fields = tuple(
        _field_shape(members[entry["name"]], entry["type"], schema.named, (*aliases[entry["name"]], entry["name"]))
        for entry in schema.root["fields"]
    )
    return MessageShape(name=name, message_class=message_class, schema=schema, fields=fields)


def _field_shape(
    member: dataclasses.Field[Any], avro_type: Any, named: Mapping[str, Any], names: tuple[str, ...]
) -> FieldShape:
    branches = [branch for branch in branches_of(avro_type) if branch != "null"]
    kind = kind_of(branches[0])
    record = str(branches[0]["name"] if kind == "record" else kind)
    if record in named:
        kind = {"afl.v1.Value": "any", "afl.v1.FailureReason": "failure"}.get(record, "entries")
    elif kind == "map":
        kind = "entries"
    # A Value holds null itself; no union is needed around it.
    nullable = kind == "any" or len(branches) < len(branches_of(avro_type))
    default: Callable[[], object] = lambda: member.default  # noqa: E731
    if member.default_factory is not dataclasses.MISSING:
        default = member.default_factory
    required = member.default is dataclasses.MISSING and member.default_factory is dataclasses.MISSING
    return FieldShape(name=member.name, kind=kind, nullable=nullable, required=required, default=default, names=names)


def build_message(shape: MessageShape, entries: Mapping[str, object]) -> Message:
    """Build a record from entries of any origin; unknown entries are ignored.

    Raises Unreadable (MISSING_FIELD, WRONG_TYPE, NUMBER_OUT_OF_RANGE, BAD_UTF8, TOO_DEEP, BAD_ID) and NewerFormat.
    """
    values: dict[str, Any] = {}
    missing = ""
    for field in shape.fields:
        for name in field.names:
            if name in entries:
                values[field.name] = _checked(shape.name, field, name, entries[name])
                break
        else:
            if field.required:
                missing = missing or field.name
    if missing:
        # Last: an unreadable value says more about the writer.
        raise Unreadable(Reason.MISSING_FIELD, f"{shape.name} without {missing}")
    return check_ids(shape.message_class(**values))


def check_ids(message: Message) -> Message:
    """Return the record unchanged; raise Unreadable or NewerFormat when it cannot be acted on."""
    try:
        if isinstance(message, _TELL_VERSIONS):
            check_versions((message.workflow_version, message.step_schema_version, message.runtime_version))
        elif isinstance(message, _ANSWERS):
            workflow_id = workflow_of(message.step_id)
            if message.workflow_id is not None and message.workflow_id != workflow_id:
                raise IdRefused("workflow id of this step", message.workflow_id, f"it is {workflow_id}")
        elif isinstance(message, _OF_WORKFLOWS):
            check_workflow_id(message.workflow_id)
        elif isinstance(message, _OF_STEPS):
            check_workflow_id(message.workflow_id)
            of = message.workflow_id if message.step_id is None else workflow_of(message.step_id)
            if of != message.workflow_id:
                raise IdRefused("workflow id of this step", message.workflow_id, f"it is {of}")
        elif isinstance(message, ExternalEvent):
            check_event_name(message.name)
            if message.workflow_id:
                check_workflow_id(message.workflow_id)
        elif isinstance(message, _OF_SCHEDULES):
            check_schedule_id(message.schedule_id)
        elif isinstance(message, TopicEvent):
            check_topic_event(message)
    except IdRefused as error:
        raise Unreadable(Reason.BAD_ID, str(error)) from error
    return message


def _checked(record: str, field: FieldShape, name: str, value: object) -> object:
    if value is None and field.nullable:
        return None
    try:
        return _CHECKS[field.kind](value, field.depth)
    except Refused as refused:
        error = refused.at(f"{record}.{name}")
        raise Unreadable(_REASONS[refused.flaw], str(error)) from error


def _check_bytes(value: Any, _depth: int) -> bytes:
    if not isinstance(value, bytes):
        raise Refused("byte string", describe_value(value))
    return value


def _check_failure(value: Any, _depth: int) -> FailureReason:
    if not isinstance(value, Mapping):
        raise Refused("map with type and message", describe_value(value))
    parts: dict[str, str] = {}
    for name in ("type", "message"):
        if name not in value:
            raise Refused("map with type and message", f"a map without {name}")
        try:
            parts[name] = check_string(value[name])
        except Refused as refused:
            raise refused.inside(f".{name}") from None
    return FailureReason(type=parts["type"], message=parts["message"])


_CHECKS: Final[Mapping[str, Callable[[Any, int], object]]] = {
    "string": check_string,
    "long": check_integer,
    "boolean": check_boolean,
    "bytes": _check_bytes,
    "entries": check_entries,
    "failure": _check_failure,
    "any": check_json,
}
