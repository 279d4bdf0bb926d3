"""Settings of each kind of librdkafka client: what delivery needs, and what the deployment passes through."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Final

from afl.core.text.masking import Secrets
from afl_stream.limits import RECORD_OVERHEAD_BYTES
from afl_stream.settings.config import StreamConfig
from afl_stream.settings.kafka_passthrough import canonical
from afl_stream.settings.kafka_passthrough import shown as shown
from afl_stream.transport import Assignor

Settings = dict[str, str | int | float | bool]

DEFAULT_CLIENT_ID: Final = "afl-stream"

#: Above every topic's own limit (programs and dead letters are the largest), so that the topic's limit decides.
_LARGEST_REQUEST_BYTES: Final = 16 * 1024 * 1024
#: librdkafka's own defaults, raised only for larger events.
_BATCH_BYTES: Final = 1_000_000
_PARTITION_FETCH_BYTES: Final = 1_048_576
_FETCH_BYTES: Final = 52_428_800
_RECEIVE_BYTES: Final = 100_000_000
#: The margin that librdkafka requires of a response beyond its records.
_RESPONSE_ROOM_BYTES: Final = 512

#: How soon the partitions of a process that died go to others: ten heartbeats, and shorter than an operator's patience.
_SESSION_MS: Final = 10_000
#: How long a static member may be away until its partitions go to others: a restart of a container fits. Kafka's own
#: default, which the consumer protocol's brokers have, too.
_STATIC_SESSION_MS: Final = 45_000
#: A rebalance takes about one heartbeat. Kafka's default of 3 s is what people wait for when a member comes or goes.
_HEARTBEAT_MS: Final = 1_000

#: How long a member of a classic group waits for an answer. A commit that is sent while the group rebalances is
#: answered after the rebalance, because a broker answers a connection's requests in their order, and librdkafka sends
#: it three times: a commit that is waited for takes a minute at most. With the client's own 60 s it takes three.
_REQUEST_MS: Final = 20_000

#: The consumer protocol's names for the same ways of spreading partitions.
_REMOTE_ASSIGNORS: Final[Mapping[Assignor, str]] = {Assignor.RANGE: "range", Assignor.COOPERATIVE_STICKY: "uniform"}


def producer_settings(config: StreamConfig, *, client_id: str = "") -> Settings:
    """Return the producer's: idempotent, acknowledged by all replicas in sync, with Java's partitioner."""
    ours = _common(config, client_id) | {
        "enable.idempotence": True,
        "acks": "all",
        "partitioner": "murmur2_random",
        "linger.ms": 1,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 1_048_576,
        "message.max.bytes": max(_LARGEST_REQUEST_BYTES, config.max_event_bytes + RECORD_OVERHEAD_BYTES),
        # A batch over a topic's limit is refused as a whole, with records that fit by themselves.
        "batch.size": min(_BATCH_BYTES, config.max_event_bytes),
        # A record waits for brokers as long as the process does.
        "delivery.timeout.ms": config.kafka.outage_timeout_s * 1_000,
        # A topic that is not there is an error soon, not after half a minute.
        "topic.metadata.propagation.max.ms": 2_000,
    }
    return _merged(ours, config.kafka.client, config.kafka.producer)


def consumer_settings(
    config: StreamConfig,
    group: str | None,
    *,
    client_id: str = "",
    assignor: Assignor = Assignor.COOPERATIVE_STICKY,
    instance_id: str | None = None,
) -> Settings:
    """Return those of a member of `group`, or of a reader without a group, which gets the name of an unused group.

    With an `instance_id`, which no other member of the group may have, the group keeps the partitions of a member that
    has ended for the one that comes back under its name. librdkafka never commits or chooses offsets by itself.
    """
    partition_bytes = max(_PARTITION_FETCH_BYTES, config.max_event_bytes + RECORD_OVERHEAD_BYTES)
    fetch_bytes = max(_FETCH_BYTES, partition_bytes)
    ours = _common(config, client_id) | {
        "group.id": group if group is not None else f"{config.prefix}reader-{uuid.uuid4()}",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        # A reader of a whole log must be told its end: the last offsets may be transaction markers, not records.
        "enable.partition.eof": True,
        "max.partition.fetch.bytes": partition_bytes,
        "fetch.max.bytes": fetch_bytes,
        "receive.message.max.bytes": max(_RECEIVE_BYTES, fetch_bytes + _RESPONSE_ROOM_BYTES),
    }
    if group is not None and config.kafka.group_protocol == "consumer":
        ours |= {"group.protocol": "consumer", "group.remote.assignor": _REMOTE_ASSIGNORS[assignor]}
    else:
        # A rebalance takes about one heartbeat; a process that died is noticed after the session timeout.
        ours |= {
            "partition.assignment.strategy": assignor.value,
            "session.timeout.ms": _SESSION_MS if instance_id is None else _STATIC_SESSION_MS,
            "heartbeat.interval.ms": _HEARTBEAT_MS,
        }
        if group is not None:
            ours["socket.timeout.ms"] = _REQUEST_MS
    if group is not None and instance_id is not None:
        ours["group.instance.id"] = instance_id
    return _merged(ours, config.kafka.client, config.kafka.consumer)


def admin_settings(config: StreamConfig, *, client_id: str = "") -> Settings:
    """Return the settings of the client that describes and creates topics."""
    return _merged(_common(config, client_id), config.kafka.client)


def offset_settings(config: StreamConfig) -> Settings:
    """Return the settings of the consumer that asks for offsets and reads nothing."""
    # librdkafka takes a consumer with the name of a group only.
    ours = {"group.id": f"{config.prefix}reader-{uuid.uuid4()}", "isolation.level": "read_uncommitted"}
    return admin_settings(config) | ours


def without_secrets(text: str, config: StreamConfig) -> str:
    """Mask every secret of the settings in a text: librdkafka's errors quote values."""
    return Secrets(config.secrets()).masked(text)


def _common(config: StreamConfig, client_id: str) -> Settings:
    return {
        "bootstrap.servers": ",".join(config.kafka.addresses),
        "client.id": client_id or DEFAULT_CLIENT_ID,
        "allow.auto.create.topics": False,
        # New topics, and recreated topics, are seen within seconds.
        "topic.metadata.refresh.interval.ms": 5_000,
        "socket.keepalive.enable": True,
        # An address that swallows packets must not use up the time that a start is given.
        "socket.connection.setup.timeout.ms": min(10_000, config.kafka.connect_timeout_s * 1_000),
        # At once when a broker restarts, and soon after one that was away for long.
        "reconnect.backoff.ms": 100,
        "reconnect.backoff.max.ms": 5_000,
    }


def _merged(ours: Settings, *passed_through: Mapping[str, str]) -> Settings:
    """Return ours, then what is passed through; a later one replaces an earlier one under any of its names."""
    merged = dict(ours)
    for settings in passed_through:
        merged |= {canonical(name): value for name, value in settings.items()}
    return merged
