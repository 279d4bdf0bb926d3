"""The public face of the engine, its stores and its workers.

Names are loaded when they are first used: a program that needs an error or a value pays for nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from afl.claude.llm_handler import LLMHandler as LLMHandler
    from afl.claude.llm_handler import LLMHandlerConfig as LLMHandlerConfig
    from afl.claude.runner import ClaudeAgentRunner as ClaudeAgentRunner
    from afl.claude.tool_definitions import ToolDefinition as ToolDefinition
    from afl.engine.errors import BlockNotFoundError as BlockNotFoundError
    from afl.engine.errors import ConcurrencyError as ConcurrencyError
    from afl.engine.errors import DependencyNotSatisfiedError as DependencyNotSatisfiedError
    from afl.engine.errors import EvaluationError as EvaluationError
    from afl.engine.errors import EventError as EventError
    from afl.engine.errors import ForeignStore as ForeignStore
    from afl.engine.errors import InputError as InputError
    from afl.engine.errors import InputTypeMismatch as InputTypeMismatch
    from afl.engine.errors import InvalidStepStateError as InvalidStepStateError
    from afl.engine.errors import InvalidTransitionError as InvalidTransitionError
    from afl.engine.errors import IterationLimitReached as IterationLimitReached
    from afl.engine.errors import LimitReached as LimitReached
    from afl.engine.errors import MissingInput as MissingInput
    from afl.engine.errors import NestingTooDeep as NestingTooDeep
    from afl.engine.errors import NoProgress as NoProgress
    from afl.engine.errors import PayloadTooLarge as PayloadTooLarge
    from afl.engine.errors import PositionLost as PositionLost
    from afl.engine.errors import ProgramMismatch as ProgramMismatch
    from afl.engine.errors import ReferenceError as ReferenceError
    from afl.engine.errors import RuntimeError as RuntimeError
    from afl.engine.errors import StepFailure as StepFailure
    from afl.engine.errors import StepLimitReached as StepLimitReached
    from afl.engine.errors import StepNotFoundError as StepNotFoundError
    from afl.engine.errors import StoreCorrupt as StoreCorrupt
    from afl.engine.errors import StoreMissing as StoreMissing
    from afl.engine.errors import StoreUnavailable as StoreUnavailable
    from afl.engine.errors import UnknownFacet as UnknownFacet
    from afl.engine.errors import UnknownInput as UnknownInput
    from afl.engine.errors import UnknownWorkflow as UnknownWorkflow
    from afl.engine.errors import ValueRefused as ValueRefused
    from afl.engine.errors import ValueTooDeep as ValueTooDeep
    from afl.engine.errors import VersionMismatchError as VersionMismatchError
    from afl.engine.errors import WorkflowConflict as WorkflowConflict
    from afl.engine.expressions.expression import EvaluationContext as EvaluationContext
    from afl.engine.expressions.expression import ExpressionEvaluator as ExpressionEvaluator
    from afl.engine.expressions.expression import evaluate_args as evaluate_args
    from afl.engine.model import entities as _entities
    from afl.engine.model.entities import BlockDefinition as BlockDefinition
    from afl.engine.model.entities import Classifier as Classifier
    from afl.engine.model.entities import FacetDefinition as FacetDefinition
    from afl.engine.model.entities import FileArtifact as FileArtifact
    from afl.engine.model.entities import FlowDefinition as FlowDefinition
    from afl.engine.model.entities import FlowIdentity as FlowIdentity
    from afl.engine.model.entities import HandledCount as HandledCount
    from afl.engine.model.entities import HandlerRegistration as HandlerRegistration
    from afl.engine.model.entities import InlineSource as InlineSource
    from afl.engine.model.entities import JarArtifact as JarArtifact
    from afl.engine.model.entities import LockDefinition as LockDefinition
    from afl.engine.model.entities import LockMetaData as LockMetaData
    from afl.engine.model.entities import LogDefinition as LogDefinition
    from afl.engine.model.entities import MixinDefinition as MixinDefinition
    from afl.engine.model.entities import NamespaceDefinition as NamespaceDefinition
    from afl.engine.model.entities import NoteImportance as NoteImportance
    from afl.engine.model.entities import NoteOriginator as NoteOriginator
    from afl.engine.model.entities import NoteType as NoteType
    from afl.engine.model.entities import Ownership as Ownership
    from afl.engine.model.entities import Parameter as Parameter
    from afl.engine.model.entities import PublishedSource as PublishedSource
    from afl.engine.model.entities import ResourceSource as ResourceSource
    from afl.engine.model.entities import RunnerDefinition as RunnerDefinition
    from afl.engine.model.entities import RunnerState as RunnerState
    from afl.engine.model.entities import ScriptCode as ScriptCode
    from afl.engine.model.entities import ServerDefinition as ServerDefinition
    from afl.engine.model.entities import ServerState as ServerState
    from afl.engine.model.entities import SourceText as SourceText
    from afl.engine.model.entities import StatementArguments as StatementArguments
    from afl.engine.model.entities import StatementReferences as StatementReferences
    from afl.engine.model.entities import TaskDefinition as TaskDefinition
    from afl.engine.model.entities import TaskState as TaskState
    from afl.engine.model.entities import TextSource as TextSource
    from afl.engine.model.entities import UserDefinition as UserDefinition
    from afl.engine.model.entities import WorkflowDefinition as WorkflowDefinition
    from afl.engine.model.entities import WorkflowMetaData as WorkflowMetaData
    from afl.engine.states import BLOCK_TRANSITIONS as BLOCK_TRANSITIONS
    from afl.engine.states import EVENT_TRANSITIONS as EVENT_TRANSITIONS
    from afl.engine.states import SCHEMA_TRANSITIONS as SCHEMA_TRANSITIONS
    from afl.engine.states import STEP_TRANSITIONS as STEP_TRANSITIONS
    from afl.engine.states import YIELD_TRANSITIONS as YIELD_TRANSITIONS
    from afl.engine.states import EventState as EventState
    from afl.engine.states import StepState as StepState
    from afl.engine.states import get_next_state as get_next_state
    from afl.engine.states import select_transitions as select_transitions
    from afl.engine.types import AttributeValue as AttributeValue
    from afl.engine.types import BlockId as BlockId
    from afl.engine.types import EventId as EventId
    from afl.engine.types import FacetAttributes as FacetAttributes
    from afl.engine.types import ObjectType as ObjectType
    from afl.engine.types import StatementId as StatementId
    from afl.engine.types import StepId as StepId
    from afl.engine.types import VersionInfo as VersionInfo
    from afl.engine.types import WorkflowId as WorkflowId
    from afl.engine.types import block_id as block_id
    from afl.engine.types import event_id as event_id
    from afl.engine.types import generate_id as generate_id
    from afl.engine.types import step_id as step_id
    from afl.engine.types import workflow_id as workflow_id
    from afl.evaluation.block import BlockAnalysis as BlockAnalysis
    from afl.evaluation.block import StatementDefinition as StatementDefinition
    from afl.evaluation.block import StepAnalysis as StepAnalysis
    from afl.evaluation.context import ExecutionContext as ExecutionContext
    from afl.evaluation.dependency import DependencyGraph as DependencyGraph
    from afl.evaluation.evaluator import Evaluator as Evaluator
    from afl.evaluation.evaluator import ExecutionResult as ExecutionResult
    from afl.evaluation.evaluator import ExecutionStatus as ExecutionStatus
    from afl.evaluation.evaluator import RaiseOutcome as RaiseOutcome
    from afl.evaluation.events import EventDispatcher as EventDispatcher
    from afl.evaluation.events import EventManager as EventManager
    from afl.evaluation.events import LocalEventHandler as LocalEventHandler
    from afl.stores.memory.store import MemoryStore as MemoryStore
    from afl.stores.mongo.store import MongoStore as MongoStore
    from afl.stores.public.dao import DataServices as DataServices
    from afl.stores.public.dao import EventDefinitionDAO as EventDefinitionDAO
    from afl.stores.public.dao import FlowDefinitionDAO as FlowDefinitionDAO
    from afl.stores.public.dao import KeyLockDAO as KeyLockDAO
    from afl.stores.public.dao import LogDefinitionDAO as LogDefinitionDAO
    from afl.stores.public.dao import RunnerDefinitionDAO as RunnerDefinitionDAO
    from afl.stores.public.dao import ServerDefinitionDAO as ServerDefinitionDAO
    from afl.stores.public.dao import StepDefinitionDAO as StepDefinitionDAO
    from afl.stores.public.dao import TaskDefinitionDAO as TaskDefinitionDAO
    from afl.stores.public.dao import WorkflowDefinitionDAO as WorkflowDefinitionDAO
    from afl.stores.public.persistence import EventDefinition as EventDefinition
    from afl.stores.public.persistence import IterationChanges as IterationChanges
    from afl.stores.public.persistence import PersistenceAPI as PersistenceAPI
    from afl.stores.public.step import StepDefinition as StepDefinition
    from afl.stores.public.step import StepTransition as StepTransition
    from afl.stores.sqlite.store import SqliteStore as SqliteStore
    from afl.telemetry.logging_sink import JsonLinesFormatter as JsonLinesFormatter
    from afl.telemetry.logging_sink import LoggingSink as LoggingSink
    from afl.telemetry.telemetry import Telemetry as Telemetry
    from afl.telemetry.telemetry import TelemetryEvent as TelemetryEvent
    from afl.telemetry.telemetry import TelemetrySink as TelemetrySink
    from afl.workers.poller import AgentPoller as AgentPoller
    from afl.workers.poller import AgentPollerConfig as AgentPollerConfig
    from afl.workers.registry_runner import RegistryRunner as RegistryRunner
    from afl.workers.registry_runner import RegistryRunnerConfig as RegistryRunnerConfig
    from afl.workers.service import RunnerConfig as RunnerConfig
    from afl.workers.service import RunnerService as RunnerService
    from afl.workers.task_context import Deferred as Deferred
    from afl.workers.task_context import TaskContext as TaskContext
    from afl.workers.tool_registry import ToolRegistry as ToolRegistry

    EntityStatementDefinition = _entities.StatementDefinition

#: Module to its names. `StatementDefinition` is that of block.py; the entity of the same name has an alias.
_HOMES = {
    "afl.claude.runner": "ClaudeAgentRunner",
    "afl.claude.llm_handler": "LLMHandler LLMHandlerConfig",
    "afl.claude.tool_definitions": "ToolDefinition",
    "afl.workers.poller": "AgentPoller AgentPollerConfig",
    "afl.evaluation.block": "StatementDefinition StepAnalysis BlockAnalysis",
    "afl.evaluation.context": "ExecutionContext",
    "afl.stores.public.dao": (
        "FlowDefinitionDAO WorkflowDefinitionDAO RunnerDefinitionDAO StepDefinitionDAO EventDefinitionDAO "
        "TaskDefinitionDAO LogDefinitionDAO ServerDefinitionDAO KeyLockDAO DataServices"
    ),
    "afl.evaluation.dependency": "DependencyGraph",
    "afl.engine.model.entities": (
        "RunnerState TaskState ServerState NoteType NoteOriginator NoteImportance Parameter UserDefinition "
        "Ownership Classifier SourceText InlineSource FileArtifact JarArtifact ResourceSource TextSource "
        "ScriptCode WorkflowMetaData NamespaceDefinition FacetDefinition MixinDefinition BlockDefinition "
        "StatementArguments StatementReferences FlowIdentity FlowDefinition WorkflowDefinition "
        "RunnerDefinition TaskDefinition LogDefinition HandledCount ServerDefinition HandlerRegistration "
        "PublishedSource LockMetaData LockDefinition EntityStatementDefinition:StatementDefinition"
    ),
    "afl.engine.errors": (
        "RuntimeError InvalidStepStateError StepNotFoundError BlockNotFoundError DependencyNotSatisfiedError "
        "EvaluationError ReferenceError InvalidTransitionError ConcurrencyError EventError "
        "ValueRefused VersionMismatchError WorkflowConflict UnknownWorkflow UnknownFacet ProgramMismatch InputError "
        "MissingInput UnknownInput InputTypeMismatch StoreCorrupt StoreUnavailable StoreMissing ForeignStore "
        "PositionLost "
        "LimitReached IterationLimitReached StepLimitReached PayloadTooLarge ValueTooDeep NestingTooDeep NoProgress "
        "StepFailure"
    ),
    "afl.evaluation.evaluator": "Evaluator ExecutionResult ExecutionStatus RaiseOutcome",
    "afl.evaluation.events": "EventManager EventDispatcher LocalEventHandler",
    "afl.engine.expressions.expression": "ExpressionEvaluator EvaluationContext evaluate_args",
    "afl.telemetry.logging_sink": "LoggingSink JsonLinesFormatter",
    "afl.stores.memory.store": "MemoryStore",
    "afl.stores.mongo.store": "MongoStore",
    "afl.stores.public.persistence": "PersistenceAPI IterationChanges EventDefinition",
    "afl.workers.registry_runner": "RegistryRunner RegistryRunnerConfig",
    "afl.workers.service": "RunnerConfig RunnerService",
    "afl.stores.sqlite.store": "SqliteStore",
    "afl.engine.states": (
        "StepState EventState STEP_TRANSITIONS BLOCK_TRANSITIONS YIELD_TRANSITIONS SCHEMA_TRANSITIONS "
        "EVENT_TRANSITIONS get_next_state select_transitions"
    ),
    "afl.stores.public.step": "StepDefinition StepTransition",
    "afl.workers.task_context": "Deferred TaskContext",
    "afl.telemetry.telemetry": "Telemetry TelemetryEvent TelemetrySink",
    "afl.workers.tool_registry": "ToolRegistry",
    "afl.engine.types": (
        "StepId BlockId EventId WorkflowId StatementId ObjectType AttributeValue FacetAttributes VersionInfo "
        "generate_id step_id block_id event_id workflow_id"
    ),
}

__all__ = sorted(name.partition(":")[0] for names in _HOMES.values() for name in names.split())

if not TYPE_CHECKING:
    # Out of sight of type checkers: they would take any name for one of this package.
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
