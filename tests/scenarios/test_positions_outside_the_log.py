"""A log that no longer holds what comes next: a clear error that names the lost records, and nothing is skipped."""

import pytest

from afl_stream.control import PositionOutsideLog
from afl_stream.messages import StepContinue
from afl_stream.transport import TopicPartition
from tests.scenarios.desk import DESK, FIRST, SECOND, THIRD, Desk
from tests.scenarios.loop_harness import Deployment


@pytest.fixture
def desk() -> Desk:
    return Desk(Deployment(None, DESK, control_partitions=1))


def send_answers(desk: Desk) -> None:
    for question in (FIRST, SECOND):
        desk.deployment.send(StepContinue(step_id=desk.step(question).id, result={"answer": THIRD}))


def recreate(deployment: Deployment, topic: str) -> None:
    admin = deployment.transport.admin()
    described = admin.topics()[topic]
    admin.delete_topic(topic)
    admin.create_topic(topic, partitions=described.partitions, settings=described.settings)


def refusal_of(desk: Desk) -> PositionOutsideLog:
    """What the evaluator says, each time that it is asked to go on; it changes nothing."""
    positions = desk.deployment.store.positions()
    for _ in range(2):
        with pytest.raises(PositionOutsideLog) as caught:
            desk.deployment.settle()
    assert desk.deployment.store.positions() == positions
    return caught.value


def test_a_topic_made_again_while_the_evaluator_was_away_is_refused(desk: Desk) -> None:
    deployment = desk.deployment
    control = deployment.topology.control()
    desk.start()
    send_answers(desk)
    deployment.settle()
    deployment.remove(desk.evaluator, killed=False)
    recreate(deployment, control)
    deployment.put(control, b"of the new log", partition=0)

    desk.evaluator = deployment.evaluator()
    refusal = refusal_of(desk)

    assert (refusal.partition, refusal.position, refusal.high) == (TopicPartition(control, 0), 2, 1)
    assert "nothing was skipped" in str(refusal)
    assert "deleted and made again" in str(refusal)


def test_a_topic_made_again_under_a_running_evaluator_is_refused(desk: Desk) -> None:
    deployment = desk.deployment
    control = deployment.topology.control()
    desk.start()
    send_answers(desk)
    deployment.settle()
    recreate(deployment, control)
    deployment.put(control, b"of the new log", partition=0)

    assert refusal_of(desk).partition == TopicPartition(control, 0)
    assert deployment.dead_letters(control) == []


@pytest.mark.parametrize("running", [True, False])
def test_records_that_retention_took_before_they_were_read_are_reported(desk: Desk, running: bool) -> None:
    deployment = desk.deployment
    control = TopicPartition(deployment.topology.control(), 0)
    desk.start()
    desk.answer(desk.step(FIRST).id, THIRD)
    if not running:
        deployment.remove(desk.evaluator, killed=False)
    for _ in range(3):
        deployment.send(StepContinue(step_id=desk.step(SECOND).id, result={"answer": "two"}))
    deployment.broker.truncate(control, 3)

    if not running:
        desk.evaluator = deployment.evaluator()
    refusal = refusal_of(desk)

    assert (refusal.partition, refusal.position, refusal.low) == (control, 1, 3)
    assert "records 1 to 2 are gone" in str(refusal)
    assert desk.step(SECOND).returns == {}
