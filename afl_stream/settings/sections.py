"""The sections of a deployment's settings: each setting with its default, its bounds and its meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final

from afl.core.text.masking import MASK, shown_url
from afl_stream import limits
from afl_stream.errors import ConfigError
from afl_stream.settings.durations import EXAMPLES, duration_ms
from afl_stream.settings.kafka_passthrough import KINDS, LibrdkafkaSettings

TRANSPORTS: Final = ("auto", "embedded", "kafka")
GROUP_PROTOCOLS: Final = ("classic", "consumer")
ASSIGNORS: Final = ("cooperative-sticky", "range")
LOST_RECORDS: Final = ("stop", "continue")
LOST_OFFSETS: Final = ("continue", "refuse")
DISPATCH_MODES: Final = ("topic", "task")
RECORD_FORMATS: Final = ("avro", "json")
TELEMETRY_SINKS: Final = ("off", "logging", "opentelemetry")
#: What the lines of telemetry are about.
TELEMETRY_DETAILS: Final = ("steps", "states")


def number(default: int | None, minimum: int, meaning: str) -> Any:
    """Declare a whole number of at least `minimum`; a default of None means that it is chosen when it is needed."""
    # dataclasses.field is typed as the field's own type; Any lets one function declare each of them.
    return field(default=default, metadata={"minimum": minimum, "meaning": meaning})


def text(default: str | None, meaning: str, secret: bool = False) -> Any:
    """Declare a string; a secret one is never shown."""
    return field(default=default, metadata={"secret": secret, "meaning": meaning}, repr=not secret)


def listed(default: str | None, meaning: str) -> Any:
    """Declare names, separated by commas; in a file also a list of strings."""
    return field(default=default, metadata={"listed": True, "meaning": meaning})


def flag(default: bool, meaning: str) -> Any:
    """Declare yes or no; `true` or `false` in the environment."""
    return field(default=default, metadata={"flag": True, "meaning": meaning})


def address(default: str | None, meaning: str, several: bool = False) -> Any:
    """Declare a url, which may hold a user and a password: it is shown without them; `several`, parted by commas."""
    return field(default=default, metadata={"address": True, "several": several, "meaning": meaning}, repr=False)


def choice(default: str, choices: tuple[str, ...], meaning: str) -> Any:
    """Declare one of these strings."""
    return field(default=default, metadata={"choices": choices, "meaning": meaning})


def _passed_through(keys: str, meaning: str) -> Any:
    return field(default=LibrdkafkaSettings(), metadata={"passed_through": keys, "meaning": meaning})


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """Names and sizes of topics."""

    facet_template: str = text("{prefix}events.{facet}", "name of a facet's topic")
    control_partitions: int = number(
        6, 1, "partitions of control, commands and external, and of a hosted workflow's topics: the same for all"
    )
    event_partitions: int = number(12, 1, "partitions of a facet's topic that declares none of its own")
    replication: int | None = number(
        None, 1, "replicas of each topic; by default 3, or as many as the cluster has brokers if those are fewer"
    )
    max_partitions: int | None = number(
        None, 1, "most partitions of all topics under the prefix; no topic is created that would exceed it"
    )
    declarations: str | None = text(None, "directory to read in place of the shipped topics/")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedSettings:
    """The directory in which the in-process transport and the embedded store keep their files."""

    data_dir: str = text(".afl", "directory of the log file and the store file")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """The Kafka cluster, and settings for librdkafka beyond those that delivery needs.

    `client`, `producer` and `consumer` map librdkafka's names to the text of a value: for every client, and for one
    kind, which wins. They are copied, cannot be changed, and show no secret.
    """

    bootstrap: str | None = text(None, "brokers to ask first: host:port, separated by commas")
    group_protocol: str = choice(
        "classic", GROUP_PROTOCOLS, "`classic`, or `consumer`: the broker assigns partitions (Kafka 4.0 and later)"
    )
    instance_id: str | None = text(
        None, "name of this process in its groups (static membership): its restart moves no partition"
    )
    connect_timeout_s: int = number(30, 1, "how long a process that starts waits for the first answer of a broker")
    outage_timeout_s: int = number(600, 1, "how long a running process waits for brokers to come back before it ends")
    silent_after_s: int = number(
        15, 1, "how long a broker may answer nothing, or leave waiting records undelivered, before that is an outage"
    )
    cluster_id: str | None = text(None, "the cluster that must answer; any other is an error")
    client: Mapping[str, str] = _passed_through(
        "kafka.<librdkafka setting>", "any setting of librdkafka, for all clients: `security.protocol`, `sasl.username`"
    )
    producer: Mapping[str, str] = _passed_through(
        "kafka.producer.<librdkafka setting>", "the same for producers only: `linger.ms`, `compression.type`"
    )
    consumer: Mapping[str, str] = _passed_through(
        "kafka.consumer.<librdkafka setting>", "the same for consumers only: `session.timeout.ms`"
    )

    def __post_init__(self) -> None:
        """Keep copies that cannot be changed."""
        for name in ("client", *KINDS):
            object.__setattr__(self, name, LibrdkafkaSettings(getattr(self, name)))

    @property
    def addresses(self) -> tuple[str, ...]:
        """The brokers to ask first, each `host:port`."""
        return tuple(address.strip() for address in (self.bootstrap or "").split(",") if address.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """The database that holds steps, outbox and positions."""

    path: str | None = text(
        None, "SQLite file; by default store.sqlite3 in the data directory, and store-kafka.sqlite3 on Kafka"
    )
    url: str | None = address(
        None, 'MongoDB database in place of the file: `mongodb://host/database`; or `store = "mongodb://..."`'
    )
    retention: str | None = text(
        None, "how long finished runs are kept: `30d`, `12h`; none: until `afl-stream store purge` deletes them"
    )
    tombstone_retention: str | None = text(
        "365d",
        "how long the tombstone of a purged run is kept: its id is not used again, and answers to it count as late",
    )

    def __post_init__(self) -> None:
        """Treat an empty url, as an unset variable leaves it, as no url."""
        object.__setattr__(self, "url", self.url or None)

    @property
    def retention_ms(self) -> int | None:
        """Return how long finished runs are kept, in milliseconds; None: for ever."""
        return None if self.retention is None else duration_ms(self.retention)

    @property
    def tombstone_retention_ms(self) -> int | None:
        """Return how long the tombstones of finished runs are kept, in milliseconds; None: for ever."""
        return None if self.tombstone_retention is None else duration_ms(self.tombstone_retention)


def check_store(store: StoreSettings, source: str) -> None:
    """Refuse settings that name no usable store; `source` says where they were given. Raises ConfigError."""
    for key, found in (("retention", store.retention), ("tombstone_retention", store.tombstone_retention)):
        if found is not None and duration_ms(found) is None:
            raise ConfigError(source, f"store.{key}", found, EXAMPLES)
    if store.path is not None and store.path.startswith(("mongodb:", "mongodb+srv:")):
        raise ConfigError(source, "store.path", MASK, "a file; the url of a MongoDB begins with mongodb://")
    if store.url is None:
        return
    url = shown_url(store.url)
    if not store.url.startswith(("mongodb://", "mongodb+srv://")):
        raise ConfigError(source, "store.url", url, "the url of a MongoDB: mongodb://host/database")
    if store.path is not None:
        raise ConfigError(source, "store.url", url, f"either this or store.path ({store.path}), not both")


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchSettings:
    """The way of events out of the engine: one for each facet, the same for all evaluators of a deployment."""

    default: str = choice(
        "topic", DISPATCH_MODES, "`topic`: an event is a record for agents; `task`: a task in the store for pollers"
    )
    task_facets: str | None = text(
        None, "facets whose events are tasks all the same: names or patterns (`desk.*`), separated by commas"
    )
    topic_facets: str | None = text(None, "where tasks are the default, facets whose events go to topics")
    task_list: str = text("default", "task list of the tasks")

    @property
    def exceptions(self) -> tuple[str, ...]:
        """Names and patterns of the facets that are not dispatched in the default way."""
        listed = (self.task_facets if self.default == "topic" else self.topic_facets) or ""
        return tuple(name.strip() for name in listed.split(",") if name.strip())

    def is_topic(self, facet: str) -> bool:
        """Return whether this facet's events are records on a topic."""
        is_exception = any(fnmatchcase(facet, pattern) for pattern in self.exceptions)
        return (self.default == "topic") is not is_exception

    @property
    def has_tasks(self) -> bool:
        """Return whether any event may be a task."""
        return self.default == "task" or bool(self.exceptions)


