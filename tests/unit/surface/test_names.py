"""Every module and name that people import is there, in one table."""

from collections.abc import Iterator
from importlib import import_module

import afl.runtime
from afl.runtime import entities

MODULES = """
afl afl.ast afl.parser afl.transformer afl.grammar afl.emitter afl.validator afl.source afl.loader
afl.config afl.resolver afl.publisher afl.cli
afl.runtime afl.runtime.types afl.runtime.states afl.runtime.errors afl.runtime.step afl.runtime.entities
afl.runtime.dao
afl.runtime.persistence afl.runtime.memory_store afl.runtime.mongo_store
afl.runtime.expression afl.runtime.dependency afl.runtime.block
afl.runtime.evaluator afl.runtime.events afl.runtime.telemetry
afl.runtime.changers afl.runtime.changers.base afl.runtime.changers.step_changer afl.runtime.changers.block_changer
afl.runtime.changers.yield_changer
afl.runtime.handlers afl.runtime.handlers.base afl.runtime.handlers.initialization afl.runtime.handlers.scripts
afl.runtime.handlers.blocks afl.runtime.handlers.capture afl.runtime.handlers.completion
afl.runtime.handlers.block_execution
afl.runtime.agent afl.runtime.agent_poller afl.runtime.registry_runner afl.runtime.script_executor afl.runtime.storage
afl.runtime.runner afl.runtime.runner.service
"""
OF_AFL = """
parse AFLParser ParseError __version__
ASTNode SourceLocation TypeRef ArrayType Parameter Literal Reference ConcatExpr BinaryExpr UnaryExpr ArrayLiteral
MapEntry MapLiteral IndexExpr NamedArg MixinSig MixinCall CallExpr StepStmt YieldStmt ForeachClause Block AndThenBlock
PromptBlock ScriptBlock ReturnClause FacetSig FacetDecl EventFacetDecl WorkflowDecl ImplicitDecl UsesDecl SchemaField
SchemaDecl Namespace Program
JSONEmitter emit_json emit_dict AFLValidator ValidationResult ValidationError validate
FileOrigin MongoDBOrigin MavenOrigin SourceOrigin SourceEntry CompilerInput SourceRegistry SourceLoader
MongoDBConfig ResolverConfig AFLConfig load_config
NamespaceIndex MongoDBNamespaceResolver DependencyResolver SourcePublisher PublishError
"""
OF_RUNTIME = """
StepId BlockId EventId WorkflowId StatementId ObjectType AttributeValue FacetAttributes
VersionInfo generate_id step_id block_id event_id workflow_id
StepState EventState STEP_TRANSITIONS BLOCK_TRANSITIONS YIELD_TRANSITIONS SCHEMA_TRANSITIONS
EVENT_TRANSITIONS get_next_state select_transitions
StepDefinition StepTransition PersistenceAPI IterationChanges EventDefinition MemoryStore MongoStore
StatementDefinition StepAnalysis BlockAnalysis DependencyGraph
ExpressionEvaluator EvaluationContext evaluate_args
Evaluator ExecutionContext ExecutionResult ExecutionStatus
Telemetry TelemetryEvent EventManager EventDispatcher LocalEventHandler
ClaudeAgentRunner ToolRegistry ToolDefinition
RunnerService RunnerConfig AgentPoller AgentPollerConfig RegistryRunner RegistryRunnerConfig
RunnerState TaskState ServerState NoteType NoteOriginator NoteImportance
Parameter UserDefinition Ownership Classifier SourceText InlineSource FileArtifact JarArtifact ResourceSource TextSource
ScriptCode WorkflowMetaData NamespaceDefinition FacetDefinition MixinDefinition BlockDefinition
EntityStatementDefinition StatementArguments StatementReferences FlowIdentity
FlowDefinition WorkflowDefinition RunnerDefinition TaskDefinition LogDefinition HandledCount ServerDefinition
HandlerRegistration PublishedSource LockMetaData LockDefinition
RuntimeError InvalidStepStateError StepNotFoundError BlockNotFoundError DependencyNotSatisfiedError EvaluationError
ReferenceError InvalidTransitionError ConcurrencyError EventError VersionMismatchError
FlowDefinitionDAO WorkflowDefinitionDAO RunnerDefinitionDAO StepDefinitionDAO EventDefinitionDAO TaskDefinitionDAO
LogDefinitionDAO ServerDefinitionDAO KeyLockDAO DataServices
"""
OF_MODULES = {
    "afl.runtime.types": "StepId BlockId EventId WorkflowId StatementId ObjectType AttributeValue FacetAttributes "
    "VersionInfo generate_id step_id block_id event_id workflow_id",
    "afl.runtime.states": "StepState EventState STEP_TRANSITIONS BLOCK_TRANSITIONS YIELD_TRANSITIONS "
    "SCHEMA_TRANSITIONS EVENT_TRANSITIONS get_next_state select_transitions",
    "afl.runtime.step": "StepDefinition StepTransition",
    "afl.runtime.persistence": "PersistenceAPI IterationChanges EventDefinition",
    "afl.runtime.memory_store": "MemoryStore",
    "afl.runtime.block": "StatementDefinition StepAnalysis BlockAnalysis",
    "afl.runtime.dependency": "DependencyGraph",
    "afl.runtime.expression": "ExpressionEvaluator EvaluationContext evaluate_args",
    "afl.runtime.telemetry": "Telemetry TelemetryEvent",
    "afl.runtime.events": "EventManager EventDispatcher LocalEventHandler",
    "afl.runtime.errors": "RuntimeError InvalidStepStateError StepNotFoundError BlockNotFoundError "
    "DependencyNotSatisfiedError EvaluationError ReferenceError InvalidTransitionError ConcurrencyError EventError "
    "VersionMismatchError",
    "afl.runtime.dao": "FlowDefinitionDAO WorkflowDefinitionDAO RunnerDefinitionDAO StepDefinitionDAO "
    "EventDefinitionDAO TaskDefinitionDAO LogDefinitionDAO ServerDefinitionDAO KeyLockDAO DataServices",
    "afl.parser": "ParseError AFLParser parse",
    "afl.validator": "AFLValidator ValidationResult ValidationError validate",
    "afl.emitter": "JSONEmitter emit_json emit_dict",
    "afl.source": "FileOrigin MongoDBOrigin MavenOrigin SourceOrigin SourceEntry CompilerInput SourceRegistry",
    "afl.loader": "SourceLoader",
    "afl.config": "MongoDBConfig ResolverConfig AFLConfig load_config",
    "afl.resolver": "NamespaceIndex MongoDBNamespaceResolver DependencyResolver",
    "afl.publisher": "SourcePublisher PublishError",
    "afl.cli": "main",
    "afl.runtime.changers": "get_state_changer create_state_changer",
    "afl.runtime.changers.base": "StateChanger StateChangeResult",
    "afl.runtime.changers.step_changer": "StepStateChanger",
    "afl.runtime.changers.block_changer": "BlockStateChanger",
    "afl.runtime.changers.yield_changer": "YieldStateChanger",
    "afl.runtime.evaluator": "Evaluator ExecutionContext ExecutionResult ExecutionStatus get_state_changer "
    "create_state_changer",
    "afl.runtime.handlers": "STATE_HANDLERS get_handler",
    "afl.runtime.handlers.base": "StateHandler",
    "afl.runtime.handlers.initialization": "StatementBeginHandler FacetInitializationBeginHandler "
    "FacetInitializationEndHandler",
    "afl.runtime.handlers.scripts": "FacetScriptsBeginHandler FacetScriptsEndHandler StatementScriptsBeginHandler "
    "StatementScriptsEndHandler",
    "afl.runtime.handlers.blocks": "MixinBlocksBeginHandler MixinBlocksContinueHandler MixinBlocksEndHandler "
    "StatementBlocksBeginHandler StatementBlocksContinueHandler StatementBlocksEndHandler",
    "afl.runtime.handlers.capture": "MixinCaptureBeginHandler MixinCaptureEndHandler StatementCaptureBeginHandler "
    "StatementCaptureEndHandler",
    "afl.runtime.handlers.completion": "EventTransmitHandler StatementEndHandler StatementCompleteHandler",
    "afl.runtime.handlers.block_execution": "BlockExecutionBeginHandler BlockExecutionContinueHandler "
    "BlockExecutionEndHandler",
    "afl.runtime.agent": "ToolRegistry ToolDefinition ClaudeAgentRunner LLMHandler LLMHandlerConfig",
    "afl.runtime.script_executor": "ScriptError ScriptResult ScriptExecutor execute_script",
    "afl.runtime.runner": "RunnerConfig RunnerService",
    "afl.runtime.runner.service": "RunnerService RunnerConfig RESUME_TASK_NAME",
}
#: Modules that hold classes only.
OF_CLASSES = ("afl.runtime.changers.", "afl.runtime.handlers.")


