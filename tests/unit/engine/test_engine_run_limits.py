"""A run that comes near to a limit is warned about once, one over it ends by the limit's name and rule."""

import logging
import time
from pathlib import Path

import pytest

from afl.compiled.program import CompiledProgram, ProgramError
from afl.emitter import emit_dict
from afl.engine import limits
from afl.engine.errors import IterationLimitReached, StepFailure, ValueRefused
from afl.engine.model.entities import TaskState
from afl.engine.planning.planner import plan_workflow
from afl.engine.states import StepState
from afl.engine.types import Value
from afl.evaluation.evaluator import Evaluator
from afl.parser import parse
from afl.stores.memory.store import MemoryStore
from afl.stores.public.persistence import EngineStore
from afl.stores.public.step import StepDefinition
from afl.stores.sqlite.store import SqliteStore
from tests.unit.engine.running import compiled, failure_of

RUN = "run"


def evaluator_of(
    store: EngineStore | None = None, *, max_steps: int = limits.MAX_WORKFLOW_STEPS, max_payload_bytes: int = 4_000_000
) -> Evaluator:
    return Evaluator(store or MemoryStore(), max_steps=max_steps, max_payload_bytes=max_payload_bytes)


def warnings(caplog: pytest.LogCaptureFixture, name: str) -> list[str]:
    """Return the warnings that name a limit."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno == logging.WARNING and f" {name} = " in record.getMessage()
    ]


def waiting_in(store: EngineStore) -> StepDefinition:
    """Return the first step that waits for an answer."""
    return store.get_steps_by_state(StepState.EVENT_TRANSMIT)[0]


def steps_of(evaluator: Evaluator) -> int:
    return len(evaluator.persistence.get_steps_by_workflow(RUN))


# --- steps ---------------------------------------------------------------------------------------------------------

EACH = """
    event facet E(x: Long) => (r: Long)
    facet V(v: Long)
    workflow W(xs: [Long]) => (r: Long)
        andThen foreach x in $.xs { v = V(v = $.x) }
        andThen { e = E(x = 1) yield W(r = e.r) }
"""
#: The root, two blocks, an event and its yield; and for each element a block and a step.
AROUND, EACH_ELEMENT = 5, 2


def test_a_run_within_its_steps_completes_and_nobody_is_warned(caplog: pytest.LogCaptureFixture) -> None:
    evaluator = evaluator_of(max_steps=100)
    evaluator.execute("n.W", {"xs": list(range(30))}, compiled(EACH), workflow_id=RUN)
    evaluator.continue_step(waiting_in(evaluator.persistence).id, {"r": 1})

    assert evaluator.resume(RUN).outputs == {"r": 1}
    assert steps_of(evaluator) == AROUND + 30 * EACH_ELEMENT
    assert warnings(caplog, "max_steps") == []


def test_a_run_may_have_exactly_as_many_steps_as_the_limit_says(caplog: pytest.LogCaptureFixture) -> None:
    evaluator = evaluator_of(max_steps=AROUND + 30 * EACH_ELEMENT)
    evaluator.execute("n.W", {"xs": list(range(30))}, compiled(EACH), workflow_id=RUN)
    evaluator.continue_step(waiting_in(evaluator.persistence).id, {"r": 1})

    assert evaluator.resume(RUN).status == "COMPLETED"
    (said,) = warnings(caplog, "max_steps")
    assert said == "workflow run (n.W) has 64 steps, near its limit max_steps = 65, and ends when it makes more"


def test_a_run_over_its_steps_ends_by_name() -> None:
    evaluator = evaluator_of(max_steps=AROUND + 30 * EACH_ELEMENT - 2)
    cause = failure_of(evaluator.execute("n.W", {"xs": list(range(30))}, compiled(EACH), workflow_id=RUN))

    assert (cause.error_type, cause.step_path) == ("StepLimitReached", "n.W")
    assert cause.message.startswith("n.W has 63 steps and needs more, max_steps allows 63")
    assert "evaluator.max_workflow_steps" in cause.message
    row = evaluator.persistence.load_workflow(RUN)
    assert row is not None
    assert (row.status, row.runnable, row.steps, steps_of(evaluator)) == ("ERROR", False, 63, 63)


def test_the_tasks_of_a_run_over_its_steps_are_not_left_to_agents() -> None:
    text = """
        event facet E(x: Long) => (r: Long)
        facet V(v: Long)
        workflow W() andThen { a = E(x = 1) b = V(v = 1) c = V(v = b.v) d = V(v = c.v) }
    """
    evaluator = evaluator_of(max_steps=4)
    evaluator.execute("n.W", {}, compiled(text), workflow_id=RUN)

    task = evaluator.persistence.get_task(f"{waiting_in(evaluator.persistence).id}#1")
    assert task is not None
    assert task.state == TaskState.CANCELED


DOUBLES = """
    facet F() andThen { a = F() b = F() }
    workflow W() andThen { f = F() }
