"""Waits between steps: one table of cases, over the rule and every place where the engine has it inlined.

A case is played in three ways: through the fast path, through the tables of all steps, and read back from its rows
after every commit. So each place that inlines the rule, or keeps the counts that it looks at, is held against
`can_continue`, and against counts made anew from what has ended.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pytest

from afl.compiled.program import CompiledProgram, Node
from afl.engine.execution.execution import Execution
from afl.engine.execution.waits import can_continue
from afl.engine.model.records import Frame, StepRecord, awaited_frame
from afl.engine.states import StepState
from tests.unit.engine.driven import WAYS, DrivenRun, Way
from tests.unit.engine.mixed_programs import mixed_program
from tests.unit.engine.nested_programs import branching_program, nested_program
from tests.unit.engine.running import compiled

DECLARATIONS = """
    event facet E(x: Json) => (r: Json, out: Json)
    facet V(v: Json) => (out: Json = $.v)
    facet M(m: Json) => (found: Json) andThen { e = E(x = $.m) yield M(found = e.r) }
"""

#: A moment of a run: the statements that are not made, with how many steps each waits for.
Waits = Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A body of workflow W, and what happens: who is answered, with `!` by a failure. After each who waits."""

    body: str
    head: str = "andThen"
    happens: tuple[tuple[str, Waits], ...]
    ends: str


