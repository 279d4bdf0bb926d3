"""The control loop tells the same of its runs as the evaluator, of what it has stored only, and where settings say."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import TracerProvider

from afl.core.clock import ManualClock
from afl.core.handlers.context import HandlerContext
from afl.engine.model.store import Batch
from afl.engine.states import StepState
from afl.evaluation.evaluator import Evaluator
from afl.stores.memory.store import MemoryStore
from afl.telemetry.otel_sink import OpenTelemetrySink
from afl.telemetry.telemetry import Telemetry
from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.errors import ConfigError
from afl_stream.evaluator.service import EvaluatorService
from afl_stream.evaluator.telemetry_sinks import open_telemetry
from afl_stream.schedules.spec import ScheduleSpec
from afl_stream.settings.config import EvaluatorSettings, TelemetrySettings
from afl_stream.wire.headers import header, headers_for
from afl_stream.wire.messages import FailureReason, StartWorkflow, StepContinue, StepFailed
from tests.worlds.deployment import START_MS
from tests.worlds.naps import NAPS
from tests.worlds.signals import SIGNALS, Signals
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED

#: Telemetry is compared to the millisecond of the clock.
WORLDS = EMBEDDED

SOURCE = """
namespace shop {
    event facet Pay(x: Long) => (r: Long)
    facet V(v: Long)
    workflow W(n: Long) => (r: Long) andThen {
        v = V(v = $.n)
        pay = Pay(x = v.v)
        after = V(v = pay.r)
        yield W(r = pay.r)
    }
}
"""


def told(telemetry: Telemetry) -> list[tuple[object, ...]]:
    """Return what was told, but for times and for what is said of a call of `resume`: the loop has no such calls."""
    return [
        (
            event.event_type,
            event.workflow_id,
            event.step_id,
            event.state,
            {name: detail for name, detail in event.details.items() if name != "durationMs"},
        )
        for event in telemetry.events
        if "resumed" not in event.details
    ]


@pytest.mark.parametrize("batch_records", [1, 500])
def test_the_loop_tells_what_the_evaluator_tells(world: World, batch_records: int) -> None:
    of_loop, of_evaluator = Telemetry(), Telemetry()
    deployment = world.deployment(SOURCE, telemetry=of_loop, evaluator=EvaluatorSettings(batch_records=batch_records))
    deployment.clock = ManualClock(START_MS)
    store = MemoryStore()
    evaluator = Evaluator(store, of_evaluator, clock=ManualClock(START_MS))
    evaluator.execute("shop.W", {"n": 1}, deployment.programs[0], workflow_id="wf")
    step_id = next(step.id for step in store.load_steps("wf") if step.facet_name == "shop.Pay")
    evaluator.continue_step(step_id, {"r": 7})
    evaluator.resume("wf")

    loop = deployment.evaluator()
    deployment.client.start("shop.W", {"n": 1}, workflow_id="wf")
    for _ in range(3):
        loop.turn()
    deployment.send(StepContinue(step_id=step_id, result={"r": 7}))
    for _ in range(3):
        loop.turn()

    assert deployment.workflow("wf").status == "COMPLETED"
    assert told(of_loop) == told(of_evaluator)


def test_the_loop_tells_what_an_operator_does_as_the_evaluator_tells_it(world: World) -> None:
    of_loop, of_evaluator = Telemetry(), Telemetry()
    deployment = world.deployment(SOURCE, telemetry=of_loop)
    deployment.clock = ManualClock(START_MS)
    store = MemoryStore()
    evaluator = Evaluator(store, of_evaluator, clock=ManualClock(START_MS))
    evaluator.execute("shop.W", {"n": 1}, deployment.programs[0], workflow_id="wf")
    step_id = next(step.id for step in store.load_steps("wf") if step.facet_name == "shop.Pay")
    evaluator.fail_step(step_id, "the bank is away", "Away")
    evaluator.resume("wf")
    evaluator.retry("wf")
    evaluator.resume("wf")

    loop = deployment.evaluator()
    deployment.client.start("shop.W", {"n": 1}, workflow_id="wf")
    for _ in range(3):
        loop.turn()
    deployment.send(StepFailed(step_id=step_id, error=FailureReason(type="Away", message="the bank is away")))
    for _ in range(3):
        loop.turn()
    deployment.client.retry("wf")
    for _ in range(3):
        loop.turn()

    assert deployment.workflow("wf").status == "PAUSED"
    moved = [event.details for event in of_loop.events if event.step_id == step_id and "fromState" in event.details]
    assert moved[-1] == {"fromState": StepState.STATEMENT_ERROR, "toState": StepState.EVENT_TRANSMIT}
    assert told(of_loop) == told(of_evaluator)


class LooksWhatIsTold(MemoryStore):
    """Notes how much has been told when a batch comes to be stored."""

    def __init__(self, telemetry: Telemetry) -> None:
        super().__init__(prefix="afl.", clock=ManualClock(START_MS))
        self._telemetry = telemetry
        self.told: list[int] = []

    def commit_batch(self, batch: Batch) -> int:
        self.told.append(len(self._telemetry.events))
        return super().commit_batch(batch)


def test_the_loop_tells_nothing_before_it_is_stored(world: World) -> None:
    telemetry = Telemetry()
    deployment, store = world.deployment(SOURCE), LooksWhatIsTold(telemetry)
    service = EvaluatorService(
        deployment.config, EmbeddedTransport(deployment.broker), store, telemetry=telemetry, clock=deployment.clock
    )
    deployment.client.start("shop.W", {"n": 1}, workflow_id="wf")
    service.loop.run_once(0.0)
    service.close()

    assert store.told[0] == 0
    assert [event.event_type for event in telemetry.events].count("event.published") == 1


def tracing() -> OpenTelemetrySink:
    return OpenTelemetrySink(TracerProvider(shutdown_on_exit=False), MeterProvider(shutdown_on_exit=False))


def test_an_event_and_its_answer_carry_the_trace_of_their_run(world: World) -> None:
    sink = tracing()
    deployment = world.deployment(SOURCE, telemetry=Telemetry(sink=sink))
    seen: list[str | None] = []

    def pay(payload: Mapping[str, object], context: HandlerContext) -> dict[str, object]:
        seen.append(header(context.headers.items(), "traceparent"))
        return {"r": 7}

    deployment.evaluator()
    deployment.worker({"shop.Pay": pay}).join()
    deployment.client.start("shop.W", {"n": 1}, workflow_id="wf")
    deployment.settle()

    assert deployment.workflow("wf").status == "COMPLETED"
    expected = sink.traceparent("wf", f"{deployment.step('wf', 'shop.Pay').id}#1")
    (answer,) = deployment.records(deployment.topology.control())
    assert seen == [header(answer.headers, "traceparent")] == [expected]


def test_without_tracing_events_carry_no_trace_context(world: World) -> None:
    deployment = world.deployment(SOURCE, telemetry=Telemetry())
    deployment.evaluator()
    deployment.client.start("shop.W", {"n": 1}, workflow_id="wf")
    deployment.settle()

    (event,) = deployment.records(deployment.topology.facet("shop.Pay"))
    assert header(event.headers, "traceparent") is None


def test_a_run_tells_which_span_its_command_came_from(world: World) -> None:
    telemetry = Telemetry()
    deployment = world.deployment(SOURCE, telemetry=telemetry)
    deployment.evaluator()
    parent = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    command = StartWorkflow(workflow_id="wf", workflow="shop.W", inputs={"n": 1})
    topic = deployment.topology.commands()
    headers = headers_for(command, source="/tests", caused_by=(("traceparent", parent),))
    deployment.put(topic, deployment.codec.encode(command, topic), key=b"wf", headers=headers)
    deployment.settle()

    (start,) = [event for event in telemetry.events if event.event_type == "workflow.start"]
    assert start.details["traceparent"] == parent.decode()


def lines_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


ABOUT_STEPS = frozenset({"workflow.start", "step.created", "event.published"})
ABOUT_STATES = frozenset({"state.transition", "iteration.start", "iteration.end"})


@pytest.mark.parametrize(("detail", "kinds"), [("steps", ABOUT_STEPS), ("states", ABOUT_STEPS | ABOUT_STATES)])
def test_a_service_logs_lines_of_json_as_its_settings_say(
    world: World, tmp_path: Path, detail: str, kinds: frozenset[str]
) -> None:
    deployment = world.deployment(SOURCE)
    path = tmp_path / "telemetry.jsonl"
    telemetry = TelemetrySettings(sink="logging", detail=detail, file=str(path))
    settings = replace(deployment.config, telemetry=telemetry)
    service = EvaluatorService(settings, EmbeddedTransport(deployment.broker), deployment.store)
    deployment.client.start("shop.W", {"n": 1}, workflow_id="wf")
    for _ in range(3):
        service.loop.run_once(0.0)
    service.close()

    lines = lines_of(path)
    assert lines[0]["eventType"] == "workflow.start"
    assert {line["eventType"] for line in lines} - {"dependency.resolved", "step.complete"} == kinds
    assert {line["workflowId"] for line in lines} == {"wf"}
    assert {(line["level"], line["logger"]) for line in lines} == {("INFO", "afl.telemetry")}


def test_telemetry_is_off_by_default() -> None:
    assert open_telemetry(TelemetrySettings()) is None


def test_opentelemetry_is_opened_by_its_name_and_sends_to_the_endpoint_given() -> None:
    telemetry = open_telemetry(TelemetrySettings(sink="opentelemetry", endpoint="http://127.0.0.1:4318"))

    assert telemetry is not None
    assert isinstance(telemetry.sink, OpenTelemetrySink)
    telemetry.close()


def test_a_file_that_cannot_be_written_is_an_error_of_the_settings(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"telemetry: file: .*appended to \(No such file or directory\)"):
        open_telemetry(TelemetrySettings(sink="logging", file=str(tmp_path / "missing" / "t.jsonl")))


WITHOUT_THE_EXTRA = """
import sys
sys.modules["opentelemetry"] = None
from afl_stream.settings.config import TelemetrySettings
from afl_stream.evaluator.telemetry_sinks import open_telemetry
try:
    open_telemetry(TelemetrySettings(sink="opentelemetry"))
