"""The records that travel: events, answers, commands, external events, milestones, programs, and topic events."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from afl.core.ids import WORKFLOW_ID_PATTERN
from afl.core.ids import event_id_of as event_id_of
from afl.core.versions import RUNTIME_VERSION, STEP_SCHEMA_VERSION, WORKFLOW_VERSION
from afl_stream.errors import IdRefused, Reason, Unreadable
from afl_stream.limits import (
    MAX_NAME_CHARS,
    MAX_PROGRAM_BYTES,
    MAX_STEP_DIGEST_CHARS,
)
from afl_stream.wire.schedule_commands import ScheduleCommand as ScheduleCommand
from afl_stream.wire.topic_events import TopicEvent as TopicEvent

#: The name of a step id in an error.
STEP_ID: Final = "step id"
_WORKFLOW_ID: Final = re.compile(rf"{WORKFLOW_ID_PATTERN}\Z")
_STEP_ID_TEXT: Final = rf"({WORKFLOW_ID_PATTERN}):[0-9a-f]{{1,{MAX_STEP_DIGEST_CHARS}}}"
_STEP_ID: Final = re.compile(rf"{_STEP_ID_TEXT}\Z")
_EVENT_ID: Final = re.compile(rf"({_STEP_ID_TEXT})#(0|[1-9][0-9]{{0,17}})\Z")

#: Key prefix of the records on the definitions topic that point from a workflow's name to a program.
NAME_KEY_PREFIX: Final = "name:"
#: Key of the records on the definitions topic that claim a store.
STORE_KEY: Final = "store"
#: Key prefix of the records on the definitions topic that pause something.
PAUSE_KEY_PREFIX: Final = "pause:"


#: Returns the match of a step id, whose group 1 is the workflow id, or None.
match_step_id: Final = _STEP_ID.match


def is_workflow_id(workflow_id: str) -> bool:
    """Return whether a text can be the id of a workflow."""
    return isinstance(workflow_id, str) and _WORKFLOW_ID.match(workflow_id) is not None


def check_workflow_id(workflow_id: str) -> str:
    """Return the workflow id unchanged; raise IdRefused when it is malformed."""
    if not is_workflow_id(workflow_id):
        raise IdRefused("workflow id", workflow_id, "1 to 128 characters out of A-Z a-z 0-9 . _ ~ -")
    return workflow_id


def check_event_name(name: str) -> str:
    """Return the name of an external event unchanged; raise IdRefused when it is empty or too long."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARS:
        raise IdRefused("name of an external event", name, f"1 to {MAX_NAME_CHARS} characters")
    return name


def workflow_of(step_id: str) -> str:
    """Return the workflow id that a step id `<workflow_id>:<hex digest>` begins with; raise IdRefused otherwise."""
    match = _STEP_ID.match(step_id) if isinstance(step_id, str) else None
    if match is None:
        raise IdRefused(
            STEP_ID,
            step_id,
            f"a workflow id, a colon and a digest of up to {MAX_STEP_DIGEST_CHARS} lower-case hex digits",
        )
    return match.group(1)


