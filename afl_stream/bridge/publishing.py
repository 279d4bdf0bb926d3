"""Event facets whose events are published to topics."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from afl.core.clock import epoch_ms
from afl.core.handlers.context import HandlerContext
from afl_stream.bridge.payloads import FromPayload, Payload, data_of, request_id_of
from afl_stream.bridge.resources import SOURCE, BridgeResources
from afl_stream.bridge.topics import AnyTopic, WorkflowTopic
from afl_stream.pubsub import InvokeContext, PublishToTopicEvent
from afl_stream.pubsub.hosting.records import WorkflowRecords
from afl_stream.pubsub.hosting.topics import WorkflowTopics
from afl_stream.pubsub.model.events import derived_event_id
from afl_stream.transport import Headers
from afl_stream.wire.codec import CONTENT_TYPE_HEADER
from afl_stream.wire.headers import SPEC_VERSION, rfc3339, trace_context

#: The publisher type of events that come from AFL workflows.
PUBLISHER_TYPE: Final = "AFLWorkflow"
#: The header that names the AFL workflow, so that who reads the record can raise an event for it.
WORKFLOW_HEADER: Final = "afl_workflow_id"


@dataclass(frozen=True, slots=True)
class PublishedEvent:
    """An event that a topic has: what the step's result is made of."""

    event_id: str
    topic: str
    key: str


#: Makes the returns of a published event. None: `event_id` and `topic`, as far as the facet declares them.
PublishedResults: TypeAlias = Callable[[PublishedEvent], Mapping[str, object]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishHandler:
    """The handler of an event facet that publishes each event to a topic.

    In this order:
      1. the agent has read the AFL event,
      2. the event is published, and the broker has acknowledged it,      (bridge.published)
      3. the agent answers with its id, and commits the AFL event.

    A crash before 3 publishes again, with the same id: it is derived from the AFL event's. Workflows and the bridge's
    own readers take an id once; others see a record with the `ce_id` that they have seen.
    """

    facet: str
    topic: AnyTopic
    #: The topic's name on the cluster.
    name: str
    request_id: FromPayload | None
    data: FromPayload | None
    results: PublishedResults
    resources: BridgeResources

    async def __call__(self, payload: dict[str, Any], context: HandlerContext) -> Mapping[str, object]:
        """Publish on the bridge's event loop, and return the result."""
        return await self.resources.loop.run(self._publish(payload, context))

    async def _publish(self, payload: Payload, context: HandlerContext) -> Mapping[str, object]:
        key = request_id_of(self.facet, payload, self.request_id, context)
        data = data_of(self.facet, payload, self.data)
        event_id = derived_event_id(key, self.facet, self.name, 0, (context.event_id,))
        if isinstance(self.topic, WorkflowTopic):
            await self._publish_to_workflow(self.topic, key, event_id, data, context)
        else:
            await self._publish_json(key, event_id, data, context)
        self.resources.counters.add("published")
        self.resources.probe("bridge.published")
        published = PublishedEvent(event_id, self.name, key)
        return self._result(published, context) if self.results is None else self.results(published)

    async def _publish_json(self, key: str, event_id: str, data: object, context: HandlerContext) -> None:
        value = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        headers = (
            ("ce_specversion", SPEC_VERSION),
            ("ce_id", event_id.encode()),
            ("ce_type", f"afl.published.{self.facet}".encode()),
            ("ce_source", SOURCE.encode()),
            ("ce_time", rfc3339(epoch_ms()).encode()),
            (CONTENT_TYPE_HEADER, b"application/json"),
            *_origin(context),
            *_trace(context),
        )
        await self.resources.publisher.publish_and_wait(self.name, value, key=key, headers=headers)

    async def _publish_to_workflow(
        self, topic: WorkflowTopic, key: str, event_id: str, data: object, context: HandlerContext
    ) -> None:
        resources = self.resources
        records = records_of(resources, topic)
        event = PublishToTopicEvent(
            event_id=event_id,
            assistant_request_id=key,
            name=topic.topic,
            offset=0,
            data=data,
            publisher_name=self.facet,
            publisher_type=PUBLISHER_TYPE,
            timestamp_ms=epoch_ms(),
        )
        caller = InvokeContext(
            assistant_request_id=key, conversation_id=context.workflow_id, invoke_id=context.event_id
        )
        record = records.encoded(event, caller)
        headers = (*record.headers, *_origin(context), *_trace(context))
        await resources.publisher.publish_and_wait(record.topic, record.value, key=record.key, headers=headers)

    def _result(self, published: PublishedEvent, context: HandlerContext) -> dict[str, object]:
        returns = context.returns
        declared = () if returns is None else (*returns.required, *returns.optional)
        return {name: getattr(published, name) for name in ("event_id", "topic") if name in declared}


def records_of(resources: BridgeResources, topic: WorkflowTopic) -> WorkflowRecords:
    """Return the coder of the records of a workflow's topic."""
    topics = WorkflowTopics(resources.config, topic.workflow, [topic.topic], resources.topology)
    # What it reads and writes for others than workers does not depend on the number of partitions.
    return WorkflowRecords(resources.config, topics, resources.codec, partitions=1)


def _origin(context: HandlerContext) -> Headers:
    return ((WORKFLOW_HEADER, context.workflow_id.encode()),)


def _trace(context: HandlerContext) -> Headers:
    return trace_context(context.headers.items())
