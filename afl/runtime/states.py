"""The states of steps and events, and the tables that say which state follows which."""

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

__all__ = [
    "BLOCK_TRANSITIONS",
    "CATCH_TRANSITIONS",
    "EVENT_TRANSITIONS",
    "EventState",
    "SCHEMA_TRANSITIONS",
    "STEP_TRANSITIONS",
    "StepState",
    "YIELD_TRANSITIONS",
    "get_next_state",
    "select_transitions",
]
