"""Whatever watches a run, the run is the same; what is told has been stored; and nothing is called when it is off."""

import logging
import sys
from collections.abc import Callable
from random import Random
from types import FrameType

import pytest

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.engine.errors import WorkflowConflict
from afl.engine.model.store import Batch, StepDocument, WorkflowRow
from afl.stores.memory.store import MemoryStore
from afl.telemetry import logging_sink, telemetry, tracing
from afl.telemetry.logging_sink import LoggingSink
from afl.telemetry.otel_sink import OpenTelemetrySink
from afl.telemetry.telemetry import Telemetry, TelemetryEvent, TelemetrySink
from tests.random_programs.answers import Answers
from tests.random_programs.generator import generate
from tests.unit.engine.nested_programs import branching_program
from tests.unit.engine.running import Engine, failure_of

ASK = """
    event facet E(x: Long) => (r: Long)
    facet V(v: Json)
    workflow W(n: Long) => (r: Long) andThen {
        v = V(v = $.n)
        e = E(x = v.v)
        yield W(r = e.r)
    }
"""


class Raises(TelemetrySink):
    """Takes nothing."""

    def emit(self, event: TelemetryEvent) -> None:
        raise OSError("the disk is full")


class Spoils(TelemetrySink):
    """Changes whatever it is given."""

    def emit(self, event: TelemetryEvent) -> None:
        result = event.details.get("result")
        if isinstance(result, dict):
            result.clear()
        event.details.clear()


def silent_logging() -> TelemetrySink:
    logger = logging.Logger("telemetry of a test", logging.DEBUG)
    logger.addHandler(logging.NullHandler())
    return LoggingSink(logger, values=True)


def play(program: CompiledProgram, workflow: str, seed: int, watching: Telemetry | None) -> object:
    """Return what is stored of a run whose events are answered, some with failures, in an order of the seed's own."""
    engine = Engine(program, telemetry=watching, max_open_events=4)
    answers, random = Answers(dict(program.tree)), Random(seed)
    result = engine.start(generate(seed).inputs if workflow != "n.W" else {}, workflow)
    outputs = [result.outputs]
    while result.status == "PAUSED":
        for step in random.sample(waiting := engine.view().waiting(), random.randint(1, len(waiting))):
            if random.random() < 0.1:
                engine.evaluator.fail_step(step.id, "failed")
            else:
                document = step.document
                engine.evaluator.continue_step(step.id, answers(document.facet_name, document.params))
        result = engine.resume()
        outputs.append(result.outputs)
    row: WorkflowRow = engine.row()
    steps: list[StepDocument] = engine.store.load_steps("run")
    return row, steps, outputs, str(result.error)


def branching_answers(program: CompiledProgram, seed: int, watching: Telemetry | None) -> object:
    engine, random = Engine(program, telemetry=watching), Random(seed)
    result = engine.start()
    while result.status == "PAUSED":
        step = random.choice(engine.view().waiting())
        if random.random() < 0.2:
            engine.evaluator.fail_step(step.id, "failed")
        else:
            engine.evaluator.continue_step(step.id, {"r": [step.id]})
        result = engine.resume()
    return engine.row(), engine.store.load_steps("run"), result.outputs, str(result.error)


SINKS: list[Callable[[], TelemetrySink]] = [silent_logging, OpenTelemetrySink, Raises, Spoils]


@pytest.mark.parametrize("make_sink", SINKS, ids=lambda make: make.__name__)
def test_random_programs_store_the_same_whatever_watches_them(make_sink: Callable[[], TelemetrySink]) -> None:
    for seed in range(0, 40, 4):
        case = generate(seed)
        program = CompiledProgram(compile_text(case.text).program_json)
        watched = play(program, case.workflow, seed, Telemetry(sink=make_sink()))

        assert watched == play(program, case.workflow, seed, None), f"seed {seed}\n{case.text}"


@pytest.mark.parametrize("make_sink", SINKS, ids=lambda make: make.__name__)
def test_programs_that_branch_and_catch_store_the_same_whatever_watches_them(
    make_sink: Callable[[], TelemetrySink],
) -> None:
    for seed in range(8):
        tree = branching_program(seed)
        namespace = {"declarations": [{"type": "Namespace", "name": "n", "declarations": tree["declarations"]}]}
        program = CompiledProgram(namespace)

        watched = branching_answers(program, seed, Telemetry(sink=make_sink()))
        assert watched == branching_answers(program, seed, None), f"seed {seed}"


def test_the_outputs_of_a_run_are_out_of_the_reach_of_a_sink() -> None:
    engine = Engine(ASK, telemetry=Telemetry(sink=Spoils()))
    engine.start({"n": 1})

    assert engine.answer("e", {"r": 7}).outputs == {"r": 7}
    assert engine.row().outputs == {"r": 7}


