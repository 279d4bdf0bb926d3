"""Topics as the bridge names them: any topic of the cluster, or a topic of an event-driven workflow that is hosted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from afl_stream.acls import check_visible
from afl_stream.bridge.errors import BridgeTopicMissing
from afl_stream.topics.creation import create_missing
from afl_stream.topics.declared import TopicSpec, Topology, check_topic_name
from afl_stream.transport import Admin, Transport


@dataclass(frozen=True, slots=True)
class WorkflowTopic:
    """A topic of a hosted event-driven workflow. Its records belong to requests: the key is the request's id."""

    workflow: str
    topic: str

    def __str__(self) -> str:
        return f"{self.workflow}.{self.topic}"


#: A text is the name of a topic as the cluster has it: no prefix is put in front.
AnyTopic: TypeAlias = str | WorkflowTopic


class NeededTopics:
    """The topics that a bridge reads and publishes to, each with what it is needed for."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        #: By the name on the cluster: the kind that it is created as, and what it is needed for.
        self._needed: dict[str, tuple[str, str]] = {}

    def add(self, topic: AnyTopic, needed_for: str) -> str:
        """Note a topic, and return its name on the cluster. Raises TopicNameRefused."""
        if isinstance(topic, WorkflowTopic):
            name = self._topology.pubsub(topic.workflow, topic.topic)
        else:
            name = check_topic_name(topic)
        self._needed.setdefault(name, ("pubsub", needed_for))
        return name

    def add_dead_letters(self, name: str) -> str:
        """Note the dead-letter topic of a topic, and return its name."""
        letters = self._topology.dlq(name)
        self._needed.setdefault(letters, ("dlq", f"for dead letters of {name}"))
        return letters

    def require(self, admin: Admin) -> None:
        """Raise BridgeTopicMissing when a topic does not exist, TopicHidden when this user may not see it."""
        there = admin.topic_names()
        for name, (_, needed_for) in self._needed.items():
            if name not in there:
                check_visible(admin, name, needed_for.removeprefix("for "), "--role bridge --declaration MODULE")
                raise BridgeTopicMissing(name, needed_for)

    def apply(self, transport: Transport) -> None:
        """Create the topics that are missing, as `topics/` declares topics of workflows. Existing ones stay."""
        admin = transport.admin()
        brokers, existing = admin.broker_count(), admin.topics(self._needed)
        create_missing(admin, self._topology.plan_of(self._specs, existing, brokers))

    def _specs(self, brokers: int | None) -> list[TopicSpec]:
        kinds: Mapping[str, tuple[str, str]] = self._needed
        return [self._topology.spec(kind, name, brokers) for name, (kind, _) in kinds.items()]
