"""Dataclasses have the fields, and classes the constants, that people write, in one table."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import afl
from afl import ast
from afl.config import AFLConfig, MongoDBConfig, ResolverConfig
from afl.runtime import (
    AgentPollerConfig,
    AttributeValue,
    BlockAnalysis,
    DependencyGraph,
    EvaluationContext,
    EventDefinition,
    EventState,
    ExecutionContext,
    ExecutionResult,
    ExecutionStatus,
    FacetAttributes,
    IterationChanges,
    LLMHandlerConfig,
    ObjectType,
    RegistryRunnerConfig,
    RunnerConfig,
    StatementDefinition,
    StepAnalysis,
    StepDefinition,
    StepState,
    StepTransition,
    TelemetryEvent,
    ToolDefinition,
    VersionInfo,
    entities,
    errors,
)
from afl.runtime.changers.base import StateChangeResult
from afl.runtime.script_executor import ScriptResult
from afl.source import CompilerInput, SourceRegistry
from afl.validator import ValidationResult
from tests.unit.surface.public_constants import EVENT_STATES, OBJECT_TYPES, OF_ENTITIES, STATUSES, STEP_STATES
from tests.unit.surface.shapes import constants, field_differences, written

#: Fields in their order, with their defaults.
ENGINE: list[tuple[type, str]] = [
    (VersionInfo, "workflow_version='1.0', step_schema_version='1.0', runtime_version='0.1.0'"),
    (AttributeValue, "name, value, type_hint='Any'"),
    (FacetAttributes, "params={}, returns={}"),
    (
        StepTransition,
        "original_state, current_state, changed=False, request_transition=False, push_me=False, error=None",
    ),
    (
        StepDefinition,
        "id, object_type, workflow_id, statement_id=None, container_type=None, container_id=None, block_id=None, "
        "root_id=None, state='state.statement.Created', transition=SOME, facet_name='', attributes=SOME, version=SOME, "
        "foreach_var=None, foreach_value=None, timestamp=None",
    ),
    (EventDefinition, "id, step_id, workflow_id, state, event_type, payload={}"),
    (
        IterationChanges,
        "created_steps=[], updated_steps=[], created_events=[], updated_events=[], created_tasks=[]",
    ),
    (EvaluationContext, "inputs, get_step_output, foreach_var=None, foreach_value=None, step_id=None"),
    (DependencyGraph, "dependencies={}, name_to_id={}, statements={}"),
    (StatementDefinition, "id, name, object_type, facet_name, dependencies=set(), args=[], is_yield=False"),
    (
        StepAnalysis,
        "block, statements, missing=[], steps=[], completed=[], requesting_push=[], requesting_transition=[], "
        "pending_event=[], pending_mixin=[], pending_blocks=[], done=False",
    ),
    (BlockAnalysis, "step, blocks, completed=[], pending=[], done=False"),
    (StateChangeResult, "step, success=True, error=None, continue_processing=True"),
    (
        ExecutionResult,
        "success, workflow_id, outputs={}, error=None, iterations=0, status='COMPLETED', pending_events=[]",
    ),
    (
        ExecutionContext,
        "persistence, telemetry, changes, workflow_id, workflow_ast=None, workflow_defaults={}, program_ast=None, "
        "runner_id=''",
    ),
    (
        TelemetryEvent,
        "timestamp, event_type, workflow_id=None, step_id=None, block_id=None, state=None, details={}",
    ),
]
ERRORS = {
    "InvalidStepStateError": "step_id, current_state, expected_states",
    "StepNotFoundError": "step_id",
    "BlockNotFoundError": "block_id",
    "DependencyNotSatisfiedError": "step_id, missing_dependencies",
    "EvaluationError": "expression, message, step_id=None",
    "ReferenceError": "reference, message, step_id=None",
    "InvalidTransitionError": "step_id, from_state, to_state",
    "ConcurrencyError": "step_id, message",
    "EventError": "event_id, message",
    "VersionMismatchError": "expected_version, actual_version, component",
}
NODES = {
    "TypeRef": "name",
    "ArrayType": "element_type",
    "Parameter": "name, type, default=None",
    "Literal": "value, kind",
    "Reference": "path, is_input",
    "ConcatExpr": "operands",
    "BinaryExpr": "operator, left, right",
    "UnaryExpr": "operator, operand",
    "ArrayLiteral": "elements",
    "MapEntry": "key, value",
    "MapLiteral": "entries",
    "IndexExpr": "target, index",
    "NamedArg": "name, value",
    "MixinSig": "name, args",
    "MixinCall": "name, args, alias=None",
    "CallExpr": "name, args, mixins",
    "StepStmt": "name, call, body=None",
    "YieldStmt": "call",
    "ForeachClause": "variable, iterable",
    "Block": "steps, yield_stmts",
    "AndThenBlock": "block, foreach=None",
    "PromptBlock": "system, template, model",
    "ScriptBlock": "language, code",
    "ReturnClause": "params",
    "FacetSig": "name, params, returns, mixins",
    "FacetDecl": "sig, body=None",
    "EventFacetDecl": "sig, body=None",
    "WorkflowDecl": "sig, body=None",
    "ImplicitDecl": "name, call",
    "UsesDecl": "name",
    "SchemaField": "name, type",
    "SchemaDecl": "name, fields",
    "Namespace": "name, uses, facets, event_facets, workflows, implicits, schemas",
    "Program": "namespaces, facets, event_facets, workflows, implicits, schemas",
}
LANGUAGE = [
    (MongoDBConfig, "url=SOME, username='', password='', auth_source='admin', database='afl'"),
    (ResolverConfig, "source_paths=[], auto_resolve=False, mongodb_resolve=False"),
    (AFLConfig, "mongodb=SOME, resolver=SOME"),
    (ValidationResult, "errors=[]"),
    (CompilerInput, "primary_sources=[], library_sources=[]"),
    (SourceRegistry, "sources={}"),
]
POLLING = "server_group='default', server_name=SOME, task_list='default', poll_interval_ms=2000, max_concurrent=5, "
SDK: list[tuple[type, str]] = [
    (AgentPollerConfig, f"service_name='afl-agent', {POLLING} heartbeat_interval_ms=10000"),
    (
        RegistryRunnerConfig,
        f"service_name='afl-registry-runner', {POLLING} heartbeat_interval_ms=10000, "
        "registry_refresh_interval_ms=30000, topics=[]",
    ),
    (
        RunnerConfig,
        "server_group='default', service_name='afl-runner', server_name=SOME, topics=[], task_list='default', "
        "poll_interval_ms=2000, heartbeat_interval_ms=10000, lock_duration_ms=60000, lock_extend_interval_ms=20000, "
        "max_concurrent=5, shutdown_timeout_ms=30000, http_port=8080, http_max_port_attempts=20",
    ),
    (ToolDefinition, "name, description, input_schema, param_names, return_names, prompt_block=None"),
    (LLMHandlerConfig, "model=SOME, system_prompt=SOME, max_tokens=4096, max_turns=10, max_retries=2"),
    (ScriptResult, "success, result={}, error=None"),
]
ENTITIES = {
    "Parameter": "name, value, type_hint='Any'",
    "UserDefinition": "email, name='', avatar=''",
    "Ownership": "owner=None, group=''",
    "Classifier": "category='', tags=[]",
    "SourceText": "name, content, language='afl'",
    "InlineSource": "content, language='afl'",
    "FileArtifact": "path, checksum=''",
    "JarArtifact": "group_id, artifact_id, version",
    "ResourceSource": "name, path",
    "TextSource": "name, content",
    "ScriptCode": "name, code, language='python'",
    "WorkflowMetaData": "description='', author='', tags=[]",
    "NamespaceDefinition": "uuid, name, path=''",
    "FacetDefinition": "uuid, name, namespace_id, parameters=[], return_type=None",
    "MixinDefinition": "uuid, name, namespace_id, parameters=[]",
    "BlockDefinition": "uuid, name, block_type, statements=[]",
    "StatementDefinition": "uuid, name, statement_type, block_id=None, expression=None",
    "StatementArguments": "statement_id, arguments=[]",
    "StatementReferences": "statement_id, references=[]",
    "FlowIdentity": "name, path, uuid",
    "FlowDefinition": "uuid, name, namespaces=[], facets=[], workflows=[], mixins=[], blocks=[], statements=[], "
    "arguments=[], references=[], script_code=[], file_artifacts=[], jar_artifacts=[], resources=[], text_sources=[], "
    "inline=None, classification=None, publisher=None, ownership=None, compiled_sources=[]",
    "WorkflowDefinition": "uuid, name, namespace_id, facet_id, flow_id, starting_step, version, metadata=None, "
    "documentation=None, date=0",
    "RunnerDefinition": "uuid, workflow_id, workflow, parameters=[], step_id=None, user=None, start_time=0, "
    "end_time=0, duration=0, retain=0, state='created'",
    "TaskDefinition": "uuid, name, runner_id, workflow_id, flow_id, step_id, state='pending', created=0, updated=0, "
    "error=None, task_list_name='default', data_type='', data=None",
    "LogDefinition": "uuid, order, runner_id, step_id=None, object_id='', object_type='', note_originator='workflow', "
    "note_type='info', note_importance=5, message='', state='', line=0, file='', details={}, time=0",
    "HandledCount": "handler, handled=0, not_handled=0",
    "ServerDefinition": "uuid, server_group, service_name, server_name, server_ips=[], start_time=0, ping_time=0, "
    "topics=[], handlers=[], handled=[], state='startup', manager='', error=None",
    "HandlerRegistration": "facet_name, module_uri, entrypoint='handle', version='1.0.0', checksum='', "
    "timeout_ms=30000, requirements=[], metadata={}, created=0, updated=0",
    "PublishedSource": "uuid, namespace_name, source_text, namespaces_defined=[], version='latest', published_at=0, "
    "origin='', checksum=''",
    "LockMetaData": "topic=None, handler=None, step_name=None, step_id=None",
    "LockDefinition": "key, acquired_at=0, expires_at=0, meta=None",
}


def test_every_dataclass_has_its_fields_and_every_constant_its_value() -> None:
    rows: list[tuple[Any, str]] = [
        *ENGINE,
        *LANGUAGE,
        *SDK,
        *((getattr(errors, name), fields) for name, fields in ERRORS.items()),
        *((getattr(entities, name), fields) for name, fields in ENTITIES.items()),
    ]

    assert [difference for row in rows for difference in field_differences(*row)] == []
    assert [difference for name, fields in NODES.items() for difference in node_differences(name, fields)] == []
    assert list(constant_differences()) == []
    assert len(rows) > 60


def node_differences(name: str, fields: str) -> Iterator[str]:
    """Say where a node of the tree lacks its fields, or the id and the place that are not compared."""
    cls = getattr(ast, name)
    if getattr(afl, name) is not cls:
        yield f"afl.{name} is another class than afl.ast.{name}"
    positional = [field.name for field in dataclasses.fields(cls) if not field.kw_only]
    wanted = [parameter.name for parameter in written(fields)]
    if positional[: len(wanted)] != wanted:
        yield f"{name} has the fields {positional}, not {wanted}"
    common = {field.name: field for field in dataclasses.fields(cls) if field.name in ("node_id", "location")}
    if not issubclass(cls, ast.ASTNode) or set(common) != {"node_id", "location"}:
        yield f"{name} has no node_id and location"
    if not all(field.kw_only and not field.compare for field in common.values()):
        yield f"node_id or location of {name} is compared, or given by position"


def constant_differences() -> Iterator[str]:
    tables: list[tuple[type, Mapping[str, object]]] = [
        (ObjectType, OBJECT_TYPES),
        (StepState, STEP_STATES),
        (EventState, EVENT_STATES),
        (ExecutionStatus, STATUSES),
        *((getattr(entities, name), values) for name, values in OF_ENTITIES.items()),
    ]
    for cls, values in tables:
        found = {name: getattr(cls, name, None) for name in values}
        texts = {name: str(value) for name, value in found.items()}
        if found != values or texts != {name: str(value) for name, value in values.items()}:
            yield f"{cls.__name__} has {texts}, not {values}"
    # These have no constants beside those: one more is for people to hear of.
    for cls, values in [(ExecutionStatus, STATUSES), *tables[4:]]:
        if constants(cls) != values:
            yield f"{cls.__name__} has {constants(cls)}, not {values}"
