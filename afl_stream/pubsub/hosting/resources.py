"""What a worker and a client of a hosted workflow need of the cluster before they begin."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

from afl_stream.acls import check_visible
from afl_stream.outage import waited_out
from afl_stream.pubsub.hosting.records import WorkflowRecords
from afl_stream.pubsub.hosting.topics import WorkflowTopicMissing, WorkflowTopics
from afl_stream.pubsub.model.definition import WorkflowDefinition
from afl_stream.registry.deployment_codec import DeploymentCodec
from afl_stream.settings.config import StreamConfig
from afl_stream.topics.declared import ExistingTopic, Topology
from afl_stream.topics.policies import unsafe_policies
from afl_stream.topics.rights import Role
from afl_stream.transport import Transport
from afl_stream.wire.codec import Codec

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedTopics:
    """A workflow's topics, which exist, and its records. `close` it."""

    topics: WorkflowTopics
    #: The cluster's topics as they were found, by their names.
    existing: Mapping[str, ExistingTopic]
    records: WorkflowRecords
    codec: Codec
    schemas: DeploymentCodec | None

    def close(self) -> None:
        """Close what reads and writes schemas."""
        if self.schemas is not None:
            self.schemas.close()


def open_topics(
    workflow: WorkflowDefinition,
    transport: Transport,
    config: StreamConfig,
    codec: Codec | None = None,
    *,
    role: Role,
    has_state: bool,
    is_stopping: Callable[[], bool] = lambda: False,
) -> HostedTopics:
    """Check the topics of a workflow and announce the schema of its events; `has_state`: the store is a topic.

    `role`: who asks, on a cluster with ACLs. Blocks; waits for a broker that is away. Raises WorkflowTopicMissing,
    TopicHidden, PartitionsNotEqual, TopicNameRefused and what the transport raises.
    """
    timeout_s = config.kafka.outage_timeout_s
    topology = Topology(config)
    topics = WorkflowTopics(config, workflow.name, workflow.topics, topology)
    names = [spec.name for spec in topics.specs()]
    existing = waited_out(lambda: transport.admin().topics(names), timeout_s, is_stopping=is_stopping)
    try:
        partitions = topics.require(existing, has_state=has_state)
    except WorkflowTopicMissing as error:
        options = f"--role {role} --workflow MODULE:WORKFLOW"
        check_visible(transport.admin(), error.topic, f"workflow {workflow.name}", options)
        raise
    for finding in unsafe_policies(topology, existing, config.kafka.bootstrap):
        _log.error("%s", finding)
    schemas = None
    if codec is None:
        schemas = DeploymentCodec(config, transport, topology)
        codec = schemas.codec
    records = WorkflowRecords(config, topics, codec, partitions=partitions)
    try:
        waited_out(records.announce, timeout_s, is_stopping=is_stopping)
    except BaseException:
        if schemas is not None:
            schemas.close()
        raise
    return HostedTopics(topics=topics, existing=existing, records=records, codec=codec, schemas=schemas)


async def opened_topics(
    workflow: WorkflowDefinition,
    transport: Transport,
    config: StreamConfig,
    codec: Codec | None = None,
    *,
    role: Role,
    has_state: bool,
    is_stopping: Callable[[], bool] = lambda: False,
) -> HostedTopics:
    """Do what `open_topics` does, on a thread of its own.

    When this is cancelled the thread stops waiting, and closes what it has opened all the same.
    """
    is_abandoned = Event()
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="afl-pubsub-topics")
    opening = thread.submit(
        open_topics,
        workflow,
        transport,
        config,
        codec,
        role=role,
        has_state=has_state,
        is_stopping=lambda: is_abandoned.is_set() or is_stopping(),
    )
    thread.shutdown(wait=False)
    try:
        return await asyncio.wrap_future(opening)
    except asyncio.CancelledError:
        is_abandoned.set()
        opening.add_done_callback(_close_opened)
        raise


def _close_opened(opening: Future[HostedTopics]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
