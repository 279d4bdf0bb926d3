"""A program whose runs sleep, ask with a deadline and ask again; and what its tests look at."""

from __future__ import annotations

from typing import Any

from afl.engine.model.store import COMPLETED, StepDocument, TimerRow
from afl_stream.wire.messages import Event, FailureReason, StepContinue, StepFailed
from tests.worlds.deployment import Deployment

NAPS = """
namespace naps {
  event facet Ask(question: String) => (answer: String)
  event facet Note(name: String) => (noted: String)

  // Sleeps, and asks afterwards.
  workflow Nap(name: String, ms: Long) => (woke_at: Long, noted: String) andThen {
    nap = afl.Sleep(ms = $.ms)
    note = Note(name = $.name) with Priority(after = nap.woke_at)
    yield Nap(woke_at = nap.woke_at, noted = note.noted)
  }

  // Sleeps, and nothing else.
  workflow Doze(ms: Long) => (woke_at: Long) andThen {
    nap = afl.Sleep(ms = $.ms)
    yield Doze(woke_at = nap.woke_at)
  }

  // Asks, for one minute.
  workflow Urgent(question: String) => (answer: String) andThen {
    ask = Ask(question = $.question) with Timeout(minutes = 1)
    yield Urgent(answer = ask.answer)
  }

  // The same, and answers itself when nobody does: with what has happened.
  workflow Patient(question: String) => (answer: String) andThen {
    ask = Ask(question = $.question) with Timeout(minutes = 1) catch {
      yield Ask(answer = ask.error_type)
    }
    yield Patient(answer = ask.answer)
  }

  // Asks four times at most: after a second, two, and three.
  workflow Stubborn(question: String) => (answer: String) andThen {
    ask = Ask(question = $.question) with Retry(times = 3, delay_ms = 1000, factor = 2, max_delay_ms = 3000)
    yield Stubborn(answer = ask.answer)
  }

  // Asks again after Busy, and after nothing else.
  workflow Choosy(question: String) => (answer: String) andThen {
    ask = Ask(question = $.question) with Retry(times = 2, delay_ms = 500, errors = ["Busy"])
    yield Choosy(answer = ask.answer)
  }

  // Asks twice, each time for one minute.
  workflow Both(question: String) => (answer: String) andThen {
    ask = Ask(question = $.question) with Timeout(minutes = 1) with Retry(times = 1, delay_ms = 1000)
    yield Both(answer = ask.answer)
  }

  // Asks for as long as it takes, or as the settings say.
  workflow Plain(question: String) => (answer: String) andThen {
    ask = Ask(question = $.question)
    yield Plain(answer = ask.answer)
  }

  // Waits an hour for an event.
  workflow Expect(name: String) => (data: Json, timed_out: Boolean) andThen {
    event = afl.WaitForEvent(name = $.name, timeout_ms = 3600000)
    yield Expect(data = event.data, timed_out = event.timed_out)
  }
}
"""
ASK, NOTE = "naps.Ask", "naps.Note"
MINUTE_MS, HOUR_MS = 60_000, 3_600_000


def start(deployment: Deployment, workflow: str, workflow_id: str = "wf-1", **inputs: Any) -> str:
    """Start a run, and let it come to rest."""
    deployment.client.start(f"naps.{workflow}", inputs or {"question": "who"}, workflow_id=workflow_id)
    deployment.settle()
    return workflow_id


def asked(deployment: Deployment, workflow_id: str = "wf-1") -> StepDocument:
    """Return the step of a run that asks."""
    (found,) = [step for step in deployment.steps(workflow_id) if step.facet_name == ASK and step.attempt]
    return found


def events_of(deployment: Deployment, workflow_id: str = "wf-1", facet: str = ASK) -> list[Event]:
    """Return the events that a run has sent, in order of their attempts, copies included."""
    found = [event for event in deployment.events(facet) if event.workflow_id == workflow_id]
    return sorted(found, key=lambda event: event.attempt)


def answer(deployment: Deployment, text: str = "me", workflow_id: str = "wf-1", **fields: Any) -> None:
    """Answer what a run asks, and let it come to rest."""
    deployment.send(StepContinue(step_id=asked(deployment, workflow_id).id, result={"answer": text}, **fields))
    deployment.settle()


def fail(deployment: Deployment, error_type: str = "Busy", workflow_id: str = "wf-1", **fields: Any) -> None:
    """Answer that it could not be done, and let the run come to rest."""
    reason = FailureReason(type=error_type, message="not now")
    deployment.send(StepFailed(step_id=asked(deployment, workflow_id).id, error=reason, **fields))
    deployment.settle()


def pass_time(deployment: Deployment, duration_ms: int) -> None:
    """Move the clock on, and let the deployment come to rest."""
    deployment.clock.advance(duration_ms)
    deployment.settle()


def told(deployment: Deployment, workflow_id: str = "wf-1") -> list[str]:
    """Return the milestones that subscribers got for a run, in words."""
    return [milestone.kind for milestone in deployment.milestones(workflow_id)]


def timers(deployment: Deployment) -> list[TimerRow]:
    """Return all timers of the store."""
    return deployment.store.timers_due((1 << 63) - 1, limit=100_000)


def outputs(deployment: Deployment, workflow_id: str = "wf-1") -> dict[str, Any]:
    """Return the outputs of a run, which must have completed."""
    row = deployment.workflow(workflow_id)
    assert row.status == COMPLETED, f"{row.status}: {row.error}"
    return dict(row.outputs or {})
