"""Telemetry has the actions of operators: the transitions of a run give the state of each of its steps."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from afl.engine.states import StepState
from afl.telemetry.telemetry import Telemetry, TelemetryEvent
from tests.random_programs.trusted_scripts import TrustingRunner
from tests.unit.engine.operating import EVERYTHING, Operated
from tests.unit.engine.running import Engine

Act = Callable[[Operated], object]


def observed(failing: str) -> tuple[Operated, Telemetry]:
    """Return a watched run, played until one of its events has failed."""
    telemetry = Telemetry()
    run = Operated(Engine(EVERYTHING, scripts=TrustingRunner(), telemetry=telemetry))
    run.play(failing=failing)
    return run, telemetry


def followed(events: list[TelemetryEvent]) -> dict[str, str]:
    """Return the state of each step by its transitions; no transition may contradict an earlier one."""
    states: dict[str, str] = {}
    for event in events:
        step_id = str(event.step_id)
        if event.event_type == "step.created":
            assert step_id not in states
            states[step_id] = str(event.state)
        elif event.event_type == "state.transition":
            assert states[step_id] == event.details["fromState"]
            states[step_id] = str(event.details["toState"])
    return states


ACTS: dict[str, Act] = {
    "retry": lambda run: run.retry("part.e"),
    "retry of a cancelled run": lambda run: (run.engine.evaluator.cancel("run"), run.retry()),
    "rerun": lambda run: run.rerun("first"),
    "rerun of a block": lambda run: run.rerun("#1"),
    "reset": lambda run: run.reset(),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_what_is_told_of_a_run_leads_to_where_its_steps_stand_whatever_operators_did(act: Act) -> None:
    run, telemetry = observed("part.e")
    act(run)
    run.play()

    stored = {document.id: document.state for document in run.engine.store.load_steps("run")}
    assert followed(telemetry.events) == stored


def test_a_retry_is_seen_before_the_run_continues() -> None:
    run, telemetry = observed("part.e")
    reported = len(telemetry.events)
    step = run.step("part.e")
    run.engine.evaluator.retry("run")

    news = telemetry.events[reported:]
    assert {event.event_type for event in news} == {"state.transition"}
    moved = {str(event.step_id): (event.details["fromState"], event.details["toState"]) for event in news}
    assert moved[step.id] == (StepState.STATEMENT_ERROR, StepState.EVENT_TRANSMIT)
    assert moved[run.step("").id] == (StepState.STATEMENT_ERROR, StepState.STATEMENT_BLOCKS_CONTINUE)


def test_a_run_that_is_taken_up_again_names_the_root_that_counts() -> None:
    run, telemetry = observed("part.e")
    roots = [run.step("").id]
    for act in (ACTS["rerun"], ACTS["reset"]):
        act(run)
        roots.append(run.step("").id)
        (*_, start) = [event for event in telemetry.events if event.event_type == "workflow.start"]

        assert start.details["rootId"] == roots[-1]
    assert [here == there for here, there in pairwise(roots)] == [True, False]