def test_every_module_and_name_is_where_people_import_it_from() -> None:
    rows = [
        *((module, "__name__") for module in MODULES.split()),
        *(("afl", name) for name in OF_AFL.split()),
        *(("afl.runtime", name) for name in [*OF_RUNTIME.split(), *afl.runtime.__all__]),
        *((module, name) for module, names in OF_MODULES.items() for name in names.split()),
    ]

    assert [f"{module}.{name}" for module, name in rows if getattr(import_module(module), name, None) is None] == []
    assert list(names_of_other_things()) == []
    assert len(rows) > 450


def names_of_other_things() -> Iterator[str]:
    """Names that stand for one thing in the package and for another in its module, or for no class."""
    for module, names in OF_MODULES.items():
        for name in names.split():
            found = getattr(import_module(module), name)
            if name in afl.runtime.__all__ and getattr(afl.runtime, name) is not found:
                yield f"afl.runtime.{name} is not that of {module}"
            if module.startswith(OF_CLASSES) and not isinstance(found, type):
                yield f"{module}.{name} is no class"
    for name, thing in vars(entities).items():
        if getattr(thing, "__module__", "") == entities.__name__:
            alias = "EntityStatementDefinition" if name == "StatementDefinition" else name
            if getattr(afl.runtime, alias, None) is not thing:
                yield f"afl.runtime.{alias} is not that of {entities.__name__}"
    yield from (f"dir(afl.runtime) lacks {name}" for name in set(afl.runtime.__all__) - set(dir(afl.runtime)))
