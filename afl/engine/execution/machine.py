"""The machines that drive live records through the tables of their kinds, one loop for every kind of step.

A machine walks a path through states that have no work in one stride; when a trace is on, it still sees each
transition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from afl.engine.execution.execution import Execution
from afl.engine.execution.states import STATE_WORK, Work
from afl.engine.execution.states.system import run_system_statement
from afl.engine.model.records import StepRecord
from afl.engine.states import (
    BLOCK_TRANSITIONS,
    CATCH_TRANSITIONS,
    SCHEMA_TRANSITIONS,
    STEP_TRANSITIONS,
    YIELD_TRANSITIONS,
    StepState,
)
from afl.engine.types import ObjectType


class StepMachine:
    """Drives one kind of step through the states of its table."""

    def __init__(
        self,
        transitions: Mapping[str, str],
        *,
        detours: Mapping[str, str] | None = None,
        work: Mapping[str, Work] | None = None,
    ) -> None:
        #: The table, as the specification prints it.
        self.transitions = transitions
        #: The same with the ways that lead back into it, such as a catch's.
        self._ways = {**(detours or {}), **transitions}
        self._strides = {state: self._stride(state) for state in self._ways}
        #: What each state does; `work` says where this kind of step does something of its own.
        self._work: dict[str, Work] = {**STATE_WORK, **(work or {})}

    def next_state(self, current: str) -> str | None:
        """Return the state after this one, None at the end."""
        return self._ways.get(current)

    def work_in(self, state: str) -> Work | None:
        """Return the work of this kind of step in a state; None where it has none."""
        return self._work.get(state)

    def _stride(self, state: str) -> str:
        """Return the next state that has work, or the last."""
        target = self._ways[state]
        while target not in STATE_WORK and target in self._ways:
            target = self._ways[target]
        return target

    def process(self, execution: Execution, step: StepRecord) -> None:
        """Move a step as far as it can go now. A step runs the handler of the state it is in before it leaves it."""
        state = step.state
        works, strides, trace = self._work, self._strides, execution.trace
        try:
            while True:
                work = works.get(state)
                if work is not None and not work(execution, step):
                    return
                target = strides[state]
                if trace is not None and (trace.sees_moves or target == StepState.STATEMENT_COMPLETE):
                    self._show(execution, step, state, target)
                step.state = state = target
                if not step.dirty:
                    step.dirty = True
                    execution.dirty.append(step)
        except Exception as error:  # noqa: BLE001 - the one place where a step's failure is caught: it becomes its state
            execution.fail(step, error)

    def _show(self, execution: Execution, step: StepRecord, state: str, target: str) -> None:
        assert execution.trace is not None
        while state != target:
            passed = self._ways[state]
            execution.trace.moved(execution, step, state, passed)
            state = passed


def complete_at_once(execution: Execution, step: StepRecord, bind: Work) -> None:
    """Bind the attributes of a yield and complete it: the shortest path, without a trace."""
    try:
        bind(execution, step)
    except Exception as error:  # noqa: BLE001 - as in StepMachine.process
        execution.fail(step, error)
        return
    step.state = StepState.STATEMENT_COMPLETE
    # It may have been written already, in the iteration that made it and had no room for it.
    execution.touch(step)
    execution.complete(step)


#: Calls of facets, and the root of a workflow: binding, mixins, event, blocks, capture; and a catch when one fails.
_CALL: Final = StepMachine(STEP_TRANSITIONS, detours=CATCH_TRANSITIONS)
#: Schema instantiations: evaluate the arguments, then complete; a catch may give the fields instead.
_SCHEMA: Final = StepMachine(SCHEMA_TRANSITIONS, detours=CATCH_TRANSITIONS)
#: sys.log and sys.assert: evaluate, have the effect, complete.
_SYSTEM: Final = StepMachine(SCHEMA_TRANSITIONS, work={StepState.FACET_INIT_BEGIN: run_system_statement})
#: Yields: evaluate the arguments, then complete.
_YIELD: Final = StepMachine(YIELD_TRANSITIONS)
#: Blocks: begin, run until every statement has ended, end.
_BLOCK: Final = StepMachine(BLOCK_TRANSITIONS)

#: The machine of each kind of step.
STATE_MACHINES: Final[Mapping[str, StepMachine]] = {
    ObjectType.VARIABLE_ASSIGNMENT: _CALL,
    ObjectType.WORKFLOW: _CALL,
    ObjectType.FACET: _CALL,
    ObjectType.SCHEMA_INSTANTIATION: _SCHEMA,
    ObjectType.YIELD_ASSIGNMENT: _YIELD,
    ObjectType.SYS_LOG: _SYSTEM,
    ObjectType.SYS_ASSERT: _SYSTEM,
    ObjectType.AND_THEN: _BLOCK,
    ObjectType.AND_MAP: _BLOCK,
    ObjectType.AND_MATCH: _BLOCK,
    ObjectType.BLOCK: _BLOCK,
    # Hooks of mixins: the language has none, and the engine makes none. They would go the way of a call.
    ObjectType.BEFORE: _CALL,
    ObjectType.AFTER: _CALL,
}
