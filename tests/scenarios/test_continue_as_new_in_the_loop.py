"""Workflows that continue as new through the loop: events carried, answers left behind, crashes, and no growth."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from afl.core.process.crashes import Crash
from afl.engine.model.store import HistoryKind, HistoryRow
from afl_stream.embedded.transport import Faults
from afl_stream.wire.messages import ContinueAsNew, Lifecycle, StepContinue
from tests.record_headers import headers_of
from tests.worlds.compiled import interpreted_only
from tests.worlds.gate import RUN, Gate
from tests.worlds.world import World
from tests.worlds.worlds import EACH_ONCE, EMBEDDED_DURABLE, MEMORY, SQLITE, in_worlds, with_values

WORLDS = EACH_ONCE

ROUNDS = """
namespace rounds {
  event facet Ask(n: Long) => (answer: String)
  facet Turned(after: Json, n: Long) => (n: Long) andThen { yield Turned(n = $.n) }

  workflow Count(n: Long, last: Long) => (n: Long) andThen when {
    case $.n < $.last => { c = afl.ContinueAsNew(inputs = #{"n": $.n + 1, "last": $.last}) }
    case _ => { yield Count(n = $.n) }
  }
  workflow Forever(n: Long) => (n: Long) andThen {
    c = afl.ContinueAsNew(inputs = #{"n": $.n + 1})
  }
  workflow Endless(n: Long) => (n: Long) andThen {
    a = afl.WaitForEvent(name = "go")
    t = Turned(after = a.data, n = $.n + 1)
    c = afl.ContinueAsNew(inputs = #{"n": t.n})
  }
  workflow Collect(from: Long, last: Long, got: String) => (got: String) andThen when {
    case $.from < $.last => {
      turn = afl.WaitForEvent(name = "turn")
      t = Turned(after = turn.data, n = $.from + 1)
      c = afl.ContinueAsNew(inputs = #{"from": t.n, "last": $.last, "got": $.got})
    }
    case _ => {
      w = afl.WaitForEvent(name = "kept")
      yield Collect(got = $.got ++ w.data)
    }
  }
  workflow Sum(n: Long, last: Long, got: String) => (got: String) andThen when {
    case $.n < $.last => {
      a = afl.WaitForEvent(name = "go")
      c = afl.ContinueAsNew(inputs = #{"n": $.n + 1, "last": $.last, "got": $.got ++ a.data})
    }
    case _ => { yield Sum(got = $.got) }
  }
  workflow Leaving(n: Long) => (answer: String) andThen {
    asked = Ask(n = $.n)
    yield Leaving(answer = asked.answer)
  } andThen when {
    case $.n == 1 => {
      w = afl.WaitForEvent(name = "leave")
      t = Turned(after = w.data, n = 2)
      c = afl.ContinueAsNew(inputs = #{"n": t.n})
    }
    case _ => { }
  }
}
"""
COUNT, FOREVER, COLLECT, SUM, LEAVING, ASK = (
    f"rounds.{name}" for name in ("Count", "Forever", "Collect", "Sum", "Leaving", "Ask")
)
#: The same names, and another program.
LATER_ROUNDS = ROUNDS.replace("yield Leaving(answer = asked.answer)", 'yield Leaving(answer = asked.answer ++ "!")')


def continued(gate: Gate) -> list[Lifecycle]:
    return [m for m in gate.deployment.milestones(RUN) if m.kind == "workflow.continued"]


def continuations(gate: Gate) -> list[HistoryRow]:
    return [row for row in gate.history() if row.kind == HistoryKind.CONTINUED_AS_NEW]


def command_letters(gate: Gate) -> list[str]:
    letters = gate.deployment.dead_letters(gate.deployment.topology.commands())
    return [headers_of(letter)["afl.dlq.reason"].decode() for letter in letters]


def asked_steps(gate: Gate) -> list[str]:
    """Return the ids of the steps that have asked, in the order of their events."""
    return [event.step_id for event in gate.deployment.events(ASK)]


def turn(gate: Gate, times: int) -> None:
    for number in range(times):
        gate.raised(number, "turn")


def command(gate: Gate, **fields: Any) -> list[Lifecycle]:
    """Have a run continue by command, and return the answers to it."""
    gate.deployment.send(ContinueAsNew(workflow_id=RUN, command_id="c-1", **fields))
    gate.deployment.settle()
    return [m for m in gate.deployment.milestones(RUN) if m.command_id == "c-1"]


# --- executions ----------------------------------------------------------------------------------------------------


def test_executions_follow_each_other_in_one_batch_and_count_up(world: World) -> None:
    gate = Gate(world, ROUNDS, kept_executions=3)
    gate.start(COUNT, n=1, last=6)

    row = gate.deployment.workflow(RUN)
    assert (gate.outputs(), row.execution_number, row.revision) == ({"n": 6}, 6, 1)
    # Of the ones before only the history is left, and of that the last ones.
    assert [r.execution for r in continuations(gate)] == [4, 5]
    assert [r.value["inputs"] for r in continuations(gate) if isinstance(r.value, dict)] == [
        {"n": 5, "last": 6},
        {"n": 6, "last": 6},
    ]
    assert len({step.root_id or step.id for step in gate.deployment.steps(RUN)}) == 1
    assert [m.outputs for m in continued(gate)] == [{"execution": number} for number in range(2, 7)]
    assert gate.evaluator.stats.events.continued == 5
    kinds = [m.kind for m in gate.deployment.milestones(RUN)]
    assert (kinds[0], kinds[-1]) == ("workflow.started", "workflow.completed")


def test_a_workflow_without_end_yields_its_turn_to_others(world: World) -> None:
    gate = Gate(world, ROUNDS, workflow_budget_steps=50, workflow_budget_ms=10_000)
    gate.order(FOREVER, n=1)
    gate.order(COUNT, "other", n=1, last=100)
    for _ in range(40):
        gate.deployment.round()

    assert gate.outputs("other") == {"n": 100}
    row = gate.deployment.workflow(RUN)
    assert (row.status, row.runnable) == ("RUNNING", True)
    assert row.execution_number > 100
    gate.deployment.client.cancel(RUN)
    gate.deployment.settle()
    assert gate.deployment.workflow(RUN).status == "CANCELLED"
    # Each execution began a moment or less after the one before: no clock was outrun.
    assert row.updated_at_ms <= gate.deployment.clock.now_ms()


def test_inputs_that_do_not_fit_fail_the_step(world: World) -> None:
    wrong = ROUNDS.replace('#{"n": $.n + 1}', '#{"n": "two"}')
    gate = Gate(world, wrong)
    gate.start(FOREVER, n=1)

    row = gate.deployment.workflow(RUN)
    assert (row.status, row.execution_number) == ("ERROR", 1)
    assert row.error is not None
    assert row.error.type == "InputTypeMismatch"
    assert continued(gate) == []


# --- events --------------------------------------------------------------------------------------------------------


def test_events_are_carried_over_and_one_that_was_taken_is_not(world: World) -> None:
    gate = Gate(world, ROUNDS)
    for number in range(1, 5):
        gate.raised(str(number))
    gate.start(SUM, n=0, last=5, got="")

    assert gate.pending() == []
    assert gate.deployment.workflow(RUN).execution_number == 5
    gate.raised("5")
    assert gate.outputs() == {"got": "12345"}
    assert [(row.execution, row.until_execution) for row in gate.events()] == [
        (1, 1), (1, 2), (1, 3), (1, 4), (5, 5),
    ]  # fmt: skip


@pytest.mark.parametrize("executions", [6, 7])
def test_an_event_is_carried_as_far_as_the_limit_and_no_further(
    world: World, executions: int, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate(world, ROUNDS)
    # `from` is a word of Python.
    inputs: dict[str, Any] = {"from": 1, "last": executions, "got": ""}
    gate.start(COLLECT, **inputs)
    gate.raised("old", "kept")
    turn(gate, executions - 1)

    if executions == 6:
        assert gate.outputs() == {"got": "old"}
        assert gate.letters() == []
        return
    assert gate.pending() == []
    ((reason, text),) = gate.letters()
    assert reason == "EventNotCarried"
    assert "event kept of workflow wf-1 of execution 1 is not carried into execution 7: it would be 6" in text
    assert "evaluator.max_carried_executions = 5" in text
    (warned,) = [line for line in caplog.messages if "exceeded carry-forward limit" in line]
    assert "instance=wf-1 event_name=kept event_execution_id=1 new_execution_id=7 limit=5" in warned
    assert gate.evaluator.stats.events.dropped == {"EventNotCarried": 1}
    gate.raised("new", "kept")
    assert gate.outputs() == {"got": "new"}


def test_an_event_with_a_known_id_is_known_in_the_next_execution(world: World) -> None:
    gate = Gate(world, ROUNDS)
    gate.start(SUM, n=0, last=2, got="")
    gate.raised("one", id="a")
    gate.raised("one again", id="a")
    gate.raised("two", id="b")

    assert gate.outputs() == {"got": "onetwo"}


# --- what is left behind -------------------------------------------------------------------------------------------


def test_an_answer_to_a_step_that_an_execution_has_left_is_superseded(world: World) -> None:
    gate = Gate(world, ROUNDS)
    gate.start(LEAVING, n=1)
    gate.raised(None, "leave")
    left, current = asked_steps(gate)

    gate.deployment.send(StepContinue(step_id=left, result={"answer": "too late"}))
    gate.deployment.settle()
    assert gate.deployment.outcomes()["superseded"] == 1
    assert gate.deployment.store.parked() == []
    gate.deployment.send(StepContinue(step_id=current, result={"answer": "in time"}))
    gate.deployment.settle()

    assert gate.outputs() == {"answer": "in time"}


def test_events_of_the_next_execution_are_later_than_the_milestone_that_ends_those_before(world: World) -> None:
    gate = Gate(world, ROUNDS)
    gate.order(LEAVING, n=1)
    gate.send(None, "leave")
    gate.deployment.settle()
    *_, last = events = gate.deployment.events(ASK)
    (milestone,) = continued(gate)

    # An agent compares these numbers alone. The first event is taken back if both are of one commit.
    assert milestone.at < last.created_at
    assert all(event.created_at <= milestone.at for event in events if event.id != last.id)


def test_an_event_of_the_very_moment_in_which_its_execution_ends_is_ended_too(world: World) -> None:
    gate = Gate(world, ROUNDS)
    deployment = gate.deployment
    gate.order(LEAVING, n=1)
    while not deployment.events(ASK):
        deployment.round(0)
    gate.send(None, "leave")
    while len(deployment.events(ASK)) < 2:
        deployment.round(0)
    left, following = deployment.events(ASK)
    (milestone,) = continued(gate)

    assert left.created_at <= milestone.at < following.created_at


def test_agents_skip_the_events_that_an_execution_has_left(world: World) -> None:
    gate = Gate(world, ROUNDS)
    gate.start(LEAVING, n=1)
    gate.raised(None, "leave")
    gate.deployment.clock.advance(5_000)
    asked: list[int] = []

    def handle(payload: dict[str, Any], context: object) -> dict[str, Any]:
        asked.append(payload["n"])
        return {"answer": str(payload["n"])}

    gate.deployment.worker({ASK: handle})
    gate.deployment.settle()

    assert gate.outputs() == {"answer": "2"}
    assert asked == [2]


# --- by command ----------------------------------------------------------------------------------------------------


def test_an_operator_continues_a_run_once_with_other_inputs(world: World) -> None:
    gate = Gate(world, ROUNDS)
    gate.start(LEAVING, n=7)
    gate.raised("kept", "leave")
    for _ in range(2):
        answers = command(gate, inputs={"n": 8}, reason="wrong number")

    assert [m.kind for m in answers] == ["workflow.continued", "command.repeated"]
    row = gate.deployment.workflow(RUN)
    assert (row.inputs, row.execution_number, row.status) == ({"n": 8}, 2, "PAUSED")
    assert gate.pending() == ["kept"]
    (about,) = continuations(gate)
    assert isinstance(about.value, dict)
    assert (about.value["command_id"], about.value["reason"]) == ("c-1", "wrong number")
    left, current = asked_steps(gate)
    assert about.value["abandoned"] == [left]
    gate.deployment.send(StepContinue(step_id=current, result={"answer": "done"}))
    gate.deployment.settle()
    assert gate.outputs() == {"answer": "done"}


def test_an_operator_continues_a_run_with_another_program(world: World) -> None:
    gate = Gate(world, ROUNDS, LATER_ROUNDS)
    deployment = gate.deployment
    deployment.client.start(LEAVING, {"n": 7}, workflow_id=RUN, program=deployment.programs[0].fingerprint)
    deployment.settle()
    (answer,) = command(gate, inputs={"n": 8}, program=deployment.programs[1].fingerprint)

    assert (answer.kind, answer.outputs) == ("workflow.continued", {"execution": 2})
    assert deployment.workflow(RUN).program == deployment.programs[1].fingerprint
    # Read back from the store: it has the program.
    deployment.remove(gate.evaluator, killed=False)
    deployment.evaluator()
    deployment.settle()
    deployment.send(StepContinue(step_id=asked_steps(gate)[-1], result={"answer": "done"}))
    deployment.settle()
    assert gate.outputs() == {"answer": "done!"}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"inputs": {"n": "eight"}}, "InputTypeMismatch"),
        ({"inputs": {"n": 8}, "program": "0" * 64}, "UnknownProgram"),
    ],
)
def test_a_command_that_cannot_be_carried_out_leaves_the_run_as_it_is(
    world: World, fields: dict[str, Any], reason: str
) -> None:
    gate = Gate(world, ROUNDS)
    gate.start(LEAVING, n=7)
    before = gate.deployment.workflow(RUN)

    (answer,) = command(gate, **fields)

    assert answer.kind == "command.refused"
    assert answer.error is not None
    assert answer.error.type == reason
    assert command_letters(gate) == [reason]
    assert gate.deployment.workflow(RUN) == before


def test_a_run_that_has_ended_or_was_never_started_is_not_continued(world: World) -> None:
    gate = Gate(world, ROUNDS)
    (unknown,) = command(gate, inputs={"n": 1})
    gate.start(COUNT, n=1, last=1)
    _, ended = command(gate, inputs={"n": 1, "last": 1})

    assert unknown.error is not None
    assert unknown.error.message == "there is no workflow wf-1 to continue as new"
    assert ended.error is not None
    assert ended.error.message == "workflow wf-1 has ended: it is COMPLETED, and continues no more"
    assert command_letters(gate) == ["NothingToContinue", "NothingToContinue"]


# --- crashes -------------------------------------------------------------------------------------------------------

POINTS = (
    "external.continued", "external.given", "control.applied", "store.written", "store.committed",
    "control.persisted", "control.published", "control.committed",
)  # fmt: skip


@in_worlds(EMBEDDED_DURABLE)
@pytest.mark.parametrize("passes", [0, 1, 3])
@pytest.mark.parametrize("point", POINTS)
def test_a_crash_at_any_step_carries_each_event_and_no_execution_twice(world: World, point: str, passes: int) -> None:
    gate = Gate(world, ROUNDS, max_carried_executions=1)
    deployment = gate.deployment
    deployment.remove(gate.evaluator, killed=False)
    faults = Faults()
    faults.fail_at(point, passes=passes)
    deployment.evaluator(faults)
    acts: list[Callable[[], None]] = [
        lambda: gate.order(SUM, n=0, last=4, got=""),
        lambda: gate.send("left", "other", id="other"),
        *(partial(gate.send, str(n), id=f"e-{n}") for n in range(4)),
        lambda: None,
    ]
    for act in acts:
        act()
        try:
            deployment.settle()
        except Crash:
            deployment.crash_and_restart()
            deployment.evaluator()
            deployment.settle()
    for _ in range(2):
        # Outbox rows of a lane of the dead process.
        deployment.clock.advance(11_000)
        deployment.settle()

    assert gate.outputs() == {"got": "0123"}
    assert deployment.workflow(RUN).execution_number == 5
    assert {m.outputs["execution"] for m in continued(gate) if m.outputs is not None} == {2, 3, 4, 5}
    assert [(r.event_id, r.is_pending) for r in gate.events()] == [
        ("other", False), *((f"e-{n}", False) for n in range(4)),
    ]  # fmt: skip
    assert {reason for reason, _ in gate.letters()} == {"EventNotCarried"}
    assert len({headers_of(letter)["ce_id"] for letter in deployment.dead_letters(deployment.topology.external())}) == 1


# --- no growth -----------------------------------------------------------------------------------------------------


def rows_of(gate: Gate) -> dict[str, int]:
    """Count what the store has of the run."""
    store = gate.deployment.store
    return {
        "steps": len(store.load_steps(RUN)),
        "history": len(store.history(RUN, limit=100_000)),
        "timers": len(store.timers_of(RUN)),
        "outbox": len(store.outbox()),
        "logs": len(store.get_logs_by_runner(RUN)),
        "pending": len(gate.pending()),
    }


@interpreted_only
@pytest.mark.parametrize(
    ("world", "executions"),
    [*with_values(MEMORY, [600]), *with_values(SQLITE, [600, 10_000], lambda count: count == 600)],
    indirect=["world"],
)
def test_a_workflow_that_continues_for_ever_keeps_store_and_memory_flat(world: World, executions: int) -> None:
    gate = Gate(world, ROUNDS)
    gate.start("rounds.Endless", n=1)
    counts: list[dict[str, int]] = []
    sizes: list[int] = []
    tracemalloc.start()
    try:
        for done in range(0, executions, executions // 4):
            for n in range(executions // 4):
                gate.send(n)
            gate.deployment.settle()
            gate.deployment.settle()
            assert gate.deployment.workflow(RUN).execution_number == done + executions // 4 + 1
            counts.append(rows_of(gate))
            # Executions hold each other in circles.
            gc.collect()
            sizes.append(sum(trace.size for trace in tracemalloc.take_snapshot().traces if _is_ours(trace)))
    finally:
        tracemalloc.stop()

    assert counts == [counts[0]] * 4
    assert counts[0]["history"] <= 10 * 3
    # A few bytes an execution would be more than that.
    assert max(sizes) - min(sizes) < 20_000, sizes


def _is_ours(trace: tracemalloc.Trace) -> bool:
    """Say whether the engine or the evaluator has made it; what the outbox makes is kept in the broker's log."""
    name = trace.traceback[0].filename
    return ("/afl/engine/" in name or "/afl_stream/evaluator/" in name) and not name.endswith("outbox.py")
