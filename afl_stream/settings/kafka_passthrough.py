"""The librdkafka settings that a deployment passes through: their form, which are secret, and which are refused."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from afl.core.text.masking import MASK, is_secret, may_be_secret
from afl_stream.settings.kafka_shown_names import SHOWN_NAMES

#: Prefixes of the settings of one kind of client, in the file and in variables.
KINDS: Final = ("producer", "consumer")

#: librdkafka's settings whose own name has an underscore, which a variable's name cannot tell from a dot.
_UNDERSCORED: Final = {"log.level": "log_level"}

#: Two names of one setting. Both must not reach a client: which one wins would be chance.
_ALIASES: Final = {
    "queue.buffering.max.ms": "linger.ms",
    "message.timeout.ms": "delivery.timeout.ms",
    "message.send.max.retries": "retries",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "request.required.acks": "acks",
    "compression.codec": "compression.type",
    "metadata.broker.list": "bootstrap.servers",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "sasl.mechanism": "sasl.mechanisms",
    "auto.commit.enable": "enable.auto.commit",
}

_STORED_POSITIONS: Final = "no such setting: where reading starts is decided by stored and committed positions"
_COMMITS: Final = "no such setting: an offset is committed when the work on its record is finished, never by a timer"
_GROUP_NAMES: Final = "evaluator.group or agent.group in its place"
_SPREAD: Final = "agent.assignor in its place, for agents: evaluators and agents each need their own"
_CALLBACKS: Final = ("_cb", ".cb")
_CALLBACK: Final = "no such setting: a callback is code, and cannot be given as a setting"

#: Settings that delivery relies on, with what is expected in their place.
_REFUSED: Final[Mapping[str, str]] = {
    "acks": "no such setting: a record counts as written when all replicas in sync have it",
    "allow.auto.create.topics": "no such setting: `afl-stream topics apply` creates topics, as declared",
    "auto.offset.reset": _STORED_POSITIONS,
    "bootstrap.servers": "kafka.bootstrap in its place",
    "delivery.report.only.error": "no such setting: each record's acknowledgement is waited for",
    "enable.auto.commit": _COMMITS,
    "enable.auto.offset.store": _COMMITS,
    "enable.idempotence": "no such setting: it is on, so that a retry neither doubles records nor changes their order",
    "default.topic.config": "the settings themselves: each is passed through under its own name",
    "enable.partition.eof": "no such setting: the end of a partition is found by its offsets",
    "group.id": _GROUP_NAMES,
    "group.instance.id": "kafka.instance_id in its place: each member of a process gets a name of its own from it",
    "group.protocol": "kafka.group_protocol in its place",
    "group.protocol.type": "kafka.group_protocol in its place",
    "group.remote.assignor": _SPREAD,
    "logger": _CALLBACK,
    "offset.store.method": _STORED_POSITIONS,
    "partition.assignment.strategy": _SPREAD,
    "partitioner": "no such setting: it is Java's murmur2, so that a step stays in one partition",
    "test.mock.num.brokers": "no such setting: a mock cluster keeps no records",
    "transactional.id": "no such setting: records are published from the outbox, without transactions of Kafka",
}

_IN_FLIGHT: Final = "max.in.flight.requests.per.connection"
#: More unacknowledged requests than this, and a broker no longer keeps the order of a retry.
_MOST_IN_FLIGHT: Final = 5

#: Settings that the broker decides for the members of a group of the consumer protocol.
_DECIDED_BY_BROKER: Final[Mapping[str, str]] = {
    "session.timeout.ms": "group.consumer.session.timeout.ms",
    "heartbeat.interval.ms": "group.consumer.heartbeat.interval.ms",
}


class LibrdkafkaSettings(Mapping[str, str]):
    """Settings by librdkafka's names. They cannot be changed, can be hashed, and show no secret."""

    __slots__ = ("_hash", "_values")

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = dict(values or {})
        self._hash = hash(frozenset(self._values.items()))

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return repr(shown(self._values))


def is_hidden(name: str, value: object = "") -> bool:
    """Return whether a setting's value must not be shown.

    It is a secret by its name or value, or its name is unknown to librdkafka and may be the misspelt name of a secret.
    """
    if is_secret(name, value):
        return True
    return name not in SHOWN_NAMES and not name.endswith(_CALLBACKS) and may_be_secret(value)


def shown(settings: Mapping[str, object]) -> dict[str, object]:
    """Return the same settings for logs and pages, with secrets masked."""
    return {name: MASK if is_hidden(name, value) else value for name, value in settings.items()}


def canonical(name: str) -> str:
    """Return the one name of a setting that librdkafka knows by two."""
    return _ALIASES.get(name, name)


def kind_and_name(key: str) -> tuple[str, str]:
    """Split a key of [kafka] into "producer", "consumer" or "client" (all of them), and librdkafka's name."""
    first, dot, rest = key.partition(".")
    return (first, rest) if dot and first in KINDS else ("client", key)


def name_in_variable(text: str) -> str:
    """Return librdkafka's name for the end of a variable's name: `LINGER_MS` is linger.ms."""
    name = text.lower().replace("_", ".")
    kind, rest = kind_and_name(name)
    real = _UNDERSCORED.get(rest, rest)
    return real if kind == "client" else f"{kind}.{real}"


def as_text(value: object) -> str | None:
    """Return a TOML value as librdkafka reads it; None for a value that it has no form for."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value) if isinstance(value, str | int) else None


def flattened(table: Mapping[str, object], start: str = "") -> Iterator[tuple[str, object]]:
    """Return every value with its dotted key: TOML reads `security.protocol = ...` as a table in a table."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{start}{name}.")
        else:
            yield f"{start}{name}", value


def refusal(name: str, value: str, group_protocol: str) -> str | None:
    """Return what is expected in place of a setting that delivery depends on; None for one that is passed through."""
    known = canonical(name)
    if name.endswith(_CALLBACKS):
        return _CALLBACK
    if known == _IN_FLIGHT and not (value.isascii() and value.isdigit() and 1 <= int(value) <= _MOST_IN_FLIGHT):
        return f"1 to {_MOST_IN_FLIGHT}: with more, a retry changes the order of records"
    if group_protocol == "consumer" and known in _DECIDED_BY_BROKER:
        return f"no such setting: with group_protocol = consumer the broker decides ({_DECIDED_BY_BROKER[known]})"
    return _REFUSED.get(known)


def passed_start(kind: str) -> str:
    """Return how the keys of settings that are passed through to this kind of client begin."""
    return f"kafka.{kind}." if kind in KINDS else "kafka."


def same_setting(one: str, other: str) -> bool:
    """Return whether two keys mean the same setting: librdkafka has several names for some."""
    if not (one.startswith("kafka.") and other.startswith("kafka.")):
        return one == other
    (kind, name), (other_kind, other_name) = (kind_and_name(key.removeprefix("kafka.")) for key in (one, other))
    return (kind, canonical(name)) == (other_kind, canonical(other_name))
