"""Records on a facet's topic that cannot be read are dead letters, and do no harm to the step whose key they bear."""

import pytest

from afl.engine.states import StepState
from afl_stream.agent.agent import Deferred
from afl_stream.transport import Headers
from tests.unit.stream.agent.agent_bench import named
from tests.worlds.desk import ASK, DESK, FIRST, THIRD, Desk, ask_again
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED

#: test_poison_on_kafka.py puts more garbage on topics of Kafka.
WORLDS = EMBEDDED


@pytest.fixture
def desk(world: World) -> Desk:
    """Return a run whose questions were taken by an agent that answers later."""
    desk = Desk(world.deployment(DESK))
    desk.deployment.worker({ASK: lambda payload, context: Deferred()})  # type: ignore[dict-item,return-value]  # answered by the tests
    desk.deployment.settle()
    desk.start()
    return desk


def put_garbage(desk: Desk, key: str, headers: Headers = ()) -> None:
    topic = desk.deployment.topology.facet(ASK)
    desk.deployment.put(topic, b"\x07garbage", key=key.encode(), headers=headers)
    desk.deployment.settle()
    assert len(desk.deployment.dead_letters(topic)) == 1


def test_garbage_under_the_key_of_a_waiting_step_leaves_the_step_to_its_handler(desk: Desk) -> None:
    step = desk.step(FIRST)

    put_garbage(desk, step.id)

    assert desk.step(FIRST).state == StepState.EVENT_TRANSMIT
    desk.answer(step.id, THIRD)
    assert desk.step(FIRST).returns == {"answer": THIRD}


def test_garbage_that_names_less_than_event_step_and_attempt_leaves_the_step_to_its_handler(desk: Desk) -> None:
    step = desk.step(FIRST)
    event_id, subject, attempt = named(step.id, step.attempt)

    for headers in ((event_id,), (subject, attempt), (event_id, subject), (event_id, attempt)):
        desk.deployment.put(desk.deployment.topology.facet(ASK), b"\x07", key=step.id.encode(), headers=headers)
    desk.deployment.settle()

    assert desk.step(FIRST).state == StepState.EVENT_TRANSMIT


def test_an_event_that_cannot_be_read_and_whose_headers_name_the_current_attempt_fails_its_step(desk: Desk) -> None:
    step = desk.step(FIRST)

    put_garbage(desk, step.id, named(step.id, step.attempt))

    failed = desk.step(FIRST)
    assert failed.state == StepState.STATEMENT_ERROR
    assert failed.error is not None
    assert failed.error.type == "UnreadableEvent"


@pytest.mark.parametrize("others", [0, 2], ids=["an earlier attempt", "a later attempt"])
def test_headers_that_name_another_attempt_fail_nothing(desk: Desk, others: int) -> None:
    step = desk.step(FIRST)
    if others < step.attempt:
        ask_again(desk.deployment, step)
        others = step.attempt

    put_garbage(desk, step.id, named(step.id, others))

    assert desk.step(FIRST).state == StepState.EVENT_TRANSMIT
    desk.answer(step.id, THIRD)
    assert desk.step(FIRST).returns == {"answer": THIRD}


def test_headers_that_name_the_step_of_another_run_fail_neither(desk: Desk) -> None:
    desk.start("wf-2")
    step, other = desk.step(FIRST), desk.step(FIRST, "wf-2")
    event_id, _, attempt = named(other.id, 1)

    put_garbage(desk, step.id, (event_id, named(step.id, 1)[1], attempt))

    assert desk.step(FIRST).state == StepState.EVENT_TRANSMIT
    assert desk.step(FIRST, "wf-2").state == StepState.EVENT_TRANSMIT
