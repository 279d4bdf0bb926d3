"""Scripts in a run: what they get, where their results go, how they fail, and that they may run twice."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path

import pytest

from afl.compiled.program import CompiledProgram, ProgramError
from afl.engine.errors import ScriptsNotAllowed
from afl.engine.model.entities import NoteType
from afl.engine.model.store import ERROR, PAUSED, RUNNING
from afl.engine.planning.planner import plan_workflow
from afl.engine.states import StepState
from afl.scripts.errors import ScriptWorkerUnavailable
from afl.scripts.pool import ScriptPool, ScriptResult
from afl.stores.sqlite.store import SqliteStore
from afl.telemetry.telemetry import Telemetry
from tests.unit.engine.running import Engine, compiled, failure_of


@pytest.fixture(scope="module")
def pool() -> Iterator[ScriptPool]:
    with ScriptPool(workers=2) as pool:
        yield pool


class Desk:
    """Takes scripts and leaves them lying, until the test says what came of them."""

    def __init__(self) -> None:
        self.lying: list[tuple[Mapping[str, object], Future[ScriptResult]]] = []

    def submit(self, code: str, params: Mapping[str, object], workflow_id: str) -> Future[ScriptResult]:
        future: Future[ScriptResult] = Future()
        self.lying.append((params, future))
        return future


def outputs(
    pool: ScriptPool, text: str, inputs: Mapping[str, object] | None = None, **answers: object
) -> dict[str, object]:
    """Return the outputs of a run that must succeed; agents answer each event with `answers`."""
    result = Engine(compiled(text), scripts=pool).run(inputs, lambda *_: answers)  # type: ignore[arg-type]
    assert result.status == "COMPLETED", result.error
    return dict(result.outputs)


# --- scripts in front of the blocks ----------------------------------------------------------------------------------


def test_a_script_turns_params_into_the_returns_of_its_facet(pool: ScriptPool) -> None:
    text = """
    facet Label(sku: String, qty: Int = 2) => (text: String) script {
        result["text"] = f"{params['qty']}x {params['sku'].upper()}"
    }
    workflow W(sku: String) => (slip: String) andThen {
        l = Label(sku = $.sku)
        yield W(slip = l.text)
    }
    """

    assert outputs(pool, text, {"sku": "ab"}) == {"slip": "2x AB"}


def test_every_entry_is_a_param_that_the_blocks_read_and_that_replaces_what_was_bound(pool: ScriptPool) -> None:
    text = """
    workflow W(qty: Int) => (big: Boolean, qty2: Int) script {
        result["big"] = params["qty"] > 100
        result["qty"] = params["qty"] + 1
    } andThen {
        yield W(big = $.big, qty2 = $.qty)
    }
    """

    assert outputs(pool, text, {"qty": 100}) == {"big": False, "qty2": 101}


def test_the_older_shape_with_the_script_as_the_body_runs_the_same(pool: ScriptPool) -> None:
    script = {"type": "ScriptBlock", "language": "python", "code": "result['b'] = params['a'] * 2"}
    program = {
        "declarations": [
            {"type": "WorkflowDecl", "name": "W", "params": [{"name": "a"}], "returns": [{"name": "b"}], "body": script}
        ]
    }

    assert Engine(program, scripts=pool).start({"a": 21}).outputs == {"b": 42}


@pytest.mark.parametrize(
    ("body", "answer", "expected"),
    [
        ("", {}, "script"),
        ("", {"r": "event"}, "event"),
        ('andThen { yield E(r = "yield") }', {"r": "event"}, "yield"),
        ('andThen script { result["r"] = "block" }', {}, "block"),
        ('andThen script { result["other"] = "block" }', {}, "script"),
    ],
)
def test_a_declared_return_has_the_scripts_value_unless_somebody_else_sets_it(
    pool: ScriptPool, body: str, answer: dict[str, object], expected: str
) -> None:
    text = f"""
    event facet E() => (r: String = "default") script {{ result["r"] = "script" }} {body}
    workflow W() => (r: String) andThen {{
        e = E()
        yield W(r = e.r)
    }}
    """

    assert outputs(pool, text, {}, **answer) == {"r": expected}


def test_an_entry_that_is_no_declared_return_is_none_of_the_outputs(pool: ScriptPool) -> None:
    assert outputs(pool, 'workflow W() => (a: Int = 7) script { result["b"] = 1 }') == {"a": 7}


def test_the_payload_of_an_event_holds_what_the_script_added(pool: ScriptPool) -> None:
    engine = Engine(
        compiled(
            """
            event facet E(a: Int) script { result["b"] = params["a"] + 1 }
            workflow W() andThen { e = E(a = 1) }
            """
        ),
        scripts=pool,
    )
    engine.start()

    assert engine.step("e").document.params == {"a": 1, "b": 2}
    assert engine.resume().status == PAUSED
    assert engine.answer("e").status == "COMPLETED"


def test_the_script_of_a_facet_runs_although_the_statement_has_blocks_of_its_own(pool: ScriptPool) -> None:
    text = """
    facet F(a: Int) => (b: Int) script { result["b"] = params["a"] + 1 } andThen { yield F(b = 100) }
    workflow W() => (b: Int, seen: Int) andThen {
        f = F(a = 1) andThen { yield W(seen = f.b) }
        yield W(b = f.b)
    }
    """

    assert outputs(pool, text) == {"b": 2, "seen": 2}


def test_a_yield_to_a_facet_does_not_run_its_script(pool: ScriptPool) -> None:
    text = """
    facet F(a: Int) => (b: Int, n: Int) script { result["n"] = params.get("n", 0) + 1 } andThen { yield F(b = $.n) }
    workflow W() => (b: Int, n: Int) andThen {
        f = F(a = 1)
        yield W(b = f.b, n = f.n)
    }
    """

    assert outputs(pool, text) == {"b": 1, "n": 1}


# --- blocks written in Python ----------------------------------------------------------------------------------------


def test_a_block_written_in_python_gives_its_result_to_the_step_around_it(pool: ScriptPool) -> None:
    text = """
    event facet Fetch(id: String) => (lines: Json)
    workflow W(id: String, vat: Double = 0.5) => (lines: Json, label: String) andThen {
        f = Fetch(id = $.id)
        yield W(lines = f.lines)
    } andThen script {
        result["label"] = "invoice %s at %d%%" % (params["id"], params["vat"] * 100)
    }
    """

    assert outputs(pool, text, {"id": "i-1"}, lines=[1, 2]) == {"lines": [1, 2], "label": "invoice i-1 at 50%"}


def test_results_are_merged_at_their_blocks_place_in_the_order(pool: ScriptPool) -> None:
    text = """
    workflow W() => (all: Json, last: Int) andThen {
        yield W(all = ["first"], last = 1)
    } andThen script {
        result["all"] = ["second"]
        result["last"] = 2
    } andThen {
        yield W(all = ["third"])
    }
    """

    assert outputs(pool, text) == {"all": ["first", "second", "third"], "last": 2}


def test_a_block_reads_what_the_event_gave_and_what_the_script_in_front_added(pool: ScriptPool) -> None:
    text = """
    event facet E(a: Int) => (b: Int, sum: Int) script { result["c"] = 100 } andThen script {
        result["sum"] = params["a"] + params["b"] + params["c"]
    }
    workflow W() => (sum: Int) andThen {
        e = E(a = 1)
        yield W(sum = e.sum)
    }
    """

    assert outputs(pool, text, {}, b=10) == {"sum": 111}


def test_a_statement_may_have_a_block_in_python_in_place_of_its_callees(pool: ScriptPool) -> None:
    text = """
    facet F(a: Int) => (b: Int) andThen { yield F(b = 1) }
    workflow W() => (b: Int) andThen {
        f = F(a = 20) andThen script { result["b"] = params["a"] + 1 }
        yield W(b = f.b)
    }
    """

    assert outputs(pool, text) == {"b": 21}


def test_each_element_of_a_foreach_runs_the_scripts_of_its_steps(pool: ScriptPool) -> None:
    text = """
    facet Square(n: Int) => (n2: Int) script { result["n2"] = params["n"] ** 2 }
    workflow W(ns: [Int]) => (squares: [Int]) andThen foreach n in $.ns {
        s = Square(n = $.n)
        yield W(squares = [s.n2])
    }
    """

    assert outputs(pool, text, {"ns": list(range(30))}) == {"squares": [n * n for n in range(30)]}


# --- failure ---------------------------------------------------------------------------------------------------------

FAILING = """
facet Broken(a: Int) => (b: Int) script {
    print("looking")
    result["b"] = params["missing"]
}
workflow W() => (b: Int) andThen {
    x = Broken(a = 1)
    yield W(b = x.b)
}
"""


def test_an_exception_fails_the_step_by_its_name(pool: ScriptPool) -> None:
    failure = failure_of(Engine(compiled(FAILING), scripts=pool).start())

    assert (failure.step_path, failure.facet) == ("n.W.x", "n.Broken")
    assert (failure.error_type, failure.message) == ("KeyError", "KeyError: 'missing'")
    assert str(failure).endswith("failed: KeyError: 'missing'")


def test_a_failing_block_in_python_fails_its_step(pool: ScriptPool) -> None:
    result = Engine(compiled("workflow W() => (a: Int) andThen script { result = 1 }"), scripts=pool).start()

    assert failure_of(result).message == "TypeError: result must be a dict, not int"


def test_a_failing_script_in_front_of_a_workflow_fails_it(pool: ScriptPool) -> None:
    engine = Engine(compiled("workflow W() script { [][1] } andThen { }"), scripts=pool)

    assert failure_of(engine.start()).message == "IndexError: list index out of range"
    assert engine.row().status == ERROR


def test_a_result_that_is_deeper_than_values_may_be_fails_its_step(pool: ScriptPool) -> None:
    nested = "x = []\n for i in range(101): x = [x]\n result['x'] = x"
    for text in (
        f"facet F() => (x: Json) script {{\n {nested}\n }}\nworkflow W() andThen {{ f = F() }}",
        f"workflow W() => (x: Json) andThen script {{\n {nested}\n }}",
    ):
        failure = failure_of(Engine(compiled(text), scripts=pool).start())

        assert failure.error_type == "ValueRefused"
        assert failure.message.endswith("...: a JSON value was expected, found a value nested deeper than 100 levels")


def test_what_runs_beside_a_failing_script_is_finished(pool: ScriptPool) -> None:
    engine = Engine(
        compiled(
            """
            event facet E() => (v: Int)
            facet Broken() script { raise ValueError("no") }
            workflow W() andThen {
                e = E()
                x = Broken()
            }
            """
        ),
        scripts=pool,
    )

    assert engine.start().status == PAUSED
    assert failure_of(engine.answer("e", {"v": 1})).message == "ValueError: no"


def test_what_the_compiler_would_refuse_is_refused_when_it_runs(pool: ScriptPool) -> None:
    script = {"type": "ScriptBlock", "language": "python", "code": "import os"}
    program = {"declarations": [{"type": "WorkflowDecl", "name": "W", "pre_script": script}]}

    assert failure_of(Engine(program, scripts=pool).start()).error_type == "ImportError"


def test_a_script_in_another_language_is_refused_when_the_program_is_loaded() -> None:
    script = {"type": "ScriptBlock", "language": "cobol", "code": "STOP RUN."}
    program = CompiledProgram({"declarations": [{"type": "WorkflowDecl", "name": "W", "pre_script": script}]})

    with pytest.raises(ProgramError, match="W: scripts are written in python, not in cobol"):
        plan_workflow(program, "W")


def test_a_catch_sees_the_name_of_the_exception_and_what_it_said(pool: ScriptPool) -> None:
    text = """
    facet Broken() => (b: Int) script { result["b"] = {}["missing"] }
    workflow W() => (said: String, b: Int) andThen {
        x = Broken() catch when {
            case x.error_type == "KeyError" => { yield W(said = x.error) }
            case _ => { }
        }
    } andThen script { result["b"] = 1 }
    """

    assert outputs(pool, text) == {"said": "KeyError: 'missing'", "b": 1}


def test_a_catch_of_a_workflow_sees_its_failing_script(pool: ScriptPool) -> None:
    text = """
    workflow W(a: Int) => (said: String) script { result["x"] = params["a"] / 0 } andThen {
        yield W(said = "no")
    } catch { yield W(said = $.error_type) }
    """

    assert outputs(pool, text, {"a": 1}) == {"said": "ZeroDivisionError"}


def test_a_failing_block_in_python_is_caught_and_what_other_blocks_gave_is_kept(pool: ScriptPool) -> None:
    text = """
    workflow W() => (all: [Int], said: String) andThen { yield W(all = [1]) } andThen script {
        result["all"] = [2 // 0]
    } catch { yield W(said = $.error, all = [3]) }
    """

    assert outputs(pool, text) == {"all": [1, 3], "said": "ZeroDivisionError: integer division or modulo by zero"}


def test_a_mixin_with_an_alias_runs_its_script_and_the_scripts_around_it_see_its_map(pool: ScriptPool) -> None:
    text = """
    facet Retry(times: Int = 3) => (policy: String) script { result["policy"] = "retry-%d" % params["times"] }
    facet F(a: Int) => (seen: String, early: Boolean) with Retry(times = $.a) as retry script {
        result["early"] = "retry" in params
    } andThen script { result["seen"] = params["retry"]["policy"] }
    workflow W() => (seen: String, early: Boolean) andThen {
        f = F(a = 5)
        yield W(seen = f.seen, early = f.early)
    }
    """

    assert outputs(pool, text) == {"seen": "retry-5", "early": False}


def test_a_script_in_a_case_and_in_a_catch_runs_like_any_other(pool: ScriptPool) -> None:
    text = """
    facet Twice(n: Int) => (n2: Int) script { result["n2"] = params["n"] * 2 }
    facet Broken() script { raise ValueError("no") }
    workflow W(n: Int) => (n2: Int, rescued: Int) andThen when {
        case $.n > 0 => { t = Twice(n = $.n) yield W(n2 = t.n2) }
        case _ => { }
    } andThen {
        b = Broken() catch { t = Twice(n = 50) yield W(rescued = t.n2) }
    }
    """

    assert outputs(pool, text, {"n": 4}) == {"n2": 8, "rescued": 100}


def test_with_telemetry_on_the_steps_are_the_same(pool: ScriptPool) -> None:
    text = """
    facet F(a: Int) => (b: Int) script { result["b"] = params["a"] + 1 }
    workflow W() => (b: Int, c: Int) andThen { f = F(a = 1) yield W(b = f.b) } andThen script { result["c"] = 3 }
    """
    watched = Engine(compiled(text), telemetry=Telemetry(enabled=True), scripts=pool)
    unwatched = Engine(compiled(text), scripts=pool)

    assert watched.start().outputs == unwatched.start().outputs == {"b": 2, "c": 3}
    assert sorted(watched.paths()) == sorted(unwatched.paths())


# --- where no scripts are run ----------------------------------------------------------------------------------------

NESTED = """
facet Inner() => (v: Int) script { result["v"] = 1 }
facet Outer() => (v: Int) andThen { i = Inner() yield Outer(v = i.v) }
workflow W() => (v: Int) andThen { o = Outer() yield W(v = o.v) }
workflow Plain() => (v: Int = 1)
"""


def test_a_workflow_that_can_come_to_a_script_is_not_started_where_none_is_run() -> None:
    engine = Engine(compiled(NESTED))

    result = engine.start()

    assert isinstance(result.error, ScriptsNotAllowed)
    assert "n.Inner" in str(result.error)
    assert "--allow-scripts" in str(result.error)
    assert engine.store.load_workflow("run") is None
    assert engine.start(workflow="Plain").outputs == {"v": 1}


def test_a_script_come_to_where_none_is_run_fails_its_step_by_name() -> None:
    desk = Desk()
    engine = _stopped_at_its_script(desk, compiled(NESTED))

    failure = failure_of(Engine(engine.program, store=engine.store).resume())

    assert failure.step_path == "n.W.o.i"
    assert failure.error_type == "ScriptsNotAllowed"


# --- running twice ---------------------------------------------------------------------------------------------------


class Unavailable:
    """A runner without a process to run anything in."""

    def submit(self, code: str, params: Mapping[str, object], workflow_id: str) -> Future[ScriptResult]:
        future: Future[ScriptResult] = Future()
        future.set_exception(ScriptWorkerUnavailable("no memory"))
        return future


def _stopped_at_its_script(desk: Desk, program: CompiledProgram) -> Engine:
    """Return a run whose process ended while its script ran."""
    engine = Engine(program, scripts=Unavailable())
    result = engine.start()
    assert isinstance(result.error, ScriptWorkerUnavailable)
    return engine


def test_a_script_that_could_not_run_is_no_failure_of_its_step_and_resume_runs_it(pool: ScriptPool) -> None:
    engine = _stopped_at_its_script(Desk(), compiled(NESTED))

    assert (engine.row().status, engine.row().runnable) == (RUNNING, True)
    assert engine.step("o.i").state == StepState.FACET_SCRIPTS_BEGIN
    assert Engine(engine.program, store=engine.store, scripts=pool).resume().outputs == {"v": 1}


def test_a_block_in_python_continues_after_its_process_has_died(tmp_path: Path, pool: ScriptPool) -> None:
    text = """
    workflow W(a: Int) => (b: [Int]) andThen { yield W(b = [1]) } andThen script { result["b"] = [params["a"]] }
    """
    store = SqliteStore(tmp_path / "store.sqlite3")
    engine = Engine(compiled(text), store=store, scripts=Unavailable())
    engine.start({"a": 2})

    assert Engine(engine.program, store=store, scripts=pool).resume().outputs == {"b": [1, 2]}
    store.close()


def test_of_two_calls_that_run_the_same_script_one_has_its_effect() -> None:
    program = compiled(NESTED)
    slow = Desk()
    engine = _stopped_at_its_script(slow, program)

    class Overtaken(Desk):
        """While it runs the script, another process does so too, and ends the workflow."""

        def submit(self, code: str, params: Mapping[str, object], workflow_id: str) -> Future[ScriptResult]:
            future = super().submit(code, params, workflow_id)
            other = Engine(program, store=engine.store, scripts=Answering({"v": 1})).resume()
            assert other.outputs == {"v": 1}
            future.set_result(ScriptResult(result={"v": 2}, printed="", duration_s=0.0))
            return future

    overtaken = Overtaken()
    result = Engine(program, store=engine.store, scripts=overtaken).resume()

    assert result.outputs == {"v": 1}
    assert len(overtaken.lying) == 1


class Answering:
    """Ends every script at once with the same result."""

    def __init__(self, result: Mapping[str, object]) -> None:
        self._result = result

    def submit(self, code: str, params: Mapping[str, object], workflow_id: str) -> Future[ScriptResult]:
        future: Future[ScriptResult] = Future()
        future.set_result(ScriptResult(result=self._result, printed="", duration_s=0.0))
        return future


def test_independent_scripts_are_all_handed_over_before_one_is_waited_for() -> None:
    class Counting(Desk):
        """Ends its scripts when it has three."""

        def submit(self, code: str, params: Mapping[str, object], workflow_id: str) -> Future[ScriptResult]:
            future = super().submit(code, params, workflow_id)
            if len(self.lying) == 3:
                for given, open_future in self.lying:
                    open_future.set_result(ScriptResult(result={"v": given["n"]}, printed="", duration_s=0.0))
            return future

    text = """
    facet F(n: Int) => (v: Int) script { result["v"] = params["n"] }
    workflow W() => (all: [Int]) andThen {
        a = F(n = 1)
        b = F(n = 2)
        c = F(n = 3)
        yield W(all = [a.v, b.v, c.v])
    }
    """

    assert Engine(compiled(text), scripts=Counting()).start().outputs == {"all": [1, 2, 3]}


# --- what is printed -------------------------------------------------------------------------------------------------


def test_what_a_script_prints_is_in_the_step_log_and_nowhere_else(pool: ScriptPool) -> None:
    engine = Engine(compiled(FAILING), scripts=pool)
    engine.evaluator.execute("W", {}, engine.program, "the-runner", workflow_id="run")

    (entry,) = engine.store.get_logs_by_runner("the-runner")
    assert (entry.message, entry.step_id, entry.line) == ("looking\n", engine.step("x").id, 3)
    assert entry.note_type == NoteType.INFO


def test_a_script_that_prints_nothing_leaves_no_entry(pool: ScriptPool) -> None:
    engine = Engine(compiled('workflow W() => (a: Int) script { result["a"] = 1 }'), scripts=pool)

    assert engine.start().outputs == {"a": 1}
    assert engine.store.get_logs_by_runner("run") == []
