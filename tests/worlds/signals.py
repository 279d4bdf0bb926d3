"""Programs that wait for external events, one for each shape of a wait, and who raises the events.

A `Gate` is a step that the test answers: it holds an execution until events were raised, and its answer says what the
execution does next. The spec of external events calls a wait `schedule_wait`, and its workflow an orchestration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from afl.engine.model.history import HistoryKind, HistoryRow
from afl.engine.model.store import COMPLETED, StepDocument
from afl.engine.states import StepState
from afl_stream.wire.messages import StepContinue
from tests.record_headers import headers_of
from tests.scenarios.working_stores import findings_of
from tests.worlds.deployment import Deployment
from tests.worlds.parties import Evaluator

SIGNALS: Final = """
namespace signals {
  event facet Gate(round: Long) => (next: String)
  facet Name(name: String, after: Json)

  workflow Once(name: String, timeout_ms: Long = 0) => (data: Json, timed_out: Boolean) andThen {
    got = afl.WaitForEvent(name = $.name, timeout_ms = $.timeout_ms)
    yield Once(data = got.data, timed_out = got.timed_out)
  }

  workflow Twice(name: String) => (data: [Json]) andThen {
    first = afl.WaitForEvent(name = $.name)
    name = Name(name = $.name, after = first.data)
    second = afl.WaitForEvent(name = name.name)
    yield Twice(data = [first.data, second.data])
  }

  workflow Both(name: String, other: String) => (data: [Json]) andThen {
    one = afl.WaitForEvent(name = $.name)
    two = afl.WaitForEvent(name = $.other)
    yield Both(data = [one.data, two.data])
  }

  workflow Gated() => (data: Json) andThen {
    gate = Gate(round = 1)
    got = afl.WaitForEvent(name = gate.next)
    yield Gated(data = got.data)
  }

  workflow Deaf() => (word: String) andThen {
    gate = Gate(round = 1)
    yield Deaf(word = gate.next)
  }

  workflow Many(names: [String]) => (data: [Json], word: String) andThen {
    gate = Gate(round = 1) andThen foreach name in $.names {
      got = afl.WaitForEvent(name = name)
      yield Many(data = [got.data])
    }
    last = Gate(round = 2)
    yield Many(word = last.next)
  }

