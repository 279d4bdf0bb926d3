"""Programs that wait for external events, and the gate at which their senders stand."""

from __future__ import annotations

from collections import Counter
from typing import Any

from afl.engine.model.store import COMPLETED, HistoryKind, HistoryRow
from afl_stream.settings.config import EvaluatorSettings
from afl_stream.wire.headers import COMMAND_HEADER, headers_for
from afl_stream.wire.messages import ExternalEvent, Lifecycle, StepContinue
from tests.record_headers import headers_of
from tests.worlds.deployment import Deployment
from tests.worlds.parties import Evaluator
from tests.worlds.world import World

GATE = """
namespace gate {
  event facet Ask(question: String) => (answer: String)
  facet Then(after: Json, name: String) => (name: String) andThen { yield Then(name = $.name) }
  workflow Two(first: String, second: String) => (got: [Json]) andThen {
    a = afl.WaitForEvent(name = $.first)
    n = Then(after = a.data, name = $.second)
    b = afl.WaitForEvent(name = n.name)
    yield Two(got = [a.data, b.data])
  }
  workflow Asking() => (data: Json) andThen {
    asked = Ask(question = "which")
    w = afl.WaitForEvent(name = asked.answer)
    yield Asking(data = w.data)
  }
  workflow Both() => (got: [Json]) andThen {
    a = afl.WaitForEvent(name = "go")
    b = afl.WaitForEvent(name = "go")
    yield Both(got = [a.data, b.data])
  }
}
"""
TWO, ASKING, BOTH, ASK = "gate.Two", "gate.Asking", "gate.Both", "gate.Ask"
RUN = "wf-1"


class Gate:
    """A deployment with an evaluator, and what senders of events do. Nothing answers by itself."""

    def __init__(self, world: World, *sources: str, control_partitions: int = 1, **evaluator: int | str) -> None:
        """Make one with these programs, or with GATE; `evaluator` are settings of the evaluator, by name."""
        settings = EvaluatorSettings(**evaluator)  # type: ignore[arg-type]  # fields by name
        self.deployment: Deployment = world.deployment(
            *(sources or (GATE,)), evaluator=settings, control_partitions=control_partitions
        )
        self.evaluator: Evaluator = self.deployment.evaluator()
        self.deployment.settle()

    # --- what is done ---------------------------------------------------------------------------------------------

    def start(self, workflow: str = TWO, workflow_id: str = RUN, **inputs: Any) -> None:
        """Start a workflow; one of two waits waits for `go` twice."""
        self.order(workflow, workflow_id, **inputs)
        self.deployment.settle()

    def order(self, workflow: str = TWO, workflow_id: str = RUN, **inputs: Any) -> None:
        """Send the start, and let nobody read it yet."""
        given = {"first": "go", "second": "go", **inputs} if workflow == TWO else inputs
        self.deployment.client.start(workflow, given, workflow_id=workflow_id)

    def send(
        self,
        data: object,
        name: str = "go",
        workflow_id: str = RUN,
        *,
        id: str | None = None,
        partition: int | None = None,
        asking: str | None = None,
    ) -> None:
        """Send an event, and let nobody read it yet. `asking`: the id under which an answer is asked for."""
        deployment = self.deployment
        event = ExternalEvent(workflow_id=workflow_id, name=name, value=data, id=id)
        topic = deployment.topology.external()
        headers = headers_for(event, source="/tests")
        headers += () if asking is None else ((COMMAND_HEADER, asking.encode()),)
        value = deployment.codec.encode(event, topic)
        deployment.put(topic, value, key=workflow_id.encode(), headers=headers, partition=partition)

    def raised(self, data: object, name: str = "go", workflow_id: str = RUN, *, id: str | None = None) -> None:
        """Send an event, and let it be handled."""
        self.send(data, name, workflow_id, id=id)
        self.deployment.settle()

    def asked(self, data: object, name: str = "go", workflow_id: str = RUN, *, id: str | None = None) -> Lifecycle:
        """Send an event, and return the answer to its sender."""
        command_id = f"asked-{len(self.deployment.records(self.deployment.topology.external()))}"
        self.send(data, name, workflow_id, id=id, asking=command_id)
        self.deployment.settle()
        (answer,) = [m for m in self.deployment.milestones(workflow_id) if m.command_id == command_id]
        return answer

    def answer(self, text: str, workflow_id: str = RUN) -> None:
        """Answer the question of a run."""
        step = self.deployment.step(workflow_id, ASK)
        self.deployment.send(StepContinue(step_id=step.id, result={"answer": text}))

    # --- what is looked at ----------------------------------------------------------------------------------------

    def outputs(self, workflow_id: str = RUN) -> object:
        """Return the outputs of a run, which has completed."""
        row = self.deployment.workflow(workflow_id)
        assert row.status == COMPLETED, row
        return row.outputs

    def history(self, workflow_id: str = RUN) -> list[HistoryRow]:
        return self.deployment.store.history(workflow_id)

    def events(self, workflow_id: str = RUN) -> list[HistoryRow]:
        """Return the rows of a run's events."""
        return [row for row in self.history(workflow_id) if row.kind == HistoryKind.EXTERNAL_EVENT]

    def pending(self, workflow_id: str = RUN) -> list[object]:
        """Return the data of the events that no wait has taken."""
        found = self.deployment.store.pending_events((workflow_id,)).get(workflow_id, [])
        assert found == [row for row in self.events(workflow_id) if row.is_pending]
        return [row.value for row in found]

    def happened(self) -> dict[str, int]:
        """Return what has happened to events, over all evaluators."""
        counted: Counter[str] = Counter()
        for evaluator in self.deployment.evaluators:
            counted.update(evaluator.stats.events.happened)
        return dict(counted)

    def letters(self) -> list[tuple[str, str]]:
        """Why events are dead letters: the reason, and the text for people."""
        letters = self.deployment.dead_letters(self.deployment.topology.external())
        headers = [headers_of(letter) for letter in letters]
        return [(found["afl.dlq.reason"].decode(), found["afl.dlq.error"].decode()) for found in headers]
