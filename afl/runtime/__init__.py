"""The engine that runs compiled AFL programs.

Names are loaded when they are first used: whoever needs an error or a value pays for nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from afl.runtime import entities
    from afl.runtime.agent import ClaudeAgentRunner as ClaudeAgentRunner
    from afl.runtime.agent import LLMHandler as LLMHandler
    from afl.runtime.agent import LLMHandlerConfig as LLMHandlerConfig
    from afl.runtime.agent import ToolDefinition as ToolDefinition
    from afl.runtime.agent_poller import AgentPoller as AgentPoller
    from afl.runtime.agent_poller import AgentPollerConfig as AgentPollerConfig
    from afl.runtime.block import BlockAnalysis as BlockAnalysis
    from afl.runtime.block import StatementDefinition as StatementDefinition
    from afl.runtime.block import StepAnalysis as StepAnalysis
    from afl.runtime.context import ExecutionContext as ExecutionContext
    from afl.runtime.dao import DataServices as DataServices
    from afl.runtime.dao import EventDefinitionDAO as EventDefinitionDAO
    from afl.runtime.dao import FlowDefinitionDAO as FlowDefinitionDAO
    from afl.runtime.dao import KeyLockDAO as KeyLockDAO
    from afl.runtime.dao import LogDefinitionDAO as LogDefinitionDAO
    from afl.runtime.dao import RunnerDefinitionDAO as RunnerDefinitionDAO
    from afl.runtime.dao import ServerDefinitionDAO as ServerDefinitionDAO
    from afl.runtime.dao import StepDefinitionDAO as StepDefinitionDAO
    from afl.runtime.dao import TaskDefinitionDAO as TaskDefinitionDAO
    from afl.runtime.dao import WorkflowDefinitionDAO as WorkflowDefinitionDAO
    from afl.runtime.dependency import DependencyGraph as DependencyGraph
    from afl.runtime.entities import BlockDefinition as BlockDefinition
    from afl.runtime.entities import Classifier as Classifier
    from afl.runtime.entities import FacetDefinition as FacetDefinition
    from afl.runtime.entities import FileArtifact as FileArtifact
    from afl.runtime.entities import FlowDefinition as FlowDefinition
    from afl.runtime.entities import FlowIdentity as FlowIdentity
    from afl.runtime.entities import HandledCount as HandledCount
    from afl.runtime.entities import HandlerRegistration as HandlerRegistration
    from afl.runtime.entities import InlineSource as InlineSource
    from afl.runtime.entities import JarArtifact as JarArtifact
    from afl.runtime.entities import LockDefinition as LockDefinition
    from afl.runtime.entities import LockMetaData as LockMetaData
    from afl.runtime.entities import LogDefinition as LogDefinition
    from afl.runtime.entities import MixinDefinition as MixinDefinition
    from afl.runtime.entities import NamespaceDefinition as NamespaceDefinition
    from afl.runtime.entities import NoteImportance as NoteImportance
    from afl.runtime.entities import NoteOriginator as NoteOriginator
    from afl.runtime.entities import NoteType as NoteType
    from afl.runtime.entities import Ownership as Ownership
    from afl.runtime.entities import Parameter as Parameter
    from afl.runtime.entities import PublishedSource as PublishedSource
    from afl.runtime.entities import ResourceSource as ResourceSource
    from afl.runtime.entities import RunnerDefinition as RunnerDefinition
    from afl.runtime.entities import RunnerState as RunnerState
    from afl.runtime.entities import ScriptCode as ScriptCode
    from afl.runtime.entities import ServerDefinition as ServerDefinition
    from afl.runtime.entities import ServerState as ServerState
    from afl.runtime.entities import SourceText as SourceText
    from afl.runtime.entities import StatementArguments as StatementArguments
    from afl.runtime.entities import StatementReferences as StatementReferences
    from afl.runtime.entities import TaskDefinition as TaskDefinition
    from afl.runtime.entities import TaskState as TaskState
    from afl.runtime.entities import TextSource as TextSource
    from afl.runtime.entities import UserDefinition as UserDefinition
    from afl.runtime.entities import WorkflowDefinition as WorkflowDefinition
    from afl.runtime.entities import WorkflowMetaData as WorkflowMetaData
    from afl.runtime.errors import BlockNotFoundError as BlockNotFoundError
    from afl.runtime.errors import ConcurrencyError as ConcurrencyError
    from afl.runtime.errors import DependencyNotSatisfiedError as DependencyNotSatisfiedError
    from afl.runtime.errors import EvaluationError as EvaluationError
    from afl.runtime.errors import EventError as EventError
    from afl.runtime.errors import ForeignStore as ForeignStore
    from afl.runtime.errors import InputError as InputError
    from afl.runtime.errors import InputTypeMismatch as InputTypeMismatch
    from afl.runtime.errors import InvalidStepStateError as InvalidStepStateError
    from afl.runtime.errors import InvalidTransitionError as InvalidTransitionError
    from afl.runtime.errors import IterationLimitReached as IterationLimitReached
    from afl.runtime.errors import LimitReached as LimitReached
    from afl.runtime.errors import MissingInput as MissingInput
    from afl.runtime.errors import NestingTooDeep as NestingTooDeep
    from afl.runtime.errors import NoProgress as NoProgress
    from afl.runtime.errors import PayloadTooLarge as PayloadTooLarge
    from afl.runtime.errors import PositionLost as PositionLost
    from afl.runtime.errors import ProgramMismatch as ProgramMismatch
    from afl.runtime.errors import ReferenceError as ReferenceError
    from afl.runtime.errors import RuntimeError as RuntimeError
    from afl.runtime.errors import StepFailure as StepFailure
    from afl.runtime.errors import StepLimitReached as StepLimitReached
    from afl.runtime.errors import StepNotFoundError as StepNotFoundError
    from afl.runtime.errors import StoreCorrupt as StoreCorrupt
    from afl.runtime.errors import StoreMissing as StoreMissing
    from afl.runtime.errors import StoreUnavailable as StoreUnavailable
    from afl.runtime.errors import UnknownFacet as UnknownFacet
    from afl.runtime.errors import UnknownInput as UnknownInput
    from afl.runtime.errors import UnknownWorkflow as UnknownWorkflow
    from afl.runtime.errors import ValueRefused as ValueRefused
    from afl.runtime.errors import ValueTooDeep as ValueTooDeep
    from afl.runtime.errors import VersionMismatchError as VersionMismatchError
    from afl.runtime.errors import WorkflowConflict as WorkflowConflict
    from afl.runtime.evaluator import Evaluator as Evaluator
    from afl.runtime.evaluator import ExecutionResult as ExecutionResult
    from afl.runtime.evaluator import ExecutionStatus as ExecutionStatus
    from afl.runtime.events import EventDispatcher as EventDispatcher
    from afl.runtime.events import EventManager as EventManager
    from afl.runtime.events import LocalEventHandler as LocalEventHandler
    from afl.runtime.expression import EvaluationContext as EvaluationContext
    from afl.runtime.expression import ExpressionEvaluator as ExpressionEvaluator
    from afl.runtime.expression import evaluate_args as evaluate_args
    from afl.runtime.logging_sink import JsonLinesFormatter as JsonLinesFormatter
    from afl.runtime.logging_sink import LoggingSink as LoggingSink
    from afl.runtime.memory_store import MemoryStore as MemoryStore
    from afl.runtime.mongo_store import MongoStore as MongoStore
    from afl.runtime.persistence import EventDefinition as EventDefinition
    from afl.runtime.persistence import IterationChanges as IterationChanges
    from afl.runtime.persistence import PersistenceAPI as PersistenceAPI
    from afl.runtime.registry_runner import RegistryRunner as RegistryRunner
    from afl.runtime.registry_runner import RegistryRunnerConfig as RegistryRunnerConfig
    from afl.runtime.runner import RunnerConfig as RunnerConfig
    from afl.runtime.runner import RunnerService as RunnerService
    from afl.runtime.sqlite_store import SqliteStore as SqliteStore
    from afl.runtime.states import BLOCK_TRANSITIONS as BLOCK_TRANSITIONS
    from afl.runtime.states import EVENT_TRANSITIONS as EVENT_TRANSITIONS
    from afl.runtime.states import SCHEMA_TRANSITIONS as SCHEMA_TRANSITIONS
    from afl.runtime.states import STEP_TRANSITIONS as STEP_TRANSITIONS
    from afl.runtime.states import YIELD_TRANSITIONS as YIELD_TRANSITIONS
    from afl.runtime.states import EventState as EventState
    from afl.runtime.states import StepState as StepState
    from afl.runtime.states import get_next_state as get_next_state
    from afl.runtime.states import select_transitions as select_transitions
    from afl.runtime.step import StepDefinition as StepDefinition
    from afl.runtime.step import StepTransition as StepTransition
    from afl.runtime.task_context import Deferred as Deferred
    from afl.runtime.task_context import TaskContext as TaskContext
    from afl.runtime.telemetry import Telemetry as Telemetry
    from afl.runtime.telemetry import TelemetryEvent as TelemetryEvent
    from afl.runtime.telemetry import TelemetrySink as TelemetrySink
    from afl.runtime.tool_registry import ToolRegistry as ToolRegistry
    from afl.runtime.types import AttributeValue as AttributeValue
    from afl.runtime.types import BlockId as BlockId
    from afl.runtime.types import EventId as EventId
    from afl.runtime.types import FacetAttributes as FacetAttributes
    from afl.runtime.types import ObjectType as ObjectType
    from afl.runtime.types import StatementId as StatementId
    from afl.runtime.types import StepId as StepId
    from afl.runtime.types import VersionInfo as VersionInfo
    from afl.runtime.types import WorkflowId as WorkflowId
    from afl.runtime.types import block_id as block_id
    from afl.runtime.types import event_id as event_id
    from afl.runtime.types import generate_id as generate_id
    from afl.runtime.types import step_id as step_id
    from afl.runtime.types import workflow_id as workflow_id

    EntityStatementDefinition = entities.StatementDefinition

#: Module to its names. `StatementDefinition` is that of block.py; the entity of the same name has an alias.
_HOMES = {
    "agent": "ClaudeAgentRunner LLMHandler LLMHandlerConfig ToolDefinition",
    "agent_poller": "AgentPoller AgentPollerConfig",
    "block": "StatementDefinition StepAnalysis BlockAnalysis",
    "context": "ExecutionContext",
    "dao": (
        "FlowDefinitionDAO WorkflowDefinitionDAO RunnerDefinitionDAO StepDefinitionDAO EventDefinitionDAO "
        "TaskDefinitionDAO LogDefinitionDAO ServerDefinitionDAO KeyLockDAO DataServices"
    ),
    "dependency": "DependencyGraph",
    "entities": (
        "RunnerState TaskState ServerState NoteType NoteOriginator NoteImportance Parameter UserDefinition "
        "Ownership Classifier SourceText InlineSource FileArtifact JarArtifact ResourceSource TextSource "
        "ScriptCode WorkflowMetaData NamespaceDefinition FacetDefinition MixinDefinition BlockDefinition "
        "StatementArguments StatementReferences FlowIdentity FlowDefinition WorkflowDefinition "
        "RunnerDefinition TaskDefinition LogDefinition HandledCount ServerDefinition HandlerRegistration "
        "PublishedSource LockMetaData LockDefinition"
    ),
    "errors": (
        "RuntimeError InvalidStepStateError StepNotFoundError BlockNotFoundError DependencyNotSatisfiedError "
        "EvaluationError ReferenceError InvalidTransitionError ConcurrencyError EventError "
        "ValueRefused VersionMismatchError WorkflowConflict UnknownWorkflow UnknownFacet ProgramMismatch InputError "
        "MissingInput UnknownInput InputTypeMismatch StoreCorrupt StoreUnavailable StoreMissing ForeignStore "
        "PositionLost "
        "LimitReached IterationLimitReached StepLimitReached PayloadTooLarge ValueTooDeep NestingTooDeep NoProgress "
        "StepFailure"
    ),
    "evaluator": "Evaluator ExecutionResult ExecutionStatus",
    "events": "EventManager EventDispatcher LocalEventHandler",
    "expression": "ExpressionEvaluator EvaluationContext evaluate_args",
    "logging_sink": "LoggingSink JsonLinesFormatter",
    "memory_store": "MemoryStore",
    "mongo_store": "MongoStore",
    "persistence": "PersistenceAPI IterationChanges EventDefinition",
    "registry_runner": "RegistryRunner RegistryRunnerConfig",
    "runner": "RunnerConfig RunnerService",
    "sqlite_store": "SqliteStore",
    "states": (
        "StepState EventState STEP_TRANSITIONS BLOCK_TRANSITIONS YIELD_TRANSITIONS SCHEMA_TRANSITIONS "
        "EVENT_TRANSITIONS get_next_state select_transitions"
    ),
    "step": "StepDefinition StepTransition",
    "task_context": "Deferred TaskContext",
    "telemetry": "Telemetry TelemetryEvent TelemetrySink",
    "tool_registry": "ToolRegistry",
    "types": (
        "StepId BlockId EventId WorkflowId StatementId ObjectType AttributeValue FacetAttributes VersionInfo "
        "generate_id step_id block_id event_id workflow_id"
    ),
}
_HOME_OF = {name: (home, name) for home, names in _HOMES.items() for name in names.split()}
_HOME_OF["EntityStatementDefinition"] = ("entities", "StatementDefinition")

__all__ = sorted(_HOME_OF)

if not TYPE_CHECKING:
    # Out of sight of type checkers: they would take any name for one of this package.
    def __getattr__(name: str) -> object:
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home, name_there = _HOME_OF[name]
        found = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name_there)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
