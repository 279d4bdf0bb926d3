"""What drives a step through its table: the engine's machine for live records, and a changer for a public step.

There is one loop for every kind of step. A path through states that have no work is walked in one stride; when a trace
is on, it still sees each transition.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar

from afl.runtime.execution import Execution
from afl.runtime.handlers import STATE_HANDLERS, get_handler
from afl.runtime.records import StepRecord
from afl.runtime.state_change import StateChangeResult as StateChangeResult
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition

if TYPE_CHECKING:
    from afl.runtime.context import ExecutionContext

Work = Callable[[Execution, StepRecord], bool]


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
        self._work: dict[str, Work] = {s: h.work for s, h in STATE_HANDLERS.items() if not h.passes}
        self._work.update(work or {})

    def next_state(self, current: str) -> str | None:
        """The state after this one, None at the end."""
        return self._ways.get(current)

    def work_in(self, state: str) -> Work | None:
        """What this kind of step does in a state; None where that is nothing."""
        return self._work.get(state)

    def _stride(self, state: str) -> str:
        """The next state that has work, or the last."""
        target = self._ways[state]
        while STATE_HANDLERS[target].passes and target in self._ways:
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
                if trace is not None:
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


class StateChanger(ABC):
    """Drives one public step, for whoever has steps and no engine: `Evaluator` does not use it."""

    def __init__(self, step: StepDefinition, context: ExecutionContext) -> None:
        self.step = step
        self.context = context

    @abstractmethod
    def select_state(self) -> str | None:
        """The state that the step goes to from here; None at the end."""

    @abstractmethod
    def execute_state(self, state: str) -> StateChangeResult:
        """Do what the step does in a state."""

    def process(self) -> StateChangeResult:
        """
        Move the step as far as it can go now, running the handler of each state that it comes to.

        What fails leaves the step in state Error, for the caller to save.
        """
        if self.step.is_complete:
            return StateChangeResult(step=self.step, continue_processing=False)
        try:
            while True:
                if self.step.is_requesting_state_change:
                    following = self.select_state()
                    if following is None or following == self.step.current_state:
                        break
                    self.step.change_state(following)
                result = self.execute_state(self.step.current_state)
                self.step = result.step
                if not result.success:
                    return self._failed(result.error)
                if self.step.is_terminal:
                    return StateChangeResult(step=self.step, continue_processing=False)
                if not self.step.is_requesting_state_change:
                    break
        except Exception as error:  # noqa: BLE001 - told in the result
            return self._failed(error)
        return StateChangeResult(step=self.step, continue_processing=self.step.transition.is_requesting_push)

    def _failed(self, error: Exception | None) -> StateChangeResult:
        self.step.mark_error(error)
        return StateChangeResult(step=self.step, success=False, error=error, continue_processing=False)


class TableStateChanger(StateChanger):
    """A changer that goes by the engine's machine for its kind of step."""

    machine: ClassVar[StepMachine]

    def select_state(self) -> str | None:
        return self.machine.next_state(self.step.current_state)

    def execute_state(self, state: str) -> StateChangeResult:
        handler = get_handler(state, self.step, self.context)
        if handler is None:
            self.step.request_state_change(True)
            return StateChangeResult(step=self.step)
        return handler.process()


def complete_at_once(execution: Execution, step: StepRecord, bind: Work) -> None:
    """The shortest path of a yield, when nobody watches: bind its attributes, and complete."""
    try:
        bind(execution, step)
    except Exception as error:  # noqa: BLE001 - as in StepMachine.process
        execution.fail(step, error)
        return
    step.state = StepState.STATEMENT_COMPLETE
    # It may have been written already, in the iteration that made it and had no room for it.
    execution.touch(step)
    execution.complete(step)
