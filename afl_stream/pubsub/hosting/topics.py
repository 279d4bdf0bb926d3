"""The topics of a hosted workflow on the cluster: names, sizes, and creating what is missing."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from afl_stream.errors import TopicNameRefused
from afl_stream.pubsub.errors import PubSubError
from afl_stream.pubsub.model.names import folded
from afl_stream.settings.config import StreamConfig
from afl_stream.topics.budget import require_budget
from afl_stream.topics.creation import create_missing
from afl_stream.topics.declared import ExistingTopic, TopicPlan, TopicSpec, Topology, few_copies
from afl_stream.topics.rights import HostedScope
from afl_stream.transport import Transport

_log = logging.getLogger(__name__)

#: The topic that tells clients how requests stand. A workflow cannot have a topic of this name.
_STATUS: Final = "status"
#: What the store's topic is called in place of a topic's name.
_STATE: Final = "state"


class WorkflowTopicMissing(PubSubError):
    """A topic of a hosted workflow does not exist. No worker and no client creates one."""

    def __init__(self, workflow: str, topic: str) -> None:
        self.workflow = workflow
        self.topic = topic
        super().__init__(self.message_with("afl-stream pubsub topics MODULE:WORKFLOW --apply"))

    def message_with(self, remedy: str) -> str:
        """Return the message with this command as the remedy."""
        return f"topic {self.topic} of workflow {self.workflow} does not exist; create it with: {remedy}"


class PartitionsNotEqual(PubSubError):
    """The topics of a hosted workflow have different numbers of partitions, so a request would have two owners."""

    def __init__(self, workflow: str, found: Mapping[str, int]) -> None:
        listed = ", ".join(f"{topic} {count}" for topic, count in sorted(found.items()))
        super().__init__(
            f"the topics of workflow {workflow} need the same number of partitions; found {listed}. While no worker "
            "runs and no request is unfinished, raise the smaller ones with kafka-topics.sh --alter --partitions"
        )
        self.workflow = workflow
        self.found = dict(found)


class PartitionsChanged(PubSubError):
    """The topics of a hosted workflow have other numbers of partitions than when a worker began."""

    def __init__(self, workflow: str, before: int) -> None:
        super().__init__(
            f"the topics of workflow {workflow} had {before} partitions each when this worker began, and have others "
            "now, so that requests are elsewhere: end all workers, then start them again"
        )
        self.workflow = workflow
        self.before = before


class WorkflowTopics:
    """The names and sizes of the topics of one workflow: one for each of its own, its state, statuses, dead letters.

    Raises TopicNameRefused for names that Kafka does not take, or that would name two topics alike. The workflow's
    topics, state and status have the same number of partitions, `topics.control_partitions`.
    """

    def __init__(
        self, config: StreamConfig, workflow: str, topics: Iterable[str], topology: Topology | None = None
    ) -> None:
        self._topology = topology if topology is not None else Topology(config)
        self.workflow, self.config = workflow, config
        if "." in workflow:
            # The topic b.c of workflow a, and the topic c of workflow a.b would be one.
            raise TopicNameRefused(workflow, "a workflow that is hosted has no dot in its name")
        #: The group of the workers.
        self.group = f"{config.prefix}pubsub.{workflow}"
        #: Where the store keeps requests, if it keeps them on a topic.
        self.state = self._topology.pubsub_state(workflow)
        #: How requests stand: a record when one has finished, waits, or failed.
        self.status = self._topology.pubsub(workflow, _STATUS)
        #: Records that cannot be read, and requests that failed.
        self.dead_letters = self._topology.dlq(self.group)
        #: The schemas of records, of the whole deployment.
        self.schemas = self._topology.schemas()
        #: The cluster's topic for each of the workflow's, in the order in which they are declared.
        self.of: dict[str, str] = {}
        taken = {folded(self.status): "for how requests stand", folded(self.state): "for the state of requests"}
        for topic in topics:
            name = self._topology.pubsub(workflow, topic)
            if (owner := taken.setdefault(folded(name), f"for topic {topic}")) != f"for topic {topic}":
                raise TopicNameRefused(name, f"workflow {workflow} has a topic of this name already, {owner}")
            self.of[topic] = name
        #: The workflow's topic for each of the cluster's.
        self.topic_at = {name: topic for topic, name in self.of.items()}

    def specs(self, brokers: int | None = None) -> list[TopicSpec]:
        """Return all topics as they are declared. `brokers` limits the replicas for which no number is set."""
        return [
            *(self._topology.spec("pubsub", name, brokers) for name in (*self.of.values(), self.status)),
            self._topology.spec("pubsub_state", self.state, brokers),
            self._topology.spec("dlq", self.dead_letters, brokers),
            self._topology.spec("schemas", self.schemas, brokers),
        ]

    def plan(self, existing: Mapping[str, ExistingTopic], brokers: int | None = None) -> list[TopicPlan]:
        """Return for each topic whether it is missing, as declared, or different. Raises TooFewBrokers."""
        return self._topology.plan_of(self.specs, existing, brokers)

    def scope(self, *, taken: Iterable[str], given: Iterable[str], has_state: bool) -> HostedScope:
        """Return what the rights of workers and clients are made of; `has_state`: the store is on its topic.

        `taken`: the workflow's topics that clients write to; `given`: those that they read.
        """
        return HostedScope(
            group=self.group,
            topics=tuple(self.of.values()),
            taken=tuple(self.of[topic] for topic in taken),
            given=tuple(self.of[topic] for topic in given),
            status=self.status,
            letters=self.dead_letters,
            state=self.state if has_state else None,
        )

    def require(self, existing: Mapping[str, ExistingTopic], *, has_state: bool) -> int:
        """Return the number of partitions; `has_state`: the store is on its topic.

        Raises WorkflowTopicMissing and PartitionsNotEqual.
        """
        equal = [*self.of.values(), self.status, *([self.state] if has_state else [])]
        for name in (*equal, self.dead_letters, self.schemas):
            if name not in existing:
                raise WorkflowTopicMissing(self.workflow, name)
        found = {name: existing[name].partitions for name in equal}
        if len(set(found.values())) > 1:
            raise PartitionsNotEqual(self.workflow, found)
        return found[self.status]


def plan_topics(topics: WorkflowTopics, transport: Transport) -> list[TopicPlan]:
    """Return what would have to be created for a workflow, and what differs; changes nothing.

    Warns where the cluster has too few brokers for the usual three copies of a topic to create. Raises TooFewBrokers
    and TooManyPartitions.
    """
    admin = transport.admin()
    brokers = admin.broker_count()
    plans = topics.plan(admin.topics([spec.name for spec in topics.specs(brokers)]), brokers)
    require_budget(topics.config, admin, plans)
    if brokers is not None and (warning := few_copies(plans, brokers)):
        _log.warning("%s", warning)
    return plans


def apply_topics(topics: WorkflowTopics, transport: Transport) -> list[TopicPlan]:
    """Create the topics that are missing, and return the plan that this followed. Changes no existing topic.

    Raises the first failure after all were tried.
    """
    plans = plan_topics(topics, transport)
    create_missing(transport.admin(), plans)
    return plans
