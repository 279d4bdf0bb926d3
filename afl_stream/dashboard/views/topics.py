"""The topics of a deployment: what they are for, how much they hold, and how far behind their readers are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from afl_stream.dashboard.deployment import Deployment
from afl_stream.topics.declared import Topology
from afl_stream.transport import TopicPartition, Transport, UnknownTopic, Watermarks

#: Partitions whose bounds are asked for on one page.
_MOST_PARTITIONS: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition: the offsets that it holds, and the next one of the group that reads the topic."""

    partition: int
    low: int
    high: int
    committed: int | None

    @property
    def lag(self) -> int:
        """Return how many offsets the group is behind."""
        return max(self.high - max(self.committed or 0, self.low), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """One topic. `group` is the one that does its work, "" where there is none."""

    name: str
    kind: str
    partitions: Sequence[Partition]
    replication: int
    settings: Mapping[str, str]
    group: str

    @property
    def record_count(self) -> int:
        """Return how many offsets it holds: on Kafka some may be markers of transactions."""
        return sum(partition.high - partition.low for partition in self.partitions)

    @property
    def lag(self) -> int:
        return sum(partition.lag for partition in self.partitions)

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {
            "name": self.name,
            "kind": self.kind,
            "partitions": [{**asdict(one), "lag": one.lag if self.group else None} for one in self.partitions],
            "replication": self.replication,
            "settings": dict(self.settings),
            "group": self.group or None,
            "records": self.record_count,
            "lag": self.lag if self.group else None,
        }


def topics(deployment: Deployment) -> list[TopicView]:
    """Return the topics of a deployment, by name. Raises what the transport raises."""
    topology = Topology(deployment.config)
    with deployment.transport() as transport:
        own = [name for name in transport.admin().topic_names() if _is_own(deployment, topology, name)]
        return _views(deployment, transport, topology, sorted(own))


def topic(deployment: Deployment, name: str) -> TopicView:
    """Return one topic. Raises UnknownTopic, and what the transport raises."""
    topology = Topology(deployment.config)
    if not _is_own(deployment, topology, name):
        raise UnknownTopic(name)
    with deployment.transport() as transport:
        found = _views(deployment, transport, topology, [name])
    if not found:
        raise UnknownTopic(name)
    return found[0]


def _is_own(deployment: Deployment, topology: Topology, name: str) -> bool:
    """Return whether a topic belongs to the deployment: others on the cluster are not shown."""
    prefix = deployment.config.prefix
    return (bool(prefix) and name.startswith(prefix)) or topology.is_facet_topic(name) or name in _named(topology)


def _named(topology: Topology) -> dict[str, str]:
    return {
        topology.control(): "answers",
        topology.commands(): "commands",
        topology.external(): "external events",
        topology.lifecycle(): "milestones",
        topology.definitions(): "programs",
        topology.schemas(): "schemas",
        topology.presence(): "presence",
    }


def _views(deployment: Deployment, transport: Transport, topology: Topology, names: Sequence[str]) -> list[TopicView]:
    described = transport.admin().topics(names)
    groups = {name: _group_of(deployment, topology, name) for name in described}
    reader = transport.consumer(None)
    left = _MOST_PARTITIONS
    bounds: dict[TopicPartition, Watermarks] = {}
    try:
        for name in sorted(described):
            for number in range(min(described[name].partitions, left)):
                bounds[TopicPartition(name, number)] = reader.watermarks(TopicPartition(name, number))
            left = max(left - described[name].partitions, 0)
    finally:
        reader.close()
    committed = _committed(transport, groups, bounds)
    return [
        TopicView(
            name=name,
            kind=kind_of(topology, name),
            partitions=[
                Partition(partition=place.partition, low=found.low, high=found.high, committed=committed.get(place))
                for place, found in bounds.items()
                if place.topic == name
            ],
            replication=described[name].replication,
            settings=described[name].settings,
            group=groups[name],
        )
        for name in sorted(described)
    ]


def kind_of(topology: Topology, name: str) -> str:
    """Return in words what a topic is for."""
    named = _named(topology)
    if name in named:
        return named[name]
    if topology.is_dead_letters(name):
        return "dead letters"
    return "events" if topology.is_facet_topic(name) else "other"


def _group_of(deployment: Deployment, topology: Topology, name: str) -> str:
    if name in (topology.control(), topology.commands(), topology.external()):
        return deployment.config.evaluator_group
    if topology.is_facet_topic(name) and not topology.is_dead_letters(name):
        facets = topology.facets_of(name)
        return deployment.config.agent_group(facets[0]) if facets else ""
    return ""


def _committed(
    transport: Transport, groups: Mapping[str, str], bounds: Mapping[TopicPartition, Watermarks]
) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for group in sorted({group for group in groups.values() if group}):
        places = [place for place in bounds if groups[place.topic] == group]
        reader = transport.consumer(group)
        try:
            found.update({place: one.offset for place, one in reader.committed(places).items()})
        finally:
            reader.close()
    return found
