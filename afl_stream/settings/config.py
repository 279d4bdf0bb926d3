"""The settings of a deployment, read from `afl-stream.toml` and the environment."""

from __future__ import annotations

import dataclasses
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, get_type_hints

from afl.core.text.exception_text import exception_text
from afl.core.text.masking import MASK, may_be_secret, secrets_of_url, shown_url
from afl.core.text.near_names import close_names
from afl_stream.errors import ConfigError, UnreadableSettings
from afl_stream.limits import MAX_EVENT_BYTES
from afl_stream.settings.answer_tokens import check_answers
from afl_stream.settings.dashboard import DashboardSettings, check_dashboard
from afl_stream.settings.deadlines import DEADLINES_FORM, deadlines_of
from afl_stream.settings.gateway import GatewaySettings
from afl_stream.settings.group_templates import check_template, filled
from afl_stream.settings.kafka_passthrough import (
    KINDS,
    LibrdkafkaSettings,
    as_text,
    flattened,
    is_hidden,
    kind_and_name,
    name_in_variable,
    passed_start,
    refusal,
    same_setting,
    shown,
)
from afl_stream.settings.lifecycle import LifecycleSettings
from afl_stream.settings.logs import LoggingSettings
from afl_stream.settings.monitoring import MetricsSettings, PresenceSettings
from afl_stream.settings.pubsub import PubSubSettings, check_pubsub
from afl_stream.settings.registry import RegistrySettings, check_registry
from afl_stream.settings.sections import (
    TRANSPORTS,
    AgentSettings,
    AnswerSettings,
    DispatchSettings,
    EmbeddedSettings,
    EvaluatorSettings,
    KafkaSettings,
    ScriptSettings,
    StoreSettings,
    TelemetrySettings,
    TopicSettings,
    check_dispatch,
    check_store,
    choice,
    number,
    text,
)
from afl_stream.settings.sensitive import KeySettings, SensitiveSettings
from afl_stream.settings.store_files import LOG_FILE, StoreFile, find_store_file
from afl_stream.settings.tracing import TracingSettings, check_tracing
from afl_stream.settings.variables import refuse_misspelt
from afl_stream.settings.wire import WireSettings, check_wire

__all__ = [
    "MASK",
    "AgentSettings",
    "AnswerSettings",
    "DashboardSettings",
    "DispatchSettings",
    "EmbeddedSettings",
    "EvaluatorSettings",
    "KafkaSettings",
    "LoggingSettings",
    "LifecycleSettings",
    "MetricsSettings",
    "PresenceSettings",
    "PubSubSettings",
    "RegistrySettings",
    "ScriptSettings",
    "StoreSettings",
    "StreamConfig",
    "TelemetrySettings",
    "TopicSettings",
    "TracingSettings",
    "WireSettings",
    "load_config",
]

CONFIG_FILE: Final = "afl-stream.toml"

