"""The least rights of bridges, workers, clients and subscribers: the roles of event-driven workflows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from afl_stream.acls import Match, Operation
from afl_stream.topics.rights import (
    JOINS,
    LIMIT,
    POLICY,
    BridgeScope,
    HostedScope,
    Right,
    RightNames,
    Role,
    ScopeNeeded,
    Subscribed,
)
from afl_stream.topics.role_rights import agent

_READ: Final = Operation.READ
_WRITE: Final = Operation.WRITE
_DESCRIBE: Final = Operation.DESCRIBE
_CONFIGS: Final = Operation.DESCRIBE_CONFIGS


def bridge(names: RightNames) -> Iterator[Right]:
    """Yield the rights of a bridge: of an agent for its facets, and of what it reads and writes. Raises ScopeNeeded."""
    scope = names.scope.bridge or BridgeScope()
    if not (names.scope.facets or scope.reads):
        raise ScopeNeeded(Role.BRIDGE, "--declaration MODULE")
    if names.scope.facets:
        yield from agent(names)
    else:
        yield names.topic("schemas", _READ, why="reads the schemas of records")
    yield from _subscribed(names, scope.reads, "reads what it is to take in")
    if scope.raises_events:
        yield names.topic("external", _WRITE, why="raises external events")
        yield names.topic("external", _CONFIGS, why=LIMIT, is_optional=True)
    for topic in scope.writes:
        yield names.named(topic, _WRITE, why="publishes")
        yield names.named(topic, _CONFIGS, why=LIMIT, is_optional=True)


def pubsub_worker(names: RightNames) -> Iterator[Right]:
    """Yield the rights of a worker of a hosted workflow. Raises ScopeNeeded."""
    hosted = _hosted(names, Role.PUBSUB_WORKER)
    for topic in hosted.topics:
        yield names.named(topic, _READ, _WRITE, why="reads events of requests, and publishes those of nodes")
        yield names.named(topic, _CONFIGS, why=f"{LIMIT}; {POLICY}", is_optional=True)
    yield names.named(hosted.status, _WRITE, why="tells clients how requests stand")
    yield names.named(hosted.status, _CONFIGS, why=LIMIT, is_optional=True)
    if hosted.state is not None:
        yield names.named(hosted.state, _READ, _WRITE, why="stores requests")
        yield names.named(hosted.state, _CONFIGS, why=f"{LIMIT}; {POLICY}", is_optional=True)
    yield names.named(hosted.letters, _WRITE, why="gives up records that cannot be read, and requests that failed")
    yield names.named(hosted.letters, _CONFIGS, why=LIMIT, is_optional=True)
    # With a registry nothing new is announced on the topic.
    schemas = (_READ,) if names.config.registry.urls else (_READ, _WRITE)
    yield names.topic("schemas", *schemas, why="reads and announces the schemas of events")
    yield names.topic("schemas", _CONFIGS, why=POLICY, is_optional=True)
    yield names.group(hosted.group, _READ, JOINS)


def pubsub_client(names: RightNames) -> Iterator[Right]:
    """Yield the rights of a client of a hosted workflow. Raises ScopeNeeded."""
    hosted = _hosted(names, Role.PUBSUB_CLIENT)
    for topic in hosted.taken:
        yield names.named(topic, _WRITE, why="sends inputs and answers of requests")
        yield names.named(topic, _CONFIGS, why=f"{LIMIT}; {POLICY}", is_optional=True)
    for topic in hosted.given:
        yield names.named(topic, _READ, why="reads the output of requests")
        yield names.named(topic, _CONFIGS, why=POLICY, is_optional=True)
    yield names.named(hosted.status, _READ, why="hears how requests stand")
    yield names.named(hosted.status, _CONFIGS, why=POLICY, is_optional=True)
    for topic in (*hosted.topics, hosted.letters):
        if topic not in (*hosted.taken, *hosted.given):
            yield names.named(topic, _DESCRIBE, why="looks whether all topics are there, and how many partitions")
    if hosted.state is not None:
        yield names.named(hosted.state, _READ, why="for the commands `pubsub invoke` and `show`", is_optional=True)
    yield names.topic("schemas", _READ, why="to read and write Avro; the schemas of events are there once a worker was")
    yield names.topic("schemas", _CONFIGS, why=POLICY, is_optional=True)


def subscriber(names: RightNames) -> Iterator[Right]:
    """Yield the rights of a subscription to some topics. Raises ScopeNeeded."""
    subscribed = names.scope.subscribed
    if not subscribed:
        raise ScopeNeeded(Role.SUBSCRIBER, "--topic NAME")
    yield from _subscribed(names, subscribed, "reads messages")
    yield names.topic("schemas", _READ, why="reads the schemas of records; JSON needs none", is_optional=True)


def _subscribed(names: RightNames, subscribed: tuple[Subscribed, ...], why: str) -> Iterator[Right]:
    for one in subscribed:
        yield names.named(one.topic, _READ, why=why)
        if one.has_letters:
            letters = names.topology.dlq(one.topic)
            yield names.named(letters, _WRITE, why="gives up records that cannot be used")
            yield names.named(letters, _CONFIGS, why=LIMIT, is_optional=True)
    for group, is_prefix in dict.fromkeys((one.group, one.is_prefix) for one in subscribed):
        yield names.group(group, _READ, JOINS, Match.PREFIXED if is_prefix else Match.LITERAL)


def _hosted(names: RightNames, role: Role) -> HostedScope:
    if names.scope.hosted is None:
        raise ScopeNeeded(role, "--workflow MODULE:WORKFLOW")
    return names.scope.hosted
