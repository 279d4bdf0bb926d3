"""An execution is complete when it is made, however it was made."""

import ast
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from afl.engine.errors import StoreCorrupt
from afl.engine.execution.execution import Execution
from afl.engine.execution.ports import RunEnvironment
from afl.engine.execution.restore import restore
from afl.engine.execution.run_bounds import RunBounds, RunLimits
from afl.engine.execution.task_dispatch import TaskDispatch
from afl.engine.model.store import CANCELLED, COMPLETED, PAUSED
from afl.engine.operations.cancel_only import restore_cancel_only
from afl.engine.planning.planner import plan_workflow
from tests.unit.engine.driven import new_row
from tests.unit.engine.running import Engine, compiled

PROGRAM = """
    event facet E(x: Long) => (y: Long)
    workflow W(x: Long = 1) => (r: Long) andThen { e = E(x = $.x)  yield W(r = e.y) }
"""

#: What its maker hands to an execution, and nothing changes after that.
GIVEN = (
    "bounds",
    "created_at_ms",
    "dispatch",
    "execution",
    "id",
    "inputs",
    "later",
    "max_open_events",
    "plan",
    "room",
    "root",
    "runner_id",
    "runs_scripts",
    "trace",
)


def environment() -> RunEnvironment:
    return RunEnvironment(TaskDispatch(), RunBounds())


def started() -> Execution:
    plan = plan_workflow(compiled(PROGRAM), "W")
    return Execution.started(plan, new_row(plan, {"x": 7}), environment(), {"x": 7})


def read_back() -> Execution:
    engine = Engine(PROGRAM)
    engine.start()
    return restore(plan_workflow(engine.program, "W"), engine.row(), engine.store.load_steps("run"), environment())


def read_back_after_a_reset() -> Execution:
    engine = Engine(PROGRAM)
    engine.start()
    engine.evaluator.reset("run")
    return restore(plan_workflow(engine.program, "W"), engine.row(), engine.store.load_steps("run"), environment())


def only_ended() -> Execution:
    engine = Engine(PROGRAM)
    engine.start()
    execution = restore_cancel_only(engine.row(), engine.store.load_steps("run"), TaskDispatch())
    assert execution is not None
    return execution


@pytest.mark.parametrize("make", [started, read_back, read_back_after_a_reset, only_ended])
def test_an_execution_has_all_that_it_is_made_of(make: Callable[[], Execution]) -> None:
    execution = make()

    # Slots, which are another kind of descriptor where the class is compiled.
    kinds = (types.MemberDescriptorType, types.GetSetDescriptorType)
    declared = [name for name, found in vars(Execution).items() if isinstance(found, kinds)]
    assert declared != []
    assert [name for name in declared if not hasattr(execution, name)] == []
    assert execution.steps[execution.root.id] is execution.root
    assert execution.root.facet is execution.plan.facet
    assert execution.room.is_left()


def test_a_new_execution_is_what_its_row_says() -> None:
    plan = plan_workflow(compiled(PROGRAM), "W")
    row = new_row(plan, {"x": 7})._replace(runner_id="r", lane="control/3", created_at_ms=5, updated_at_ms=6)
    bounds = RunBounds(RunLimits(max_steps=3))

    execution = Execution.started(plan, row, RunEnvironment(TaskDispatch(), bounds, None, 9, True), {"x": 7})

    found = (execution.id, execution.runner_id, execution.lane, execution.created_at_ms, execution.now_ms)
    assert found == ("run", "r", "control/3", 5, 6)
    assert (execution.bounds, execution.max_open_events, execution.runs_scripts) == (bounds, 9, True)
    assert (execution.revision, execution.execution, execution.count) == (0, 1, 1)
    assert execution.queue == execution.dirty == [execution.root]
    assert execution.root.params == {"x": 7}


@pytest.mark.parametrize(
    ("status", "is_ended", "cancelled"), [(PAUSED, False, False), (COMPLETED, True, False), (CANCELLED, True, True)]
)
def test_an_execution_knows_from_its_row_whether_it_has_ended(status: str, is_ended: bool, cancelled: bool) -> None:
    engine = Engine(PROGRAM)
    engine.start()
    row, steps = engine.row()._replace(status=status), engine.store.load_steps("run")

    execution = restore(plan_workflow(engine.program, "W"), row, steps, environment())

    assert (execution.is_ended, execution.end_was_reported, execution.cancelled) == (is_ended, is_ended, cancelled)


def test_rows_without_a_root_are_corrupt() -> None:
    engine = Engine(PROGRAM)
    engine.start()
    plan, row, (_, *others) = plan_workflow(engine.program, "W"), engine.row(), engine.store.load_steps("run")

    with pytest.raises(StoreCorrupt, match="no root step"):
        restore(plan, row, others, environment())
    with pytest.raises(StoreCorrupt, match="no steps"):
        restore(plan, row, [], environment())


def test_what_an_execution_is_handed_is_set_by_its_constructor_alone() -> None:
    root = Path(__file__).parents[4]
    set_elsewhere = [
        f"{path.relative_to(root)}:{node.lineno}: {node.attr}"
        for package in ("afl", "afl_stream")
        for path in sorted((root / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr in GIVEN
        if isinstance(node.value, ast.Name) and node.value.id == "execution"
    ]

    assert set_elsewhere == []


def test_an_execution_is_one_class() -> None:
    assert Execution.__mro__ == (Execution, object)
    assert Execution.__subclasses__() == []