_PREFIX: Final = re.compile(r"[A-Za-z0-9._-]{0,100}\Z")
_TOPIC_TEMPLATE: Final = re.compile(r"[A-Za-z0-9._-]*(\{prefix\})?[A-Za-z0-9._-]*\{facet\}[A-Za-z0-9._-]*\Z")
_ADDRESS: Final = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})\Z")
_KAFKA_VARIABLE: Final = "AFL_KAFKA_"
#: Values that appear in many places, and are not secrets under an unknown name.
_PLAIN_VALUE: Final = re.compile(r"(true|false|[0-9.-]{0,5})\Z", re.IGNORECASE)
_YES_OR_NO: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfig:
    """All settings that a process of one deployment needs before it starts.

    `prefix` starts every topic and group name; it may be empty or name a tenant. Environment variables win over the
    file: `AFL_PREFIX`, `AFL_AGENT_MAX_CONCURRENT`, ... (AFL_, section, setting).
    """

    prefix: str = text("afl.", "start of every topic and group name")
    transport: str = choice(
        "auto", TRANSPORTS, "what carries the records: `embedded`, `kafka`, or `auto`: Kafka when it has a bootstrap"
    )
    max_event_bytes: int = number(MAX_EVENT_BYTES, 1_000, "largest encoded record")
    topics: TopicSettings = field(default_factory=TopicSettings)
    wire: WireSettings = field(default_factory=WireSettings)
    embedded: EmbeddedSettings = field(default_factory=EmbeddedSettings)
    kafka: KafkaSettings = field(default_factory=KafkaSettings)
    registry: RegistrySettings = field(default_factory=RegistrySettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    dispatch: DispatchSettings = field(default_factory=DispatchSettings)
    evaluator: EvaluatorSettings = field(default_factory=EvaluatorSettings)
    scripts: ScriptSettings = field(default_factory=ScriptSettings)
    agent: AgentSettings = field(default_factory=AgentSettings)
    lifecycle: LifecycleSettings = field(default_factory=LifecycleSettings)
    pubsub: PubSubSettings = field(default_factory=PubSubSettings)
    answers: AnswerSettings = field(default_factory=AnswerSettings)
    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)
    sensitive: SensitiveSettings = field(default_factory=SensitiveSettings)
    keys: KeySettings = field(default_factory=KeySettings)
    tracing: TracingSettings = field(default_factory=TracingSettings)
    logging: LoggingSettings = field(default_factory=LoggingSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    presence: PresenceSettings = field(default_factory=PresenceSettings)
    dashboard: DashboardSettings = field(default_factory=DashboardSettings)
    gateway: GatewaySettings = field(default_factory=GatewaySettings)

    def __post_init__(self) -> None:
        """Refuse values that cannot work, from whatever source they come."""
        _check(self, "StreamConfig")

    @property
    def is_kafka(self) -> bool:
        """Return whether Kafka carries the records; otherwise the embedded transport does."""
        return self.transport == "kafka" or (self.transport == "auto" and self.kafka.bootstrap is not None)

    @property
    def evaluator_group(self) -> str:
        """Group id of the evaluators."""
        return filled(self.evaluator.group, self.prefix, "")

    def agent_group(self, facet: str) -> str:
        """Return the group id of the agents of this facet, unless the agent names its own."""
        return filled(self.agent.group, self.prefix, facet)

    @property
    def data_dir(self) -> Path:
        """Directory of the embedded transport's and store's files."""
        return Path(self.embedded.data_dir)

    @property
    def log_path(self) -> Path:
        """File of the embedded transport's durable log."""
        return self.data_dir / LOG_FILE

    @property
    def store_file(self) -> StoreFile:
        """File of the SQLite store, and why it is that one. Looks which files exist, and what was read into them."""
        return find_store_file(self.data_dir, is_kafka=self.is_kafka, named=self.store.path)

    @property
    def store_path(self) -> Path:
        """File of the SQLite store."""
        return self.store_file.path

    def describe(self) -> dict[str, object]:
        """Return every setting as `section.name: value`, in order, with secrets masked."""
        described: dict[str, object] = {}
        for key, setting, value in _settings(self):
            if isinstance(value, LibrdkafkaSettings):
                start = passed_start(setting.name)
                described.update((start + name, one) for name, one in shown(value).items())
                continue
            if "address" in setting.metadata and isinstance(value, str):
                described[key] = ",".join(map(shown_url, _urls(setting, value)))
                continue
            secret = bool(setting.metadata.get("secret")) and value is not None
            described[key] = MASK if secret else value
        return described

    def secrets(self) -> frozenset[str]:
        """Return the texts that must never be shown: passwords, keys, tokens, and those inside urls."""
        found: set[str] = set()
        for _, setting, value in _settings(self):
            if isinstance(value, LibrdkafkaSettings):
                hidden = {t for name, t in value.items() if is_hidden(name, t) and not _PLAIN_VALUE.match(t)}
                found |= hidden.union(*map(secrets_of_url, hidden))
            elif isinstance(value, str) and "address" in setting.metadata:
                found = found.union(*map(secrets_of_url, _urls(setting, value)))
            elif isinstance(value, str) and setting.metadata.get("secret"):
                # Older secrets are listed with their ids.
                found |= {value, *(entry.partition("=")[2] for entry in value.split(","))}
        return frozenset(found)


def _urls(setting: dataclasses.Field[Any], value: str) -> list[str]:
    return value.split(",") if setting.metadata["several"] else [value]


class _Given(NamedTuple):
    """A setting that was given, and the file or variable that it was given in."""

    value: object
    source: str


def load_config(path: Path | str | None = None, environ: Mapping[str, str] | None = None) -> StreamConfig:
    """Read the settings: defaults, then the TOML file, then the environment.

    Without a path, `./afl-stream.toml` is read if it exists; a path that is given must exist. Raises ConfigError, which
    names file or variable, key, what was found and what was expected.
    """
    file = Path(CONFIG_FILE) if path is None else Path(path)
    given = _from_table(_read_toml(file, required=path is not None), str(file))
    for key, setting in _from_environment(os.environ if environ is None else environ).items():
        # sasl.mechanism of a variable replaces sasl.mechanisms of the file.
        for other in [other for other in given if same_setting(other, key)]:
            del given[other]
        given[key] = setting
    return _built(given, str(file))


def _read_toml(file: Path, required: bool) -> Mapping[str, object]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if required:
            raise ConfigError(str(file), "file", "nothing", "a readable TOML file") from None
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise UnreadableSettings(str(file), exception_text(error)) from error


def _from_table(table: Mapping[str, object], source: str) -> dict[str, _Given]:
    given: dict[str, _Given] = {}
    top = {f.name: f for f in dataclasses.fields(StreamConfig)}
    for name, value in table.items():
        if name not in top:
            raise ConfigError(source, name, _of_unknown(value), _known(name, list(top)))
        section = _section(name)
        if section is StoreSettings and isinstance(value, str):
            # The whole section is one setting, mostly: where the store is.
            given["store.url" if "://" in value else "store.path"] = _Given(value, source)
            continue
        if section is None:
            given[name] = _Given(_typed(StreamConfig, name, value, source, name), source)
            continue
        if not isinstance(value, Mapping):
            raise ConfigError(source, name, _of_unknown(value), f"a table [{name}]")
        names = _own_names(section)
        for inner, inner_value in flattened(value) if section is KafkaSettings else value.items():
            key = f"{name}.{inner}"
            if key in given:
                raise ConfigError(source, key, _masked(key, inner_value), "the setting once")
            if inner in names:
                found = _typed(section, inner, inner_value, source, key)
            elif section is KafkaSettings:
                found = _passed(inner, inner_value, source)
            else:
                raise ConfigError(source, key, _of_unknown(inner_value), _known(inner, names))
            given[key] = _Given(found, source)
    return given


def _from_environment(environ: Mapping[str, str]) -> dict[str, _Given]:
    given: dict[str, _Given] = {}
    ours: set[str] = set()
    for key, setting, _ in _settings(StreamConfig()):
        variable = "AFL_" + key.replace(".", "_").upper()
        if variable not in environ or "passed_through" in setting.metadata:
            continue
        ours.add(variable)
        source, value = f"environment {variable}", environ[variable]
        if "flag" in setting.metadata:
            given[key] = _Given(_yes_or_no(value, source, key), source)
            continue
        if "minimum" not in setting.metadata:
            given[key] = _Given(value, source)
            continue
        try:
            given[key] = _Given(int(value), source)
        except ValueError:
            raise ConfigError(source, key, value, "a whole number") from None
    for variable in sorted(set(environ) - ours):
        if variable.startswith(_KAFKA_VARIABLE):
            name, source = name_in_variable(variable.removeprefix(_KAFKA_VARIABLE)), f"environment {variable}"
            given[f"kafka.{name}"] = _Given(_passed(name, environ[variable], source), source)
        elif variable.startswith("AFL_"):
            refuse_misspelt(variable, _of_unknown(environ[variable]), (key for key, _, _ in _settings(StreamConfig())))
    return given


def _yes_or_no(value: str, source: str, key: str) -> bool:
    if value.lower() not in _YES_OR_NO:
        raise ConfigError(source, key, value, "true or false")
    return _YES_OR_NO[value.lower()]


def _passed(name: str, value: object, source: str) -> str:
    """Return the text of a librdkafka setting; refuse a name that librdkafka cannot have and that looks like ours."""
    key, names = f"kafka.{name}", _own_names(KafkaSettings)
    plain = kind_and_name(name)[1]
    if not plain or plain in KINDS:
        wanted = "a librdkafka setting's name behind it: kafka.producer.linger.ms"
        raise ConfigError(source, key, _of_unknown(value), wanted)
    near = close_names(plain.replace(".", "_"), names, min_likeness=0.85)
    if near or ("_" in plain and plain != "log_level" and not plain.endswith("_cb")):
        raise ConfigError(source, key, _masked(key, value), _known(plain.replace(".", "_"), names))
    written = as_text(value)
    if written is None:
        raise ConfigError(source, key, _masked(key, value), "a string, a number, true or false")
    return written


def _built(given: Mapping[str, _Given], file: str) -> StreamConfig:
    """Return the configuration of these settings; an error names where the setting at fault was given."""
    sections: dict[str, dict[str, Any]] = {"": {}}
    for key, setting in given.items():
        section, _, name = key.partition(".") if "." in key else ("", "", key)
        values = sections.setdefault(section, {})
        if section == "kafka" and name not in _own_names(KafkaSettings):
            kind, name = kind_and_name(name)
            values = values.setdefault(kind, {})
        values[name] = setting.value
    try:
        tables = {name: owner(**values) for name, values in sections.items() if (owner := _section(name)) is not None}
        return StreamConfig(**sections[""], **tables)
    except ConfigError as error:
        source = given[error.key].source if error.key in given else file
        raise ConfigError(source, error.key, error.found, error.expected) from None


def _section(name: str) -> Any:
    """Return the class of a section, None for a setting outside every section."""
    factory = next((f.default_factory for f in dataclasses.fields(StreamConfig) if f.name == name), None)
    return factory if isinstance(factory, type) and dataclasses.is_dataclass(factory) else None


def _own_names(section: Any) -> list[str]:
    return [f.name for f in dataclasses.fields(section) if "passed_through" not in f.metadata]


def _of_unknown(value: object) -> object:
    """Return what may be shown of an unknown key's value: the key may be the misspelt name of a secret."""
    return MASK if may_be_secret(value) else value


def _masked(key: str, value: object) -> object:
    name = key.removeprefix("kafka.")
    is_ours = name in _own_names(KafkaSettings)
    return MASK if is_hidden(kind_and_name(name)[1], value) and not is_ours else value


def _typed(owner: type, name: str, value: object, source: str, key: str) -> object:
    hint = get_type_hints(owner)[name]
    if hint is bool:
        if not isinstance(value, bool):
            raise ConfigError(source, key, value, "true or false")
        return value
    if _setting(owner, name).metadata.get("listed") and isinstance(value, list) and all(type(v) is str for v in value):
        return ", ".join(value)
    wanted = int if hint in (int, int | None) else str
    # bool is an int for Python, but `replication = true` is a mistake.
    if not isinstance(value, wanted) or isinstance(value, bool):
        metadata = _setting(owner, name).metadata
        found = MASK if metadata.get("secret") or "address" in metadata else value
        raise ConfigError(source, key, found, "a whole number" if wanted is int else "a string")
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
        is_chosen_later = value is None and setting.default is None
        if minimum is not None and not is_chosen_later and (not isinstance(value, int) or value < minimum):
            raise ConfigError(source, key, value, f"{minimum} or more ({setting.metadata['meaning']})")
        if setting.metadata.get("secret") and value == "":
            raise ConfigError(source, key, value, "a secret, or no such setting at all")
        choices = setting.metadata.get("choices")
        if choices is not None and value not in choices:
            raise ConfigError(source, key, value, f"one of {', '.join(choices)}")
    if not _PREFIX.match(config.prefix):
        raise ConfigError(source, "prefix", config.prefix, "at most 100 characters out of A-Z a-z 0-9 . _ -")
    if not _TOPIC_TEMPLATE.match(config.topics.facet_template):
        raise ConfigError(
            source, "topics.facet_template", config.topics.facet_template, "a topic name with {facet}, maybe {prefix}"
        )
    check_store(config.store, source)
    check_pubsub(config.pubsub, source)
    check_registry(config.registry, source)
    check_wire(config.wire, source, has_registry=bool(config.registry.urls))
    check_tracing(config.tracing, source)
    check_dashboard(config.dashboard, source)
    check_dispatch(config.dispatch, source)
    if deadlines_of(config.evaluator.deadlines or "") is None:
        raise ConfigError(source, "evaluator.deadlines", config.evaluator.deadlines, DEADLINES_FORM)
    check_template(source, "evaluator.group", config.evaluator.group, {"prefix"})
    check_template(source, "agent.group", config.agent.group, {"prefix", "facet"})
    _check_kafka(config, source)
    check_answers(config.answers, source)


def _check_kafka(config: StreamConfig, source: str) -> None:
    kafka = config.kafka
    if kafka.bootstrap is not None:
        ports = [_ADDRESS.match(address.strip()) for address in kafka.bootstrap.split(",")]
        if not all(port and 1 <= int(port[1]) <= 65_535 for port in ports):
            wanted = "host:port, or several separated by commas; the protocol goes into security.protocol"
            raise ConfigError(source, "kafka.bootstrap", shown_url(kafka.bootstrap), wanted)
    elif config.transport == "kafka":
        wanted = "kafka.bootstrap to be set as well (AFL_KAFKA_BOOTSTRAP): host:port of a broker"
        raise ConfigError(source, "transport", config.transport, wanted)
    if kafka.cluster_id == "":
        raise ConfigError(source, "kafka.cluster_id", "", "the id of a cluster, or no such setting at all")
    if kafka.instance_id == "":
        raise ConfigError(source, "kafka.instance_id", "", "a name that no other process has, or no such setting")
    for kind in ("client", *KINDS):
        for name, value in getattr(kafka, kind).items():
            expected = refusal(name, value, kafka.group_protocol)
            if expected is not None:
                raise ConfigError(source, passed_start(kind) + name, _masked(name, value), expected)


def _known(name: str, names: list[str]) -> str:
    near = close_names(name, names)
    return f"no such key; did you mean {near[0]}?" if near else f"one of {', '.join(names)}"
