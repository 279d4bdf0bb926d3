"""Entities that stores keep besides steps and events: flows, workflows, runners, tasks, servers, logs, locks.

All times are integer milliseconds since the epoch; 0 means not yet. All entities work with `dataclasses.asdict`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from afl.engine.types import ANY_TYPE


class RunnerState:
    """The state of a run. Values are stored: never change one."""

    CREATED: Final = "created"
    RUNNING: Final = "running"
    COMPLETED: Final = "completed"
    FAILED: Final = "failed"
    PAUSED: Final = "paused"
    CANCELLED: Final = "cancelled"
    UNKNOWN: Final = "unknown"


class TaskState:
    """The state of a task. Values are stored: never change one, the one L of "canceled" included."""

    PENDING: Final = "pending"
    RUNNING: Final = "running"
    COMPLETED: Final = "completed"
    FAILED: Final = "failed"
    IGNORED: Final = "ignored"
    CANCELED: Final = "canceled"


class ServerState:
    """The state of a server. Values are stored: never change one."""

    STARTUP: Final = "startup"
    RUNNING: Final = "running"
    SHUTDOWN: Final = "shutdown"
    ERROR: Final = "error"


class NoteType:
    """The kind of a log entry."""

    ERROR: Final = "error"
    INFO: Final = "info"
    WARNING: Final = "warning"


class NoteOriginator:
    """The writer of a log entry."""

    WORKFLOW: Final = "workflow"
    AGENT: Final = "agent"


class NoteImportance:
    """The importance of a log entry; a smaller number is more important."""

    HIGH: Final = 1
    NORMAL: Final = 5
    LOW: Final = 10


@dataclass
class Parameter:
    """A named value with its AFL type."""

    name: str
    value: object
    type_hint: str = ANY_TYPE


@dataclass
class UserDefinition:
    """A person who starts runs."""

    email: str
    name: str = ""
    avatar: str = ""


@dataclass
class Ownership:
    """The owner of a flow."""

    owner: UserDefinition | None = None
    group: str = ""


@dataclass
class Classifier:
    """The category of a flow in listings."""

    category: str = ""
    tags: list[str] = field(default_factory=list)


@dataclass
class SourceText:
    """A source file's text."""

    name: str
    content: str
    language: str = "afl"


@dataclass
class InlineSource:
    """Source text that came without a file."""

    content: str
    language: str = "afl"


@dataclass
class FileArtifact:
    """A file that a flow needs."""

    path: str
    checksum: str = ""


@dataclass
class JarArtifact:
    """A Maven artifact that a flow needs."""

    group_id: str
    artifact_id: str
    version: str


@dataclass
class ResourceSource:
    """A named resource."""

    name: str
    path: str


@dataclass
class TextSource:
    """A named text."""

    name: str
    content: str


@dataclass
class ScriptCode:
    """A named script."""

    name: str
    code: str
    language: str = "python"


@dataclass
class WorkflowMetaData:
    """The description that a workflow gives of itself."""

    description: str = ""
    author: str = ""
    tags: list[str] = field(default_factory=list)


@dataclass
class NamespaceDefinition:
    """A namespace of a flow."""

    uuid: str
    name: str
    path: str = ""


@dataclass
class FacetDefinition:
    """A facet of a flow."""

    uuid: str
    name: str
    namespace_id: str
    parameters: list[Parameter] = field(default_factory=list)
    return_type: str | None = None


@dataclass
class MixinDefinition:
    """A mixin of a flow."""

    uuid: str
    name: str
    namespace_id: str
    parameters: list[Parameter] = field(default_factory=list)


@dataclass
class StatementDefinition:
    """A statement of a flow, as catalogued. The engine's own is `afl.evaluation.block.StatementDefinition`."""

    uuid: str
    name: str
    statement_type: str
    block_id: str | None = None
    expression: str | None = None


@dataclass
class BlockDefinition:
    """A block of a flow, as catalogued."""

    uuid: str
    name: str
    block_type: str
    statements: list[StatementDefinition] = field(default_factory=list)


@dataclass
class StatementArguments:
    """The arguments of a statement."""

    statement_id: str
    arguments: list[Parameter] = field(default_factory=list)


@dataclass
class StatementReferences:
    """The references of a statement."""

    statement_id: str
    references: list[str] = field(default_factory=list)


@dataclass
class FlowIdentity:
    """The identity by which a flow is found."""

    name: str
    path: str
    uuid: str


