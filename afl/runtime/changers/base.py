"""The state changer: one loop that drives every kind of step through its table.

A path through states that have no work is walked in one stride; when a trace is on, it still sees each transition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from afl.runtime.execution import Execution
from afl.runtime.handlers import STATE_HANDLERS
from afl.runtime.records import StepRecord
from afl.runtime.states import StepState

Work = Callable[[Execution, StepRecord], bool]


class StateChanger:
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
        return self.transitions.get(current)

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


def complete_at_once(execution: Execution, step: StepRecord, bind: Work) -> None:
    """The shortest path of a yield, when nobody watches: bind its attributes, and complete."""
    try:
        bind(execution, step)
    except Exception as error:  # noqa: BLE001 - as in StateChanger.process
        execution.fail(step, error)
        return
    step.state = StepState.STATEMENT_COMPLETE
    execution.complete(step)
