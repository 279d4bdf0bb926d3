"""Limits are reported by name, and what stays in memory between calls is counted, shared and released rightly."""

import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from afl.compiled.program import CompiledProgram, ProgramError
from afl.engine.errors import EvaluationError, UnknownFacet
from afl.engine.errors import ReferenceError as UnresolvedReference
from afl.engine.execution.commit_rows import Commits
from afl.engine.execution.events import update_with
from afl.engine.execution.task_dispatch import TaskDispatch
from afl.engine.model.store import COMPLETED, Batch
from afl.engine.planning.planner import plan_workflow
from afl.engine.workflow_cache import WorkflowCache
from afl.evaluation.evaluator import ExecutionResult
from afl.stores.memory.store import MemoryStore
from afl.stores.public.persistence import EngineStore
from afl.stores.sqlite.store import SqliteStore
from tests.unit.engine.running import Engine, compiled, failure_of
from tests.worlds.compiled import interpreted_only

ASK = """
    event facet E(n: Long) => (n: Long)
    workflow W(n: Long) => (n: Long) andThen {
        e = E(n = $.n)
        yield W(n = e.n)
    }
"""


def open_memory(path: Path) -> EngineStore:
    return MemoryStore()


def open_sqlite(path: Path) -> EngineStore:
    return SqliteStore(path / "engine.db")


OPENERS = [open_memory, open_sqlite]

# --- integers ------------------------------------------------------------------------------------------------------


def squares(last: str) -> str:
    """x0 = n, and each the square of the one before, up to x11 = n to the power of 2,048; then the last step."""
    steps = "\n".join(f"x{k} = V(v = x{k - 1}.v * x{k - 1}.v)" for k in range(1, 12))
    return f"""
        facet V(v: Json)
        workflow W(n: Long) => (v: Json) andThen {{
            x0 = V(v = $.n)
            {steps}
            last = V(v = {last})
            yield W(v = last.v)
        }}"""


VALUES = [("x11.v * (x11.v - 1)", 2**4096 - 2**2048), ("-(x11.v * (x11.v - 1))", 2**2048 - 2**4096)]


@pytest.mark.parametrize("open_store", OPENERS)
@pytest.mark.parametrize(("last", "value"), VALUES, ids=["all bits", "negative"])
def test_an_integer_of_4096_bits_is_computed_and_stored(
    tmp_path: Path, open_store: Callable[[Path], EngineStore], last: str, value: int
) -> None:
    engine = Engine(squares(last), store=open_store(tmp_path))

    assert engine.start({"n": 2}).outputs == {"v": value}
    assert engine.row().outputs == {"v": value}
    engine.store.close()


@pytest.mark.parametrize("open_store", OPENERS)
@pytest.mark.parametrize(
    "last", ["x11.v * x11.v", "x11.v * (x11.v - 1) + x11.v", "-(x11.v * (x11.v - 1)) - x11.v", "$.n * x11.v * x11.v"]
)
def test_an_integer_of_more_than_4096_bits_fails_its_step_by_name(
    tmp_path: Path, open_store: Callable[[Path], EngineStore], last: str
) -> None:
    engine = Engine(squares(last), store=open_store(tmp_path))

    cause = failure_of(engine.start({"n": 2}))

    assert engine.step("last").id == cause.step_id
    assert "4096 bits" in cause.message
    engine.restart()
    assert failure_of(engine.resume()).message == cause.message
    engine.store.close()


# --- malformed programs --------------------------------------------------------------------------------------------

RICH = """
    schema Point { x: Long, tags: [String] }
    event facet E(p: Json, n: Long = 1 + 2) => (r: Long)
    facet V(v: Json = #{"a": [1, 2]})
    facet Sum(xs: [Long]) => (r: Long) andThen foreach x in $.xs {
        v = V(v = $.x ++ "text")
        p = Point(x = $.x, tags = ["a"])
        e = E(p = #{"x": p.x}, n = -$.x) andThen { inner = V(v = e.r) yield E(r = inner.v) }
        yield Sum(r = e.r)
    }
    workflow W(n: Long) => (r: Long) andThen {
        p = Point(x = $.n, tags = [])
        s = Sum(xs = [p.x, p.x * 2])
        yield W(r = s.r)
    }
"""


