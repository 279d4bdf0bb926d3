"""Which changer drives which kind of step, and the iteration over all that can move."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

from afl.runtime.changers.base import StateChanger, complete_at_once
from afl.runtime.changers.block_changer import BlockStateChanger
from afl.runtime.changers.step_changer import SchemaStateChanger, StepStateChanger, SystemStateChanger
from afl.runtime.changers.yield_changer import YieldStateChanger
from afl.runtime.execution import Execution
from afl.runtime.handlers.initialization import FacetInitializationBeginHandler
from afl.runtime.notices import tell_endings
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType

_STEPS, _BLOCKS, _YIELDS, _SCHEMAS = StepStateChanger(), BlockStateChanger(), YieldStateChanger(), SchemaStateChanger()
_SYSTEM = SystemStateChanger()

STATE_CHANGERS: Mapping[str, StateChanger] = {
    ObjectType.VARIABLE_ASSIGNMENT: _STEPS,
    ObjectType.WORKFLOW: _STEPS,
    ObjectType.FACET: _STEPS,
    ObjectType.SCHEMA_INSTANTIATION: _SCHEMAS,
    ObjectType.YIELD_ASSIGNMENT: _YIELDS,
    ObjectType.SYS_LOG: _SYSTEM,
    ObjectType.SYS_ASSERT: _SYSTEM,
    ObjectType.AND_THEN: _BLOCKS,
    ObjectType.AND_MAP: _BLOCKS,
    ObjectType.AND_MATCH: _BLOCKS,
    ObjectType.BLOCK: _BLOCKS,
}


def get_state_changer(step: StepDefinition, context: object = None) -> StateChanger:
    """The changer that drives a step: its table, and what each of its states leads to.

    Changers have no state of their own. `context` is taken for compatibility.
    """
    return STATE_CHANGERS[step.object_type]


#: The same under the name that the specification uses.
create_state_changer = get_state_changer


def run_iteration(execution: Execution) -> int:
    """Run one iteration: every queued step, then every step made meanwhile, until none is left; how many ran.

    What ended is told when all have run, so that nobody sees it before the next iteration. A run that nothing can move
    on after that has failed.
    """
    queue, execution.queue = execution.queue, []
    execution.iterations += 1
    if len(queue) > 1:
        # In order of creation: a run that is read back from the store works in the same order.
        queue.sort(key=_number)
    for step in queue:
        step.queued = False
        if step.state not in _TERMINAL:
            STATE_CHANGERS[step.object_type].process(execution, step)
    ran = len(queue)
    made, traced = execution.made, execution.trace is not None
    bind = FacetInitializationBeginHandler.work
    while made:
        step = made.popleft()
        ran += 1
        statement = step.statement
        if statement is not None and statement.is_yield and not traced:
            complete_at_once(execution, step, bind)
        else:
            STATE_CHANGERS[step.object_type].process(execution, step)
    ran += len(execution.settled)
    tell_endings(execution)
    execution.fail_if_stuck()
    return ran


_number = attrgetter("number")
_TERMINAL = frozenset({StepState.STATEMENT_COMPLETE, StepState.STATEMENT_ERROR})
