"""Values have a size that a run may make, and all of a run's values together; whatever makes them, and at once."""

import logging
import sys
import time
from collections.abc import Callable

import pytest

from afl.engine import limits
from afl.engine.errors import RunGivenUp, StepFailure, ValueRefused, ValueTooLarge
from afl.engine.execution.execution import Execution
from afl.engine.execution.ports import Dispatch
from afl.engine.model.records import StepRecord
from afl.engine.model.store import Batch
from afl.engine.types import Value
from afl.engine.values.sizes import LEAST_ENTRY_BYTES, bytes_of, counting
from afl.evaluation.evaluator import Evaluator, ExecutionResult
from afl.stores.memory.store import MemoryStore
from afl.stores.public.persistence import EngineStore
from afl.stores.sqlite.store import SqliteStore
from tests.unit.engine.running import compiled, failure_of
from tests.unit.engine.test_engine_run_limits import RUN, waiting_in, warnings

#: Enough to leave no machine with memory for it.
DOUBLINGS = 60


def evaluator_of(
    store: EngineStore | None = None,
    *,
    max_value_bytes: int = 100_000,
    max_state_bytes: int = 1_000_000,
    dispatch: Dispatch | None = None,
) -> Evaluator:
    return Evaluator(
        store or MemoryStore(), max_value_bytes=max_value_bytes, max_state_bytes=max_state_bytes, dispatch=dispatch
    )


def chained(expression: str, first: str) -> str:
    """Each step makes its value from the one before."""
    steps = [f"s0 = V(v = {first})"]
    steps += [f"s{n} = V(v = {expression.replace('x', f's{n - 1}.v')})" for n in range(1, DOUBLINGS)]
    body = "\n".join(steps)
    return f"facet V(v: Json)\nworkflow W() => (r: Json) andThen {{\n{body}\nyield W(r = s{DOUBLINGS - 1}.v) }}"


def recursive(body: str, last: str, first: str = "[1]") -> str:
    """Each call makes its value from its parameter `v`, or from what the call inside it returns."""
    return f"""
        facet D(v: Json, k: Long) => (r: Json) andThen when {{
            case $.k > 0 => {{ {body} }}
            case _ => {{ yield D(r = {last}) }}
        }}
        workflow W() => (r: Json) andThen {{ d = D(v = {first}, k = {DOUBLINGS}) yield W(r = d.r) }}
    """