@dataclass
class FlowDefinition:
    """A compiled set of sources with its catalogue."""

    uuid: str
    name: FlowIdentity
    namespaces: list[NamespaceDefinition] = field(default_factory=list)
    facets: list[FacetDefinition] = field(default_factory=list)
    workflows: list[WorkflowDefinition] = field(default_factory=list)
    mixins: list[MixinDefinition] = field(default_factory=list)
    blocks: list[BlockDefinition] = field(default_factory=list)
    statements: list[StatementDefinition] = field(default_factory=list)
    arguments: list[StatementArguments] = field(default_factory=list)
    references: list[StatementReferences] = field(default_factory=list)
    script_code: list[ScriptCode] = field(default_factory=list)
    file_artifacts: list[FileArtifact] = field(default_factory=list)
    jar_artifacts: list[JarArtifact] = field(default_factory=list)
    resources: list[ResourceSource] = field(default_factory=list)
    text_sources: list[TextSource] = field(default_factory=list)
    inline: InlineSource | None = None
    classification: Classifier | None = None
    publisher: UserDefinition | None = None
    ownership: Ownership | None = None
    compiled_sources: list[SourceText] = field(default_factory=list)


@dataclass
class WorkflowDefinition:
    """A workflow of a flow, ready to be started."""

    uuid: str
    name: str
    namespace_id: str
    facet_id: str
    flow_id: str
    starting_step: str
    version: str
    metadata: WorkflowMetaData | None = None
    documentation: str | None = None
    date: int = 0


@dataclass
class RunnerDefinition:
    """One run of a workflow, as its users see it. `duration` and `retain` are in milliseconds."""

    uuid: str
    workflow_id: str
    workflow: WorkflowDefinition
    parameters: list[Parameter] = field(default_factory=list)
    step_id: str | None = None
    user: UserDefinition | None = None
    start_time: int = 0
    end_time: int = 0
    duration: int = 0
    retain: int = 0
    state: str = RunnerState.CREATED


@dataclass
class TaskDefinition:
    """A piece of work that waits for a process to claim it. `runner_id` names its creator.

    While it runs, `owner` is the claimer; a claim with `lease_expires` is taken over after that time unless renewed.
    `claimed` is the time of the last claim: `updated - claimed` is the duration of an ended task.
    """

    uuid: str
    name: str
    runner_id: str
    workflow_id: str
    flow_id: str
    step_id: str
    state: str = TaskState.PENDING
    created: int = 0
    updated: int = 0
    error: dict[str, object] | None = None
    task_list_name: str = "default"
    data_type: str = ""
    data: dict[str, object] | None = None
    owner: str = ""
    lease_expires: int = 0
    claimed: int = 0


@dataclass
class LogDefinition:
    """A log entry of a run; `order` counts from 0 inside the run."""

    uuid: str
    order: int
    runner_id: str
    step_id: str | None = None
    object_id: str = ""
    object_type: str = ""
    note_originator: str = NoteOriginator.WORKFLOW
    note_type: str = NoteType.INFO
    note_importance: int = NoteImportance.NORMAL
    message: str = ""
    state: str = ""
    line: int = 0
    file: str = ""
    details: dict[str, object] = field(default_factory=dict)
    time: int = 0


@dataclass
class HandledCount:
    """The number of events that a server's handler has seen."""

    handler: str
    handled: int = 0
    not_handled: int = 0


@dataclass
class ServerDefinition:
    """A process that works on tasks, as it describes itself."""

    uuid: str
    server_group: str
    service_name: str
    server_name: str
    server_ips: list[str] = field(default_factory=list)
    start_time: int = 0
    ping_time: int = 0
    topics: list[str] = field(default_factory=list)
    handlers: list[str] = field(default_factory=list)
    handled: list[HandledCount] = field(default_factory=list)
    state: str = ServerState.STARTUP
    manager: str = ""
    error: dict[str, object] | None = None
    #: The interval of its heartbeat: a server that misses several is considered gone.
    heartbeat_interval_ms: int = 10_000
    #: The id of the store that it works on.
    store_id: str = ""


@dataclass
class HandlerRegistration:
    """The code that answers the events of a facet."""

    facet_name: str
    module_uri: str
    entrypoint: str = "handle"
    version: str = "1.0.0"
    checksum: str = ""
    timeout_ms: int = 30_000
    requirements: list[str] = field(default_factory=list)
    metadata: dict[str, object] = field(default_factory=dict)
    created: int = 0
    updated: int = 0
    #: The retry policy as a text; empty: none.
    retry: str = ""


@dataclass
class PublishedSource:
    """A namespace's source as published for other compilers."""

    uuid: str
    namespace_name: str
    source_text: str
    namespaces_defined: list[str] = field(default_factory=list)
    version: str = "latest"
    published_at: int = 0
    origin: str = ""
    checksum: str = ""


@dataclass
class LockMetaData:
    """The purpose of a lock."""

    topic: str | None = None
    handler: str | None = None
    step_name: str | None = None
    step_id: str | None = None


@dataclass
class LockDefinition:
    """A named lock that expires by itself."""

    key: str
    acquired_at: int = 0
    expires_at: int = 0
    meta: LockMetaData | None = None
