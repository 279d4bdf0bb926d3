"""Retry: what failed is done again where it failed, for each kind of step, and the run ends as if nothing had been."""

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

from afl.engine.model.entities import TaskState
from afl.engine.model.store import ERROR, RUNNING
from afl.engine.operations.operation_errors import StepNotFailed, StepWasCaught, UnknownStep, UnknownWorkflow
from afl.engine.operations.run_rows import start_of
from afl.engine.states import EventState, StepState, select_transitions
from afl.engine.types import ObjectType
from afl.evaluation.evaluator import Evaluator
from afl.scripts.errors import ScriptFailed
from afl.scripts.pool import ScriptResult
from afl.stores.memory.store import MemoryStore
from afl.stores.sqlite.store import SqliteStore
from tests.random_programs.trusted_scripts import TrustingRunner
from tests.unit.engine.operating import DECLARATIONS, EVERYTHING, Operated, is_complete
from tests.unit.engine.restarts import ForgetfulEngine
from tests.unit.engine.running import Engine, compiled

MakeRun = Callable[[str], Operated]


@pytest.fixture(params=["hot", "forgetful", "sqlite"])
def make_run(request: pytest.FixtureRequest, tmp_path: Path) -> MakeRun:
    """Start a run: with its memory, without, and without over a file."""
    kind = request.param

    def make(text: str) -> Operated:
        if kind == "hot":
            return Operated(Engine(text, scripts=TrustingRunner()))
        store = SqliteStore(tmp_path / "engine.db") if kind == "sqlite" else MemoryStore()
        request.addfinalizer(store.close)
        return Operated(ForgetfulEngine(text, scripts=TrustingRunner(), store=store))

    return make


@pytest.fixture(scope="module")
def expected() -> dict[str, object]:
    """Return the outputs of an undisturbed run of the whole program."""
    run = Operated(Engine(EVERYTHING, scripts=TrustingRunner()))
    run.play()
    assert is_complete(run)
    return dict(run.result.outputs)


#: An event that fails, and what is retried: the step itself, or what it is inside of, of every kind.
FAILING = [
    ("first", "first"),
    ("first", "#0"),
    ("first", ""),
    ("after", "after"),
    ("part.e", "part.e"),
    ("part.e", "part#0"),
    ("part.e", "part"),
    ("part.e", ""),
    ("body", "body"),
    ("body.inner", "body.inner"),
    ("body.inner", "body#0"),
    ("body.inner", "body"),
    ("mixed", "mixed"),
    ("mixed.base.e", "mixed.base.e"),
    ("mixed.base.e", "mixed.base#0"),
    ("mixed.base.e", "mixed.base"),
    ("mixed.base.e", "mixed"),
    ("mixed.own", "mixed.own"),
    ("mixed.own", "mixed"),
    ("[1].one", "[1].one"),
    ("[1].one", "[1]#1"),
    ("[1].one", "#1"),
    ("[1].one", ""),
    ("case[0].c", "case[0].c"),
    ("case[1].d", "#2#case-1"),
    ("case[1].d", "#2"),
    ("late", "#3"),
]


@pytest.mark.parametrize(("failing", "retried"), FAILING)
def test_a_retried_run_ends_as_if_nothing_had_failed(
    make_run: MakeRun, expected: dict[str, object], failing: str, retried: str
) -> None:
    run = make_run(EVERYTHING)
    run.play(failing=failing)
    assert run.failure().message == "broken"
    failed = run.step(failing)
    complete = {step.id: step.document for step in run.steps() if step.is_complete}

    assert run.retry(retried) == [failed.id]
    assert run.engine.row().error is None
    run.play()

    assert run.result.outputs == expected
    assert is_complete(run)
    assert (run.step(failing).id, run.step(failing).attempt) == (failed.id, 2)
    assert {id_: document for id_, document in _rows(run).items() if id_ in complete} == complete
    assert run.answered.count(failing) == 1


def _rows(run: Operated) -> dict[str, object]:
    return {document.id: document for document in run.engine.store.load_steps("run")}