SCHEMA = "\n".join(
    [
        "schema P { a: Json\n b: Json }",
        "workflow W() => (r: Json) andThen {",
        "s0 = P(a = [1], b = [1])",
        *(f"s{n} = P(a = s{n - 1}, b = s{n - 1})" for n in range(1, DOUBLINGS)),
        f"yield W(r = s{DOUBLINGS - 1}.a) }}",
    ]
)
DEFAULTS = f"""
    facet D(v: Json, w: Json = [$.v, $.v], k: Long) => (r: Json) andThen when {{
        case $.k > 0 => {{ d = D(v = $.w, k = $.k - 1) yield D(r = d.r) }}
        case _ => {{ yield D(r = $.w) }}
    }}
    workflow W() => (r: Json) andThen {{ d = D(v = [1], k = {DOUBLINGS}) yield W(r = d.r) }}
"""
RETURN_DEFAULTS = f"""
    facet D(v: Json) => (r: Json = [$.v, $.v])
    workflow W() => (r: Json) andThen {{
        s0 = D(v = [1])
        {"".join(f"s{n} = D(v = s{n - 1}.r)" + chr(10) for n in range(1, DOUBLINGS))}
        yield W(r = s1.r)
    }}
"""
YIELDS = """
    facet L(k: Long) => (r: [Long])
        andThen when { case $.k > 0 => { a = L(k = $.k - 1) yield L(r = a.r) } case _ => { yield L(r = [1]) } }
        andThen when { case $.k > 0 => { a = L(k = $.k - 1) yield L(r = a.r) } case _ => { yield L(r = [1]) } }
    workflow W() => (r: [Long]) andThen { d = L(k = 8) yield W(r = d.r) }
"""
FOREACH = """
    facet V(v: Json)
    workflow W(xs: [String]) => (r: [Json]) andThen foreach x in $.xs {
        v = V(v = $.x)
        yield W(r = [$.x, $.x, $.x])
    }
"""
PROGRAMS = {
    "texts": chained("x ++ x", '"ten letters"'),
    "texts outside ASCII": chained("x ++ x", '"日本語日本語"'),
    "lists": chained("[x, x]", "[1]"),
    "maps": chained('#{"a": x, "b": x}', "[1]"),
    "rendered lists": chained('[x ++ "", x ++ ""]', '"ten letters"'),
    "rendered maps": chained('#{"a": "" ++ x ++ x}', '"ten letters"'),
    "literals in one another": chained("[[x, x], [x, x]]", "[1]"),
    "elements": chained("[x, x][0] ++ [x, x][1]", '"ten letters"'),
    "schema steps": SCHEMA,
    "defaults": DEFAULTS,
    "return defaults": RETURN_DEFAULTS,
    "parameters of a recursion": recursive("d = D(v = [$.v, $.v], k = $.k - 1) yield D(r = d.r)", "$.v"),
    "returns of a recursion": recursive("d = D(v = $.v, k = $.k - 1) yield D(r = [d.r, d.r])", "$.v"),
    "yields": YIELDS,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_value_that_doubles_with_each_step_fails_the_step_that_makes_it_too_large(name: str) -> None:
    began_s = time.process_time()
    # As large as values may be by default: nothing takes as long as to write one out that has no such bound.
    evaluator = Evaluator(MemoryStore())
    if name == "yields":
        evaluator = evaluator_of(max_value_bytes=2_000)

    cause = failure_of(evaluator.execute("n.W", {}, compiled(PROGRAMS[name]), workflow_id=RUN))

    assert cause.error_type == "ValueTooLarge"
    assert "max_value_bytes allows" in cause.message
    assert "evaluator.max_value_bytes" in cause.message
    assert time.process_time() - began_s < 20
    row = evaluator.persistence.load_workflow(RUN)
    assert row is not None
    assert (row.status, row.runnable) == ("ERROR", False)


def test_a_step_whose_value_is_too_large_can_be_caught() -> None:
    text = """
        facet V(v: Json) => (r: String)
        workflow W(t: String) => (r: String) andThen {
            v = V(v = $.t ++ $.t) catch { yield V(r = v.error_type) }
            yield W(r = v.r)
        }
    """
    outputs = evaluator_of().execute("n.W", {"t": "x" * 60_000}, compiled(text)).outputs

    assert outputs == {"r": "ValueTooLarge"}


def test_values_near_to_their_limit_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    text = "facet V(v: Json) workflow W(t: String) andThen { a = V(v = $.t ++ $.t) b = V(v = $.t ++ $.t) }"

    result = evaluator_of().execute("n.W", {"t": "x" * 45_000}, compiled(text), workflow_id=RUN)

    assert result.status == "COMPLETED"
    (said,) = warnings(caplog, "max_value_bytes")
    assert said == (
        "workflow run (n.W) has a value of 90000 bytes, near its limit max_value_bytes = 100000, and a larger one fails"
    )


def shared(doublings: int) -> Value:
    """Return a list that takes 60 small objects in memory, and more bytes than there are when it is written out."""
    value: Value = [1]
    for _ in range(doublings):
        value = [value, value]
    return value


def itself() -> Value:
    """Return a list that stands inside of itself."""
    value: list[Value] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("make", "error"),
    [(lambda: shared(90), ValueTooLarge), (itself, ValueRefused), (lambda: shared(101), ValueRefused)],
)
def test_inputs_that_nobody_could_write_out_are_refused(make: Callable[[], Value], error: type[Exception]) -> None:
    result = Evaluator(MemoryStore()).execute("n.W", {"v": make()}, compiled("workflow W(v: Json)"), workflow_id=RUN)

    assert isinstance(result.error, error)


@pytest.mark.parametrize(
    ("make", "error"), [(lambda: shared(90), "ValueTooLarge"), (itself, "ValueRefused")], ids=["shared", "in itself"]
)
def test_an_answer_that_nobody_could_write_out_fails_its_step(make: Callable[[], Value], error: str) -> None:
    evaluator = Evaluator(MemoryStore())
    evaluator.execute(
        "n.W", {}, compiled("event facet E() => (r: Json) workflow W() andThen { e = E() }"), workflow_id=RUN
    )
    evaluator.continue_step(waiting_in(evaluator.persistence).id, {"r": make()}, is_checked=True)

    assert failure_of(evaluator.resume(RUN)).error_type == error


