"""A large run is loaded without what is inside of its complete steps, and goes on as if it had never been away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from afl.compiled.program import CompiledProgram, Node
from afl.engine.execution.large_runs import LARGE, is_loaded_so
from afl.engine.execution.stored_steps import find_step
from afl.engine.model.store import StepDocument, StoredStep
from afl.engine.planning.planner import plan_workflow
from afl.engine.types import Value
from afl.stores.sqlite.store import SqliteStore
from tests.tiers import some_now
from tests.unit.engine.driven import DrivenRun, Way
from tests.unit.engine.nested_programs import branching_program, nested_program
from tests.unit.engine.running import Engine, compiled

DECLARATIONS = """
    event facet E(x: Json) => (r: Json)
    facet V(v: Json) => (out: Json = $.v)
    facet Unit(name: String = "kg")
    facet Twice(x: Json) => (r: Json) with Unit() as of andThen {
        first = E(x = $.x)
        second = E(x = first.r)
        yield Twice(r = [first.r, second.r, $.of.name])
    }
    facet Each(xs: Json) => (r: Json) andThen foreach x in $.xs {
        twice = Twice(x = $.x)
        yield Each(r = [twice.r])
    }
"""
PROGRAMS = {
    "a foreach": "andThen foreach x in $.xs { e = E(x = $.x) yield W(r = [e.r]) }",
    "steps before and after an event": """
        andThen foreach x in $.xs { a = V(v = $.x) e = E(x = a.out) b = V(v = [e.r, a.out]) yield W(r = [b.out]) }""",
    "bodies of facets": "andThen foreach x in $.xs { t = Twice(x = $.x) u = Twice(x = t.r) yield W(r = [u.r]) }",
    "a foreach in a facet": """
        andThen {
            a = E(x = 1)
            each = Each(xs = $.xs)
            other = Each(xs = [a.r, 2])
            yield W(r = [each.r, other.r])
        }""",
    "a foreach in a foreach": """
        andThen foreach x in $.xs { each = Each(xs = [$.x, 10]) last = E(x = each.r) yield W(r = [last.r, each.r]) }""",
    "blocks beside each other": """
        andThen { a = E(x = 1) b = E(x = a.r) yield W(r = [b.r]) }
        andThen foreach x in $.xs { e = E(x = $.x) yield W(r = [e.r]) }
        andThen { c = E(x = 3) d = E(x = c.r) yield W(r = [d.r, c.r]) }""",
    "cases": """
        andThen foreach x in $.xs {
            picked = Pick(x = $.x)
            e = E(x = picked.r)
            yield W(r = [e.r])
        }""",
    "a body that reads steps around it": """
        andThen {
            a = E(x = 1)
            b = V(v = 2) andThen { c = E(x = a.r) yield V(out = [c.r]) }
            d = E(x = b.out)
            yield W(r = [d.r, b.out])
        }""",
    "a source that is a result": """
        andThen { list = E(x = 0) more = V(v = list.r) each = Each(xs = [more.out, 1]) yield W(r = each.r) }""",
}
PICK = """
    facet Pick(x: Json) => (r: Json)
    andThen when {
        case $.x == 1 => { one = E(x = $.x) yield Pick(r = one.r) }
        case $.x == 2 => { two = E(x = "two") three = E(x = two.r) yield Pick(r = three.r) }
        case _ => { v = V(v = $.x) yield Pick(r = v.out) }
    }
    andThen { e = E(x = $.x) yield Pick(r = [e.r]) }
