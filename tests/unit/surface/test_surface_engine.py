"""Constants, fields, defaults and signatures of the engine's public objects."""

from __future__ import annotations

import dataclasses
from unittest.mock import MagicMock

import pytest

from afl.runtime import (
    BLOCK_TRANSITIONS,
    EVENT_TRANSITIONS,
    SCHEMA_TRANSITIONS,
    STEP_TRANSITIONS,
    YIELD_TRANSITIONS,
    BlockAnalysis,
    Evaluator,
    EventState,
    IterationChanges,
    MemoryStore,
    MongoStore,
    ObjectType,
    PersistenceAPI,
    StepAnalysis,
    StepDefinition,
    StepState,
    StepTransition,
    Telemetry,
    dao,
    errors,
    get_next_state,
    select_transitions,
    types,
)
from afl.runtime.changers import get_state_changer
from afl.runtime.changers.base import StateChanger
from afl.runtime.changers.block_changer import BlockStateChanger
from afl.runtime.changers.step_changer import StepStateChanger
from afl.runtime.changers.yield_changer import YieldStateChanger
from afl.runtime.handlers import STATE_HANDLERS
from afl.runtime.handlers.base import StateHandler
from afl.runtime.types import WorkflowId
from tests.unit.surface.public_constants import EVENT_STATES, OBJECT_TYPES, STEP_STATES


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


ERRORS = """
InvalidStepStateError StepNotFoundError BlockNotFoundError DependencyNotSatisfiedError EvaluationError ReferenceError
InvalidTransitionError ConcurrencyError EventError VersionMismatchError
"""


def test_an_error_says_its_message_and_keeps_its_facts() -> None:
    for name in ERRORS.split():
        cls = getattr(errors, name)
        values = {field.name: f"<{field.name}>" for field in dataclasses.fields(cls)}
        error = cls(**values)

        assert isinstance(error, errors.RuntimeError), cls
        assert {name: getattr(error, name) for name in values} == values
        assert values.get("message", "") in str(error)
        assert str(error), cls
    assert issubclass(errors.RuntimeError, Exception)
    assert not issubclass(errors.RuntimeError, RuntimeError)


def test_the_store_in_memory_is_a_store_without_flows_and_workflows() -> None:
    store = MemoryStore()

    assert isinstance(store, PersistenceAPI)
    assert not hasattr(store, "get_workflow")
    assert not hasattr(store, "get_flow")


def test_the_mongodb_store_is_made_as_the_specification_says() -> None:
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