def step_and_attempt_of(event_id: str) -> tuple[str, int]:
    """Split an event id into step id and attempt; raise IdRefused when it is malformed."""
    match = _EVENT_ID.match(event_id) if isinstance(event_id, str) else None
    if match is None:
        raise IdRefused("event id", event_id, "a step id, '#' and the number of the attempt")
    return match.group(1), int(match.group(3))


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureReason:
    """The reason of a failure: a stable type for programs, a message for people."""

    type: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A request to an agent: do the work of this facet for this step.

    `event_type` is the qualified facet name. `created_at` and `deadline` are milliseconds since the epoch. A parameter
    that was not supplied is missing in `payload`; one that is null is a key with None.
    """

    id: str
    workflow_id: str
    execution_id: str
    step_id: str
    event_type: str
    state: str
    payload: Mapping[str, object]
    attempt: int
    created_at: int
    deadline: int | None = None
    answer_token: str | None = None
    workflow_version: str = WORKFLOW_VERSION
    step_schema_version: str = STEP_SCHEMA_VERSION
    runtime_version: str = RUNTIME_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class StepContinue:
    """An agent's answer: the step may continue with this result.

    `step_id` and `result` are enough; without `event_id` the answer is for the step's current attempt.
    """

    step_id: str
    result: Mapping[str, object] = field(default_factory=dict)
    workflow_id: str | None = None
    event_id: str | None = None
    attempt: int | None = None
    answer_token: str | None = None
    agent: str | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFailed:
    """An agent's answer: the work was tried and failed for good."""

    step_id: str
    error: FailureReason
    workflow_id: str | None = None
    event_id: str | None = None
    attempt: int | None = None
    answer_token: str | None = None
    agent: str | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepUpdate:
    """An agent's partial result while it is still at work. The step continues to wait."""

    step_id: str
    partial: Mapping[str, object] = field(default_factory=dict)
    workflow_id: str | None = None
    event_id: str | None = None
    attempt: int | None = None
    answer_token: str | None = None
    agent: str | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartWorkflow:
    """A client's command: start this workflow under an id that the client generated.

    `workflow` is the qualified name; `program` the fingerprint of its program, or None for the name's current one.
    """

    workflow_id: str
    workflow: str
    program: str | None = None
    inputs: Mapping[str, object] = field(default_factory=dict)
    requested_by: str | None = None
    created_at: int | None = None
    #: A milestone with the same id is the answer to this command. Without an id only a refusal is answered.
    command_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelWorkflow:
    """A client's command: end this workflow, whatever it waits for. `command_id` as in StartWorkflow."""

    workflow_id: str
    reason: str | None = None
    command_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeWorkflow:
    """A client's question about a workflow: its status, and which of its steps wait for an answer.

    The milestone with the same `command_id` has the reply. Nothing is changed.
    """

    workflow_id: str
    command_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryStep:
    """An operator's command: retry what has failed, of this step or, without one, of the whole workflow.

    `command_id` identifies it: the same one again does nothing. Without an id every copy is carried out.
    """

    workflow_id: str
    step_id: str | None = None
    reason: str | None = None
    command_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunStep:
    """An operator's command: run this step again, whatever its result, and all steps that depend on it.

    `command_id` as in RetryStep.
    """

    workflow_id: str
    step_id: str
    reason: str | None = None
    command_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetWorkflow:
    """An operator's command: run this workflow again from its start, with its own inputs and program.

    `command_id` as in RetryStep.
    """

    workflow_id: str
    reason: str | None = None
    command_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinueAsNew:
    """An operator's command: end this execution of a workflow, and continue as the next one with other inputs.

    `program` is the fingerprint of the next execution's program, or None for its present one. `command_id` as in
    RetryStep.
    """

    workflow_id: str
    inputs: Mapping[str, object] = field(default_factory=dict)
    program: str | None = None
    reason: str | None = None
    command_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateWorkflow:
    """An operator's command: let a workflow that has not ended continue by another version of its program.

    `program` is the fingerprint of that version. `command_id` as in RetryStep.
    """

    workflow_id: str
    program: str
    reason: str | None = None
    command_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalEvent:
    """An event from outside that a workflow may wait for, by name. `value` is the data that came with it.

    The same `id` again does nothing; an event without one is told from others by its place in the log.
    """

    #: "": the record's key says it (`addressed` in codec.py).
    workflow_id: str = ""
    name: str
    value: object = None
    id: str | None = None
    created_at: int | None = None