"""
SPLITS = """
    facet F(xs: [Long]) andThen foreach x in $.xs { f = F(xs = $.xs) }
    workflow W() andThen { f = F(xs = [1, 2, 3, 4, 5, 6, 7, 8]) }
"""
CATCHES = """
    facet F() andThen { a = F() b = F() } catch { c = F() }
    workflow W() andThen { f = F() }
"""


@pytest.mark.parametrize("text", [DOUBLES, SPLITS, CATCHES], ids=["a recursion that doubles", "foreach", "catch"])
def test_a_run_that_runs_away_within_one_iteration_is_stopped_there(text: str) -> None:
    began_s = time.process_time()
    evaluator = evaluator_of(max_steps=2_000)
    cause = failure_of(evaluator.execute("n.W", {}, compiled(text), workflow_id=RUN))

    assert cause.error_type == "StepLimitReached"
    assert steps_of(evaluator) == 2_000
    assert time.process_time() - began_s < 10


def test_a_limit_that_was_lowered_ends_a_run_when_it_continues_and_leaves_it_to_be_cancelled_before() -> None:
    store = MemoryStore()
    for run in ("one", "two"):
        evaluator_of(store).execute("n.W", {"xs": [1, 2, 3]}, compiled(EACH), workflow_id=run)
    strict = evaluator_of(store, max_steps=5)

    assert strict.resume("one").status == "PAUSED"
    assert strict.cancel("one", "too large")
    waiting = next(step for step in store.get_steps_by_state(StepState.EVENT_TRANSMIT) if step.workflow_id == "two")
    strict.continue_step(waiting.id, {"r": 1})
    assert failure_of(strict.resume("two")).error_type == "StepLimitReached"
    row = store.load_workflow("one")
    assert row is not None
    assert row.status == "CANCELLED"


def test_a_run_over_its_steps_continues_when_the_limit_is_raised_and_it_is_retried() -> None:
    store = MemoryStore()
    program = compiled(EACH.replace("event facet E(x: Long) => (r: Long)", "facet E(x: Long) => (r: Long = 1)"))
    failure_of(evaluator_of(store, max_steps=50).execute("n.W", {"xs": list(range(30))}, program, workflow_id=RUN))
    generous = evaluator_of(store, max_steps=1_000)
    generous.retry(RUN)

    assert generous.resume(RUN).outputs == {"r": 1}


def test_what_a_run_was_warned_of_is_not_said_again_after_a_restart(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    evaluator_of(store, max_steps=12).execute("n.W", {"xs": [1, 2, 3]}, compiled(EACH), workflow_id=RUN)
    other = evaluator_of(store, max_steps=12)
    other.continue_step(waiting_in(store).id, {"r": 1})

    assert other.resume(RUN).status == "COMPLETED"
    assert len(warnings(caplog, "max_steps")) == 1


@pytest.mark.parametrize("name", ["max_steps", "max_payload_bytes"])
def test_a_limit_that_lets_nothing_through_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be 1 or more, not 0"):
        Evaluator(MemoryStore(), **{name: 0})  # type: ignore[arg-type]  # either of them is a number


# --- iterations ----------------------------------------------------------------------------------------------------

CHAIN = """
    facet V(v: Long) => (v: Long)
    workflow W() => (r: Long) andThen {
        a = V(v = 1) b = V(v = a.v) c = V(v = b.v) d = V(v = c.v) e = V(v = d.v)
        yield W(r = e.v)
    }