def mutilated(tree: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the program with each of its keys left out, and with each of its values of a wrong kind."""
    text = json.dumps(tree)
    for path in paths_of(tree):
        for wrong in (None, 7, "nonsense", [7], {"type": "Nonsense"}, ...):
            copy = json.loads(text)
            parent = copy
            for key in path[:-1]:
                parent = parent[key]
            if wrong is ...:
                del parent[path[-1]]
            else:
                parent[path[-1]] = wrong
            yield f"{path}: {wrong}", copy


def paths_of(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from paths_of(child, (*path, key))


def test_a_malformed_program_is_planned_or_refused_by_name_and_nothing_else() -> None:
    tree = compiled(RICH).tree
    reasons: list[str] = []
    for what, program in mutilated(tree):
        try:
            plan_workflow(CompiledProgram.from_text(json.dumps(program).encode()), "n.W")
        except (ProgramError, EvaluationError, UnresolvedReference, UnknownFacet) as error:
            reasons.append(str(error))
        except Exception as error:
            raise AssertionError(what) from error
    assert len(reasons) > 100
    assert all(reasons)


# --- what is kept in memory ----------------------------------------------------------------------------------------

#: A workflow with many steps that are complete when one waits.
MANY = "\n".join(
    ["event facet E(n: Long) => (n: Long)", "facet V(v: Long)", "workflow W(n: Long) => (n: Long) andThen {"]
    + [f"v{k} = V(v = {k})" for k in range(20)]
    + ["e = E(n = $.n)", "yield W(n = e.n)", "}"]
)


def test_workflows_kept_twice_are_counted_once() -> None:
    store = MemoryStore()
    ids = ("run-1", "run-2")
    engines = [Engine(MANY, store=store, workflow_id=workflow_id) for workflow_id in ids]
    for engine in engines:
        engine.start({"n": 1})
    # Room for these two and for nothing more.
    workflows = WorkflowCache(store, TaskDispatch(), hot_steps=sum(len(engine.steps()) for engine in engines))
    for round_number in range(20):
        for engine in engines:
            # Two threads have the same workflow: one from memory, one from the store. The second commits first.
            stale, fresh = workflows.load(engine.workflow_id), workflows.load(engine.workflow_id)
            assert stale is not None
            assert fresh is not None
            workflows.keep(stale)
            step = fresh.steps[engine.step("e").id]
            update_with(fresh, step, {"n": round_number})
            store.commit_batch(Commits(fresh).next())
            workflows.keep(fresh)
            workflows.keep(stale)

    taken = [workflows.take(workflow_id) for workflow_id in ids]
    assert [execution is not None and execution.revision for execution in taken] == [e.row().revision for e in engines]
    # All the room is free again.
    for execution in taken:
        assert execution is not None
        workflows.keep(execution)
    assert all(workflows.take(workflow_id) is not None for workflow_id in ids)


def test_five_thousand_results_yielded_before_a_restart_are_collected_in_order() -> None:
    count = 5_000
    engine = Engine(
        """
        event facet E(n: Long) => (n: Long)
        workflow W(xs: [Long]) => (r: [Long], n: Long)
            andThen foreach x in $.xs { yield W(r = [$.x]) }
            andThen { e = E(n = 1) yield W(n = e.n) }
        """
    )
    engine.start({"xs": list(range(count, 0, -1))})
    engine.restart()

    assert engine.answer("e", {"n": 7}).outputs == {"r": list(range(count, 0, -1)), "n": 7}


class HoldsTheEnd(MemoryStore):
    """Hold the commit of a workflow's end until it is let through."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.let_through = threading.Event(), threading.Event()

    def commit_batch(self, batch: Batch) -> int:
        if any(change.workflow.status == COMPLETED for change in batch.changes):
            self.reached.set()
            assert self.let_through.wait(10)
        return super().commit_batch(batch)


class Interleaving:
    """Lets something else happen when this thread returns from a function for the first time: what threads may do."""

    def __init__(self, code: CodeType, action: Callable[[], None]) -> None:
        self._code = code
        self._action: Callable[[], None] | None = action

    @property
    def has_happened(self) -> bool:
        return self._action is None

    def __enter__(self) -> "Interleaving":
        self._before = sys.gettrace()
        sys.settrace(self._enter_function)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _enter_function(self, frame: FrameType, event: str, argument: object) -> Any:
        return self._within if frame.f_code is self._code else None

    def _within(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "return" and self._action is not None:
            action, self._action = self._action, None
            action()
        return self._within


@interpreted_only
def test_a_result_tells_what_its_own_thread_has_committed_and_nothing_of_what_another_then_does() -> None:
    store = HoldsTheEnd()
    engine = Engine(ASK, store=store)
    results: list[ExecutionResult] = []

    def answer_and_resume() -> None:
        engine.evaluator.continue_step(engine.step("e").id, {"n": 7})
        results.append(engine.resume())

    other = threading.Thread(target=answer_and_resume)

    def other_comes_to_the_end() -> None:
        other.start()
        assert store.reached.wait(10)

    # As soon as the workflow is kept for others, another thread ends it in memory; its commit is still to come.
    with Interleaving(WorkflowCache.keep.__code__, other_comes_to_the_end) as interleaving:
        result = engine.start({"n": 1})
    is_stored = engine.row().status == COMPLETED
    store.let_through.set()
    other.join()

    assert interleaving.has_happened
    assert (result.status, is_stored) == ("PAUSED", False)
    assert [result.outputs for result in results] == [{"n": 7}]