def test_texts_of_errors_are_cut_so_that_the_steps_around_do_not_all_hold_a_large_one() -> None:
    text = 'facet V(v: Json) workflow W(t: String) andThen { a = V(v = #{"k": 1}[$.t]) }'

    cause = failure_of(evaluator_of().execute("n.W", {"t": "x" * 90_000}, compiled(text)))

    assert limits.MAX_ERROR_CHARS <= len(cause.message) < limits.MAX_ERROR_CHARS + 100


# --- the state of a run --------------------------------------------------------------------------------------------

#: Each step holds the input once more.
CARRIED = "facet V(v: Json)\nworkflow W(t: Json) andThen {{\n{steps}\n}}"


def carried(steps: int) -> str:
    return CARRIED.format(steps="\n".join(f"s{n} = V(v = {'$.t' if n == 0 else f's{n - 1}.v'})" for n in range(steps)))


def state_bytes_of(evaluator: Evaluator) -> int:
    """Return what the rows hold, counted by themselves."""
    rows = evaluator.persistence.load_steps(RUN)
    return sum(bytes_of(value) for row in rows for value in [*row.params.values(), *row.returns.values()])


@pytest.mark.parametrize("text", ["x" * 50_000, ["x" * 990] * 50], ids=["a text", "a list"])
def test_a_run_whose_steps_hold_too_much_ends_by_name_at_the_limit(
    text: Value, caplog: pytest.LogCaptureFixture
) -> None:
    evaluator = evaluator_of(max_state_bytes=1_000_000)

    cause = failure_of(evaluator.execute("n.W", {"t": text}, compiled(carried(30)), workflow_id=RUN))

    assert (cause.error_type, cause.step_path) == ("StateTooLarge", "n.W")
    assert "max_state_bytes allows 1000000" in cause.message
    assert 1_000_000 - bytes_of(text) <= state_bytes_of(evaluator) <= 1_000_000
    assert len(warnings(caplog, "max_state_bytes")) == 1
    assert [r.levelno for r in caplog.records if "workflow run (n.W) ends: the values" in r.getMessage()] == [
        logging.ERROR
    ]


def test_the_state_of_a_run_is_the_same_hot_and_read_back() -> None:
    """So both end at the same step."""
    ends = []
    for hot_steps in (200_000, 0):
        store = MemoryStore()
        evaluator = Evaluator(
            store, max_iterations=1, hot_steps=hot_steps, max_value_bytes=100_000, max_state_bytes=1_000_000
        )
        result = evaluator.execute("n.W", {"t": ["x" * 990] * 50}, compiled(carried(30)), workflow_id=RUN)
        while result.status == "TIMEOUT":
            result = evaluator.resume(RUN)
        row = store.load_workflow(RUN)
        assert row is not None
        ends.append((failure_of(result).message, row.steps, row.iterations))

    assert ends[0] == ends[1]


def test_no_catch_keeps_a_run_over_its_state_alive() -> None:
    text = """
        facet V(v: Json)
        facet F(t: Json) andThen { v = V(v = $.t) f = F(t = v.v) } catch { f = F(t = $.t) }
        workflow W(t: Json) andThen { f = F(t = $.t) }
    """
    cause = failure_of(evaluator_of().execute("n.W", {"t": "x" * 50_000}, compiled(text)))

    assert (cause.error_type, cause.step_path) == ("StateTooLarge", "n.W")


def test_a_foreach_over_large_elements_is_within_the_state_or_ends() -> None:
    elements: Value = ["x" * 900] * 100

    roomy = evaluator_of(max_value_bytes=400_000, max_state_bytes=2_000_000)
    assert roomy.execute("n.W", {"xs": elements}, compiled(FOREACH)).success
    cause = failure_of(evaluator_of(max_state_bytes=300_000).execute("n.W", {"xs": elements}, compiled(FOREACH)))
    assert cause.error_type == "StateTooLarge"


