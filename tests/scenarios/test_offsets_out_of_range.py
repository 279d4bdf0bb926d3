"""A log that no longer holds what comes next: a clear error that names the lost records, and nothing is skipped; or the
operator's word that lost records are lost.
"""

import logging

import pytest

from afl.core.probes import no_probe
from afl.engine.model.store import COMPLETED, Batch, Position, PositionMove
from afl_stream.embedded.transport import EmbeddedConsumer, EmbeddedTransport, Faults
from afl_stream.evaluator.offsets import RecordsLost, StoredOffsetOutOfRange, TopicRecreated
from afl_stream.evaluator.service import EvaluatorService
from afl_stream.settings.config import EvaluatorSettings
from afl_stream.transport import (
    Assignor,
    OffsetOutOfRange,
    Record,
    Start,
    TopicPartition,
    UnknownTopic,
    Watermarks,
    WrongCluster,
)
from afl_stream.wire.messages import StepContinue
from tests.worlds.deployment import Deployment
from tests.worlds.desk import DESK, FIRST, SECOND, THIRD, Desk
from tests.worlds.parties import Interruptions
from tests.worlds.world import embedded

GO_ON = EvaluatorSettings(lost_records="continue")


@pytest.fixture
def desk() -> Desk:
    return Desk(embedded(None, DESK, control_partitions=1))


@pytest.fixture
def continuing() -> Desk:
    """Return a desk whose operator has said that lost records are lost."""
    return Desk(embedded(None, DESK, control_partitions=1, evaluator=GO_ON))


def send_answers(desk: Desk) -> None:
    for question in (FIRST, SECOND):
        desk.deployment.send(StepContinue(step_id=desk.step(question).id, result={"answer": THIRD}))


def recreate(deployment: Deployment, topic: str) -> None:
    admin = deployment.transport.admin()
    described = admin.topics()[topic]
    admin.delete_topic(topic)
    admin.create_topic(topic, partitions=described.partitions, settings=described.settings)


def move(deployment: Deployment, position: Position, next_offset: int, replaces: Position | None = None) -> None:
    """Write a position as another process does."""
    expected = deployment.store.positions().get(replaces or position)
    found = PositionMove(position=position, expected=expected, next_offset=next_offset, replaces=replaces)
    deployment.store.commit_batch(Batch(positions=[found]))


def position_of(deployment: Deployment, topic: str) -> Position:
    return Position(deployment.broker.cluster_id, topic, 0, deployment.broker.topics()[topic].topic_id)


def refusal_of(desk: Desk) -> RecordsLost:
    """Return what the evaluator says, each time that it is asked to go on; it changes nothing."""
    positions = desk.deployment.store.positions()
    for _ in range(2):
        with pytest.raises(RecordsLost) as caught:
            desk.deployment.settle()
    assert desk.deployment.store.positions() == positions
    assert "nothing was skipped" in str(caught.value)
    assert "AFL_EVALUATOR_LOST_RECORDS=continue" in str(caught.value)
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

    assert isinstance(refusal, TopicRecreated)
    assert (refusal.partition, refusal.position) == (TopicPartition(control, 0), 2)
    assert "deleted and recreated" in str(refusal)
    assert "has read up to 2" in str(refusal)


def test_a_topic_made_again_whose_log_holds_the_old_position_is_refused_all_the_same(desk: Desk) -> None:
    deployment = desk.deployment
    control = deployment.topology.control()
    desk.start()
    send_answers(desk)
    deployment.settle()
    deployment.remove(desk.evaluator, killed=False)
    recreate(deployment, control)
    for _ in range(5):
        deployment.put(control, b"of the new log", partition=0)

    desk.evaluator = deployment.evaluator()

    assert isinstance(refusal_of(desk), TopicRecreated)
    assert deployment.dead_letters(control) == []


def test_a_topic_made_again_of_which_nothing_was_read_yet_is_refused(desk: Desk) -> None:
    deployment = desk.deployment
    control = deployment.topology.control()
    deployment.remove(desk.evaluator, killed=False)
    deployment.put(control, b"never read", partition=0)
    recreate(deployment, control)

    desk.evaluator = deployment.evaluator()

    assert isinstance(refusal_of(desk), TopicRecreated)


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


