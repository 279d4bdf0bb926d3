"""A run is one trace, also where a schedule fires it, it continues as new, and external events come."""

from __future__ import annotations

from collections.abc import Mapping

from afl.core.handlers.context import HandlerContext
from afl.core.trace_context import derived_trace_id
from afl.engine.model.store import COMPLETED
from afl_stream.schedules.spec import ScheduleSpec
from tests.worlds.run_traces import RunTraces, attributes_of, trace_of
from tests.worlds.schedules import MINUTE, Planner, run_at
from tests.worlds.world import World
from tests.worlds.worlds import MEMORY

WORLDS = (MEMORY,)

SOURCE = """
namespace plan {
  event facet Pay(n: Long) => (n: Long)
  workflow Turns(n: Long) => (n: Long) andThen when {
    case $.n < 2 => {
      go = afl.WaitForEvent(name = "go")
      paid = Pay(n = $.n)
      c = afl.ContinueAsNew(inputs = #{"n": paid.n})
    }
    case _ => {
      paid = Pay(n = $.n)
      yield Turns(n = paid.n)
    }
  }
}
"""


def paid(payload: Mapping[str, int], context: HandlerContext) -> dict[str, object]:
    return {"n": payload["n"] + 1}


def test_a_firing_its_next_executions_and_its_external_events_are_in_one_trace(world: World) -> None:
    traces = RunTraces()
    deployment = world.deployment(SOURCE, tracer=traces.tracer)
    planner = Planner(deployment)
    deployment.worker({"plan.Pay": paid})
    planner.put(ScheduleSpec(workflow="plan.Turns", inputs={"n": 1}, interval_ms=MINUTE))
    planner.pass_until(0)
    run = run_at(0)
    deployment.client.raise_event(run, "go", {"by": "kim"})
    deployment.settle()

    row = deployment.workflow(run)
    assert (row.status, row.outputs, row.execution_number) == (COMPLETED, {"n": 3}, 2)
    of_run = [span for span in traces.spans() if attributes_of(span).get("messaging.message.conversation_id") == run]
    topology = deployment.topology
    pay = topology.facet("plan.Pay")
    names = [span.name for span in of_run if trace_of(span) == derived_trace_id(run)]
    # Two executions: a Pay of each.
    assert names.count(f"process {pay}") == names.count(f"process {topology.control()}") == 2
    assert names.count(f"send {topology.commands()}") == 1
    assert names.count(f"process {topology.external()}") == 1
    assert f"process {topology.commands()}" in names
    # Where the person who raises the event is in no trace, the event is in that of its run.
    assert names.count(f"send {topology.external()}") == 1
    assert len(of_run) == len(names)
    assert attributes_of(traces.span("run plan.Turns"))["afl.workflow.id"] == run