"""


def test_a_call_is_warned_of_its_iterations_before_it_ends_with_a_timeout(caplog: pytest.LogCaptureFixture) -> None:
    evaluator = Evaluator(MemoryStore(), max_iterations=5)
    result = evaluator.execute("n.W", {}, compiled(CHAIN), workflow_id=RUN)

    assert (result.status, result.success) == ("TIMEOUT", False)
    assert isinstance(result.error, IterationLimitReached)
    (said,) = warnings(caplog, "max_iterations")
    assert "has taken 4 iterations in one call, near its limit max_iterations = 5" in said
    # It can be gone on with, or cancelled.
    assert evaluator.resume(RUN).status == "COMPLETED"


def test_the_limit_of_iterations_may_be_changed_between_calls() -> None:
    evaluator = Evaluator(MemoryStore(), max_iterations=100)
    evaluator.max_iterations = 5
    assert evaluator.execute("n.W", {}, compiled(CHAIN), workflow_id=RUN).status == "TIMEOUT"

    evaluator.max_iterations = 100

    assert evaluator.resume(RUN).status == "COMPLETED"


def test_a_run_that_used_up_its_iterations_can_be_cancelled() -> None:
    evaluator = Evaluator(MemoryStore(), max_iterations=2)
    evaluator.execute("n.W", {}, compiled(CHAIN), workflow_id=RUN)

    assert evaluator.cancel(RUN, "enough")
    cause = evaluator.resume(RUN).error
    assert isinstance(cause, StepFailure)
    assert cause.error_type == "Cancelled"


# --- nesting -------------------------------------------------------------------------------------------------------

DEEP = """
    facet F(n: Long) andThen when { case $.n > 0 => { f = F(n = $.n - 1) } case _ => { } }
    workflow W(n: Long) andThen { f = F(n = $.n) }
"""


@pytest.mark.parametrize(
    ("levels", "status", "warned"), [(100, "COMPLETED", 0), (215, "COMPLETED", 1), (300, "ERROR", 1)]
)
def test_nesting_is_warned_of_and_ends_by_name(
    levels: int, status: str, warned: int, caplog: pytest.LogCaptureFixture
) -> None:
    result = evaluator_of().execute("n.W", {"n": levels}, compiled(DEEP), workflow_id=RUN)

    assert result.status == status
    assert len(warnings(caplog, "MAX_NESTING_DEPTH")) == warned
    if status == "ERROR":
        assert failure_of(result).error_type == "NestingTooDeep"


# --- payloads and results ------------------------------------------------------------------------------------------

ASK = """
    event facet Ask(v: Json) => (r: Json)
    workflow W(v: Json) => (r: Json) andThen {
        ask = Ask(v = $.v)
        yield W(r = ask.r)
    }