@pytest.mark.parametrize(
    ("kind", "text", "path"),
    [
        (ObjectType.VARIABLE_ASSIGNMENT, "p = V(v = 1 / a.r) yield W(r = p.v)", "p"),
        (ObjectType.VARIABLE_ASSIGNMENT, "p = Sum(a = 1 / a.r, b = 1) yield W(r = p.total)", "p"),
        (ObjectType.VARIABLE_ASSIGNMENT, "p = Script(x = 1 / a.r) yield W(r = p.r)", "p"),
        (ObjectType.VARIABLE_ASSIGNMENT, "p = E(x = 1 / a.r) yield W(r = p.r)", "p"),
        (ObjectType.SCHEMA_INSTANTIATION, "p = Pair(left = 1 / a.r, right = 1) yield W(r = p.left)", "p"),
        (ObjectType.SYS_ASSERT, "sys.assert(a.r != 0) yield W(r = a.r)", "sys.assert"),
        (ObjectType.SYS_LOG, "sys.log(it = 1 / a.r) yield W(r = a.r)", "sys.log"),
        (ObjectType.YIELD_ASSIGNMENT, "yield W(r = 1 / a.r)", "yield"),
    ],
)
def test_a_step_that_only_evaluates_begins_anew_by_its_table_and_a_rerun_of_what_it_reads_heals_it(
    make_run: MakeRun, kind: str, text: str, path: str
) -> None:
    run = make_run(DECLARATIONS + f"workflow W() => (r: Long) andThen {{ a = E(x = 1) {text} }}")
    run.answer("a", {"r": 0})
    first = run.failure()

    run.engine.evaluator.retry(run.step(path).id)
    assert (run.step(path).object_type, run.step(path).state) == (kind, start_of(kind))
    assert run.engine.row().status == RUNNING

    run.result = run.engine.resume()
    assert (run.failure().step_id, run.failure().message) == (first.step_id, first.message)

    run.rerun("a")
    run.play()
    assert is_complete(run)


class MoodyRunner(TrustingRunner):
    """Fails the first script that it is given."""

    def __init__(self) -> None:
        self.calls = 0

    def submit(self, code: str, params: object, workflow_id: str) -> "Future[ScriptResult]":
        self.calls += 1
        if self.calls > 1:
            return super().submit(code, params, workflow_id)  # type: ignore[arg-type]  # as it came
        future: Future[ScriptResult] = Future()
        future.set_exception(ScriptFailed("Moody", "not now"))
        return future


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ('facet S() => (r: Long) script { result["r"] = 5 }', "s"),
        ('facet S() => (r: Long) andThen script { result["r"] = 5 }', "s#0"),
    ],
)
def test_a_script_that_failed_runs_again(body: str, path: str) -> None:
    text = f"{body} workflow W() => (r: Long) andThen {{ s = S() yield W(r = s.r) }}"
    run = Operated(Engine(text, scripts=MoodyRunner()))
    assert run.failure().error_type == "Moody"

    assert run.retry() == [run.step(path).id]

    assert run.result.outputs == {"r": 5}
    assert is_complete(run)


CAUGHT = (
    DECLARATIONS
    + """
    workflow W() => (r: Long, why: String) andThen {
        a = E(x = 1) catch {
            b = E(x = 2)
            yield E(r = b.r)
            yield W(why = a.error_type ++ ": " ++ a.error)
        }
        yield W(r = a.r)
    }"""
)


@pytest.mark.parametrize("retried", ["a.catch.b", "a#catch", "a", ""])
def test_what_failed_in_a_catch_is_retried_and_the_catch_knows_what_it_is_for(make_run: MakeRun, retried: str) -> None:
    run = make_run(CAUGHT)
    run.fail("a", "the first")
    run.fail("a.catch.b", "the second")
    assert run.failure().message == "the second"
    failed = run.step("a.catch.b").id

    assert run.retry(retried) == [failed]
    run.play()

    assert run.result.outputs == {"r": 20, "why": "Broken: the first"}


def test_what_a_catch_has_dealt_with_is_not_retried(make_run: MakeRun) -> None:
    text = (
        DECLARATIONS
        + """
        facet Inner() => (r: Long) andThen { e = E(x = 1) yield Inner(r = e.r) }
        workflow W() => (r: Long) andThen {
            i = Inner() catch { c = E(x = 2) yield Inner(r = c.r) }
            yield W(r = i.r)
        }"""
    )
    run = make_run(text)
    run.fail("i.e")
    with pytest.raises(StepWasCaught, match=r"caught by n\.W\.i"):
        run.engine.evaluator.retry(run.step("i.e").id)

    run.answer("i.catch.c")
    assert run.result.status == "COMPLETED"
    with pytest.raises(StepWasCaught, match=f"re-run from step {run.step('i').id}"):
        run.engine.evaluator.retry(run.step("i.e").id)