def test_a_reader_that_is_told_of_an_unknown_topic_finds_that_it_was_made_again() -> None:
    interruptions = Interruptions()
    deployment = embedded(None, DESK, control_partitions=1)
    desk = Desk(deployment, deployment.evaluator(interruptions))
    control = deployment.topology.control()
    desk.start()
    deployment.put(control, b"of the earlier log", partition=0)
    # As Kafka tells it, before any rebalance: the id that is read from is of no topic any more.
    interruptions.happens_at("poll.before_deliver", lambda: recreate(deployment, control))
    interruptions.fail_at("poll.before_deliver", error=UnknownTopic(control))

    with pytest.raises(TopicRecreated):
        desk.evaluator.turn()

    assert isinstance(refusal_of(desk), TopicRecreated)
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

    assert isinstance(refusal, StoredOffsetOutOfRange)
    assert (refusal.partition, refusal.position, refusal.low) == (control, 1, 3)
    assert "records 1 to 2 are gone" in str(refusal)
    assert desk.step(SECOND).returns == {}


def test_records_that_go_before_the_first_one_was_read_are_reported(desk: Desk) -> None:
    deployment = desk.deployment
    control = TopicPartition(deployment.topology.control(), 0)
    deployment.remove(desk.evaluator, killed=False)
    for _ in range(3):
        deployment.put(control.topic, b"never read", partition=0)
    deployment.broker.truncate(control, 2)

    desk.evaluator = deployment.evaluator()

    assert refusal_of(desk).position == 0


def test_a_log_that_holds_the_position_again_is_read_from_there() -> None:
    faults = Faults()
    deployment = embedded(None, DESK, control_partitions=1)
    desk = Desk(deployment, deployment.evaluator(faults))
    control = TopicPartition(deployment.topology.control(), 0)
    desk.start()
    faults.fail_at("poll.before_deliver", error=OffsetOutOfRange(control, 0, Watermarks(low=-1, high=-1)))

    desk.answer(desk.step(FIRST).id, THIRD)

    assert desk.step(FIRST).returns == {"answer": THIRD}


# What the operator chose.


@pytest.mark.parametrize("running", [True, False])
def test_an_evaluator_continues_without_lost_records_where_the_operator_says_so(
    continuing: Desk, running: bool, caplog: pytest.LogCaptureFixture
) -> None:
    desk, deployment = continuing, continuing.deployment
    control = TopicPartition(deployment.topology.control(), 0)
    desk.start()
    desk.answer(desk.step(FIRST).id, THIRD)
    if not running:
        deployment.remove(desk.evaluator, killed=False)
    for text in ("one", "two", "three"):
        deployment.send(StepContinue(step_id=desk.step(SECOND).id, result={"answer": text}))
    deployment.broker.truncate(control, 3)

    if not running:
        desk.evaluator = deployment.evaluator()
    deployment.settle()
    reported = [record for record in caplog.records if record.levelno == logging.ERROR]
    desk.finish()

    assert [record.getMessage().count("records 1 to 2 are gone") for record in reported] == [1]
    assert desk.step(SECOND).returns == {"answer": "three"}
    assert deployment.workflow("wf-1").status == COMPLETED


@pytest.mark.parametrize("running", [True, False])
def test_a_topic_made_again_is_read_from_its_beginning_where_the_operator_says_so(
    continuing: Desk, running: bool, caplog: pytest.LogCaptureFixture
) -> None:
    desk, deployment = continuing, continuing.deployment
    control = deployment.topology.control()
    desk.start()
    desk.answer(desk.step(FIRST).id, THIRD)
    earlier = position_of(deployment, control)
    if not running:
        deployment.remove(desk.evaluator, killed=False)
    recreate(deployment, control)

    if not running:
        desk.evaluator = deployment.evaluator()
    desk.finish()
    reported = [record for record in caplog.records if record.levelno == logging.ERROR]
    deployment.remove(desk.evaluator, killed=False)
    desk.evaluator = deployment.evaluator()
    deployment.settle()

    assert ["deleted and recreated" in record.getMessage() for record in reported] == [True]
    assert [record for record in caplog.records if record.levelno == logging.ERROR] == reported, "it is told once"
    assert deployment.workflow("wf-1").status == COMPLETED
    assert earlier not in deployment.store.positions()
    assert deployment.store.positions()[position_of(deployment, control)] == len(deployment.records(control))


