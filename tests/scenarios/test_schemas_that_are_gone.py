"""A record whose schema is gone from its topic holds up its own partition, until the schema is back, and no other."""

import pytest

from afl.engine.model.store import COMPLETED
from afl_stream.errors import SchemaUnavailable
from afl_stream.transport import BrokerUnavailable, TopicPartition
from afl_stream.wire.headers import headers_for
from afl_stream.wire.messages import Lifecycle, Message, StartWorkflow, StepContinue
from tests.scenarios.other_writers import announcement_of, schema_of_another_writer, written_by_another
from tests.worlds.deployment import START_MS, Deployment, program_of
from tests.worlds.desk import DESK, FIRST, REPORT, SECOND, THIRD, Desk
from tests.worlds.parties import Interruptions
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED

#: The log is cut by the test.
WORLDS = EMBEDDED


def lose_schemas(deployment: Deployment) -> None:
    """Delete every record of the schemas topic."""
    topic = deployment.topology.schemas()
    deployment.broker.truncate(TopicPartition(topic, 0), deployment.records(topic)[-1].offset + 1)


def put_by_another(deployment: Deployment, topic: str, message: Message, key: str, at_ms: int) -> None:
    """Put a record whose schema no topic has, with the headers that a release of ours gives it."""
    headers = headers_for(message, source="/another", at_ms=at_ms)
    deployment.put(topic, written_by_another(deployment.codec, message), key=key.encode(), headers=headers)


def announce_by_another(deployment: Deployment, message: Message) -> None:
    key, text = announcement_of(schema_of_another_writer(message))
    deployment.put(deployment.topology.schemas(), text, key=key)


@pytest.mark.parametrize("at_ms", [0, START_MS])
def test_other_partitions_continue_and_what_is_behind_it_comes_after_it(world: World, at_ms: int) -> None:
    deployment = world.deployment(DESK)
    desk = Desk(deployment)
    held, other = deployment.id_in_partition(0), deployment.id_in_partition(1)
    desk.start(held)
    desk.start(other)
    lose_schemas(deployment)
    control, step_id = deployment.topology.control(), desk.step(FIRST, held).id
    gone = StepContinue(step_id=step_id, result={"answer": THIRD})

    put_by_another(deployment, control, gone, held, at_ms)
    deployment.send(StepContinue(step_id=step_id, result={"answer": "behind it"}))
    deployment.send(StepContinue(step_id=desk.step(SECOND, held).id, result={"answer": "behind it"}))
    desk.finish(other)

    assert deployment.workflow(other).status == COMPLETED
    assert desk.step(FIRST, held).returns == desk.step(SECOND, held).returns == {}
    (partition,) = desk.evaluator.stats.paused
    assert partition == TopicPartition(control, 0)
    reasons = desk.evaluator.service.health().reasons
    assert [
        "is gone: it was announced, and records of afl.schemas[0] before offset" in reason for reason in reasons
    ] == [True]

    announce_by_another(deployment, gone)
    deployment.clock.advance(10_000)
    deployment.settle()

    assert desk.step(FIRST, held).returns == {"answer": THIRD}
    assert desk.step(SECOND, held).returns == {"answer": "behind it"}
    assert desk.evaluator.stats.paused == {}
    assert desk.evaluator.service.health().ready
    assert deployment.dead_letters(control) == []


def test_nothing_is_skipped_when_definitions_cannot_be_read_either(world: World) -> None:
    deployment, interruptions = world.deployment(DESK), Interruptions()
    evaluator = deployment.evaluator(interruptions)
    deployment.client.start(REPORT, {"subject": FIRST}, workflow_id="wf-1")
    deployment.settle()
    lose_schemas(deployment)
    commands, key = deployment.topology.commands(), deployment.id_in_partition(0)
    at_once, gone, behind, other = (
        StartWorkflow(workflow_id=workflow_id, workflow=REPORT, inputs={"subject": FIRST}, program=program)
        for workflow_id, program in (
            (deployment.id_in_partition(0, "at-once"), deployment.programs[0].fingerprint),
            (key, deployment.programs[0].fingerprint),
            (deployment.id_in_partition(0, "behind"), None),
            (deployment.id_in_partition(1, "other"), None),
        )
    )
    deployment.send(at_once)
    put_by_another(deployment, commands, gone, key, 0)
    deployment.send(behind)
    deployment.send(other)

    def another_deploys() -> None:
        deployment.client.deploy(program_of(DESK.replace("second", "other")))

    interruptions.happens_at("control.read", another_deploys)
    # The commands are read, and the schemas; the definitions are not, for the last of the commands.
    interruptions.fail_at("poll.before_deliver", passes=2, error=BrokerUnavailable("the broker is away"))
    with pytest.raises(SchemaUnavailable, match=r"afl\.definitions cannot be reached right now"):
        evaluator.turn()
    assert list(evaluator.stats.paused) == [TopicPartition(commands, 0)]
    announce_by_another(deployment, gone)
    deployment.clock.advance(10_000)
    deployment.settle()

    started = [deployment.workflow(start.workflow_id).id for start in (at_once, gone, behind, other)]
    assert started == [start.workflow_id for start in (at_once, gone, behind, other)]
    assert evaluator.stats.paused == {}
    assert deployment.dead_letters(commands) == []


@pytest.mark.parametrize("number", [0, 1])
def test_a_partition_that_waits_is_forgotten_with_its_assignment_and_waits_at_its_next_owner(
    world: World, number: int
) -> None:
    deployment = world.deployment(DESK)
    desk = Desk(deployment)
    held = deployment.id_in_partition(number)
    desk.start(held)
    lose_schemas(deployment)
    control = deployment.topology.control()
    gone = StepContinue(step_id=desk.step(FIRST, held).id, result={"answer": THIRD})
    put_by_another(deployment, control, gone, held, 0)
    deployment.settle()
    first, place = desk.evaluator, TopicPartition(control, number)
    assert list(first.stats.paused) == [place]

    second = deployment.evaluator()
    deployment.settle_among_all()
    assert first.partitions() | second.partitions() == {0, 1}
    owner, other = (first, second) if number in first.partitions() else (second, first)
    assert (list(owner.stats.paused), list(other.stats.paused)) == ([place], [])
    deployment.remove(owner, killed=False)
    deployment.settle()
    assert list(other.stats.paused) == [place]

    announce_by_another(deployment, gone)
    deployment.clock.advance(10_000)
    deployment.settle()

    assert desk.step(FIRST, held).returns == {"answer": THIRD}
    assert other.stats.paused == {}


def test_a_stranger_on_the_lifecycle_topic_ends_no_wait_and_a_milestone_comes_when_its_schema_does(
    world: World,
) -> None:
    deployment = world.deployment(DESK)
    topic = deployment.topology.lifecycle()
    milestones = deployment.client.milestones()
    one, two = (Lifecycle(workflow_id="wf-1", kind=f"workflow.{kind}", at=1) for kind in ("started", "completed"))
    newer = (("afl_step_schema_version", b"9.0"),)
    deployment.put(topic, deployment.codec.encode(one), key=b"wf-1", headers=newer)
    deployment.put(topic, b"\xc3\x01junk", key=b"wf-1")
    lose_schemas(deployment)
    put_by_another(deployment, topic, one, "wf-1", 0)
    deployment.put(topic, deployment.codec.encode(two), key=b"wf-1")

    assert milestones.read(0.0) == [two]
    assert milestones.read(0.0) == []
    announce_by_another(deployment, one)
    assert milestones.read(0.0) == [one]
    assert milestones.read(0.0) == []