def test_only_what_has_failed_is_retried(make_run: MakeRun) -> None:
    run = make_run(EVERYTHING)
    before = _rows(run)

    for path in ("first", "#0", ""):
        with pytest.raises(StepNotFailed, match="has not failed"):
            run.engine.evaluator.retry(run.step(path).id)
    run.answer("first")
    with pytest.raises(StepNotFailed, match=r"it is at state\.statement\.Complete"):
        run.engine.evaluator.retry(run.step("first").id)
    with pytest.raises(UnknownStep):
        run.engine.evaluator.retry("run:0123456789abcdef01234567")
    with pytest.raises(UnknownWorkflow):
        run.engine.evaluator.retry("nobody")
    assert {id_: row for id_, row in before.items() if id_ == run.step("late").id} == {
        run.step("late").id: run.step("late")
    }


TWO = (
    DECLARATIONS
    + """
    workflow W() => (r: Long) andThen {
        a = E(x = 1)
        b = E(x = 2)
        c = E(x = a.r + b.r)
        yield W(r = c.r)
    }"""
)


def test_a_retry_does_not_wait_for_the_run_to_end(make_run: MakeRun) -> None:
    run = make_run(TWO)
    run.fail("a")
    assert run.result.status == "PAUSED"

    run.retry("a")

    assert sorted(run.waiting()) == ["a", "b"]
    run.play()
    assert run.result.outputs == {"r": 300}


def test_one_of_two_failures_is_left_until_it_is_retried_too(make_run: MakeRun) -> None:
    run = make_run(TWO)
    run.fail("a", "first")
    run.fail("b", "second")
    assert run.failure().message == "first"

    run.retry("a")
    run.play()
    assert run.failure().message == "second"

    run.retry("")
    run.play()
    assert run.result.outputs == {"r": 300}
    assert (run.step("a").attempt, run.step("b").attempt) == (2, 2)


def test_a_retry_of_the_workflow_does_all_that_failed_again(make_run: MakeRun) -> None:
    run = make_run(TWO)
    run.fail("a")
    run.fail("b")

    assert set(run.retry("")) == {run.step("a").id, run.step("b").id}
    run.play()

    assert run.result.outputs == {"r": 300}


def test_what_waited_elsewhere_for_the_failed_step_continues_with_it(make_run: MakeRun) -> None:
    text = (
        DECLARATIONS
        + """
        event facet Many(x: Long) => (r: Long, all: [Long])
        workflow W() => (r: Long, all: [Long]) andThen {
            a = Many(x = 1)
            b = V(v = 1) andThen {
                in1 = V(v = a.r)
                yield W(r = in1.v)
            }
            c = V(v = 1) andThen foreach n in a.all {
                yield W(all = [$.n])
            }
            yield W()
        } andThen {
            d = E(x = 3)
            yield W()
        }"""
    )
    run = make_run(text)
    run.fail("a")
    run.answer("d")
    assert run.failure().step_path == "n.W.a"
    assert run.step("b").state == run.step("c").state == StepState.STATEMENT_ERROR

    run.retry("a")
    run.answer("a", {"r": 10, "all": [10, 2]})

    assert run.result.outputs == {"r": 10, "all": [10, 2]}
    assert is_complete(run)


def test_partial_results_of_the_attempt_that_failed_do_not_count(make_run: MakeRun) -> None:
    text = (
        DECLARATIONS
        + "event facet P() => (a: Long, b: Long) workflow W() => (r: Json) andThen { p = P() yield W(r = p.a) }"
    )
    run = make_run(text)
    run.engine.evaluator.update_step(run.step("p").id, {"a": 1, "b": 2})
    run.fail("p")

    run.retry("p")
    run.engine.evaluator.continue_step(run.step("p").id, {"a": 3, "b": 4})
    run.result = run.engine.resume()

    assert run.step("p").returns == {"a": 3, "b": 4}