# Whose store it is.


def test_a_position_of_an_unknown_topic_id_is_taken_over(desk: Desk) -> None:
    deployment = desk.deployment
    control = deployment.topology.control()
    place = position_of(deployment, control)
    desk.start()
    send_answers(desk)
    deployment.settle()
    deployment.remove(desk.evaluator, killed=False)
    # As a store of the format before has it.
    move(deployment, place._replace(topic_id=""), 2, replaces=place)

    desk.evaluator = deployment.evaluator()
    deployment.settle()

    assert deployment.store.positions()[place] == 2
    assert place._replace(topic_id="") not in deployment.store.positions()
    assert deployment.outcomes() == {}, "nothing was read again"


def as_of_another_cluster(desk: Desk, topic_id: str | None = None) -> None:
    """Stop the evaluator, and let all that the store has read be of another cluster, maybe with ids of its own."""
    deployment = desk.deployment
    deployment.remove(desk.evaluator, killed=False)
    for place, next_offset in deployment.store.positions().items():
        other = place._replace(cluster_id="another", topic_id=topic_id or place.topic_id)
        move(deployment, other, next_offset, replaces=place)


def test_a_store_of_another_cluster_is_refused_before_anything_is_read(desk: Desk) -> None:
    deployment = desk.deployment
    desk.start()
    as_of_another_cluster(desk)
    positions = deployment.store.positions()

    with pytest.raises(WrongCluster) as caught:
        deployment.evaluator()

    assert (caught.value.expected, caught.value.found) == ("another", deployment.broker.cluster_id)
    text = str(caught.value)
    assert "belongs to the embedded log another, and this is the embedded log " in text
    assert text.index("log and store belong together") < text.index("lost_records")
    assert deployment.store.positions() == positions


def test_the_store_of_a_cluster_is_told_as_that_where_the_embedded_log_is_at_hand(desk: Desk) -> None:
    deployment = desk.deployment
    desk.start()
    as_of_another_cluster(desk, topic_id="jP5Gz8vFQ0mX2o3Kq1hLxw")

    with pytest.raises(WrongCluster) as caught:
        deployment.evaluator()

    text = str(caught.value)
    assert f"belongs to cluster another, and this is the embedded log {deployment.broker.cluster_id}" in text
    assert "The embedded log needs a store of its own" in text
    assert text.index("AFL_KAFKA_BOOTSTRAP") < text.index("lost_records")


def test_a_store_of_another_cluster_is_continued_where_the_operator_says_so(
    continuing: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk, deployment = continuing, continuing.deployment
    desk.start()
    as_of_another_cluster(desk)
    elsewhere = deployment.store.positions()

    desk.evaluator = deployment.evaluator()
    deployment.settle()
    desk.finish()

    reported = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(reported) == 3, "control, commands and external"
    assert all("cluster another" in message for message in reported)
    assert deployment.workflow("wf-1").status == COMPLETED
    assert elsewhere.items() <= deployment.store.positions().items()


# One read.


class Stammering(EmbeddedConsumer):
    """Delivers what it reads twice within one call, as a rebalance in its middle may."""

    def consume(self, max_records: int, timeout_s: float) -> list[Record]:
        records = super().consume(max_records, timeout_s)
        return [*records, *records]


class StammeringTransport(EmbeddedTransport):
    def consumer(
        self,
        group: str | None,
        *,
        client_id: str = "",
        assignor: Assignor = Assignor.COOPERATIVE_STICKY,
        start: Start = Start.EARLIEST,
    ) -> EmbeddedConsumer:
        if group is None:
            return super().consumer(group)
        return Stammering(self.broker, group, client_id=client_id, assignor=assignor, start=start, probe=no_probe)


def test_a_record_that_comes_twice_in_one_read_is_handled_once_and_no_position_moves_back(desk: Desk) -> None:
    deployment = desk.deployment
    desk.start()
    deployment.remove(desk.evaluator, killed=False)
    send_answers(desk)

    service = EvaluatorService(deployment.config, StammeringTransport(deployment.broker), deployment.store)
    while service.loop.run_once(0.0):
        pass

    assert service.loop.stats().outcomes == {"applied": 2}
    assert deployment.store.positions()[position_of(deployment, deployment.topology.control())] == 2
