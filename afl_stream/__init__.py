"""AFL workflows on Kafka: events on topics, agents as consumer groups.

The names of this package load when they are first used: a client and an agent load no engine and no database.
"""

from typing import TYPE_CHECKING

from afl.core.lazy_names import lazy_names
from afl.core.release import VERSION

if TYPE_CHECKING:
    from afl.core.handlers.calling import Deferred as Deferred
    from afl.core.handlers.context import HandlerContext as HandlerContext
    from afl.core.handlers.retry import RetryPolicy as RetryPolicy
    from afl_stream.agent.agent import Agent as Agent
    from afl_stream.agent.agent import NoHandlers as NoHandlers
    from afl_stream.agent.resources import AgentConfig as AgentConfig
    from afl_stream.audit.audit import Audit as Audit
    from afl_stream.audit.config import AuditConfig as AuditConfig
    from afl_stream.client.async_client import AsyncClient as AsyncClient
    from afl_stream.client.client import AttemptNeeded as AttemptNeeded
    from afl_stream.client.client import Client as Client
    from afl_stream.client.external_events import EventOutcome as EventOutcome
    from afl_stream.client.external_events import EventReceipt as EventReceipt
    from afl_stream.client.milestones import Milestones as Milestones
    from afl_stream.client.milestones import NotAnswered as NotAnswered
    from afl_stream.client.milestones import NotInTime as NotInTime
    from afl_stream.dev import LocalDeployment as LocalDeployment
    from afl_stream.embedded.transport import EmbeddedTransport as EmbeddedTransport
    from afl_stream.errors import ConfigError as ConfigError
    from afl_stream.errors import StreamError as StreamError
    from afl_stream.evaluator.service import EvaluatorService as EvaluatorService
    from afl_stream.kafka.transport import KafkaTransport as KafkaTransport
    from afl_stream.settings.config import StreamConfig as StreamConfig
    from afl_stream.settings.config import load_config as load_config
    from afl_stream.topics.declared import Topology as Topology
    from afl_stream.transport import TopicPartition as TopicPartition
    from afl_stream.transport import Transport as Transport
    from afl_stream.transport import TransportError as TransportError
    from afl_stream.wire.command_answers import RefusedByEvaluator as RefusedByEvaluator

__version__ = VERSION

_HOMES = {
    "afl_stream.agent.resources": "AgentConfig",
    "afl_stream.audit.config": "AuditConfig",
    "afl_stream.agent.agent": "Agent NoHandlers",
    "afl.core.handlers.context": "HandlerContext",
    "afl.core.handlers.retry": "RetryPolicy",
    "afl.core.handlers.calling": "Deferred",
    "afl_stream.audit.audit": "Audit",
    "afl_stream.client.async_client": "AsyncClient",
    "afl_stream.client.client": "AttemptNeeded Client",
    "afl_stream.client.external_events": "EventOutcome EventReceipt",
    "afl_stream.client.milestones": "Milestones NotAnswered NotInTime",
    "afl_stream.wire.command_answers": "RefusedByEvaluator",
    "afl_stream.settings.config": "StreamConfig load_config",
    "afl_stream.topics.declared": "Topology",
    "afl_stream.transport": "TopicPartition Transport TransportError",
    "afl_stream.kafka.transport": "KafkaTransport",
    "afl_stream.embedded.transport": "EmbeddedTransport",
    "afl_stream.evaluator.service": "EvaluatorService",
    "afl_stream.dev": "LocalDeployment",
    "afl_stream.errors": "ConfigError StreamError",
}

__all__ = [
    "__version__",
    "Agent",
    "AgentConfig",
    "AsyncClient",
    "AttemptNeeded",
    "Audit",
    "AuditConfig",
    "Client",
    "ConfigError",
    "Deferred",
    "EmbeddedTransport",
    "EvaluatorService",
    "EventOutcome",
    "EventReceipt",
    "HandlerContext",
    "KafkaTransport",
    "LocalDeployment",
    "Milestones",
    "NoHandlers",
    "NotAnswered",
    "NotInTime",
    "RefusedByEvaluator",
    "RetryPolicy",
    "StreamConfig",
    "StreamError",
    "TopicPartition",
    "Topology",
    "Transport",
    "TransportError",
    "load_config",
]

if not TYPE_CHECKING:
    # Out of sight of type checkers: they would take any name for one of this package.
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