def check_dispatch(dispatch: DispatchSettings, source: str) -> None:
    """Refuse facets that are listed for the way that is the default; `source` says where. Raises ConfigError."""
    idle = "topic_facets" if dispatch.default == "topic" else "task_facets"
    found = getattr(dispatch, idle)
    if found:
        wanted = f"no such setting while dispatch.default is {dispatch.default}: those are dispatched so anyway"
        raise ConfigError(source, f"dispatch.{idle}", found, wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorSettings:
    """The control loop."""

    group: str = text("{prefix}evaluator", "group id of the evaluators")
    processes: int = number(
        1, 1, "processes of `afl-stream evaluator`; on SQLite each has a file and partitions of its own"
    )
    one_file: bool = flag(False, "whether several processes share one SQLite file, as members of the group")
    batch_records: int = number(500, 1, "most records of one transaction")
    batch_ms: int = number(50, 1, "time of one transaction, above which the next has fewer records: others wait for it")
    commit_beside_records: int = number(
        32, 1, "answers of a batch from which on its commit runs beside the computing of the next batch"
    )
    parked_answer_expiry_ms: int = number(86_400_000, 1, "how long an early or unknown answer is parked")
    max_parked_answers: int = number(
        limits.MAX_PARKED_ANSWERS, 1, "parked answers in all; more are dead letters, TooManyParked"
    )
    max_parked_per_workflow: int = number(
        limits.MAX_PARKED_PER_WORKFLOW, 1, "parked answers to the steps of one workflow"
    )
    max_parked_bytes: int = number(limits.MAX_PARKED_BYTES, 1, "bytes of all parked answers")
    max_pending_events: int = number(
        limits.MAX_PENDING_EVENTS,
        1,
        "external events of one workflow that no wait has taken; more are dead letters, TooManyPendingEvents",
    )
    max_carried_executions: int = number(
        limits.MAX_CARRIED_EXECUTIONS,
        0,
        "how many executions an external event is carried on when its workflow continues as new; then it is a dead "
        "letter, EventNotCarried",
    )
    early_event_expiry_ms: int = number(
        86_400_000, 1, "how long an external event is kept whose workflow does not exist yet"
    )
    max_early_events: int = number(
        limits.MAX_EARLY_EVENTS, 1, "such events in all; more are dead letters, TooManyEarlyEvents"
    )
    max_early_bytes: int = number(limits.MAX_EARLY_BYTES, 1, "bytes of all such events")
    kept_executions: int = number(
        limits.KEPT_EXECUTIONS, 1, "executions of one workflow whose history is kept when it continues as new"
    )
    lane_sweep_after_ms: int = number(10_000, 1, "age at which outbox rows of lanes without an owner are swept")
    workflow_budget_steps: int = number(5_000, 1, "steps of one workflow in one batch before it yields its turn")
    workflow_budget_ms: int = number(
        10, 1, "time of one workflow in one batch that others are in before it yields its turn"
    )
    workflow_budget_bytes: int = number(
        4 * 1024 * 1024, 1, "bytes that steps of one workflow are given in one batch before it yields its turn"
    )
    max_unanswered_events: int = number(500, 1, "unanswered events of one workflow")
    max_workflow_steps: int = number(
        limits.MAX_WORKFLOW_STEPS, 1, "steps of one workflow; a run that makes more ends with StepLimitReached"
    )
    max_payload_bytes: int = number(
        limits.MAX_PAYLOAD_BYTES, 1_000, "an event's payload or an answer's result, as JSON; more fails the step"
    )
    max_value_bytes: int = number(
        limits.MAX_VALUE_BYTES, 1_000, "a value that an expression makes, or a step's parameters; more fails the step"
    )
    max_state_bytes: int = number(
        limits.MAX_STATE_BYTES,
        1_000,
        "values of all steps of one workflow, without complete elements of a `foreach` over more than 5,000; a run "
        "with more ends with StateTooLarge",
    )
    hot_steps: int = number(200_000, 0, "steps of hot workflows kept in memory")
    deadlines: str | None = text(
        None,
        "time that agents have for events of facets whose program gives none: `shop.Charge=2m, desk.*=1h`; a name wins "
        "over a pattern, and a longer pattern over a shorter one",
    )
    allow_scripts: bool = flag(
        False, "whether scripts of programs are run; if not, workflows with scripts are not started"
    )
    lost_records: str = choice(
        "stop",
        LOST_RECORDS,
        "when a stored position is outside its log or of another log: `stop`, or report what is lost and `continue` "
        "from the log's beginning",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptSettings:
    """Settings of an evaluator's scripts, where they are allowed."""

    workers: int = number(2, 1, "processes that run scripts of one evaluator, each one script at a time")
    wall_s: int = number(limits.SCRIPT_WALL_S, 1, "longest run of a script")
    cpu_s: int = number(limits.SCRIPT_CPU_S, 1, "processor time of a script")
    memory_mib: int = number(limits.SCRIPT_MEMORY_MIB, 96, "memory of a script, the interpreter's own 40 MiB included")
    output_bytes: int = number(limits.SCRIPT_OUTPUT_BYTES, 1, "largest result of a script, as JSON")
    printed_bytes: int = number(limits.SCRIPT_PRINTED_BYTES, 1, "how much of what a script prints is kept")
    idle_mib: int = number(
        limits.SCRIPT_IDLE_MIB, 1, "memory of one worker's processes that wait to run their script again"
    )
    accept_missing: str | None = text(
        None,
        "what scripts need not be shut off from where the platform cannot: of `processes`, `network`, `files`, "
        "`memory`, `privileges`, separated by commas",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """Defaults of the agent SDK."""

    group: str = text("{prefix}agent.{facet}", "group id of a facet's agents")
    assignor: str = choice(
        "cooperative-sticky",
        ASSIGNORS,
        "how a classic group shares out partitions: `cooperative-sticky`, or `range` where a member of the group knows "
        "no other, as kafkajs: the same for all members",
    )
    max_concurrent: int = number(16, 1, "handlers that run at once in one process")
    window: int = number(500, 1, "records past the oldest unfinished one of a partition")
    max_crashes: int = number(3, 1, "crashes on one record before it is dead-lettered")
    grace_s: int = number(30, 0, "time to finish and answer after SIGTERM")
    lost_offsets: str = choice(
        "continue",
        LOST_OFFSETS,
        "where the group's committed offsets are gone: `continue` reads all again, but for events of runs that have "
        "ended; `refuse` ends with 3",
    )
    lost_records: str = choice(
        "stop",
        LOST_RECORDS,
        "when the committed offset is outside its log: `stop`, or report what is lost and `continue` from the log's "
        "beginning",
    )
    max_stuck_handlers: int = number(
        limits.MAX_STUCK_HANDLERS, 0, "handlers that still run after their time was up; with one more the agent ends"
    )
    retry: str = text(
        "",
        "the retry policy of handlers that are registered without one, as in "
        "`attempts=3, backoff=0.5, on=ConnectionError`; by default a handler that raises is not tried again",
    )
    inline_handlers: bool = flag(
        True, "whether handlers that are known to be quick run on the thread that reads, which takes less CPU"
    )
    skip_cancelled: bool = flag(True, "whether events of cancelled and reset runs are skipped, and not handled")
    allowed_handlers: str = text(
        ".",
        "what `--registry` may load: modules (`shop`), patterns (`shop_*`) and folders (`./handlers`), separated by "
        "commas; `.` is the folder that the agent was started in",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSettings:
    """Proof that the sender of an answer received the event."""

    token_secret: str | None = text(None, "key of the answer tokens; none: answers carry no token", secret=True)
    token_key_id: str = text("1", "name of the key, for rotation")
    older_secrets: str | None = text(
        None, "earlier keys whose answers are still taken: ID=SECRET, separated by commas", secret=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySettings:
    """The destination of an evaluator's reports about the transitions of its runs."""

    sink: str = choice(
        "off",
        TELEMETRY_SINKS,
        "`off`; `logging`: lines of JSON; or `opentelemetry`: traces and metrics, with the extra `otel`",
    )
    file: str | None = text(None, "with `logging`, the file that lines are appended to; by default standard error")
    detail: str = choice(
        "steps",
        TELEMETRY_DETAILS,
        "with `logging`: `steps`, lines about runs, steps and events; or `states`, about each state and iteration too",
    )
    values: bool = flag(False, "with `logging`, whether the outputs of runs are logged")
    endpoint: str | None = address(
        None,
        "with `opentelemetry`, the collector: `http://localhost:4318`; by default as OpenTelemetry's variables say",
    )
