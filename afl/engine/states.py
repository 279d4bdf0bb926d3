"""The states of steps and events, and the tables of their order."""

from __future__ import annotations

from typing import Final

from afl.engine.types import ObjectType


class StepState:
    """The state of a step. Values are stored and published: never change one."""

    CREATED: Final = "state.statement.Created"

    FACET_INIT_BEGIN: Final = "state.facet.initialization.Begin"
    FACET_INIT_END: Final = "state.facet.initialization.End"

    FACET_SCRIPTS_BEGIN: Final = "state.facet.scripts.Begin"
    FACET_SCRIPTS_END: Final = "state.facet.scripts.End"

    # Constants that no table reaches: kept because stored steps and reports may name them.
    STATEMENT_SCRIPTS_BEGIN: Final = "state.statement.scripts.Begin"
    STATEMENT_SCRIPTS_END: Final = "state.statement.scripts.End"

    MIXIN_BLOCKS_BEGIN: Final = "state.mixin.blocks.Begin"
    MIXIN_BLOCKS_CONTINUE: Final = "state.mixin.blocks.Continue"
    MIXIN_BLOCKS_END: Final = "state.mixin.blocks.End"

    MIXIN_CAPTURE_BEGIN: Final = "state.mixin.capture.Begin"
    MIXIN_CAPTURE_END: Final = "state.mixin.capture.End"

    EVENT_TRANSMIT: Final = "state.EventTransmit"

    STATEMENT_BLOCKS_BEGIN: Final = "state.statement.blocks.Begin"
    STATEMENT_BLOCKS_CONTINUE: Final = "state.statement.blocks.Continue"
    STATEMENT_BLOCKS_END: Final = "state.statement.blocks.End"

    BLOCK_EXECUTION_BEGIN: Final = "state.block.execution.Begin"
    BLOCK_EXECUTION_CONTINUE: Final = "state.block.execution.Continue"
    BLOCK_EXECUTION_END: Final = "state.block.execution.End"

    STATEMENT_CAPTURE_BEGIN: Final = "state.statement.capture.Begin"
    STATEMENT_CAPTURE_END: Final = "state.statement.capture.End"

    # The states after a failure of a step that has a catch, or whose facet has one.
    CATCH_BEGIN: Final = "state.catch.Begin"
    CATCH_CONTINUE: Final = "state.catch.Continue"
    CATCH_END: Final = "state.catch.End"

    STATEMENT_END: Final = "state.statement.End"
    STATEMENT_COMPLETE: Final = "state.statement.Complete"
    STATEMENT_ERROR: Final = "state.statement.Error"

    @classmethod
    def is_catching(cls, state: str) -> bool:
        """Say whether a step's catch runs: its error is what the catch handles, not yet its end."""
        return state in (cls.CATCH_BEGIN, cls.CATCH_CONTINUE)

    @classmethod
    def is_terminal(cls, state: str) -> bool:
        """Say whether a step in this state is finished, successfully or not."""
        return state in (cls.STATEMENT_COMPLETE, cls.STATEMENT_ERROR)

    @classmethod
    def is_complete(cls, state: str) -> bool:
        """Say whether a step in this state has completed; it never changes again."""
        return state == cls.STATEMENT_COMPLETE

    @classmethod
    def is_error(cls, state: str) -> bool:
        """Say whether a step in this state has failed."""
        return state == cls.STATEMENT_ERROR


class EventState:
    """The state of an event. Values are stored and published: never change one."""

    CREATED: Final = "event.Created"
    DISPATCHED: Final = "event.Dispatched"
    PROCESSING: Final = "event.Processing"
    COMPLETED: Final = "event.Completed"
    ERROR: Final = "event.Error"
    #: The answer is no longer needed: its workflow was ended, or its step is run again.
    CANCELED: Final = "event.Canceled"
    #: It was not answered before its deadline: an answer that comes now is superseded.
    EXPIRED: Final = "event.Expired"
    #: The last attempt has failed, and the next one is waited for.
    RETRYING: Final = "event.Retrying"
    #: There is no event for agents: the step waits for an external event, or for a time.
    WAITING: Final = "event.Waiting"

    @classmethod
    def is_asked(cls, state: str) -> bool:
        """Say whether the answer of an agent to an event in this state is waited for."""
        return state in (cls.CREATED, cls.DISPATCHED, cls.PROCESSING)

    @classmethod
    def is_of_runtime(cls, state: str) -> bool:
        """Say whether a step waits for the runtime in this state: there is no event that an agent could answer."""
        return state in (cls.WAITING, cls.RETRYING)

    @classmethod
    def is_terminal(cls, state: str) -> bool:
        """Say whether an event in this state is finished."""
        return state in (cls.COMPLETED, cls.ERROR, cls.CANCELED, cls.EXPIRED)