def test_an_answer_to_the_attempt_that_failed_is_superseded(make_run: MakeRun) -> None:
    run = make_run(TWO)
    step = run.step("a").id
    run.fail("a")
    run.retry("a")

    run.engine.evaluator.continue_step(step, {"r": 999}, event_id=f"{step}#1")
    assert run.step("a").event_state == EventState.CREATED
    run.engine.evaluator.continue_step(step, {"r": 1}, event_id=f"{step}#2")
    assert run.step("a").returns == {"r": 1}


def test_an_answer_to_the_attempt_that_failed_is_superseded_before_the_next_is_made_too(make_run: MakeRun) -> None:
    run = make_run(TWO)
    step = run.step("a").id
    run.fail("a")
    run.engine.evaluator.retry(step)

    run.engine.evaluator.continue_step(step, {"r": 999}, event_id=f"{step}#1")
    run.engine.evaluator.update_step(step, {"r": 999}, event_id=f"{step}#1")

    run.result = run.engine.resume()
    assert "a" in run.waiting()
    assert (run.step("a").attempt, run.step("a").returns) == (2, {})


def test_a_retry_makes_a_task_of_its_own() -> None:
    run = Operated(Engine(TWO))
    step = run.step("a").id
    run.fail("a")

    run.retry("a")

    tasks = {attempt: run.engine.store.get_task(f"{step}#{attempt}") for attempt in (1, 2)}
    assert {attempt: task and task.state for attempt, task in tasks.items()} == {
        1: TaskState.FAILED,
        2: TaskState.PENDING,
    }


def test_a_value_that_a_default_cannot_be_made_of_is_captured_again(make_run: MakeRun) -> None:
    text = (
        DECLARATIONS
        + """
        facet D(n: Long) => (r: Long, s: Long = 1 / $.n) andThen { e = E(x = 1) yield D(r = e.r) }
        workflow W() => (r: Long) andThen { d = D(n = 0) yield W(r = d.r) }"""
    )
    run = make_run(text)
    run.play()
    assert run.failure().step_path == "n.W.d"

    run.engine.evaluator.retry("run")
    assert run.step("d").state == StepState.STATEMENT_BLOCKS_CONTINUE
    run.result = run.engine.resume()

    assert run.failure().step_path == "n.W.d"
    assert run.engine.row().status == ERROR
    assert run.step("d.e").attempt == 1


def test_a_cancelled_run_continues_where_it_was(make_run: MakeRun, expected: dict[str, object]) -> None:
    run = make_run(EVERYTHING)
    run.answer("first")
    run.answer("body")
    run.fail("[0].one")
    waiting = run.waiting()
    assert run.engine.evaluator.cancel("run", "not now")

    run.engine.evaluator.retry("run")
    run.result = run.engine.resume()

    assert sorted(run.waiting()) == sorted([*waiting, "[0].one"])
    assert {run.step(path).attempt for path in run.waiting()} == {2}
    run.play()
    assert run.result.outputs == expected


@pytest.mark.parametrize(
    "kind", sorted(value for name, value in vars(ObjectType).items() if name.isupper() and isinstance(value, str))
)
def test_every_kind_of_step_begins_where_its_own_table_says(kind: str) -> None:
    start = start_of(kind)

    assert start == select_transitions(kind)[StepState.CREATED]
    assert start in (StepState.FACET_INIT_BEGIN, StepState.BLOCK_EXECUTION_BEGIN)
    assert (start == StepState.BLOCK_EXECUTION_BEGIN) == ObjectType.is_block(kind)


def test_a_run_that_a_limit_has_ended_continues_when_it_is_raised() -> None:
    program = compiled(TWO)
    store = MemoryStore()
    tight = Evaluator(store, max_steps=4)
    tight.execute("W", None, program, workflow_id="run")
    for _ in range(2):
        (event, *_) = tight.resume("run").pending_events
        tight.continue_step(event.step_id, {"r": 1})
    assert "max_steps" in str(tight.resume("run").error)

    wide = Evaluator(store)
    wide.retry("run", "the limit is raised")
    (event,) = wide.resume("run").pending_events
    wide.continue_step(event.step_id, {"r": 7})

    assert wide.resume("run").outputs == {"r": 7}