CASES = {
    "ready": Case(
        body="a = V(v = 1) b = V(v = 2) c = E(x = 3)  yield W(r = a.out)",
        happens=(("", {}), ("c", {})),
        ends="COMPLETED",
    ),
    "a chain of what only binds": Case(
        body="""a = V(v = 1) b = V(v = a.out) c = V(v = b.out) d = E(x = c.out) e = V(v = d.r) f = V(v = e.out)
            yield W(r = f.out)""",
        happens=(("", {"e": 1, "f": 1}), ("d", {})),
        ends="COMPLETED",
    ),
    "waiting": Case(
        body="a = E(x = 1) b = E(x = 2) c = E(x = a.r) d = V(v = [a.r, b.r, c.r])  yield W(r = d.out)",
        happens=(("", {"c": 1, "d": 3}), ("b", {"c": 1, "d": 2}), ("a", {"d": 1}), ("c", {})),
        ends="COMPLETED",
    ),
    "failed": Case(
        body="a = E(x = 1) b = E(x = 2) c = E(x = a.r) d = E(x = b.r)  yield W(r = d.r)",
        happens=(("", {"c": 1, "d": 1}), ("a!", {}), ("b", {})),
        ends="ERROR",
    ),
    "failed while another is ready": Case(
        body="a = E(x = 1) b = V(v = 1 / 0) c = E(x = 2)  yield W(r = a.r)",
        happens=(("", {}), ("a", {}), ("c", {})),
        ends="ERROR",
    ),
    "caught": Case(
        body="""a = E(x = 1) catch { e = E(x = 2) v = V(v = e.r) yield E(r = v.out) }
            b = E(x = a.r)  yield W(r = b.r)""",
        happens=(("", {"b": 1}), ("a!", {"b": 1, "a.catch.v": 1}), ("a.catch.e", {}), ("b", {})),
        ends="COMPLETED",
    ),
    "a catch that fails": Case(
        body="a = E(x = 1) catch { e = E(x = 2) } b = E(x = a.r) c = E(x = 3)  yield W(r = b.r)",
        happens=(("", {"b": 1}), ("a!", {"b": 1}), ("a.catch.e!", {}), ("c", {})),
        ends="ERROR",
    ),
    "outer waits": Case(
        body="""a = E(x = 1) b = E(x = 2)
            s = V(v = 3) andThen { i = V(v = a.r) j = E(x = [i.out, b.r]) k = V(v = 4) yield V(out = j.r) }
            yield W(r = s.out)""",
        happens=(("", {"s.i": 1, "s.j": 2}), ("b", {"s.i": 1, "s.j": 1}), ("a", {}), ("s.j", {})),
        ends="COMPLETED",
    ),
    "an outer wait in vain": Case(
        body="""a = E(x = 1)
            s = V(v = 3) andThen { i = E(x = a.r) j = E(x = 2)  yield V(out = i.r) }
            yield W(r = s.out)""",
        happens=(("", {"s.i": 1}), ("a!", {}), ("s.j", {})),
        ends="ERROR",
    ),
    "an outer wait for what is never made": Case(
        body="""a = E(x = 1) b = E(x = a.r)
            s = V(v = 3) andThen { i = E(x = b.r)  yield V(out = i.r) }
            yield W(r = s.out)""",
        happens=(("", {"b": 1, "s.i": 1}), ("a!", {})),
        ends="ERROR",
    ),
    "yields that read outside": Case(
        body="a = E(x = 1) s = V(v = 2) andThen { j = E(x = 3)  yield V(out = [a.r, j.r]) }  yield W(r = s.out)",
        happens=(("", {}), ("s.j", {}), ("a", {})),
        ends="COMPLETED",
    ),
    "yields that alone are waited for": Case(
        body="a = E(x = 1) s = V(v = 2) andThen { yield V(out = a.r) } t = V(v = s.out)  yield W(r = t.out)",
        happens=(("", {"t": 1}), ("a", {})),
        ends="COMPLETED",
    ),
    "yields that wait when all else is complete at once": Case(
        body="""a = E(x = 1)
            s = V(v = 2) andThen { i = V(v = 1) j = V(v = 2)  yield V(out = a.r) }
            yield W(r = s.out)""",
        happens=(("", {}), ("a", {})),
        ends="COMPLETED",
    ),
    "a chain beside an outer wait": Case(
        body="""a = E(x = 1)
            s = V(v = 2) andThen { i = V(v = 1) j = V(v = i.out) k = V(v = j.out) o = V(v = a.r) }
            yield W(r = s.out)""",
        happens=(("", {"s.o": 1}), ("a", {})),
        ends="COMPLETED",
    ),
    "one becomes ready when another fails": Case(
        body="""a = E(x = 1)
            s = V(v = 2) andThen { q = V(v = 3) }
            t = V(v = 4) andThen { q = V(v = 1 / 0) }
            u = E(x = s.out)
            yield W(r = u.r)""",
        happens=(("", {}), ("a", {})),
        ends="ERROR",
    ),
    "foreach": Case(
        head="andThen foreach x in $.xs",
        body="a = E(x = $.x) b = V(v = a.r)  yield W(r = [b.out])",
        happens=(("", {"[0].b": 1, "[1].b": 1}), ("[1].a", {"[0].b": 1}), ("[0].a", {})),
        ends="COMPLETED",
    ),
    "a foreach of which one element fails": Case(
        head="andThen foreach x in $.xs",
        body="a = E(x = $.x) b = V(v = a.r)  yield W(r = [b.out])",
        happens=(("", {"[0].b": 1, "[1].b": 1}), ("[1].a!", {"[0].b": 1}), ("[0].a", {})),
        ends="ERROR",
    ),
    "a foreach that waits for its source": Case(
        body="""a = E(x = 1)
            s = V(v = 2) andThen foreach x in a.r { e = E(x = $.x)  yield V(out = [e.r]) }
            yield W(r = s.out)""",
        happens=(("", {}), ("a", {}), ("s[0].e", {}), ("s[1].e", {})),
        ends="COMPLETED",
    ),
    "a foreach that waits in vain": Case(
        body="a = E(x = 1) s = V(v = 2) andThen foreach x in a.r { e = E(x = $.x) } b = E(x = 3)  yield W(r = 1)",
        happens=(("", {}), ("a!", {}), ("b", {})),
        ends="ERROR",
    ),
    "when": Case(
        body="""a = E(x = 1)
            s = V(v = 2) andThen when {
                case a.r == [7, 8] => { e = E(x = 3) f = V(v = e.r)  yield V(out = f.out) }
                case _ => { }
            }
            yield W(r = s.out)""",
        happens=(("", {}), ("a", {"s.case[0].f": 1}), ("s.case[0].e", {})),
        ends="COMPLETED",
    ),
    "mixins": Case(
        head="with M(m = 2) as m andThen",
        body="t = V(v = $.m.found)  yield W(r = t.out)",
        happens=(("", {}), ("m.e", {})),
        ends="COMPLETED",
    ),
    "two blocks, of which one fails": Case(
        body="s = V(v = 1) andThen { a = E(x = 1) } andThen { b = E(x = 2) c = V(v = b.r) } t = V(v = s.out)",
        happens=(("", {"s.c": 1, "t": 1}), ("s.a!", {"s.c": 1, "t": 1}), ("s.b", {})),
        ends="ERROR",
    ),
}


def running_blocks(execution: Execution) -> Iterator[tuple[StepRecord, Frame]]:
    """Return the blocks that make statements, of those that have begun."""
    for step in execution.steps.values():
        if step.state == StepState.BLOCK_EXECUTION_CONTINUE and step.blocks is None:
            assert step.frame is not None
            yield step, step.frame