def test_answers_count_for_the_state_too() -> None:
    text = "event facet E(n: Long) => (r: String) workflow W() andThen { a = E(n = 1) b = E(n = 2) }"
    evaluator = evaluator_of(max_state_bytes=100_000)
    evaluator.execute("n.W", {}, compiled(text), workflow_id=RUN)
    for _ in range(2):
        evaluator.continue_step(waiting_in(evaluator.persistence).id, {"r": "x" * 60_000})

    row = evaluator.persistence.load_workflow(RUN)
    assert row is not None
    assert (row.status, row.error is not None and row.error.type) == ("ERROR", "StateTooLarge")


# --- counting ------------------------------------------------------------------------------------------------------


def test_a_size_is_near_to_what_a_value_takes_as_json() -> None:
    assert bytes_of("abc") == 3
    assert bytes_of("ü") == 3
    assert bytes_of([1, None, True, 2.5]) == 2 + 4 * (8 + 2)
    assert bytes_of({"key": "abc"}) == 2 + 2 + 2 + len("key") + len("abc")
    assert bytes_of([[], {}, ""]) == 2 + 3 * 2 + 2 + 2
    assert bytes_of([""] * 1_000) == 2 + 1_000 * LEAST_ENTRY_BYTES


def test_what_is_passed_on_is_not_counted_again() -> None:
    """As many entries as a list of a hundred thousand has are looked at once, not with each of five hundred steps."""
    value: Value = [["x"] * 10 for _ in range(10_000)]
    evaluator = Evaluator(MemoryStore())
    seen = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal seen
        if event == "call" and getattr(frame, "f_code").co_name == "_counted":  # noqa: B009 - of any frame
            seen += 1

    sys.setprofile(count)
    try:
        evaluator.execute("n.W", {"t": value}, compiled(carried(200)))
    finally:
        sys.setprofile(None)

    assert seen < 4 * 10_000 + 200 * 10
    assert counting.known == {}


# --- unexpected errors ---------------------------------------------------------------------------------------------


class NoMemoryFor:
    """A dispatch that finds no memory for the events of one facet."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def serves(self, execution: Execution) -> bool:
        return True

    def dispatch(self, execution: Execution, step: StepRecord, event_id: str, effects: Batch) -> None:
        if step.facet_name == "n.Bad":
            raise self.error

    def answered(self, execution: Execution, step: StepRecord, effects: Batch) -> None:
        if step.facet_name == "n.Worse":
            raise self.error

    def ended(self, execution: Execution, effects: Batch) -> None:
        pass


def test_memory_that_runs_out_gives_up_the_workflow_and_is_no_failure_to_be_caught(
    caplog: pytest.LogCaptureFixture,
) -> None:
    evaluator = evaluator_of(dispatch=NoMemoryFor(MemoryError()))
    text = """
        event facet Bad()
        event facet Good() => (r: Long)
        workflow W() andThen { g = Good() b = Bad() andThen { } catch { } }
    """
    result: ExecutionResult = evaluator.execute("n.W", {}, compiled(text), workflow_id=RUN)

    assert isinstance(result.error, RunGivenUp)
    assert "n.W could not be evaluated: MemoryError" in str(result.error)
    assert any("could not be evaluated" in record.getMessage() for record in caplog.records)


def test_a_run_that_is_given_up_after_its_first_commit_is_not_met_again(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    text = """
        event facet Bad(r: Long)
        event facet Good() => (r: Long)
        workflow W() andThen { g = Good() b = Bad(r = g.r) }
    """
    evaluator = evaluator_of(store, dispatch=NoMemoryFor(MemoryError()))
    evaluator.execute("n.W", {}, compiled(text), workflow_id=RUN)
    evaluator.continue_step(waiting_in(store).id, {"r": 1})

    failure = evaluator.resume(RUN).error
    assert isinstance(failure, StepFailure)
    assert failure.error_type == "RunGivenUp"
    row = store.load_workflow(RUN)
    assert row is not None
    assert (row.status, row.runnable) == ("ERROR", False)
    # Where there is memory again, it goes on from there.
    better = evaluator_of(store)
    better.retry(RUN)
    assert better.resume(RUN).status == "PAUSED"


def test_a_durable_store_stays_small_when_values_double(tmp_path: object) -> None:
    path = f"{tmp_path}/run.db"
    store = SqliteStore(path)
    evaluator_of(store).execute("n.W", {}, compiled(PROGRAMS["lists"]), workflow_id=RUN)
    rows = store.load_steps(RUN)
    store.close()

    assert sum(len(str(row.params)) for row in rows) < 1_000_000
