"""Re-run and reset: a new generation of a step and what depends on it, or of the whole run, beside what was there."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from afl.core.ids import generation_of, id_of_place
from afl.engine.errors import RuntimeError as EngineError
from afl.engine.model.entities import TaskState
from afl.engine.model.store import CANCELLED, COMPLETED, StepDocument
from afl.engine.operations.operation_errors import StepSuperseded, UnknownStep, UnknownWorkflow
from afl.engine.states import EventState, StepState
from afl.stores.maintenance.check import Inspection
from afl.stores.memory.store import MemoryStore
from afl.stores.sqlite.store import SqliteStore
from tests.random_programs.trusted_scripts import TrustingRunner
from tests.unit.engine.operating import DECLARATIONS, EVERYTHING, Operated, is_complete
from tests.unit.engine.restarts import ForgetfulEngine
from tests.unit.engine.running import Engine

MakeRun = Callable[[str], Operated]


def hot(text: str) -> Operated:
    return Operated(Engine(text, scripts=TrustingRunner()))


def cold(text: str) -> Operated:
    return Operated(ForgetfulEngine(text, scripts=TrustingRunner(), store=MemoryStore()))


def rows(run: Operated) -> dict[str, StepDocument]:
    return {document.id: document for document in run.engine.store.load_steps("run")}


def complete_rows(run: Operated) -> dict[str, StepDocument]:
    return {id_: row for id_, row in rows(run).items() if row.state == StepState.STATEMENT_COMPLETE}


#: From which step a run of everything is run again, and the events that are asked for once more, in any order.
AGAIN = {
    "first": ["first", "after", "part.e", "body.inner"],
    "plain": ["after", "part.e", "body.inner"],
    "after": ["after", "part.e", "body.inner"],
    "sum": ["part.e", "body.inner"],
    "sum#0": ["part.e", "body.inner"],
    "sum.yield": ["part.e", "body.inner"],
    "script": ["part.e", "body.inner"],
    "pair": ["part.e", "body.inner"],
    "sys.assert": [],
    "sys.log": [],
    "part": ["part.e", "body.inner"],
    "part#0": ["part.e", "body.inner"],
    "part.e": ["part.e", "body.inner"],
    "part.v": ["body.inner"],
    "part.yield": ["body.inner"],
    "body": ["body", "body.inner"],
    "body#0": ["body.inner"],
    "body.inner": ["body.inner"],
    "body.yield": [],
    "mixed": ["mixed.base.e", "mixed", "mixed.own"],
    "mixed.base": ["mixed.base.e", "mixed", "mixed.own"],
    "mixed.base#0": ["mixed.base.e", "mixed", "mixed.own"],
    "mixed.base.e": ["mixed.base.e", "mixed", "mixed.own"],
    "mixed.base.yield": ["mixed", "mixed.own"],
    "mixed#0": ["mixed.own"],
    "mixed.own": ["mixed.own"],
    "mixed.yield": [],
    "#0": ["first", "after", "part.e", "body", "body.inner", "mixed.base.e", "mixed", "mixed.own"],
    "#1": ["[0].one", "[1].one", "[2].one"],
    "[1]#1": ["[1].one"],
    "[1].one": ["[1].one"],
    "[1].two": [],
    "[1].yield": [],
    "#2": ["case[0].c", "case[1].d"],
    "#2#case-1": ["case[1].d"],
    "case[1].d": ["case[1].d"],
    "case[1].yield": [],
    "#3": ["late"],
    "late": ["late"],
    "yield": [],
    "": [
        *("first", "after", "part.e", "body", "body.inner", "mixed.base.e", "mixed", "mixed.own", "late"),
        *("[0].one", "[1].one", "[2].one", "case[0].c", "case[1].d"),
    ],
}


@pytest.mark.parametrize("make", [hot, cold])
@pytest.mark.parametrize("path", AGAIN)
def test_a_run_from_any_kind_of_step_asks_for_what_depends_on_it_and_nothing_else(path: str, make: MakeRun) -> None:
    run = make(EVERYTHING)
    run.play()
    expected, before = run.result.outputs, complete_rows(run)
    attempts = {step.path: step.document.attempt for step in run.steps()}

    run.rerun(path)
    run.play()

    assert sorted(run.answered) == sorted(AGAIN[path])
    assert run.result.outputs == expected
    assert is_complete(run)
    # What was complete is there as it was; what was asked for again has another id, and a higher attempt.
    assert {id_: row for id_, row in rows(run).items() if id_ in before} == before
    for asked in run.answered:
        assert run.step(asked).id not in before
        assert run.step(asked).attempt == attempts[asked] + 1
    assert run.engine.row().execution == 2


def test_every_step_of_the_program_is_in_the_table() -> None:
    run = hot(EVERYTHING)
    run.play()
    several = ("[0]", "[2]", "#2#case-0", "case[0]")

    assert {step.path for step in run.steps() if not step.path.startswith(several)} == AGAIN.keys()


@pytest.mark.parametrize("make", [hot, cold])
def test_other_answers_give_other_results_also_when_it_is_done_again_and_again(make: MakeRun) -> None:
    run = make(EVERYTHING)
    run.play()

    for generation, answer in enumerate((7, 8, 7), start=2):
        run.rerun("[1].one")
        run.answer("[1].one", {"r": answer})
        # Element by element, each once: nothing of the generations before is merged in again.
        assert run.result.outputs["each"] == [1010, answer, 1030]
        assert generation_of(run.step("[1].one").id) == (generation, True)
        assert generation_of(run.step("").id) == (generation, False)
    assert run.step("[1].one").attempt == 4
    assert run.step("[0].one").attempt == 1


def test_a_new_generation_is_the_same_in_a_file(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "engine.db")
    file = Operated(ForgetfulEngine(EVERYTHING, scripts=TrustingRunner(), store=store))
    memory = hot(EVERYTHING)
    for run in (file, memory):
        run.play()
        run.rerun("part.e")
        run.answer("part.e", {"r": 1})
        run.rerun("first")
        run.play()

    assert list(map(_compared, file.engine.store.load_steps("run"))) == list(
        map(_compared, memory.engine.store.load_steps("run"))
    )
    store.close()


def _compared(document: StepDocument) -> tuple[object, ...]:
    return (document.id, document.state, document.params, document.returns, document.attempt, document.event_state)


WIDE = (
    DECLARATIONS
    + """
    workflow W() => (r: Long) andThen {
        a = E(x = 1)
        b = E(x = a.r)
        c = E(x = 3)
        yield W(r = b.r + c.r)
    }"""
)


@pytest.mark.parametrize("make", [hot, cold])
def test_what_waits_for_an_answer_and_depends_on_nothing_of_it_continues_waiting(make: MakeRun) -> None:
    run = make(WIDE)
    run.answer("a")
    others = run.step("c")
    asked = run.step("b")

    run.rerun("a")

    assert run.step("c") == others
    assert sorted(run.waiting()) == ["a", "c"]
    assert rows(run)[asked.id].event_state == EventState.CANCELED
    assert rows(run)[asked.id].error is not None
    task = run.engine.store.get_task(f"{asked.id}#1")
    assert task is not None
    assert task.state == TaskState.CANCELED
    run.play()
    assert run.result.outputs == {"r": 130}
    assert run.step("b").attempt == 2


@pytest.mark.parametrize("make", [hot, cold])
def test_what_was_asked_before_a_mixin_is_run_again_is_taken_back(make: MakeRun) -> None:
    run = make(DECLARATIONS + "workflow W() => (r: [Long]) andThen { mixed = Wide(x = 60) yield W(r = mixed.all) }")
    run.answer("mixed.base.e")
    asked = run.step("mixed").id

    run.rerun("mixed.base.e")
    run.engine.evaluator.continue_step(asked, {"r": 999}, event_id=f"{asked}#1")
    run.engine.evaluator.fail_step(asked, "too late", event_id=f"{asked}#1")

    assert run.waiting() == ["mixed.base.e"]
    task = run.engine.store.get_task(f"{asked}#1")
    assert task is not None
    assert task.state == TaskState.CANCELED
    assert list(Inspection(store=run.engine.store).findings()) == []
    run.play()
    assert run.step("mixed").attempt == 2
    # The mixin's event gives (60 + 500) * 10, the body's ten times that.
    assert run.result.outputs == {"r": [5_600, 56_000]}


@pytest.mark.parametrize("make", [hot, cold])
def test_answers_to_older_generations_are_superseded(make: MakeRun) -> None:
    run = make(WIDE)
    old = run.step("a").id
    run.rerun("a")
    assert id_of_place(run.step("a").id) == old != run.step("a").id

    run.engine.evaluator.continue_step(old, {"r": 999})
    run.engine.evaluator.fail_step(old, "too late", event_id=f"{old}#1")

    assert run.step("a").event_state == EventState.CREATED
    with pytest.raises(StepSuperseded):
        run.engine.evaluator.rerun(old)


@pytest.mark.parametrize("make", [hot, cold])
def test_a_failed_run_is_healed_from_the_step_that_its_failure_came_from(make: MakeRun) -> None:
    text = (
        DECLARATIONS
        + """
        workflow W() => (r: Long) andThen {
            a = E(x = 1)
            b = V(v = 100 / a.r) andThen { in1 = V(v = b.v) yield W(r = in1.v) }
            c = E(x = 3)
            yield W()
        }"""
    )
    run = make(text)
    run.answer("a", {"r": 0})
    run.answer("c")
    assert run.failure().step_path == "n.W.b"

    run.rerun("a")
    assert run.waiting() == ["a"]
    run.answer("a", {"r": 4})

    assert run.result.outputs == {"r": 25}
    assert is_complete(run)


@pytest.mark.parametrize("make", [hot, cold])
def test_a_run_again_goes_by_what_is_chosen_now(make: MakeRun) -> None:
    """Another case, fewer elements: what the generation before had made does not count any more."""
    text = (
        DECLARATIONS
        + """
        event facet List(x: Long) => (list: [Long])
        workflow W() => (case1: Long, case2: Long, all: [Long], none: Long = 5) andThen {
            a = List(x = 1)
            b = V(v = 1) andThen when {
                case a.list[0] == 1 => { c = E(x = 10) yield W(case1 = c.r) }
                case _ => { d = E(x = 20) yield W(case2 = d.r) }
            }
            e = V(v = 1) andThen foreach n in a.list { f = E(x = $.n) yield W(all = [f.r]) }
            yield W()
        }"""
    )
    run = make(text)
    run.answer("a", {"list": [1, 2, 3]})
    run.play()
    assert run.result.outputs == {"case1": 100, "all": [10, 20, 30], "none": 5}

    run.rerun("a")
    run.answer("a", {"list": [2]})
    run.play()
    assert run.result.outputs == {"case2": 200, "all": [20], "none": 5}

    run.rerun("a")
    run.answer("a", {"list": [1, 4]})
    run.play()
    assert run.result.outputs == {"case1": 100, "all": [10, 40], "none": 5}
    assert run.step("b.case[0].c").attempt == 2


CATCHING = (
    DECLARATIONS
    + """
    workflow W() => (r: Long, why: String) andThen {
        a = Part(n = 1) catch {
            b = E(x = 2)
            yield Part(r = b.r)
            yield W(why = a.error)
        }
        yield W(r = a.r)
    }"""
)


@pytest.mark.parametrize("make", [hot, cold])
@pytest.mark.parametrize(
    ("path", "outputs"),
    [
        ("a.e", {"r": 11}),
        ("a", {"r": 11}),
        ("a#0", {"r": 11}),
        ("a.catch.b", {"r": 20, "why": "broken"}),
        ("a#catch", {"r": 20, "why": "broken"}),
        ("a.catch.yield", {"r": 20, "why": "broken"}),
    ],
)
def test_a_step_whose_failure_was_caught_may_do_without_its_catch_now(
    path: str, outputs: Mapping[str, object], make: MakeRun
) -> None:
    run = make(CATCHING)
    run.fail("a.e")
    run.play()
    assert run.result.outputs == {"r": 20, "why": "broken"}

    run.rerun(path)
    run.play()

    assert run.result.outputs == outputs


@pytest.mark.parametrize("make", [hot, cold])
def test_a_step_that_fails_when_it_is_run_again_is_caught_again_and_can_be_retried(make: MakeRun) -> None:
    run = make(CATCHING)
    run.play()
    assert run.result.outputs == {"r": 11}

    run.rerun("a.e")
    run.fail("a.e", "this time")
    run.fail("a.catch.b", "too")
    assert run.failure().message == "too"
    run.retry("")
    run.play()

    assert run.result.outputs == {"r": 20, "why": "this time"}
    assert run.step("a.catch.b").attempt == 2


def test_steps_used_as_values_are_those_that_count() -> None:
    text = """
    event facet E(x: Long) => (r: Long)
    facet Reads(of: E) => (r: Long) andThen { yield Reads(r = $.of.r) }
    workflow W() => (r: Long, s: Long) andThen {
        a = E(x = 1)
        b = E(x = 2)
        c = Reads(of = a)
        d = Reads(of = b)
        yield W(r = c.r, s = d.r)
    }"""
    run = hot(text)
    run.play()

    run.rerun("a")
    run.answer("a", {"r": 7})

    assert run.result.outputs == {"r": 7, "s": 20}


# --- reset ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [hot, cold])
@pytest.mark.parametrize("ended", ["completed", "failed", "cancelled", "waiting"])
def test_a_reset_runs_everything_again_whatever_became_of_the_run(ended: str, make: MakeRun) -> None:
    run = make(EVERYTHING)
    if ended == "completed":
        run.play()
    elif ended == "failed":
        run.play(failing="part.e")
    else:
        run.answer("first")
        if ended == "cancelled":
            assert run.engine.evaluator.cancel("run", "no")
    undisturbed = hot(EVERYTHING)
    undisturbed.play()
    attempts = {step.path: step.document.attempt for step in run.steps() if step.document.attempt}

    assert run.reset() == [run.step("").id]

    run.play()
    assert run.result.outputs == undisturbed.result.outputs
    assert sorted(run.answered) == sorted(AGAIN[""])
    assert is_complete(run)
    assert {path: run.step(path).attempt for path in attempts} == {path: n + 1 for path, n in attempts.items()}
    row = run.engine.row()
    assert (row.status, row.execution, row.error) == (COMPLETED, 2, None)


def test_a_reset_takes_the_same_inputs_and_program() -> None:
    engine = Engine(EVERYTHING, scripts=TrustingRunner())
    result = engine.evaluator.execute("W", {"list": [5]}, engine.program, workflow_id="run")
    program = engine.row().program

    engine.evaluator.reset(result.workflow_id)
    result = engine.resume()

    assert engine.row().inputs == {"list": [5]}
    assert engine.row().program == program
    assert sum(event.payload.get("x") == 105 for event in result.pending_events) == 1


def test_a_reset_takes_back_what_was_asked() -> None:
    run = hot(WIDE)
    asked = [run.step(path).id for path in run.waiting()]

    run.reset()

    tasks = [run.engine.store.get_task(f"{step}#1") for step in asked]
    assert [task and task.state for task in tasks] == [TaskState.CANCELED, TaskState.CANCELED]
    assert {rows(run)[step].event_state for step in asked} == {EventState.CANCELED}
    assert len(run.result.pending_events) == 2


def test_what_is_not_there_is_not_run_again() -> None:
    run = hot(WIDE)

    for act, target, error in (
        (run.engine.evaluator.rerun, "run:0123456789abcdef01234567", UnknownStep),
        (run.engine.evaluator.rerun, "nobody:0123456789abcdef01234567", UnknownWorkflow),
        (run.engine.evaluator.rerun, "nobody", UnknownWorkflow),
        (run.engine.evaluator.reset, "nobody", UnknownWorkflow),
    ):
        with pytest.raises(error) as raised:
            act(target)
        assert isinstance(raised.value, EngineError)
        assert isinstance(raised.value, ValueError)


def test_the_log_of_a_run_tells_what_operators_did() -> None:
    run = hot(WIDE)
    run.engine.evaluator.rerun(run.step("a").id, "wrong price")
    run.engine.evaluator.reset("run", "all of it")

    reported = [(log.message, log.details.get("reason")) for log in run.engine.store.get_logs_by_runner("run")]

    assert reported[0][1] == "wrong price"
    assert reported[1] == ("reset of n.W", "all of it")


def test_a_cancelled_run_is_run_again_from_a_step() -> None:
    run = cold(WIDE)
    run.answer("a")
    run.engine.evaluator.cancel("run")
    assert run.engine.row().status == CANCELLED

    run.rerun("a")
    run.play()

    assert run.result.outputs == {"r": 130}


def test_a_context_shows_the_steps_that_count() -> None:
    run = hot(WIDE)
    run.play()
    run.rerun("b")

    context = run.engine.evaluator.context("run")
    root = context.get_workflow_root()
    assert root is not None
    assert root.id == run.step("").id

    (block,) = [step.id for step in run.engine.store.get_blocks_by_step(root.id)]
    assert context.get_completed_step_by_name("b", block) is None
    first = context.get_completed_step_by_name("a", block)
    assert first is not None
    assert first.id == run.step("a").id
    run.answer("b", {"r": 5})
    again = run.engine.evaluator.context("run").get_completed_step_by_name("b", block)
    assert again is not None
    assert again.id == run.step("b").id