except Exception as error:
    sys.stdout.write(f"{type(error).__name__}: {error}")
"""


def test_without_its_extra_opentelemetry_is_an_error_that_names_it() -> None:
    said = subprocess.run([sys.executable, "-c", WITHOUT_THE_EXTRA], capture_output=True, text=True, check=True).stdout

    assert said.startswith("ConfigError: telemetry: sink: found 'opentelemetry without opentelemetry'")
    assert "pip install afl-stream[otel]" in said


def test_figures_of_external_events_timers_and_schedules_are_those_of_the_counters(world: World) -> None:
    telemetry, reader = Telemetry(), InMemoryMetricReader()
    figures = OpenTelemetrySink(TracerProvider(shutdown_on_exit=False), MeterProvider([reader], shutdown_on_exit=False))
    settings = EvaluatorSettings(max_pending_events=1)
    deployment = world.deployment(SIGNALS, NAPS, telemetry=telemetry, evaluator=settings)
    run = Signals(deployment)
    run.start("Once", name="go")
    for number in range(3):
        run.raises("go", number, workflow_id="wf-1" if not number else "early", event_id=f"e-{number}")
    deployment.client.start("naps.Doze", {"ms": 60_000}, workflow_id="nap")
    nightly = ScheduleSpec(workflow="naps.Doze", inputs={"ms": 600_000}, interval_ms=60_000)
    deployment.client.put_schedule("often", nightly)
    deployment.settle()
    run.pass_time(61_000)
    run.pass_time(60_000)

    for event in telemetry.events:
        figures.emit(event)
    stats = run.evaluator.stats
    assert stats.firings == {"started": 1, "skipped": 1}
    assert stats.events.happened == {"raised": 3, "taken": 1, "early": 1, "dropped": 1}
    assert (counted(reader, "afl.schedule.firings"), counted(reader, "afl.external_events")) == (
        stats.firings,
        stats.events.happened,
    )
    assert counted(reader, "afl.external_events.dropped") == stats.events.dropped == {"TooManyEarlyEvents": 1}
    assert stats.timers.fired == 1
    assert counted(reader, "afl.timer.lateness") == {"sleep": 1}
    (late_ms,) = [event.details["lateMs"] for event in telemetry.events if event.event_type == "timers.fired"]
    assert late_ms == {"sleep": [stats.timers.late_ms]}


def counted(reader: InMemoryMetricReader, name: str) -> dict[object, float]:
    """Return the values of a counter, or how often a histogram was recorded, by the only attribute that it has."""
    found = reader.get_metrics_data()
    assert found is not None
    points = [
        point
        for of_resource in found.resource_metrics
        for of_scope in of_resource.scope_metrics
        for metric in of_scope.metrics
        if metric.name == name
        for point in metric.data.data_points
    ]
    return {
        next(iter((point.attributes or {}).values())): point.value
        if isinstance(point, NumberDataPoint)
        else getattr(point, "count", 0)
        for point in points
    }