#: The kind of the milestone of a workflow that has continued as new: `outputs` has the number of the `execution` that
#: began.
CONTINUED: Final = "workflow.continued"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    """A milestone of a workflow or a step, for subscribers: `workflow.started`, `step.completed`, ...

    `at` is milliseconds since the epoch. With a `command_id` it answers the command of that id; `status` is the
    workflow's status if the answer reports it.
    """

    workflow_id: str
    kind: str
    at: int
    workflow: str | None = None
    step_id: str | None = None
    facet: str | None = None
    outputs: Mapping[str, object] | None = None
    error: FailureReason | None = None
    command_id: str | None = None
    status: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramDefinition:
    """A compiled program on the definitions topic, under its fingerprint. `program` is packed as `encoding` says.

    `annotations` are its source places and doc comments, as the compiled program packs them. Older releases ignore
    them, and run the program without line numbers in its errors.
    """

    fingerprint: str
    program: bytes
    encoding: str = "zlib"
    workflow_version: str = WORKFLOW_VERSION
    step_schema_version: str = STEP_SCHEMA_VERSION
    runtime_version: str = RUNTIME_VERSION
    annotations: bytes | None = None

    @classmethod
    def packed(cls, fingerprint: str, program_json: str, annotations: bytes = b"") -> ProgramDefinition:
        """Build the record from the program's JSON text. The same text gives the same bytes."""
        program = zlib.compress(program_json.encode(), 6)
        return cls(fingerprint=fingerprint, program=program, annotations=annotations or None)

    def program_json(self) -> str:
        """Return the program's JSON text; raise Unreadable (BAD_PROGRAM) when it does not unpack."""
        if self.encoding != "zlib":
            raise Unreadable(Reason.BAD_PROGRAM, f"program {self.fingerprint} is packed as {self.encoding!r}, not zlib")
        unpack = zlib.decompressobj()
        try:
            text = unpack.decompress(self.program, MAX_PROGRAM_BYTES).decode()
        except (zlib.error, UnicodeDecodeError) as error:
            raise Unreadable(Reason.BAD_PROGRAM, f"program {self.fingerprint} does not unpack: {error}") from error
        if not unpack.eof:
            detail = f"program {self.fingerprint} is cut short, or larger than {MAX_PROGRAM_BYTES} bytes"
            raise Unreadable(Reason.BAD_PROGRAM, detail)
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramPointer:
    """The current program of a workflow name, on the definitions topic under `name:<workflow>`."""

    workflow: str
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreClaim:
    """A claim that names the store of the deployment's evaluators, on the definitions topic under `store`.

    Of several with one `number` the first counts, so two evaluators with different stores cannot both claim the
    deployment. `at` is milliseconds since the epoch; `mark` was set in the store before this was written.
    """

    store: str
    mark: str
    number: int
    location: str
    host: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A pause of a facet, of a workflow, or of all, or the end of it, on the definitions topic.

    `scope` is `facet`, `workflow` or `all`; the last record of a scope and a name counts. `at` is milliseconds since
    the epoch.
    """

    scope: str
    name: str
    is_paused: bool
    at: int
    reason: str | None = None


Answer: TypeAlias = StepContinue | StepFailed | StepUpdate
#: The part of a workflow that runs again, or all of it.
RunAgain: TypeAlias = RetryStep | RerunStep | ResetWorkflow
#: A command about one workflow.
Command: TypeAlias = StartWorkflow | CancelWorkflow | RunAgain | DescribeWorkflow | ContinueAsNew | MigrateWorkflow
Definition: TypeAlias = ProgramDefinition | ProgramPointer | StoreClaim | Pause
Message: TypeAlias = Event | Answer | Command | ScheduleCommand | ExternalEvent | Lifecycle | Definition | TopicEvent


def name_key(workflow: str) -> str:
    """Return the key on the definitions topic that points from a workflow's qualified name to its program."""
    return NAME_KEY_PREFIX + workflow


def pause_key(scope: str, name: str) -> str:
    """Return the key on the definitions topic of a pause."""
    return f"{PAUSE_KEY_PREFIX}{scope}:{name}"