def counted_anew(frame: Frame, index: int) -> int:
    """How many of the steps that a statement reads have not completed, as far as it may know."""
    assert frame.step.plan is not None
    statement = frame.step.plan.statements[index]
    read = [frame.env[other] for other in statement.waits]
    read += [awaited_frame(frame, wait).env[wait.index] for wait in statement.outer_waits]
    return sum(step is None or not step.reported or step.error is not None for step in read)


def check_counts(execution: Execution) -> None:
    """Return what the rule looks at is what has ended, and what has not."""
    for block, frame in running_blocks(execution):
        inside = [step for step in execution.steps.values() if step.block is block]
        assert frame.live == sum(not step.reported for step in inside), execution.step_path(block)
        assert frame.missing == frame.env.count(None), execution.step_path(block)
        if block.failed is None:
            not_made = [index for index, step in enumerate(frame.env) if step is None]
            left = {index: counted_anew(frame, index) for index in not_made}
            assert {index: frame.waiting[index] for index in not_made} == left, execution.step_path(block)
            assert sorted(frame.ready) == [index for index in not_made if not left[index]], execution.step_path(block)
    for step in execution.steps.values():
        if step.blocks is not None and not step.is_terminal:
            assert step.blocks_open == sum(not part.reported for part in step.blocks), execution.step_path(step)


_WAITS = frozenset(
    {
        StepState.MIXIN_BLOCKS_CONTINUE,
        StepState.STATEMENT_BLOCKS_CONTINUE,
        StepState.BLOCK_EXECUTION_CONTINUE,
        StepState.CATCH_CONTINUE,
    }
)


def check_rule(execution: Execution) -> None:
    """Who can go on, by the rule, is in the queue; who waits is not."""
    if execution.is_ended:
        return
    check_counts(execution)
    for step in execution.steps.values():
        begins = step.state == StepState.BLOCK_EXECUTION_BEGIN and step.frame is not None and step.blocks is None
        if step.state in _WAITS or begins:
            assert step.queued == can_continue(step), execution.step_path(step)
        assert step.queued == (step in execution.queue), execution.step_path(step)


def path_in(execution: Execution, step: StepRecord) -> str:
    """Where a step stands in the workflow, which it does not name."""
    return execution.step_path(step).removeprefix("n.W").removeprefix(".")


def who_waits(execution: Execution) -> dict[str, int]:
    """Return the statements that are not made, of blocks that make more, with what the engine has counted for each."""
    waits = {}
    for block, frame in running_blocks(execution):
        assert block.plan is not None
        around = path_in(execution, block)
        for statement in block.plan.statements:
            if frame.env[statement.index] is None and block.failed is None and not execution.is_ended:
                path = f"{around}.{statement.name}" if around else statement.name
                waits[path] = frame.waiting[statement.index]
    return waits


@pytest.mark.parametrize("iteration_steps", [1, 10_000], ids=["cut short", "whole"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_every_place_that_says_who_waits_keeps_to_the_rule(case: Case, way: Way, iteration_steps: int) -> None:
    program = compiled(f"{DECLARATIONS} workflow W(xs: Json = [1, 2]) => (r: Json) {case.head} {{ {case.body} }}")
    run = DrivenRun(program, way, check_rule, iteration_steps=iteration_steps)

    for who, waits in case.happens:
        if who:
            by_path = {
                run.execution.step_path(step).removeprefix("n.W").removeprefix("."): step for step in run.waiting()
            }
            run.answer(by_path[who.removesuffix("!")], None if who.endswith("!") else {"r": [7, 8]})
        assert who_waits(run.execution) == waits, f"after {who or 'the start'}"
    for step in run.waiting():
        # Cut short, a run may have asked for more before something failed.
        run.answer(step, {"r": [7, 8]})

    assert run.execution.status == case.ends


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("write", [nested_program, branching_program, mixed_program])
def test_random_programs_keep_to_the_rule_however_they_are_played(write: Callable[[int], Node], way: Way) -> None:
    for seed in range(40):
        run = DrivenRun(
            CompiledProgram(write(seed)), way, check_rule, iteration_steps=1 + seed % 7, max_open_events=1 + seed % 5
        )
        while (waiting := run.waiting()) and not run.execution.is_ended:
            step = waiting[seed % len(waiting)]
            run.answer(step, None if (step.number + seed) % 9 == 0 else {"r": [step.number]})
        assert run.execution.is_ended, f"seed {seed}"
