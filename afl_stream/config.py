"""The settings of a deployment, read from `afl-stream.toml` and the environment."""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, get_type_hints

from afl_stream.errors import ConfigError
from afl_stream.limits import MAX_EVENT_BYTES

CONFIG_FILE: Final = "afl-stream.toml"
TRANSPORTS: Final = ("embedded",)
MASK: Final = "********"

_PREFIX: Final = re.compile(r"[A-Za-z0-9._-]{0,100}\Z")
_TOPIC_TEMPLATE: Final = re.compile(r"[A-Za-z0-9._-]*(\{prefix\})?[A-Za-z0-9._-]*\{facet\}[A-Za-z0-9._-]*\Z")
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")


def _number(default: int, minimum: int, meaning: str) -> Any:
    # dataclasses.field is typed as the field's own type; Any lets one function declare each of them.
    return field(default=default, metadata={"minimum": minimum, "meaning": meaning})


def _text(default: str | None, meaning: str, secret: bool = False) -> Any:
    return field(default=default, metadata={"secret": secret, "meaning": meaning}, repr=not secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """How topics are named and sized."""

    facet_template: str = _text("{prefix}events.{facet}", "name of a facet's topic")
    control_partitions: int = _number(6, 1, "partitions of control, commands and external, the same for all three")
    event_partitions: int = _number(12, 1, "partitions of a facet's topic that declares none of its own")
    replication: int = _number(3, 1, "replicas of each topic; 1 for a single development broker")
    declarations: str | None = _text(None, "directory to read in place of the shipped topics/")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedSettings:
    """Where the in-process transport and the embedded store keep their files."""

    data_dir: str = _text(".afl", "directory of the log file and the store file")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """The database that holds steps, outbox and positions."""

    path: str | None = _text(None, "SQLite file; by default store.sqlite3 in the data directory")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorSettings:
    """The control loop."""

    group: str = _text("{prefix}evaluator", "group id of the evaluators")
    batch_records: int = _number(500, 1, "most records of one transaction")
    parked_answer_expiry_ms: int = _number(86_400_000, 1, "how long an early or unknown answer is parked")
    lane_sweep_after_ms: int = _number(10_000, 1, "age at which outbox rows of lanes without an owner are swept")
    workflow_budget_steps: int = _number(5_000, 1, "steps of one workflow in one batch before it yields its turn")
    workflow_budget_ms: int = _number(200, 1, "time of one workflow in one batch before it yields its turn")
    max_unanswered_events: int = _number(10_000, 1, "unanswered events of one workflow")
    hot_steps: int = _number(200_000, 0, "steps of hot workflows kept in memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """The agent SDK's defaults."""

    group: str = _text("{prefix}agent.{facet}", "group id of a facet's agents")
    max_concurrent: int = _number(16, 1, "handlers that run at once in one process")
    window: int = _number(500, 1, "records past the oldest unfinished one of a partition")
    max_crashes: int = _number(3, 1, "crashes on one record before it is dead-lettered")
    grace_s: int = _number(30, 0, "time to finish and answer after SIGTERM")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSettings:
    """Proof that an answer comes from who was asked."""

    token_secret: str | None = _text(None, "key of the answer tokens; none: answers carry no token", secret=True)
    token_key_id: str = _text("1", "name of the key, for rotation")
    older_secrets: str | None = _text(
        None, "earlier keys whose answers are still taken: ID=SECRET, separated by commas", secret=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfig:
    """Everything that a process of one deployment needs to know before it starts.

    `prefix` starts every topic and group name; it may be empty or name a tenant. Environment variables win over
    the file: `AFL_PREFIX`, `AFL_AGENT_MAX_CONCURRENT`, ... (AFL_, section, setting).
    """

    prefix: str = _text("afl.", "start of every topic and group name")
    transport: str = _text("embedded", "what carries the records")
    max_event_bytes: int = _number(MAX_EVENT_BYTES, 1_000, "largest encoded record")
    topics: TopicSettings = field(default_factory=TopicSettings)
    embedded: EmbeddedSettings = field(default_factory=EmbeddedSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    evaluator: EvaluatorSettings = field(default_factory=EvaluatorSettings)
    agent: AgentSettings = field(default_factory=AgentSettings)
    answers: AnswerSettings = field(default_factory=AnswerSettings)

    def __post_init__(self) -> None:
        """Refuse values that cannot work, wherever they came from."""
        _check(self, "StreamConfig")

    @property
    def evaluator_group(self) -> str:
        """Group id of the evaluators."""
        return _filled(self.evaluator.group, self.prefix, "")

    def agent_group(self, facet: str) -> str:
        """Group id of the agents of this facet, unless the agent names its own."""
        return _filled(self.agent.group, self.prefix, facet)

    @property
    def data_dir(self) -> Path:
        """Directory of the embedded transport's and store's files."""
        return Path(self.embedded.data_dir)

    @property
    def log_path(self) -> Path:
        """File of the embedded transport's durable log."""
        return self.data_dir / "log.sqlite3"

    @property
    def store_path(self) -> Path:
        """File of the SQLite store."""
        return Path(self.store.path) if self.store.path is not None else self.data_dir / "store.sqlite3"

    def describe(self) -> dict[str, object]:
        """Return every setting as `section.name: value`, in order, with secrets masked."""
        shown: dict[str, object] = {}
        for key, setting, value in _settings(self):
            masked = bool(setting.metadata.get("secret")) and value is not None
            shown[key] = MASK if masked else value
        return shown


def load_config(path: Path | str | None = None, environ: Mapping[str, str] | None = None) -> StreamConfig:
    """Read the settings: defaults, then the TOML file, then the environment.

    Without a path `./afl-stream.toml` is read if it is there; a path that is given must exist.
    Raises ConfigError naming file or variable, key, what was found and what was expected.
    """
    file = Path(CONFIG_FILE) if path is None else Path(path)
    table = _read_toml(file, required=path is not None)
    config = _from_table(StreamConfig(), table, str(file))
    return _with_environment(config, os.environ if environ is None else environ)


def _read_toml(file: Path, required: bool) -> Mapping[str, object]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if required:
            raise ConfigError(str(file), "file", "nothing", "a readable TOML file") from None
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(str(file), "file", str(error), "a readable TOML file") from error


def _from_table(config: StreamConfig, table: Mapping[str, object], source: str) -> StreamConfig:
    sections: dict[str, Any] = {}
    for name, value in table.items():
        if name not in {f.name for f in dataclasses.fields(config)}:
            raise ConfigError(source, name, value, _known(name, [f.name for f in dataclasses.fields(config)]))
        current = getattr(config, name)
        if not dataclasses.is_dataclass(current) or isinstance(current, type):
            sections[name] = _typed(type(config), name, value, source, name)
            continue
        if not isinstance(value, Mapping):
            raise ConfigError(source, name, value, f"a table [{name}]")
        names = [f.name for f in dataclasses.fields(current)]
        changes: dict[str, Any] = {}
        for inner, inner_value in value.items():
            if inner not in names:
                raise ConfigError(source, f"{name}.{inner}", inner_value, _known(inner, names))
            changes[inner] = _typed(type(current), inner, inner_value, source, f"{name}.{inner}")
        sections[name] = dataclasses.replace(current, **changes)
    return _replaced(config, sections, source)


def _with_environment(config: StreamConfig, environ: Mapping[str, str]) -> StreamConfig:
    for key, setting, _ in list(_settings(config)):
        section, _, name = key.rpartition(".")
        variable = "AFL_" + key.replace(".", "_").upper()
        if variable not in environ:
            continue
        text = environ[variable]
        value: object = text
        if "minimum" in setting.metadata:
            try:
                value = int(text)
            except ValueError:
                raise ConfigError(f"environment {variable}", key, text, "a whole number") from None
        change: dict[str, Any] = {name: value}
        if section:
            change = {section: dataclasses.replace(getattr(config, section), **change)}
        config = _replaced(config, change, f"environment {variable}")
    return config


def _replaced(config: StreamConfig, changes: dict[str, Any], source: str) -> StreamConfig:
    try:
        return dataclasses.replace(config, **changes)
    except ConfigError as error:
        raise ConfigError(source, error.key, error.found, error.expected) from None


def _typed(owner: type, name: str, value: object, source: str, key: str) -> object:
    hint = get_type_hints(owner)[name]
    wanted = int if hint is int else str
    # bool is an int for Python, but `replication = true` is a mistake.
    if not isinstance(value, wanted) or isinstance(value, bool):
        shown = MASK if _setting(owner, name).metadata.get("secret") else value
        raise ConfigError(source, key, shown, "a whole number" if wanted is int else "a string")
    return value


def _setting(owner: type, name: str) -> dataclasses.Field[Any]:
    return next(f for f in dataclasses.fields(owner) if f.name == name)


def _settings(config: StreamConfig) -> Iterator[tuple[str, dataclasses.Field[Any], object]]:
    for top in dataclasses.fields(config):
        value = getattr(config, top.name)
        if not dataclasses.is_dataclass(value) or isinstance(value, type):
            yield top.name, top, value
            continue
        for inner in dataclasses.fields(value):
            yield f"{top.name}.{inner.name}", inner, getattr(value, inner.name)


def _check(config: StreamConfig, source: str) -> None:
    for key, setting, value in _settings(config):
        minimum = setting.metadata.get("minimum")
        if minimum is not None and (not isinstance(value, int) or value < minimum):
            raise ConfigError(source, key, value, f"{minimum} or more ({setting.metadata['meaning']})")
        if setting.metadata.get("secret") and value == "":
            raise ConfigError(source, key, value, "a secret, or no such setting at all")
    if not _PREFIX.match(config.prefix):
        raise ConfigError(source, "prefix", config.prefix, "at most 100 characters out of A-Z a-z 0-9 . _ -")
    if config.transport not in TRANSPORTS:
        raise ConfigError(source, "transport", config.transport, f"one of {', '.join(TRANSPORTS)}")
    if not _TOPIC_TEMPLATE.match(config.topics.facet_template):
        raise ConfigError(
            source, "topics.facet_template", config.topics.facet_template, "a topic name with {facet}, maybe {prefix}"
        )
    _check_template(source, "evaluator.group", config.evaluator.group, {"prefix"})
    _check_template(source, "agent.group", config.agent.group, {"prefix", "facet"})


def _check_template(source: str, key: str, template: str, allowed: set[str]) -> None:
    rest = _PLACEHOLDER.sub("", template)
    if not template or "{" in rest or "}" in rest or not set(_PLACEHOLDER.findall(template)) <= allowed:
        wanted = " and ".join(f"{{{name}}}" for name in sorted(allowed))
        raise ConfigError(source, key, template, f"a group id with no placeholder but {wanted}")


def _filled(template: str, prefix: str, facet: str) -> str:
    return template.replace("{prefix}", prefix).replace("{facet}", facet)


def _known(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name, names, 1)
    return f"no such key; did you mean {near[0]}?" if near else f"one of {', '.join(names)}"
