"""States and their tables."""

import pytest

from afl.engine.states import (
    BLOCK_TRANSITIONS,
    CATCH_TRANSITIONS,
    EVENT_TRANSITIONS,
    SCHEMA_TRANSITIONS,
    STEP_TRANSITIONS,
    YIELD_TRANSITIONS,
    EventState,
    StepState,
    get_next_state,
    select_transitions,
)
from afl.engine.types import ObjectType


def walk(table: dict[str, str], start: str) -> list[str]:
    """List the states from this one to the end of the table."""
    visited = [start]
    while (following := get_next_state(visited[-1], table)) is not None:
        visited.append(following)
    return visited


def test_a_call_walks_all_its_phases_in_order() -> None:
    assert walk(STEP_TRANSITIONS, StepState.CREATED) == [
        "state.statement.Created",
        "state.facet.initialization.Begin",
        "state.facet.initialization.End",
        "state.facet.scripts.Begin",
        "state.facet.scripts.End",
        "state.mixin.blocks.Begin",
        "state.mixin.blocks.Continue",
        "state.mixin.blocks.End",
        "state.mixin.capture.Begin",
        "state.mixin.capture.End",
        "state.EventTransmit",
        "state.statement.blocks.Begin",
        "state.statement.blocks.Continue",
        "state.statement.blocks.End",
        "state.statement.capture.Begin",
        "state.statement.capture.End",
        "state.statement.End",
        "state.statement.Complete",
    ]


def test_a_block_only_runs_its_statements() -> None:
    assert walk(BLOCK_TRANSITIONS, StepState.CREATED) == [
        "state.statement.Created",
        "state.block.execution.Begin",
        "state.block.execution.Continue",
        "state.block.execution.End",
        "state.statement.End",
        "state.statement.Complete",
    ]


def test_a_yield_goes_from_its_scripts_to_the_end() -> None:
    assert walk(YIELD_TRANSITIONS, StepState.FACET_SCRIPTS_BEGIN) == [
        "state.facet.scripts.Begin",
        "state.facet.scripts.End",
        "state.statement.End",
        "state.statement.Complete",
    ]


@pytest.mark.parametrize(
    ("table", "entries"),
    [(STEP_TRANSITIONS, 17), (BLOCK_TRANSITIONS, 5), (YIELD_TRANSITIONS, 6), (SCHEMA_TRANSITIONS, 4)],
)
def test_every_table_leads_from_created_to_complete_and_no_further(table: dict[str, str], entries: int) -> None:
    states = walk(table, StepState.CREATED)

    assert len(table) == entries
    assert len(states) == entries + 1
    assert states[-1] == "state.statement.Complete"
    assert StepState.STATEMENT_ERROR not in table


@pytest.mark.parametrize(
    ("object_type", "table"),
    [
        (ObjectType.VARIABLE_ASSIGNMENT, STEP_TRANSITIONS),
        (ObjectType.WORKFLOW, STEP_TRANSITIONS),
        (ObjectType.FACET, STEP_TRANSITIONS),
        (ObjectType.YIELD_ASSIGNMENT, YIELD_TRANSITIONS),
        (ObjectType.SCHEMA_INSTANTIATION, SCHEMA_TRANSITIONS),
        (ObjectType.AND_THEN, BLOCK_TRANSITIONS),
        (ObjectType.AND_MAP, BLOCK_TRANSITIONS),
        (ObjectType.AND_MATCH, BLOCK_TRANSITIONS),
        (ObjectType.BLOCK, BLOCK_TRANSITIONS),
    ],
)
def test_each_kind_of_step_follows_its_table(object_type: str, table: dict[str, str]) -> None:
    assert select_transitions(object_type) is table


def test_a_step_ends_complete_or_failed() -> None:
    assert [state for state in STEP_TRANSITIONS if StepState.is_terminal(state)] == []
    assert StepState.is_terminal("state.statement.Complete")
    assert StepState.is_complete("state.statement.Complete")
    assert StepState.is_terminal("state.statement.Error")
    assert StepState.is_error("state.statement.Error")
    assert not StepState.is_complete("state.statement.Error")


def test_a_catch_runs_from_its_begin_until_its_end() -> None:
    assert [state for state in STEP_TRANSITIONS if StepState.is_catching(state)] == []
    assert StepState.is_catching("state.catch.Begin")
    assert StepState.is_catching("state.catch.Continue")
    assert not StepState.is_catching("state.catch.End")


def test_an_event_is_handed_out_worked_on_and_completed() -> None:
    assert walk(EVENT_TRANSITIONS, EventState.CREATED) == [
        "event.Created",
        "event.Dispatched",
        "event.Processing",
        "event.Completed",
    ]
    assert EventState.is_terminal("event.Completed")
    assert EventState.is_terminal("event.Error")
    assert not EventState.is_terminal("event.Processing")


def test_a_catch_leads_back_onto_the_way_of_a_call_where_that_captures() -> None:
    states = walk(CATCH_TRANSITIONS, "state.catch.Begin")

    assert states[:4] == [
        "state.catch.Begin",
        "state.catch.Continue",
        "state.catch.End",
        "state.statement.capture.Begin",
    ]
    assert states[3:] == walk(STEP_TRANSITIONS, "state.statement.capture.Begin")
    assert not set(states[:3]) & set(STEP_TRANSITIONS)
