"""A small program whose events the tests answer themselves, record by record."""

from __future__ import annotations

from typing import Any

from afl.engine.model.store import Batch, StepDocument, WorkflowChange
from afl.engine.states import EventState, StepState
from afl_stream.wire.messages import StepContinue
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
    """A deployment with an evaluator, by default one of its own, and nobody who answers."""

    def __init__(self, deployment: Deployment, evaluator: Evaluator | None = None) -> None:
        self.deployment = deployment
        self.evaluator = evaluator or deployment.evaluator()
        # Joined and settled, so that all partitions are owned before the first record.
        deployment.settle()

    def start(self, workflow_id: str = "wf-1") -> str:
        self.deployment.client.start(REPORT, {"subject": FIRST}, workflow_id=workflow_id)
        self.deployment.settle()
        return workflow_id

    def step(self, question: str, workflow_id: str = "wf-1") -> StepDocument:
        (found,) = [s for s in self.deployment.steps(workflow_id) if s.params.get("question") == question]
        return found

    def answer(self, step_id: str, text: str, **fields: Any) -> None:
        """Send an answer, and let it be handled."""
        self.send(StepContinue(step_id=step_id, result={"answer": text}, **fields))

    def send(self, message: Any) -> None:
        self.deployment.send(message)
        self.deployment.settle()

    def finish(self, workflow_id: str = "wf-1") -> None:
        """Answer whatever is not answered yet, with its own question."""
        while waiting := [s for s in self.deployment.steps(workflow_id) if s.state == StepState.EVENT_TRANSMIT]:
            for step in waiting:
                self.answer(step.id, str(step.params["question"]))


def step_id_of(question: str, workflow_id: str) -> str:
    """The id that the step with this question will have: ids follow from the workflow's id and the program alone."""
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