"""


def played(program: CompiledProgram, way: Way, seed: int, **bounds: int) -> DrivenRun:
    """Answer steps one by one, in an order that is drawn: the same in all ways."""
    run = DrivenRun(program, way, lambda _: None, **bounds)
    chance = Random(seed)
    while (waiting := run.waiting()) and not run.execution.is_ended:
        step = chance.choice(waiting)
        run.answer(step, {"r": [step.number]} if chance.random() > 0.02 else {"r": {"of": step.number}})
    return run


def program_of(body: str) -> CompiledProgram:
    return compiled(f"{DECLARATIONS} {PICK} workflow W(xs: Json = [1, 2, 3, 4, 5]) => (r: Json) {body}")


@pytest.mark.parametrize("iteration_steps", [3, 10_000], ids=["cut short", "whole"])
@pytest.mark.parametrize("body", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_a_run_that_is_loaded_after_each_commit_stores_what_one_in_memory_does(body: str, iteration_steps: int) -> None:
    program = program_of(body)
    for seed in range(4):
        bounds = {"iteration_steps": iteration_steps, "max_open_events": 2 + seed}
        hot, large = (played(program, way, seed, **bounds) for way in ("hot", "read as large"))

        assert large.loaded_large > 5
        assert large.execution.outputs == hot.execution.outputs
        assert large.execution.status == hot.execution.status == "COMPLETED"
        assert large.store.load_steps("run") == hot.store.load_steps("run")


@pytest.mark.parametrize("write", [nested_program, branching_program])
@pytest.mark.parametrize("seeds", some_now([range(40), range(40, 400)], 1), ids=["few", "many"])
def test_random_programs_that_are_loaded_so_store_what_they_do_in_memory(
    write: Callable[[int], Node], seeds: range
) -> None:
    loaded = 0
    for seed in seeds:
        program = CompiledProgram(write(seed))
        if not is_loaded_so(plan_workflow(program, "W")):
            continue
        bounds = {"iteration_steps": 1 + seed % 7, "max_open_events": 1 + seed % 5}
        hot, large = (played(program, way, seed, **bounds) for way in ("hot", "read as large"))

        assert large.store.load_steps("run") == hot.store.load_steps("run"), f"seed {seed}"
        assert large.store.load_workflow("run") == hot.store.load_workflow("run"), f"seed {seed}"
        loaded += large.loaded_large
    assert loaded > len(seeds)


def test_a_yield_to_a_step_further_out_is_wanted_so_all_is_read() -> None:
    outwards = "andThen { a = V(v = 1) andThen { e = E(x = 1) yield W(r = e.r) } }"
    inwards = "andThen { a = V(v = 1) andThen { e = E(x = 1) yield V(out = e.r) } yield W(r = a.out) }"

    assert not is_loaded_so(plan_workflow(program_of(outwards), "W"))
    assert is_loaded_so(plan_workflow(program_of(inwards), "W"))


def half_done(way: Way) -> DrivenRun:
    xs: list[Value] = list(range(120))
    text = f"{DECLARATIONS} workflow W(xs: Json = {xs}) => (r: Json) {PROGRAMS['a foreach']}"
    run = DrivenRun(compiled(text), way, lambda _: None)
    for step in run.waiting()[:110]:
        run.answer(run.execution.steps[step.id], {"r": step.params["x"]})
    return run


def test_complete_elements_are_not_in_memory_and_are_found_all_the_same() -> None:
    run = half_done("read as large")

    # The root, the foreach, and of each element that is open its block and its event.
    assert len(run.execution.steps) == 2 + 2 * 10
    complete = [step for step in run.store.load_steps("run") if step.facet_name == "n.E" and step.attempt]
    found = [find_step(run.execution, step.id) for step in complete]
    assert sum(step is not None and step.is_complete for step in found) == 110
    for step in run.waiting():
        run.answer(run.execution.steps[step.id], {"r": step.params["x"]})
    assert run.execution.outputs == {"r": list(range(120))}


def test_a_run_in_which_something_has_failed_is_read_as_a_whole() -> None:
    run = half_done("read as large")
    loaded = run.loaded_large
    run.answer(run.waiting()[0], None)
    for step in run.waiting():
        run.answer(run.execution.steps[step.id], {"r": 0})

    assert run.loaded_large == loaded
    assert run.execution.status == "ERROR"


class _CountingStore(SqliteStore):
    """Counts how often a run was read as a whole."""

    whole_runs = 0

    def load_run(self, workflow_id: str) -> list[StepDocument | StoredStep]:
        self.whole_runs += 1
        return super().load_run(workflow_id)


def test_an_evaluator_that_starts_again_loads_a_large_run_so(tmp_path: Path) -> None:
    count, out = LARGE // 3 + 600, 500
    xs: list[Value] = list(range(count))
    store = _CountingStore(tmp_path / "runs.sqlite3")
    text = f"{DECLARATIONS} workflow W(xs: Json) => (r: Json) {PROGRAMS['a foreach']}"
    engine = Engine(text, store=store, max_open_events=out)
    result = engine.start({"xs": xs})
    while result.status == "PAUSED":
        for event in result.pending_events:
            engine.evaluator.continue_step(event.step_id, {"r": event.payload["x"]})
        if engine.row().steps > LARGE:
            engine.restart()
        result = engine.resume()
        if engine.row().steps > LARGE:
            engine.restart()

    assert result.outputs == {"r": xs}
    assert store.whole_runs == 0
    assert len(engine.steps()) == 2 + 3 * count
