"""Telemetry sees every transition, iteration, dependency and event; and every step walks its table from end to end."""

from itertools import pairwise

from afl.engine.states import StepState, select_transitions
from afl.evaluation.evaluator import Evaluator
from afl.stores.memory.store import MemoryStore
from afl.telemetry.telemetry import Telemetry, TelemetryEvent
from tests.unit.engine.running import Engine

PROGRAM = """
    schema S { x: Long }
    event facet E(x: Long) => (r: Long)
    facet V(v: Long)
    facet Outer(xs: [Long]) => (r: [Long]) andThen foreach x in $.xs {
        e = E(x = $.x) andThen { v = V(v = e.r) }
        yield Outer(r = [e.r])
    }
    workflow W() => (r: [Long]) andThen {
        s = S(x = 1)
        o = Outer(xs = [s.x, 2])
        yield W(r = o.r)
    }
"""


def of_type(telemetry: Telemetry, event_type: str) -> list[TelemetryEvent]:
    return [event for event in telemetry.events if event.event_type == event_type]


def run() -> tuple[Engine, Telemetry]:
    telemetry = Telemetry()
    engine = Engine(PROGRAM, telemetry=telemetry)
    engine.run(agents=lambda facet, payload: {"r": 1})
    return engine, telemetry


def test_every_step_walks_its_table_from_created_to_complete() -> None:
    engine, telemetry = run()
    walked: dict[str | None, list[str]] = {}
    for event in of_type(telemetry, "state.transition"):
        states = walked.setdefault(event.step_id, [str(event.details["fromState"])])
        assert states[-1] == event.details["fromState"]
        states.append(str(event.details["toState"]))

    steps = engine.steps()
    assert len(steps) == len(walked)
    for step in steps:
        table = select_transitions(step.document.object_type)
        states = walked[step.id]
        assert (states[0], states[-1]) == (StepState.CREATED, StepState.STATEMENT_COMPLETE)
        assert all(table[here] == there for here, there in pairwise(states))


def test_every_step_is_seen_as_it_is_created() -> None:
    engine, telemetry = run()

    assert [event.step_id for event in of_type(telemetry, "step.created")] == [step.id for step in engine.steps()]


def test_iterations_begin_and_end_and_count_what_they_made() -> None:
    engine, telemetry = run()
    begun, ended = of_type(telemetry, "iteration.start"), of_type(telemetry, "iteration.end")

    assert len(begun) == len(ended) == engine.row().iterations
    # The root is there before the first.
    assert sum(int(str(event.details["created"])) for event in ended) == len(engine.steps()) - 1


def test_a_dependency_is_seen_resolved_by_the_step_that_waited() -> None:
    engine, telemetry = run()

    seen = [(event.step_id, event.details["dependencyId"]) for event in of_type(telemetry, "dependency.resolved")]
    assert (engine.step("o").id, engine.step("s").id) in seen


def test_events_are_seen_published_with_their_facet() -> None:
    engine, telemetry = run()

    published = of_type(telemetry, "event.published")
    assert [event.step_id for event in published] == [engine.step("o[0].e").id, engine.step("o[1].e").id]
    assert {event.details["eventType"] for event in published} == {"n.E"}


def test_a_run_begins_and_ends_in_telemetry_and_a_failed_step_is_seen() -> None:
    telemetry = Telemetry()
    engine = Engine("facet V(v: Double) workflow W() andThen { v = V(v = 1 / 0) }", telemetry=telemetry)
    engine.start()

    assert telemetry.events[0].event_type == "workflow.start"
    assert telemetry.events[-1].event_type == "workflow.error"
    failed = [event.step_id for event in of_type(telemetry, "step.error")]
    assert failed == [engine.step(path).id for path in ("v", "#0", "")]


def test_telemetry_that_is_off_sees_nothing() -> None:
    telemetry = Telemetry(enabled=False)
    Evaluator(MemoryStore(), telemetry).execute({"name": "W"})

    assert telemetry.events == []
