"""Event-driven workflows, and publishing and subscribing, on the transport port.

The names of this package load when they are first used.
"""

from typing import TYPE_CHECKING

from afl.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from afl_stream.pubsub.errors import DataRefused as DataRefused
    from afl_stream.pubsub.errors import NodeFailed as NodeFailed
    from afl_stream.pubsub.errors import NotAcknowledged as NotAcknowledged
    from afl_stream.pubsub.errors import PublishFailed as PublishFailed
    from afl_stream.pubsub.errors import PubSubError as PubSubError
    from afl_stream.pubsub.errors import RequestConflict as RequestConflict
    from afl_stream.pubsub.errors import StageFailed as StageFailed
    from afl_stream.pubsub.errors import SubscribedTopicMissing as SubscribedTopicMissing
    from afl_stream.pubsub.errors import SubscriptionClosed as SubscriptionClosed
    from afl_stream.pubsub.errors import SubscriptionInvalid as SubscriptionInvalid
    from afl_stream.pubsub.errors import WorkflowInvalid as WorkflowInvalid
    from afl_stream.pubsub.event_stores.memory import MemoryEventStore as MemoryEventStore
    from afl_stream.pubsub.event_stores.mongo import MongoEventStore as MongoEventStore
    from afl_stream.pubsub.event_stores.on_topic import TopicEventStore as TopicEventStore
    from afl_stream.pubsub.event_stores.opening import open_event_store as open_event_store
    from afl_stream.pubsub.event_stores.sqlite import SQLiteEventStore as SQLiteEventStore
    from afl_stream.pubsub.event_stores.store import EventStore as EventStore
    from afl_stream.pubsub.event_stores.store import RequestKey as RequestKey
    from afl_stream.pubsub.event_stores.store import RequestStatus as RequestStatus
    from afl_stream.pubsub.event_stores.store import StoredRequest as StoredRequest
    from afl_stream.pubsub.hosting.client import WorkflowClient as WorkflowClient
    from afl_stream.pubsub.hosting.config import WorkerConfig as WorkerConfig
    from afl_stream.pubsub.hosting.failures import RequestFailed as RequestFailed
    from afl_stream.pubsub.hosting.failures import RequestNotAnswered as RequestNotAnswered
    from afl_stream.pubsub.hosting.topics import WorkflowTopics as WorkflowTopics
    from afl_stream.pubsub.hosting.topics import apply_topics as apply_topics
    from afl_stream.pubsub.hosting.worker import WorkflowWorker as WorkflowWorker
    from afl_stream.pubsub.model.commands import Command as Command
    from afl_stream.pubsub.model.context import InvokeContext as InvokeContext
    from afl_stream.pubsub.model.definition import WorkflowDefinition as WorkflowDefinition
    from afl_stream.pubsub.model.events import ConsumeFromTopicEvent as ConsumeFromTopicEvent
    from afl_stream.pubsub.model.events import OutputTopicEvent as OutputTopicEvent
    from afl_stream.pubsub.model.events import PublishToTopicEvent as PublishToTopicEvent
    from afl_stream.pubsub.model.expressions import AllOf as AllOf
    from afl_stream.pubsub.model.expressions import AnyOf as AnyOf
    from afl_stream.pubsub.model.expressions import On as On
    from afl_stream.pubsub.model.expressions import extract_topics as extract_topics
    from afl_stream.pubsub.model.function_command import FunctionCommand as FunctionCommand
    from afl_stream.pubsub.model.nodes import Node as Node
    from afl_stream.pubsub.model.nodes import NodeBuilder as NodeBuilder
    from afl_stream.pubsub.model.nodes import NodeInvalid as NodeInvalid
    from afl_stream.pubsub.model.span_kinds import OpenInferenceSpanKindValues as OpenInferenceSpanKindValues
    from afl_stream.pubsub.model.subscription_builder import SubscriptionBuilder as SubscriptionBuilder
    from afl_stream.pubsub.model.subscription_text import parse_subscription as parse_subscription
    from afl_stream.pubsub.model.topics import InputTopic as InputTopic
    from afl_stream.pubsub.model.topics import InWorkflowInputTopic as InWorkflowInputTopic
    from afl_stream.pubsub.model.topics import InWorkflowOutputTopic as InWorkflowOutputTopic
    from afl_stream.pubsub.model.topics import OutputTopic as OutputTopic
    from afl_stream.pubsub.model.topics import Topic as Topic
    from afl_stream.pubsub.model.topics import TopicBase as TopicBase
    from afl_stream.pubsub.model.workflow_builder import WorkflowBuilder as WorkflowBuilder
    from afl_stream.pubsub.running.output_queue import AsyncOutputQueue as AsyncOutputQueue
    from afl_stream.pubsub.running.output_queue import MergeIdleQueue as MergeIdleQueue
    from afl_stream.pubsub.running.run import WorkflowRun as WorkflowRun
    from afl_stream.pubsub.running.tracker import AsyncNodeTracker as AsyncNodeTracker
    from afl_stream.pubsub.running.workflow import EventDrivenWorkflow as EventDrivenWorkflow
    from afl_stream.pubsub.subscriptions.message import Message as Message
    from afl_stream.pubsub.subscriptions.publisher import Published as Published
    from afl_stream.pubsub.subscriptions.publisher import Publisher as Publisher
    from afl_stream.pubsub.subscriptions.publisher import PublisherSettings as PublisherSettings
    from afl_stream.pubsub.subscriptions.republishing import republish as republish
    from afl_stream.pubsub.subscriptions.settings import OnError as OnError
    from afl_stream.pubsub.subscriptions.settings import Since as Since
    from afl_stream.pubsub.subscriptions.settings import SubscriptionSettings as SubscriptionSettings
    from afl_stream.pubsub.subscriptions.subscription import Subscription as Subscription

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = ("errors",)