"""


def bytes_of(count: int) -> str:
    """Return a text whose map `{"v":"..."}` takes as many bytes."""
    return "x" * (count - len('{"v":""}'))


def asked(value: Value, limit: int = 1_000, store: EngineStore | None = None) -> Evaluator:
    evaluator = evaluator_of(store, max_payload_bytes=limit)
    evaluator.execute("n.W", {"v": value}, compiled(ASK), workflow_id=RUN)
    return evaluator


@pytest.mark.parametrize(("size", "warned"), [(800, 0), (801, 1), (1_000, 1)])
def test_a_payload_within_the_limit_is_sent_and_warned_of_when_it_is_near(
    size: int, warned: int, caplog: pytest.LogCaptureFixture
) -> None:
    evaluator = asked(bytes_of(size))

    assert evaluator.resume(RUN).status == "PAUSED"
    assert len(warnings(caplog, "max_payload_bytes")) == warned


@pytest.mark.parametrize("text", [bytes_of(1_001), "あ" * 331, "\n" * 497])
def test_a_payload_over_the_limit_fails_its_step_by_name(text: str) -> None:
    cause = failure_of(asked(text).resume(RUN))

    assert (cause.error_type, cause.step_path) == ("PayloadTooLarge", "n.W.ask")
    assert cause.message.startswith("the payload of n.Ask takes 100")
    assert "max_payload_bytes allows 1000" in cause.message


def test_a_result_over_the_limit_fails_its_step_by_name() -> None:
    evaluator = asked(1)
    step = waiting_in(evaluator.persistence)
    evaluator.continue_step(step.id, {"r": bytes_of(1_001)})

    cause = failure_of(evaluator.resume(RUN))
    assert (cause.error_type, cause.step_path) == ("PayloadTooLarge", "n.W.ask")
    assert cause.message.startswith("the result of n.Ask takes 1001 bytes")


def test_what_was_told_before_counts_with_the_result() -> None:
    evaluator = asked(1)
    step = waiting_in(evaluator.persistence)
    evaluator.update_step(step.id, {"log": "x" * 600})
    evaluator.update_step(step.id, {"more": "x" * 600})

    assert failure_of(evaluator.resume(RUN)).error_type == "PayloadTooLarge"


def test_a_large_payload_of_many_small_values_is_measured_as_it_is() -> None:
    values: Value = [{"n": number, "ok": True, "none": None, "x": 0.5} for number in range(1_000)]

    assert asked(values, limit=100_000).resume(RUN).status == "PAUSED"
    assert failure_of(asked(values, limit=30_000).resume(RUN)).error_type == "PayloadTooLarge"


# --- depth of values -----------------------------------------------------------------------------------------------


def nested(levels: int) -> Value:
    value: Value = 1
    for _ in range(levels):
        value = [value]
    return value


def open_stores(path: Path) -> list[EngineStore]:
    return [MemoryStore(), SqliteStore(path / "engine.db")]


def test_a_value_as_deep_as_values_may_be_goes_all_the_way(tmp_path: Path) -> None:
    for store in open_stores(tmp_path):
        evaluator = asked(nested(limits.MAX_VALUE_DEPTH), store=store, limit=10_000)
        step = waiting_in(store)
        evaluator.continue_step(step.id, {"r": nested(limits.MAX_VALUE_DEPTH)})

        assert evaluator.resume(RUN).outputs == {"r": nested(limits.MAX_VALUE_DEPTH)}
        store.close()


@pytest.mark.parametrize("levels", [limits.MAX_VALUE_DEPTH + 1, 900, 100_000])
def test_inputs_that_nest_too_deep_are_refused_by_name(levels: int) -> None:
    result = evaluator_of().execute("n.W", {"v": nested(levels)}, compiled(ASK), workflow_id=RUN)

    assert isinstance(result.error, ValueRefused)
    assert str(result.error) == "inputs.v: a JSON value was expected, found a value nested deeper than 100 levels"


@pytest.mark.parametrize("levels", [limits.MAX_VALUE_DEPTH + 1, 900, 100_000])
def test_a_result_that_nests_too_deep_is_refused_by_name(levels: int) -> None:
    evaluator = asked(1)
    step = waiting_in(evaluator.persistence)

    with pytest.raises(ValueRefused, match=r"^result\.r: .* found a value nested deeper than 100 levels$"):
        evaluator.continue_step(step.id, {"r": nested(levels)})
    assert waiting_in(evaluator.persistence).id == step.id


def test_a_result_of_an_agent_that_nests_too_deep_fails_its_step_by_name() -> None:
    evaluator = asked(1)
    evaluator.continue_step(waiting_in(evaluator.persistence).id, {"r": nested(101)}, is_checked=True)

    cause = failure_of(evaluator.resume(RUN))
    assert (cause.error_type, cause.step_path) == ("ValueRefused", "n.W.ask")


def wrapping(wrap: str, steps: int) -> str:
    """Return a workflow whose steps each wrap the value of the one before."""
    body = "\n".join(f"s{k} = V(v = {wrap.format(k - 1)})" for k in range(1, steps))
    return (
        f"facet V(v: Json) workflow W() => (r: Json) andThen {{ s0 = V(v = 1)\n{body}\nyield W(r = s{steps - 1}.v) }}"
    )


@pytest.mark.parametrize("wrap", ["[s{0}.v]", '#{{"a": s{0}.v}}', "[0, [s{0}.v]]"])
def test_a_program_that_nests_values_ever_deeper_fails_at_the_step_that_goes_too_far(wrap: str, tmp_path: Path) -> None:
    for store in open_stores(tmp_path):
        result = evaluator_of(store).execute("n.W", {}, compiled(wrapping(wrap, 900)), workflow_id=RUN)

        cause = failure_of(result)
        levels = wrap.count("[") + wrap.count("#")
        assert cause.error_type == "ValueTooDeep"
        assert cause.step_path == f"n.W.s{limits.MAX_VALUE_DEPTH // levels + 1}"
        store.close()


def test_a_program_may_nest_values_as_deep_as_the_limit() -> None:
    program = compiled(wrapping("[s{0}.v]", limits.MAX_VALUE_DEPTH + 1))

    outputs = evaluator_of().execute("n.W", {}, program).outputs
    assert outputs == {"r": nested(limits.MAX_VALUE_DEPTH)}


# --- time limits of programs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["hours = 9000000000000000000", "ms = 3153600000001", "hours = 876000, ms = 1"])
def test_a_time_limit_beyond_all_dates_is_refused_when_the_program_is_planned(given: str) -> None:
    text = f"namespace n {{ event facet E() with Timeout({given}) workflow W() andThen {{ e = E() }} }}"
    # As another compiler, or a person, may write it: ours refuses it.
    program = CompiledProgram(emit_dict(parse(text)))

    with pytest.raises(ProgramError, match=r"n\.E: Timeout gives \d+ ms, more than 3153600000000 ms"):
        plan_workflow(program, "n.W")


def test_a_time_limit_of_a_hundred_years_is_one() -> None:
    program = compiled("event facet E() with Timeout(hours = 876000) workflow W() andThen { e = E() }")

    assert evaluator_of().execute("n.W", {}, program).status == "PAUSED"