  workflow Steered(name: String, round: Long = 1) => (data: Json, round: Long) andThen {
    gate = Gate(round = $.round)
  } andThen when {
    case gate.next == "continue" => {
      again = afl.ContinueAsNew(inputs = #{name: $.name, round: $.round + 1})
    }
    case gate.next == "wait" => {
      got = afl.WaitForEvent(name = $.name)
      yield Steered(data = got.data, round = $.round)
    }
    case gate.next == "wait, then continue" => {
      got = afl.WaitForEvent(name = $.name) andThen {
        again = afl.ContinueAsNew(inputs = #{name: $.name, round: $.round + 1})
      }
    }
    case _ => { yield Steered(data = "ended", round = $.round) }
  }

  facet Take(name: String, places: [Long]) => (data: [Json] = []) andThen foreach place in $.places {
    got = afl.WaitForEvent(name = $.name)
    yield Take(data = [got.data])
  }
  facet Joined(before: [Json], more: [Json]) => (all: [Json]) andThen {
    yield Joined(all = $.before)
  } andThen {
    yield Joined(all = $.more)
  }

  workflow Collect(name: String, places: [Long], left: Long, seen: [Json] = []) => (seen: [Json]) andThen when {
    case $.left > 0 => {
      taken = Take(name = $.name, places = $.places)
      joined = Joined(before = $.seen, more = taken.data)
      again = afl.ContinueAsNew(
        inputs = #{name: $.name, places: $.places, left: $.left - 1, seen: joined.all},
      )
    }
    case _ => { yield Collect(seen = $.seen) }
  }
}
"""
GATE: Final = "signals.Gate"
WAIT: Final = "afl.WaitForEvent"


class Signals:
    """A deployment with an evaluator, and those who raise events for its workflows; no agent: the test opens the gates.

    Each action is over when the deployment is at rest again.
    """

    def __init__(self, deployment: Deployment, evaluator: Evaluator | None = None) -> None:
        self.deployment = deployment
        self.evaluator = evaluator or deployment.evaluator()
        deployment.settle()

    # --- what is done ---------------------------------------------------------------------------------------------

    def start(self, workflow: str, workflow_id: str = "wf-1", **inputs: object) -> str:
        self.deployment.client.start(f"signals.{workflow}", inputs, workflow_id=workflow_id)
        self.deployment.settle()
        return workflow_id

    def raises(self, name: str, data: object, workflow_id: str = "wf-1", event_id: str | None = None) -> None:
        """Raise an event, and let it be handled."""
        self.send(name, data, workflow_id, event_id)
        self.deployment.settle()

    def send(self, name: str, data: object, workflow_id: str = "wf-1", event_id: str | None = None) -> None:
        """Raise an event, and do not wait until it is handled."""
        self.deployment.client.raise_event(workflow_id, name, data, id=event_id)

    def open(self, then: str = "", workflow_id: str = "wf-1") -> None:
        """Answer the gate that holds the workflow; `then` says what it does next."""
        (gate, *_) = [
            step
            for step in self.deployment.steps(workflow_id)
            if step.facet_name == GATE and step.state == StepState.EVENT_TRANSMIT
        ]
        self.deployment.send(StepContinue(step_id=gate.id, result={"next": then}))
        self.deployment.settle()

    def pass_time(self, duration_ms: int) -> None:
        """Let time pass by the deployment's clock, and whatever is due happen."""
        self.deployment.clock.advance(duration_ms)
        self.deployment.settle()

    # --- what is looked at ----------------------------------------------------------------------------------------

    def outputs(self, workflow_id: str = "wf-1") -> Mapping[str, Any]:
        """Return what the workflow has returned: it must have completed."""
        row = self.deployment.workflow(workflow_id)
        assert row.status == COMPLETED, (row.status, row.error)
        assert row.outputs is not None
        return row.outputs

    def execution(self, workflow_id: str = "wf-1") -> int:
        """Return the number of the execution that the workflow is in."""
        return self.deployment.workflow(workflow_id).execution_number

    def waits(self, workflow_id: str = "wf-1") -> list[str]:
        """Return the names of the events that the workflow waits for, in order."""
        waiting = [
            step
            for step in self.deployment.steps(workflow_id)
            if step.facet_name == WAIT and step.state == StepState.EVENT_TRANSMIT
        ]
        return [str(step.params["name"]) for step in waiting]

    def steps(self, facet: str, workflow_id: str = "wf-1") -> list[StepDocument]:
        return [step for step in self.deployment.steps(workflow_id) if step.facet_name == facet]

    def rows(self, workflow_id: str = "wf-1", execution: int | None = None) -> list[HistoryRow]:
        """Return all rows of a history as the store has them."""
        return self.deployment.store.history(workflow_id, execution=execution, limit=100_000)

    def events(self, workflow_id: str = "wf-1", execution: int | None = None) -> list[HistoryRow]:
        """Return the external events of a history."""
        return [row for row in self.rows(workflow_id, execution) if row.kind == HistoryKind.EXTERNAL_EVENT]

    def pending(self, workflow_id: str = "wf-1") -> list[Any]:
        """Return the data of the events that no wait has taken yet, in order."""
        found = self.deployment.store.pending_events([workflow_id]).get(workflow_id, [])
        return [event.value for event in found]

    def letters(self) -> list[tuple[str, str]]:
        """Why events are dead letters: the reason, and the text for people."""
        letters = self.deployment.dead_letters(self.deployment.topology.external())
        headers = [headers_of(letter) for letter in letters]
        return [(found["afl.dlq.reason"].decode(), found["afl.dlq.error"].decode()) for found in headers]

    def assert_nothing_is_left(self) -> None:
        """No timer, no outbox row, no parked record is left, and a check of the store finds nothing."""
        store = self.deployment.store
        assert store.next_timer_ms() is None
        assert store.outbox() == []
        assert store.parked() == []
        assert findings_of(store) == []