_HOMES = {
    "afl_stream.pubsub.errors": (
        "DataRefused NodeFailed NotAcknowledged PubSubError PublishFailed RequestConflict StageFailed "
        "SubscribedTopicMissing SubscriptionClosed SubscriptionInvalid WorkflowInvalid"
    ),
    "afl_stream.pubsub.event_stores.memory": "MemoryEventStore",
    "afl_stream.pubsub.event_stores.mongo": "MongoEventStore",
    "afl_stream.pubsub.event_stores.on_topic": "TopicEventStore",
    "afl_stream.pubsub.event_stores.opening": "open_event_store",
    "afl_stream.pubsub.event_stores.sqlite": "SQLiteEventStore",
    "afl_stream.pubsub.event_stores.store": "EventStore RequestKey RequestStatus StoredRequest",
    "afl_stream.pubsub.hosting.client": "WorkflowClient",
    "afl_stream.pubsub.hosting.config": "WorkerConfig",
    "afl_stream.pubsub.hosting.failures": "RequestFailed RequestNotAnswered",
    "afl_stream.pubsub.hosting.topics": "WorkflowTopics apply_topics",
    "afl_stream.pubsub.hosting.worker": "WorkflowWorker",
    "afl_stream.pubsub.model.commands": "Command",
    "afl_stream.pubsub.model.context": "InvokeContext",
    "afl_stream.pubsub.model.definition": "WorkflowDefinition",
    "afl_stream.pubsub.model.events": "ConsumeFromTopicEvent OutputTopicEvent PublishToTopicEvent",
    "afl_stream.pubsub.model.expressions": "AllOf AnyOf On extract_topics",
    "afl_stream.pubsub.model.function_command": "FunctionCommand",
    "afl_stream.pubsub.model.nodes": "Node NodeBuilder NodeInvalid",
    "afl_stream.pubsub.model.span_kinds": "OpenInferenceSpanKindValues",
    "afl_stream.pubsub.model.subscription_builder": "SubscriptionBuilder",
    "afl_stream.pubsub.model.subscription_text": "parse_subscription",
    "afl_stream.pubsub.model.topics": (
        "InWorkflowInputTopic InWorkflowOutputTopic InputTopic OutputTopic Topic TopicBase"
    ),
    "afl_stream.pubsub.model.workflow_builder": "WorkflowBuilder",
    "afl_stream.pubsub.running.output_queue": "AsyncOutputQueue MergeIdleQueue",
    "afl_stream.pubsub.running.run": "WorkflowRun",
    "afl_stream.pubsub.running.tracker": "AsyncNodeTracker",
    "afl_stream.pubsub.running.workflow": "EventDrivenWorkflow",
    "afl_stream.pubsub.subscriptions.message": "Message",
    "afl_stream.pubsub.subscriptions.publisher": "Published Publisher PublisherSettings",
    "afl_stream.pubsub.subscriptions.republishing": "republish",
    "afl_stream.pubsub.subscriptions.settings": "OnError Since SubscriptionSettings",
    "afl_stream.pubsub.subscriptions.subscription": "Subscription",
}

__all__ = [
    "AllOf",
    "AnyOf",
    "AsyncNodeTracker",
    "AsyncOutputQueue",
    "Command",
    "ConsumeFromTopicEvent",
    "DataRefused",
    "EventDrivenWorkflow",
    "EventStore",
    "FunctionCommand",
    "InWorkflowInputTopic",
    "InWorkflowOutputTopic",
    "InputTopic",
    "InvokeContext",
    "MemoryEventStore",
    "MergeIdleQueue",
    "Message",
    "MongoEventStore",
    "Node",
    "NodeBuilder",
    "NodeFailed",
    "NodeInvalid",
    "NotAcknowledged",
    "On",
    "OnError",
    "OpenInferenceSpanKindValues",
    "OutputTopic",
    "OutputTopicEvent",
    "PubSubError",
    "PublishFailed",
    "PublishToTopicEvent",
    "Published",
    "Publisher",
    "PublisherSettings",
    "RequestConflict",
    "RequestFailed",
    "RequestKey",
    "RequestNotAnswered",
    "RequestStatus",
    "SQLiteEventStore",
    "Since",
    "StageFailed",
    "StoredRequest",
    "SubscribedTopicMissing",
    "Subscription",
    "SubscriptionBuilder",
    "SubscriptionClosed",
    "SubscriptionInvalid",
    "SubscriptionSettings",
    "Topic",
    "TopicBase",
    "TopicEventStore",
    "WorkerConfig",
    "WorkflowBuilder",
    "WorkflowClient",
    "WorkflowDefinition",
    "WorkflowInvalid",
    "WorkflowRun",
    "WorkflowTopics",
    "WorkflowWorker",
    "apply_topics",
    "extract_topics",
    "open_event_store",
    "parse_subscription",
    "republish",
]

if not TYPE_CHECKING:
    # Out of sight of type checkers: they would take any name for one of this package.
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