#: Calls of facets and workflows, and the root step of a run.
STEP_TRANSITIONS: Final[dict[str, str]] = {
    StepState.CREATED: StepState.FACET_INIT_BEGIN,
    StepState.FACET_INIT_BEGIN: StepState.FACET_INIT_END,
    StepState.FACET_INIT_END: StepState.FACET_SCRIPTS_BEGIN,
    StepState.FACET_SCRIPTS_BEGIN: StepState.FACET_SCRIPTS_END,
    StepState.FACET_SCRIPTS_END: StepState.MIXIN_BLOCKS_BEGIN,
    StepState.MIXIN_BLOCKS_BEGIN: StepState.MIXIN_BLOCKS_CONTINUE,
    StepState.MIXIN_BLOCKS_CONTINUE: StepState.MIXIN_BLOCKS_END,
    StepState.MIXIN_BLOCKS_END: StepState.MIXIN_CAPTURE_BEGIN,
    StepState.MIXIN_CAPTURE_BEGIN: StepState.MIXIN_CAPTURE_END,
    StepState.MIXIN_CAPTURE_END: StepState.EVENT_TRANSMIT,
    StepState.EVENT_TRANSMIT: StepState.STATEMENT_BLOCKS_BEGIN,
    StepState.STATEMENT_BLOCKS_BEGIN: StepState.STATEMENT_BLOCKS_CONTINUE,
    StepState.STATEMENT_BLOCKS_CONTINUE: StepState.STATEMENT_BLOCKS_END,
    StepState.STATEMENT_BLOCKS_END: StepState.STATEMENT_CAPTURE_BEGIN,
    StepState.STATEMENT_CAPTURE_BEGIN: StepState.STATEMENT_CAPTURE_END,
    StepState.STATEMENT_CAPTURE_END: StepState.STATEMENT_END,
    StepState.STATEMENT_END: StepState.STATEMENT_COMPLETE,
}

#: Blocks of every kind.
BLOCK_TRANSITIONS: Final[dict[str, str]] = {
    StepState.CREATED: StepState.BLOCK_EXECUTION_BEGIN,
    StepState.BLOCK_EXECUTION_BEGIN: StepState.BLOCK_EXECUTION_CONTINUE,
    StepState.BLOCK_EXECUTION_CONTINUE: StepState.BLOCK_EXECUTION_END,
    StepState.BLOCK_EXECUTION_END: StepState.STATEMENT_END,
    StepState.STATEMENT_END: StepState.STATEMENT_COMPLETE,
}

#: Yields: evaluate the fields, then complete.
YIELD_TRANSITIONS: Final[dict[str, str]] = {
    StepState.CREATED: StepState.FACET_INIT_BEGIN,
    StepState.FACET_INIT_BEGIN: StepState.FACET_INIT_END,
    StepState.FACET_INIT_END: StepState.FACET_SCRIPTS_BEGIN,
    StepState.FACET_SCRIPTS_BEGIN: StepState.FACET_SCRIPTS_END,
    StepState.FACET_SCRIPTS_END: StepState.STATEMENT_END,
    StepState.STATEMENT_END: StepState.STATEMENT_COMPLETE,
}

#: Schema instantiations: evaluate the arguments into returns, then complete.
SCHEMA_TRANSITIONS: Final[dict[str, str]] = {
    StepState.CREATED: StepState.FACET_INIT_BEGIN,
    StepState.FACET_INIT_BEGIN: StepState.FACET_INIT_END,
    StepState.FACET_INIT_END: StepState.STATEMENT_END,
    StepState.STATEMENT_END: StepState.STATEMENT_COMPLETE,
}

#: From any state of a failed call or schema instantiation, back onto its way: catch, then capture the yields.
CATCH_TRANSITIONS: Final[dict[str, str]] = {
    StepState.CATCH_BEGIN: StepState.CATCH_CONTINUE,
    StepState.CATCH_CONTINUE: StepState.CATCH_END,
    StepState.CATCH_END: StepState.STATEMENT_CAPTURE_BEGIN,
    StepState.STATEMENT_CAPTURE_BEGIN: StepState.STATEMENT_CAPTURE_END,
    StepState.STATEMENT_CAPTURE_END: StepState.STATEMENT_END,
    StepState.STATEMENT_END: StepState.STATEMENT_COMPLETE,
}

EVENT_TRANSITIONS: Final[dict[str, str]] = {
    EventState.CREATED: EventState.DISPATCHED,
    EventState.DISPATCHED: EventState.PROCESSING,
    EventState.PROCESSING: EventState.COMPLETED,
}

#: Kinds of steps that have a table of their own; every other kind uses that of a call.
_TRANSITIONS_BY_TYPE: Final[dict[str, dict[str, str]]] = {
    ObjectType.YIELD_ASSIGNMENT: YIELD_TRANSITIONS,
    ObjectType.SCHEMA_INSTANTIATION: SCHEMA_TRANSITIONS,
    # They also only evaluate; their effect is part of that.
    ObjectType.SYS_LOG: SCHEMA_TRANSITIONS,
    ObjectType.SYS_ASSERT: SCHEMA_TRANSITIONS,
    ObjectType.AND_THEN: BLOCK_TRANSITIONS,
    ObjectType.AND_MAP: BLOCK_TRANSITIONS,
    ObjectType.AND_MATCH: BLOCK_TRANSITIONS,
    ObjectType.BLOCK: BLOCK_TRANSITIONS,
}


def get_next_state(current: str, transitions: dict[str, str]) -> str | None:
    """Return the state after this one, or None where the table ends."""
    return transitions.get(current)


def select_transitions(object_type: str) -> dict[str, str]:
    """Return the table for steps of this type."""
    return _TRANSITIONS_BY_TYPE.get(object_type, STEP_TRANSITIONS)
