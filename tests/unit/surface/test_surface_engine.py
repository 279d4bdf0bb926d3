"""Constants, fields, defaults and signatures of the engine's public objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

import pytest

from afl.runtime import (
    BLOCK_TRANSITIONS,
    EVENT_TRANSITIONS,
    SCHEMA_TRANSITIONS,
    STEP_TRANSITIONS,
    YIELD_TRANSITIONS,
    AttributeValue,
    BlockAnalysis,
    DependencyGraph,
    EvaluationContext,
    Evaluator,
    EventDefinition,
    EventDispatcher,
    EventManager,
    EventState,
    ExecutionContext,
    ExecutionResult,
    ExecutionStatus,
    ExpressionEvaluator,
    FacetAttributes,
    IterationChanges,
    LocalEventHandler,
    MemoryStore,
    MongoStore,
    ObjectType,
    PersistenceAPI,
    StatementDefinition,
    StepAnalysis,
    StepDefinition,
    StepState,
    StepTransition,
    Telemetry,
    TelemetryEvent,
    VersionInfo,
    dao,
    errors,
    evaluate_args,
    get_next_state,
    select_transitions,
    types,
)
from afl.runtime.changers import get_state_changer
from afl.runtime.changers.base import StateChanger, StateChangeResult
from afl.runtime.changers.block_changer import BlockStateChanger
from afl.runtime.changers.step_changer import StepStateChanger
from afl.runtime.changers.yield_changer import YieldStateChanger
from afl.runtime.handlers import STATE_HANDLERS, get_handler
from afl.runtime.handlers.base import StateHandler
from afl.runtime.types import WorkflowId
from tests.unit.surface.shapes import assert_fields, assert_takes, constants

OBJECT_TYPES = {
    "VARIABLE_ASSIGNMENT": "VariableAssignment",
    "YIELD_ASSIGNMENT": "YieldAssignment",
    "WORKFLOW": "Workflow",
    "FACET": "Facet",
    "SCHEMA_INSTANTIATION": "SchemaInstantiation",
    "AND_THEN": "AndThen",
    "AND_MAP": "AndMap",
    "AND_MATCH": "AndMatch",
    "BLOCK": "Block",
    "BEFORE": "Before",
    "AFTER": "After",
}
STEP_STATES = {
    "CREATED": "state.statement.Created",
    "FACET_INIT_BEGIN": "state.facet.initialization.Begin",
    "FACET_INIT_END": "state.facet.initialization.End",
    "FACET_SCRIPTS_BEGIN": "state.facet.scripts.Begin",
    "FACET_SCRIPTS_END": "state.facet.scripts.End",
    "STATEMENT_SCRIPTS_BEGIN": "state.statement.scripts.Begin",
    "STATEMENT_SCRIPTS_END": "state.statement.scripts.End",
    "MIXIN_BLOCKS_BEGIN": "state.mixin.blocks.Begin",
    "MIXIN_BLOCKS_CONTINUE": "state.mixin.blocks.Continue",
    "MIXIN_BLOCKS_END": "state.mixin.blocks.End",
    "MIXIN_CAPTURE_BEGIN": "state.mixin.capture.Begin",
    "MIXIN_CAPTURE_END": "state.mixin.capture.End",
    "EVENT_TRANSMIT": "state.EventTransmit",
    "STATEMENT_BLOCKS_BEGIN": "state.statement.blocks.Begin",
    "STATEMENT_BLOCKS_CONTINUE": "state.statement.blocks.Continue",
    "STATEMENT_BLOCKS_END": "state.statement.blocks.End",
    "BLOCK_EXECUTION_BEGIN": "state.block.execution.Begin",
    "BLOCK_EXECUTION_CONTINUE": "state.block.execution.Continue",
    "BLOCK_EXECUTION_END": "state.block.execution.End",
    "STATEMENT_CAPTURE_BEGIN": "state.statement.capture.Begin",
    "STATEMENT_CAPTURE_END": "state.statement.capture.End",
    "STATEMENT_END": "state.statement.End",
    "STATEMENT_COMPLETE": "state.statement.Complete",
    "STATEMENT_ERROR": "state.statement.Error",
}
EVENT_STATES = {
    "CREATED": "event.Created",
    "DISPATCHED": "event.Dispatched",
    "PROCESSING": "event.Processing",
    "COMPLETED": "event.Completed",
    "ERROR": "event.Error",
}
STATUSES = {"COMPLETED": "COMPLETED", "PAUSED": "PAUSED", "ERROR": "ERROR", "TIMEOUT": "TIMEOUT"}


@pytest.mark.parametrize(
    ("cls", "values"),
    [(ObjectType, OBJECT_TYPES), (StepState, STEP_STATES), (EventState, EVENT_STATES), (ExecutionStatus, STATUSES)],
)
def test_constants_have_their_values(cls: type, values: dict[str, str]) -> None:
    found = {name: getattr(cls, name) for name in values}

    assert found == values
    assert all(str(value) == values[name] for name, value in found.items())


def test_object_types_are_sorted_into_blocks_and_statements() -> None:
    assert [t for t in OBJECT_TYPES.values() if ObjectType.is_block(t)] == ["AndThen", "AndMap", "AndMatch", "Block"]
    assert [t for t in OBJECT_TYPES.values() if ObjectType.is_statement(t)] == ["VariableAssignment", "YieldAssignment"]


def test_states_know_whether_they_are_the_end() -> None:
    terminal = {StepState.STATEMENT_COMPLETE, StepState.STATEMENT_ERROR}

    assert {s for s in STEP_STATES.values() if StepState.is_terminal(s)} == terminal
    assert {s for s in STEP_STATES.values() if StepState.is_complete(s)} == {StepState.STATEMENT_COMPLETE}
    assert {s for s in STEP_STATES.values() if StepState.is_error(s)} == {StepState.STATEMENT_ERROR}
    assert {s for s in EVENT_STATES.values() if EventState.is_terminal(s)} == {EventState.COMPLETED, EventState.ERROR}


@pytest.mark.parametrize(
    ("table", "size"),
    [(STEP_TRANSITIONS, 17), (BLOCK_TRANSITIONS, 5), (YIELD_TRANSITIONS, 6), (SCHEMA_TRANSITIONS, 4)],
)
def test_a_table_leads_from_creation_through_all_its_states_to_the_end(table: dict[str, str], size: int) -> None:
    walk: list[str] = [StepState.CREATED]
    while (following := get_next_state(walk[-1], table)) is not None:
        walk.append(following)

    assert type(table) is dict
    assert len(table) == size
    assert len(walk) == size + 1
    assert walk[-1] == StepState.STATEMENT_COMPLETE
    assert set(table) == set(walk[:-1])


def test_events_go_from_created_to_completed() -> None:
    assert EVENT_TRANSITIONS == {
        "event.Created": "event.Dispatched",
        "event.Dispatched": "event.Processing",
        "event.Processing": "event.Completed",
    }


def test_the_table_of_a_step_is_that_of_its_kind() -> None:
    assert select_transitions(ObjectType.YIELD_ASSIGNMENT) is YIELD_TRANSITIONS
    assert select_transitions(ObjectType.SCHEMA_INSTANTIATION) is SCHEMA_TRANSITIONS
    assert select_transitions(ObjectType.AND_THEN) is BLOCK_TRANSITIONS
    assert select_transitions(ObjectType.WORKFLOW) is STEP_TRANSITIONS
    assert select_transitions(ObjectType.VARIABLE_ASSIGNMENT) is STEP_TRANSITIONS


def test_fresh_ids_are_texts_and_no_two_are_the_same() -> None:
    made = [getattr(types, name)() for name in ("generate_id", "step_id", "block_id", "event_id", "workflow_id")]

    assert [type(identity) for identity in made] == [str] * 5
    assert len(set(made)) == 5


#: In `step`, fields of dataclasses in their order, with their defaults.
FIELDS: list[tuple[type, str]] = [
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


@pytest.mark.parametrize(("cls", "fields"), FIELDS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_dataclass_has_its_fields(cls: type, fields: str) -> None:
    assert_fields(cls, fields)


@pytest.mark.parametrize(("name", "fields"), ERRORS.items())
def test_an_error_is_a_dataclass_that_says_its_message(name: str, fields: str) -> None:
    cls = getattr(errors, name)
    assert_fields(cls, fields)
    values = {part.split("=")[0].strip(): f"<{part.split('=')[0].strip()}>" for part in fields.split(",")}
    error = cls(**values)

    assert isinstance(error, errors.RuntimeError)
    assert issubclass(errors.RuntimeError, Exception)
    assert not issubclass(errors.RuntimeError, RuntimeError)
    assert {field: getattr(error, field) for field in values} == values
    if "message" in values:
        assert values["message"] in str(error)
    assert str(error)


STORE_METHODS = {
    "get_step": "step_id",
    "save_step": "step",
    "get_steps_by_block": "block_id",
    "get_steps_by_workflow": "workflow_id",
    "get_steps_by_state": "state",
    "get_steps_by_container": "container_id",
    "get_blocks_by_step": "step_id",
    "get_workflow_root": "workflow_id",
    "step_exists": "statement_id, block_id",
    "get_event": "event_id",
    "save_event": "event",
    "commit": "changes",
    "get_runner": "runner_id",
    "save_runner": "runner",
    "get_runners_by_state": "state",
    "get_pending_tasks": "task_list",
    "save_task": "task",
    "claim_task": "task_names, task_list='default'",
    "save_log": "log",
    "get_logs_by_runner": "runner_id",
    "acquire_lock": "key, duration_ms, meta=None",
    "release_lock": "key",
    "check_lock": "key",
    "extend_lock": "key, duration_ms",
    "save_handler_registration": "registration",
    "get_handler_registration": "facet_name",
    "list_handler_registrations": "",
    "delete_handler_registration": "facet_name",
}
SERVER_METHODS = {
    "get_server": "server_id",
    "save_server": "server",
    "update_server_ping": "server_id, ping_ms",
}
MEMORY_METHODS = {
    "get_all_steps": "",
    "step_count": "",
    "get_all_events": "",
    "event_count": "",
    "clear": "",
    "get_all_servers": "",
    "get_all_locks": "",
}


@pytest.mark.parametrize(("name", "takes"), STORE_METHODS.items())
def test_the_store_protocol_has_its_methods_and_every_store_with_it(name: str, takes: str) -> None:
    for store in (PersistenceAPI, MemoryStore, MongoStore):
        assert_takes(getattr(store, name), takes)


@pytest.mark.parametrize(("name", "takes"), SERVER_METHODS.items())
def test_stores_keep_servers(name: str, takes: str) -> None:
    for store in (MemoryStore, MongoStore):
        assert_takes(getattr(store, name), takes)


@pytest.mark.parametrize(("name", "takes"), MEMORY_METHODS.items())
def test_the_store_in_memory_can_be_looked_through(name: str, takes: str) -> None:
    assert_takes(getattr(MemoryStore, name), takes)


def test_the_store_in_memory_is_a_store_without_flows_and_workflows() -> None:
    store = MemoryStore()

    assert isinstance(store, PersistenceAPI)
    assert not hasattr(store, "get_workflow")
    assert not hasattr(store, "get_flow")


def test_the_mongodb_store_is_made_as_the_specification_says() -> None:
    # Without a name: the database that the URL names, or else `afl`.
    assert_takes(MongoStore, "connection_string='', database_name=SOME, create_indexes=True, client=None")
    assert callable(MongoStore.from_config)
    assert callable(MongoStore.close)
    assert callable(MongoStore.drop_database)


DAOS = {
    "FlowDefinitionDAO": "get_by_id get_by_path get_by_name save delete",
    "WorkflowDefinitionDAO": "get_by_id get_by_name get_by_flow save",
    "RunnerDefinitionDAO": "get_by_id get_by_workflow get_by_state save update_state",
    "StepDefinitionDAO": "get_by_id get_by_workflow get_by_runner get_by_state save",
    "EventDefinitionDAO": "get_by_id get_by_runner get_by_step get_by_state get_running_for_step save",
    "TaskDefinitionDAO": "get_by_id get_pending get_by_runner get_by_step save update_state",
    "LogDefinitionDAO": "get_by_runner get_by_step save",
    "ServerDefinitionDAO": "get_by_id get_by_state get_all save update_ping",
    "KeyLockDAO": "acquire release check extend",
    "DataServices": "step flow workflow runner task event log server locks",
}


@pytest.mark.parametrize(("name", "members"), DAOS.items())
def test_a_dao_is_a_protocol_that_whoever_has_its_members_follows(name: str, members: str) -> None:
    protocol = getattr(dao, name)
    follower = type("Follower", (), {member: lambda self, *given: None for member in members.split()})
    stranger = type("Stranger", (), {member: lambda self, *given: None for member in members.split()[1:]})

    assert isinstance(follower(), protocol)
    assert not isinstance(stranger(), protocol)


SIGNATURES: list[tuple[Callable[..., Any], str]] = [
    (StepTransition.request_state_change, "request=True"),
    (StepTransition.set_push_me, "push"),
    (StepTransition.set_error, "error"),
    (
        StepDefinition.create,
        "workflow_id, object_type, facet_name='', statement_id=None, container_id=None, container_type=None, "
        "block_id=None, root_id=None",
    ),
    (StepDefinition.change_state, "new_state"),
    (StepDefinition.request_state_change, "request=True"),
    (StepDefinition.mark_error, "error=None"),
    (StepDefinition.set_attribute, "name, value, is_return=False"),
    (StepDefinition.get_attribute, "name"),
    (FacetAttributes.set_param, "name, value, type_hint='Any'"),
    (FacetAttributes.set_return, "name, value, type_hint='Any'"),
    (FacetAttributes.get_param, "name"),
    (FacetAttributes.get_return, "name"),
    (FacetAttributes.merge, "other"),
    (get_next_state, "current, transitions"),
    (select_transitions, "object_type"),
    (ExpressionEvaluator, ""),
    (ExpressionEvaluator.evaluate, "expr, ctx"),
    (evaluate_args, "args, ctx"),
    (DependencyGraph.from_ast, "block_ast, workflow_inputs, program_ast=None"),
    (DependencyGraph.can_create, "statement_id, completed"),
    (DependencyGraph.get_ready_statements, "completed"),
    (DependencyGraph.get_statement, "statement_id"),
    (DependencyGraph.get_all_statements, ""),
    (DependencyGraph.topological_order, ""),
    (StepAnalysis.load, "block, statements, steps"),
    (StepAnalysis.can_be_created, ""),
    (StepAnalysis.is_blocked, ""),
    (StepAnalysis.has_pending_work, ""),
    (BlockAnalysis.load, "step, blocks, mixins=False"),
    (StateChanger.__init__, "step, context"),
    (StateChanger.process, ""),
    (StateChanger.select_state, ""),
    (StateChanger.execute_state, "state"),
    (get_state_changer, "step, context"),
    (StateHandler, "step, context"),
    (StateHandler.process, ""),
    (StateHandler.process_state, ""),
    (StateHandler.transition, ""),
    (StateHandler.stay, "push=False"),
    (StateHandler.error, "error"),
    (get_handler, "state, step, context"),
    (ExecutionContext.get_workflow_ast, ""),
    (ExecutionContext.get_workflow_root, ""),
    (ExecutionContext.get_statement_definition, "step"),
    (ExecutionContext.get_block_ast, "block_step"),
    (ExecutionContext.get_block_graph, "block_id"),
    (ExecutionContext.set_block_graph, "block_id, graph"),
    (ExecutionContext.set_block_ast_cache, "block_id, block_ast"),
    (ExecutionContext.get_completed_step_by_name, "step_name, block_id"),
    (ExecutionContext.resolve_qualified_name, "name"),
    (ExecutionContext.get_facet_definition, "name"),
    (ExecutionContext.clear_caches, ""),
    (Evaluator, "persistence, telemetry=None, max_iterations=1000000"),
    (Evaluator.execute, "workflow_ast, inputs=None, program_ast=None, runner_id=''"),
    (Evaluator.resume, "workflow_id_val, workflow_ast=None, program_ast=None, inputs=None, runner_id=''"),
    (Evaluator.continue_step, "step_id, result=None"),
    (Evaluator.fail_step, "step_id, error_message"),
    (EventManager, "persistence"),
    (EventManager.create_event, "step_id, workflow_id, event_type, payload"),
    (EventManager.dispatch, "event"),
    (EventManager.start_processing, "event"),
    (EventManager.complete, "event, result"),
    (EventManager.error, "event, error"),
    (EventManager.get_pending_events, "workflow_id"),
    (EventDispatcher, ""),
    (EventDispatcher.dispatch, "event"),
    (EventDispatcher.poll_completed, ""),
    (LocalEventHandler, ""),
    (LocalEventHandler.register, "event_type, handler"),
    (LocalEventHandler.handle, "event"),
    (Telemetry, "enabled=True"),
    (Telemetry.get_events, ""),
    (Telemetry.clear, ""),
    (Telemetry.to_json, "indent=2"),
    (Telemetry.log_workflow_start, "workflow_id, workflow_name"),
    (Telemetry.log_workflow_complete, "workflow_id, result=None"),
    (Telemetry.log_workflow_error, "workflow_id, error"),
    (Telemetry.log_iteration_start, "workflow_id, iteration"),
    (Telemetry.log_iteration_end, "workflow_id, iteration, created, updated"),
    (Telemetry.log_step_created, "step"),
    (Telemetry.log_state_begin, "step, state"),
    (Telemetry.log_state_end, "step, state"),
    (Telemetry.log_state_transition, "step, from_state, to_state"),
    (Telemetry.log_error, "step, state, error"),
    (Telemetry.log_dependency_resolved, "step_id, dependency_id"),
    (Telemetry.log_event_published, "event_id, step_id, event_type"),
]


@pytest.mark.parametrize(("function", "takes"), SIGNATURES, ids=lambda value: getattr(value, "__qualname__", ""))
def test_a_function_takes_its_parameters(function: Callable[..., Any], takes: str) -> None:
    assert_takes(function, takes)


@pytest.mark.parametrize(
    ("cls", "names"),
    [
        (StepTransition, "is_requesting_state_change is_requesting_push has_error"),
        (
            StepDefinition,
            "current_state is_complete is_error is_terminal is_block is_statement is_requesting_state_change",
        ),
        (IterationChanges, "has_changes"),
        (StepAnalysis, "completion_progress"),
        (BlockAnalysis, "completion_progress"),
        (StateHandler, "state_name"),
    ],
)
def test_a_class_has_its_properties(cls: type, names: str) -> None:
    assert [name for name in names.split() if not isinstance(getattr(cls, name, None), property)] == []


@pytest.mark.parametrize("kind", OBJECT_TYPES.values())
def test_a_step_has_the_changer_of_its_kind(kind: str) -> None:
    wanted: type[StateChanger] = StepStateChanger
    if kind == ObjectType.YIELD_ASSIGNMENT:
        wanted = YieldStateChanger
    elif ObjectType.is_block(kind):
        wanted = BlockStateChanger
    changer = get_state_changer(StepDefinition.create(WorkflowId("w"), kind), MagicMock())

    assert isinstance(changer, wanted)


def test_an_evaluator_shows_what_it_was_made_with() -> None:
    store, telemetry = MemoryStore(), Telemetry()
    evaluator = Evaluator(store, telemetry, 7)

    assert (evaluator.persistence, evaluator.telemetry, evaluator.max_iterations) == (store, telemetry, 7)


def test_every_state_of_the_tables_has_a_handler_named_after_it() -> None:
    wanted = {
        StepState.CREATED: "StatementBeginHandler",
        StepState.FACET_INIT_BEGIN: "FacetInitializationBeginHandler",
        StepState.FACET_INIT_END: "FacetInitializationEndHandler",
        StepState.FACET_SCRIPTS_BEGIN: "FacetScriptsBeginHandler",
        StepState.FACET_SCRIPTS_END: "FacetScriptsEndHandler",
        StepState.STATEMENT_SCRIPTS_BEGIN: "StatementScriptsBeginHandler",
        StepState.STATEMENT_SCRIPTS_END: "StatementScriptsEndHandler",
        StepState.MIXIN_BLOCKS_BEGIN: "MixinBlocksBeginHandler",
        StepState.MIXIN_BLOCKS_CONTINUE: "MixinBlocksContinueHandler",
        StepState.MIXIN_BLOCKS_END: "MixinBlocksEndHandler",
        StepState.MIXIN_CAPTURE_BEGIN: "MixinCaptureBeginHandler",
        StepState.MIXIN_CAPTURE_END: "MixinCaptureEndHandler",
        StepState.EVENT_TRANSMIT: "EventTransmitHandler",
        StepState.STATEMENT_BLOCKS_BEGIN: "StatementBlocksBeginHandler",
        StepState.STATEMENT_BLOCKS_CONTINUE: "StatementBlocksContinueHandler",
        StepState.STATEMENT_BLOCKS_END: "StatementBlocksEndHandler",
        StepState.BLOCK_EXECUTION_BEGIN: "BlockExecutionBeginHandler",
        StepState.BLOCK_EXECUTION_CONTINUE: "BlockExecutionContinueHandler",
        StepState.BLOCK_EXECUTION_END: "BlockExecutionEndHandler",
        StepState.STATEMENT_CAPTURE_BEGIN: "StatementCaptureBeginHandler",
        StepState.STATEMENT_CAPTURE_END: "StatementCaptureEndHandler",
        StepState.STATEMENT_END: "StatementEndHandler",
        StepState.STATEMENT_COMPLETE: "StatementCompleteHandler",
    }

    assert {state: STATE_HANDLERS[state].__name__ for state in wanted} == wanted


def test_constants_of_a_class_are_not_more_than_people_know_of_or_new_ones() -> None:
    assert set(OBJECT_TYPES) <= set(constants(ObjectType))
    assert set(STATUSES) == set(constants(ExecutionStatus))
