"""Unanswered events of runs, as a store knows them."""

from __future__ import annotations

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.core.clock import ManualClock
from afl.engine.operations.unanswered import all_waiting_steps, unanswered_facets, waiting_steps
from afl.evaluation.evaluator import Evaluator
from afl.stores.memory.store import MemoryStore

_PROGRAM = """namespace n {
    event facet Ask(q: String) => (a: String)
    event facet Tell(q: String) => (a: String)
    workflow W() => (a: String) andThen {
        one = Ask(q = "1")
        two = Ask(q = "2")
        three = Tell(q = "3")
        yield W(a = one.a ++ two.a ++ three.a)
    }
}
"""
_START_MS = 1_700_000_000_000


class Runs:
    """A store with runs of one program, and a clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.clock = ManualClock(_START_MS)
        self.store = MemoryStore(clock=self.clock)
        self.evaluator = Evaluator(self.store, clock=self.clock)
        self.program = CompiledProgram(compile_text(_PROGRAM).program_json)

    def start(self, workflow_id: str) -> None:
        self.evaluator.execute("n.W", {}, self.program, workflow_id=workflow_id)


def test_waiting_steps_are_told_with_facet_attempt_and_since_when() -> None:
    runs = Runs()
    runs.start("w1")

    found = waiting_steps(runs.store, "w1")

    assert [(step.facet, step.payload["q"], step.attempt) for step in found] == [
        ("n.Ask", "1", 1),
        ("n.Ask", "2", 1),
        ("n.Tell", "3", 1),
    ]
    assert all(_START_MS <= step.since_ms <= runs.clock.now_ms() for step in found)


def test_an_attempt_after_a_retry_waits_since_then_and_not_since_the_first() -> None:
    runs = Runs()
    runs.start("w1")
    first = waiting_steps(runs.store, "w1")[0]
    runs.evaluator.fail_step(first.step_id, "no")
    runs.evaluator.resume("w1")
    runs.clock.advance(60_000)

    runs.evaluator.retry("w1")
    runs.evaluator.resume("w1")
    again = waiting_steps(runs.store, "w1")[0]

    assert (again.step_id, again.attempt) == (first.step_id, 2)
    assert again.since_ms >= first.since_ms + 60_000


def test_a_run_that_has_ended_or_is_not_known_waits_for_nothing() -> None:
    runs = Runs()
    runs.start("w1")
    runs.evaluator.cancel("w1")

    assert waiting_steps(runs.store, "w1") == waiting_steps(runs.store, "w2") == all_waiting_steps(runs.store) == ()


def test_all_runs_are_looked_at_up_to_a_number_and_told_by_facet() -> None:
    runs = Runs()
    for number in range(3):
        runs.start(f"w{number}")
        runs.clock.advance(1_000)

    steps = all_waiting_steps(runs.store)
    by_facet = {waits.facet: waits for waits in unanswered_facets(steps)}

    assert (by_facet["n.Ask"].count, by_facet["n.Tell"].count) == (6, 3)
    assert by_facet["n.Ask"].first.workflow_id == "w0"
    assert str(by_facet["n.Ask"]).startswith("n.Ask: 6 events wait for an answer, the oldest since 2023-")
    assert {step.workflow_id for step in all_waiting_steps(runs.store, most_workflows=1)} == {"w2"}
