"""Values that an event, an answer or a milestone cannot carry: the step fails by name, and the loop goes on."""

import pytest

from afl.engine.model.store import COMPLETED, ERROR, ErrorRecord, WorkflowRow
from afl_stream.wire.messages import FailureReason, StepContinue, StepFailed
from tests.worlds.deployment import Deployment
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED

#: What a value is does not depend on the broker.
WORLDS = EMBEDDED

SUMS = """
namespace sums {
  schema Size { width: Long, name: String }
  event facet Store(n: Long) => (id: Long, size: Size = null, tags: [String] = [])
  event facet Note(text: String) => (id: Long)
  facet Square(n: Long) => (n: Long) andThen { yield Square(n = $.n * $.n) }
  facet Twice(text: String) => (text: String) andThen { yield Twice(text = $.text ++ $.text) }
  workflow Big(n: Long) => (id: Long) andThen {
    square = Square(n = $.n)
    kept = Store(n = square.n)
    yield Big(id = kept.id)
  }
  workflow Long(text: String) => (id: Long) andThen {
    note = Note(text = $.text)
    yield Long(id = note.id)
  }
  workflow Loud(text: String) => (id: Long) andThen {
    twice = Twice(text = $.text)
    note = Note(text = twice.text)
    yield Loud(id = note.id)
  }
  workflow Echo(text: String) => (text: String, more: String) andThen {
    twice = Twice(text = $.text)
    yield Echo(text = $.text, more = twice.text)
  }
  workflow Two(n: Long) => (ids: [Long]) andThen {
    a = Store(n = $.n)
    b = Note(text = "x")
    c = Store(n = a.id)
    yield Two(ids = [a.id, b.id, c.id])
  }
}
"""
LIMIT = 20_000


@pytest.fixture
def deployment(world: World) -> Deployment:
    made = world.deployment(SUMS, max_event_bytes=LIMIT)
    made.evaluator()
    made.settle()
    return made


def run(deployment: Deployment, workflow: str, **inputs: object) -> WorkflowRow:
    deployment.client.start(f"sums.{workflow}", inputs, workflow_id="wf-1")
    deployment.settle()
    return deployment.workflow("wf-1")


def first_cause(deployment: Deployment) -> ErrorRecord:
    row = deployment.workflow("wf-1")
    assert row.status == ERROR
    assert row.error is not None
    (milestone,) = [m for m in deployment.milestones("wf-1") if m.kind == "workflow.error"]
    assert milestone.error == FailureReason(type=row.error.type, message=row.error.message)
    return row.error


def assert_the_loop_continues(deployment: Deployment) -> None:
    deployment.client.start("sums.Long", {"text": "short"}, workflow_id="next")
    deployment.settle()
    deployment.send(StepContinue(step_id=deployment.step("next", "sums.Note").id, result={"id": 1}))
    deployment.settle()
    assert deployment.workflow("next").status == COMPLETED


def test_an_integer_beyond_64_bits_fails_the_step_that_was_to_send_it(deployment: Deployment) -> None:
    run(deployment, "Big", n=2**35)

    error = first_cause(deployment)
    assert error.type == "ValueRefused"
    assert error.path == "sums.Big.kept"
    assert error.facet == "sums.Store"
    assert "64 bits" in error.message
    assert deployment.events("sums.Store") == []
    assert_the_loop_continues(deployment)


def test_an_event_over_the_limit_fails_the_step_that_was_to_send_it(deployment: Deployment) -> None:
    run(deployment, "Loud", text="é" * 6_000)

    error = first_cause(deployment)
    assert error.type == "EventTooLarge"
    assert error.path == "sums.Loud.note"
    assert str(LIMIT) in error.message
    assert deployment.events("sums.Note") == []
    assert_the_loop_continues(deployment)


def test_outputs_over_the_limit_stay_in_the_store_and_subscribers_are_told_so(deployment: Deployment) -> None:
    row = run(deployment, "Echo", text="y" * 15_000)

    assert row.status == COMPLETED
    assert row.outputs == {"text": "y" * 15_000, "more": "y" * 30_000}
    (milestone,) = [m for m in deployment.milestones("wf-1") if m.kind == "workflow.completed"]
    assert milestone.outputs is None
    assert milestone.error is not None
    assert milestone.error.type == "EventTooLarge"
    assert_the_loop_continues(deployment)


@pytest.mark.parametrize(
    ("result", "place"),
    [
        ({"id": "seven"}, "id"),
        ({"id": 7.5}, "id"),
        ({"id": True}, "id"),
        ({"size": {"width": "wide"}}, "size.width"),
        ({"size": {"depth": 1}}, "size.depth"),
        ({"size": 3}, "size"),
        ({"tags": ["a", 1]}, "tags[1]"),
        ({"tags": "a"}, "tags"),
    ],
    ids=str,
)
def test_a_result_that_does_not_fit_the_returns_fails_the_step(
    deployment: Deployment, result: dict[str, object], place: str
) -> None:
    run(deployment, "Big", n=2)

    deployment.send(StepContinue(step_id=deployment.step("wf-1", "sums.Store").id, result=result))
    deployment.settle()

    error = first_cause(deployment)
    assert error.type == "ResultMismatch"
    assert error.path == "sums.Big.kept"
    assert f"sums.Store returned {place}:" in error.message
    assert_the_loop_continues(deployment)


def test_a_run_that_fails_names_the_first_cause(deployment: Deployment) -> None:
    run(deployment, "Two", n=1)
    store, note = deployment.step("wf-1", "sums.Store"), deployment.step("wf-1", "sums.Note")
    for step, message in ((note, "the first"), (store, "the second")):
        deployment.send(StepFailed(step_id=step.id, error=FailureReason(type="Broken", message=message)))
    deployment.settle()

    error = first_cause(deployment)
    assert (error.type, error.message, error.path, error.step_id) == ("Broken", "the first", "sums.Two.b", note.id)


def test_a_failure_with_a_message_of_any_length_or_content_is_told(deployment: Deployment) -> None:
    run(deployment, "Long", text="x")
    failed = StepFailed(
        step_id=deployment.step("wf-1", "sums.Note").id,
        error=FailureReason(type="T" * 2_000, message="m" * (LIMIT - 3_000)),
    )

    deployment.send(failed)
    deployment.settle()

    assert deployment.workflow("wf-1").status == ERROR
    (milestone,) = [m for m in deployment.milestones("wf-1") if m.kind == "workflow.error"]
    assert milestone.error is not None
    assert milestone.error.message.startswith("mmm")
    assert_the_loop_continues(deployment)
