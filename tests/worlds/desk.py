"""A small program whose events the tests answer themselves, and the desk at which clients and operators stand."""

from __future__ import annotations

from typing import Any

from afl.engine.execution.generations import current_steps
from afl.engine.model.store import Batch, StepDocument, WorkflowChange
from afl.engine.states import EventState, StepState
from afl_stream.wire.messages import FailureReason, StepContinue, StepFailed
from tests.record_headers import headers_of
from tests.worlds.deployment import Deployment
from tests.worlds.parties import Evaluator
from tests.worlds.world import embedded

DESK = """
namespace desk {
  event facet Ask(question: String) => (answer: String, length: Json)
  workflow Report(subject: String) => (answers: [String]) andThen {
    a = Ask(question = $.subject)
    b = Ask(question = "second")
    c = Ask(question = a.answer)
    yield Report(answers = [a.answer, b.answer, c.answer])
  }
}
"""
REPORT = "desk.Report"
ASK = "desk.Ask"
#: The questions that are asked at once, and the answer to the first, which is the third question.
FIRST, SECOND, THIRD = "first", "second", "third"


class Desk:
    """A deployment with an evaluator, by default one of its own; what clients, operators and agents do, one by one.

    Each action is over when the deployment is at rest again. No agent answers: the test does.
    """

    def __init__(self, deployment: Deployment, evaluator: Evaluator | None = None) -> None:
        self.deployment = deployment
        self.evaluator = evaluator or deployment.evaluator()
        # Joined and settled, so that all partitions are owned before the first record.
        deployment.settle()

    # --- what is done ---------------------------------------------------------------------------------------------

    def start(self, workflow_id: str = "wf-1") -> str:
        self.deployment.client.start(REPORT, {"subject": FIRST}, workflow_id=workflow_id)
        self.deployment.settle()
        return workflow_id

    def answer(self, step_id: str, text: str, **fields: Any) -> None:
        self.send(StepContinue(step_id=step_id, result={"answer": text}, **fields))

    def fail(self, question: str, workflow_id: str = "wf-1") -> None:
        """Answer that it could not be done."""
        error = FailureReason(type="Busy", message="not today")
        self.send(StepFailed(step_id=self.step(question, workflow_id).id, error=error))

    def finish(self, workflow_id: str = "wf-1") -> None:
        """Answer whatever is not answered yet, with its own question."""
        while waiting := [s for s in self.steps(workflow_id) if s.state == StepState.EVENT_TRANSMIT]:
            for step in waiting:
                self.answer(step.id, str(step.params["question"]))

    def cancel(self, reason: str = "", workflow_id: str = "wf-1") -> None:
        self.deployment.client.cancel(workflow_id, reason)
        self.deployment.settle()

    def retry(self, step_id: str | None = None, workflow_id: str = "wf-1") -> None:
        self.deployment.client.retry(workflow_id, step_id)
        self.deployment.settle()

    def reset(self, reason: str = "", workflow_id: str = "wf-1") -> None:
        self.deployment.client.reset(workflow_id, reason=reason)
        self.deployment.settle()

    def send(self, message: Any) -> None:
        """Send an answer or a command as a stranger does, and let it be handled."""
        self.deployment.send(message)
        self.deployment.settle()

    # --- what is looked at ----------------------------------------------------------------------------------------

    def steps(self, workflow_id: str = "wf-1") -> list[StepDocument]:
        """Return the steps that count: what was run again has taken the place of what it was before."""
        row = self.deployment.workflow(workflow_id)
        return list(current_steps(self.deployment.steps(workflow_id), row.execution))

    def step(self, question: str, workflow_id: str = "wf-1") -> StepDocument:
        (found,) = [step for step in self.steps(workflow_id) if step.params.get("question") == question]
        return found

    def told(self, workflow_id: str = "wf-1") -> list[str]:
        """Return the milestones that subscribers got for a run, in words."""
        return [milestone.kind for milestone in self.deployment.milestones(workflow_id)]

    def letters(self) -> list[tuple[str, str]]:
        """Why commands are dead letters: the reason, and the text for people."""
        letters = self.deployment.dead_letters(self.deployment.topology.commands())
        headers = [headers_of(letter) for letter in letters]
        return [(found["afl.dlq.reason"].decode(), found["afl.dlq.error"].decode()) for found in headers]


def step_id_of(question: str, workflow_id: str) -> str:
    """Return the id that the step with this question will have: it follows from the workflow and the program alone."""
    twin = Desk(embedded(None, DESK))
    twin.start(workflow_id)
    twin.answer(twin.step(FIRST, workflow_id).id, THIRD)
    return twin.step(question, workflow_id).id


def ask_again(deployment: Deployment, step: StepDocument) -> None:
    """Give a step another attempt, by a writer of its own, as an operator's reset does."""
    row = deployment.workflow(step.workflow_id)
    revision = row.revision + 1
    again = step._replace(
        revision=revision,
        state=StepState.EVENT_TRANSMIT,
        attempt=step.attempt + 1,
        event_state=EventState.CREATED,
        returns={},
    )
    change = WorkflowChange(row._replace(revision=revision), row.revision, [again])
    deployment.store.commit_batch(Batch(changes=[change], now_ms=deployment.clock.now_ms()))