@pytest.mark.parametrize("watching", [None, Telemetry(enabled=False)], ids=["none given", "given, and off"])
def test_a_run_without_telemetry_calls_nothing_of_it(watching: Telemetry | None) -> None:
    engine = Engine(ASK, telemetry=watching)
    modules = {module.__file__ for module in (telemetry, tracing, logging_sink)}
    called: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename in modules:
            called.append(frame.f_code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        engine.start({"n": 1})
        result = engine.answer("e", {"r": 7})
        refused = engine.start({"m": 1})
    finally:
        sys.setprofile(before)

    assert (result.outputs, refused.status) == ({"r": 7}, "ERROR")
    assert called == []


class LosesTheRace(MemoryStore):
    """Another writer is faster, the first time that a workflow's second revision is to be committed."""

    has_lost = False

    def commit_batch(self, batch: Batch) -> int:
        if not self.has_lost and any(change.expected_revision == 1 for change in batch.changes):
            self.has_lost = True
            raise WorkflowConflict(("run",))
        return super().commit_batch(batch)


def test_what_was_not_stored_is_not_told() -> None:
    watching = Telemetry()
    engine = Engine(ASK, store=LosesTheRace(), telemetry=watching)
    engine.start({"n": 1})
    engine.answer("e", {"r": 7})

    created = [event.step_id for event in watching.events if event.event_type == "step.created"]
    assert created == [step.id for step in engine.steps()]
    assert [event.event_type for event in watching.events].count("iteration.end") == engine.row().iterations


def test_the_end_of_a_run_is_told_once_however_often_it_is_resumed() -> None:
    watching = Telemetry()
    engine = Engine(ASK, telemetry=watching)
    engine.start({"n": 1})
    engine.answer("e", {"r": 7})
    engine.resume()

    (end,) = [event for event in watching.events if event.event_type == "workflow.complete"]
    assert end.details["result"] == {"r": 7}
    assert (end.details["status"], end.details["workflowName"]) == ("COMPLETED", "n.W")
    starts = [event for event in watching.events if event.event_type == "workflow.start"]
    assert [event.details.get("resumed", False) for event in starts] == [False, True, True]


def test_a_cancelled_run_ends_in_telemetry() -> None:
    watching = Telemetry()
    engine = Engine(ASK, telemetry=watching)
    engine.start({"n": 1})
    engine.evaluator.cancel("run", "ordered twice")

    assert watching.events[-1].event_type == "workflow.error"
    assert (watching.events[-1].details["status"], watching.events[-1].details["errorType"]) == (
        "CANCELLED",
        "Cancelled",
    )


def test_a_call_that_could_not_continue_is_told() -> None:
    watching = Telemetry()
    engine = Engine(ASK, telemetry=watching, max_iterations=1)

    assert engine.start({"n": 1}).status == "TIMEOUT"
    assert engine.start({"n": "x"}).status == "ERROR"

    reported = [event.details["errorType"] for event in watching.events if event.event_type == "workflow.error"]
    assert reported == ["IterationLimitReached", "InputTypeMismatch"]


def test_iterations_are_numbered_through_the_whole_run_and_timed() -> None:
    ticks = iter(range(0, 10**9, 2_000_000))
    watching = Telemetry(monotonic_ns=lambda: next(ticks))
    engine = Engine(ASK, telemetry=watching)
    engine.start({"n": 1})
    engine.answer("e", {"r": 7})

    ends = [event.details for event in watching.events if event.event_type == "iteration.end"]
    assert [end["iteration"] for end in ends] == list(range(engine.row().iterations))
    assert {end["durationMs"] for end in ends} == {2.0}


def test_a_failed_step_goes_to_its_error_state_in_telemetry_and_names_the_cause() -> None:
    watching = Telemetry()
    engine = Engine(ASK, telemetry=watching)
    engine.start({"n": 1})
    cause = failure_of(engine.fail("e", "no funds", "NoFunds"))

    errors = [event for event in watching.events if event.event_type == "step.error"]
    assert [event.details.get("causedBy") for event in errors] == [None, cause.step_id, cause.step_id]
    assert {event.details["errorType"] for event in errors} == {"NoFunds"}
    assert errors[0].state == "state.EventTransmit"
    last = [event for event in watching.events if event.event_type == "state.transition"][-1]
    assert last.details["toState"] == "state.statement.Error"


WAITS = """
    facet V(v: Json)
    workflow W() => (r: [Long])
        andThen {
            a = V(v = [1])
            outer = V(v = a.v) andThen { inner = V(v = a.v) }
            each = V(v = 1) andThen foreach x in a.v { one = V(v = $.x) }
            choice = V(v = 2) andThen when { case a.v == [1] => { then = V(v = 3) } case _ => { other = V(v = 4) } }
        }
"""


def test_dependencies_outside_a_block_are_seen_resolved_too() -> None:
    watching = Telemetry()
    engine = Engine(WAITS, telemetry=watching)
    assert engine.start().status == "COMPLETED"

    a = engine.step("a").id
    resolved = {
        event.step_id
        for event in watching.events
        if event.event_type == "dependency.resolved" and event.details["dependencyId"] == a
    }
    assert {engine.step(path).id for path in ("outer", "outer.inner", "each#0", "choice#0")} <= resolved


class Awful(Exception):
    def __str__(self) -> str:
        raise SystemExit(9)


class Leaves(TelemetrySink):
    """Ends the process, whatever it is asked; and what it gives does so too."""

    @property
    def event_types(self) -> frozenset[str] | None:
        raise SystemExit(9)

    def emit(self, event: TelemetryEvent) -> None:
        raise Awful

    def traceparent(self, workflow_id: str, event_id: str) -> str | None:
        return object()  # type: ignore[return-value]  # what is tried here

    def close(self) -> None:
        raise GeneratorExit


def test_a_sink_that_ends_the_process_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    watching = Telemetry(sink=Leaves())

    assert watching.wants("workflow.start")
    watching.emit(TelemetryEvent(timestamp=1, event_type="workflow.start", workflow_id="w"))
    assert watching.traceparent("w", "e") is None
    watching.close()

    assert watching.lost == 3
    assert "telemetry lost what is wanted" in caplog.text
    assert "Leaves did not close: GeneratorExit" in caplog.text
