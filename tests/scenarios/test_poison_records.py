"""Unusable records between good ones: each becomes a dead letter with its reason, the good ones are applied."""

import json
from collections.abc import Iterator

import pytest

from afl.engine.errors import WorkflowConflict
from afl.engine.model.store import COMPLETED
from afl_stream.embedded.transport import Faults
from afl_stream.errors import SchemaUnavailable
from afl_stream.transport import BrokerUnavailable, Headers, TopicPartition
from afl_stream.wire.headers import headers_for
from afl_stream.wire.messages import Event, ExternalEvent, StartWorkflow, StepContinue
from tests.record_headers import headers_of
from tests.scenarios.other_writers import announcement_of, schema_of_another_writer, written_by_another
from tests.worlds.deployment import program_of
from tests.worlds.desk import DESK, FIRST, REPORT, SECOND, THIRD, Desk
from tests.worlds.parties import Interruptions
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED, in_worlds

#: Key, value, headers and the reason that the dead letter gives.
Poison = tuple[bytes | None, bytes | None, Headers, str]

NEWER: Headers = (("afl_step_schema_version", b"2.0"),)


@pytest.fixture
def desk(world: World) -> Desk:
    return Desk(world.deployment(DESK))


def poison_for_any_topic(good: bytes) -> Iterator[Poison]:
    """Return what is wrong with bytes, whatever they were to say."""
    yield b"k", None, (), "null_value"
    yield b"k", b"", (), "empty_value"
    yield b"", None, (), "null_value"
    yield None, b"\x00", (), "bad_magic"
    yield b"k", b"\x00\x00\x00\x00\x07junk", (), "bad_magic"
    yield b"k", b"\xc3\x01", (), "truncated"
    yield b"k", b"\xc3\x01" + bytes(range(8)) + b"body", (), "unknown_schema"
    yield b"k", good, (("afl", b"no json"),), "bad_headers"
    yield b"k", good, (("afl", b'{"afl":1,"versions":"1.0"}'),), "bad_headers"
    yield b"k", good[:-1], (), "truncated"
    yield b"k", good[:11], (), "truncated"
    yield b"k", good + b"\x00", (), "trailing_bytes"
    yield b"k", b"{", (), "bad_json"
    yield b"k", b'{"a": 1} {"b": 2}', (), "bad_json"
    yield b"k", b"[1]", (("content-type", b"application/json"),), "bad_json"
    yield b"k", b'{"type": "Nonsense"}', (), "unknown_type"
    yield b"k", b'{"type": 7}', (), "unknown_type"
    yield b"k", b"{}", (), "missing_field"
    yield b"k", b'{"step_id": "\xff"}', (), "bad_utf8"
    yield b"k", b'{"result": ' + b"[" * 5_000 + b"]" * 5_000 + b"}", (), "too_deep"
    yield b"\xff\xfe", good, (), "bad_key"


def poison_for_control(desk: Desk, step_id: str) -> Iterator[Poison]:
    codec = desk.deployment.codec

    def answer(**entries: object) -> bytes:
        return json.dumps({"step_id": step_id, "result": {}, **entries}).encode()

    yield from poison_for_any_topic(codec.encode(StepContinue(step_id=step_id, result={"answer": "poison"})))
    yield b"k", answer(result={"length": 2**70}), (), "number_out_of_range"
    yield b"k", b'{"result": {"length": ' + b"9" * 1_000_000 + b"}}", (), "number_out_of_range"
    yield b"k", answer(result={"length": float("nan")}), (), "number_out_of_range"
    yield b"k", answer(result=[]), (), "wrong_type"
    yield b"k", b'{"step_id": "%s", "result": {"answer": 1, "answer": 2}}' % step_id.encode(), (), "bad_json"
    yield b"k", b'{"step_id": "%s", "result": {}, "result": {}}' % step_id.encode(), (), "bad_json"
    yield b"k", b'{"result": {}}', (), "missing_field"
    yield b"k", answer(step_id="no step id"), (), "bad_id"
    yield b"k", answer(step_id="a b:1f"), (), "bad_id"
    yield b"k", answer(workflow_id="another"), (), "bad_id"
    yield b"k", answer(event_id="another:1f#1"), (), "bad_id"
    yield b"k", answer(event_id="nonsense"), (), "bad_id"
    yield b"k", answer(event_id=f"{step_id}#1", attempt=2), (), "bad_id"
    yield b"k", codec.encode(StartWorkflow(workflow_id="wf-9", workflow=REPORT)), (), "unknown_type"
    yield b"k", codec.encode(ExternalEvent(workflow_id="wf-9", name="rain")), (), "unknown_type"
    yield b"k", codec.encode(_event(step_id)), (), "unknown_type"


def poison_for_commands(desk: Desk, step_id: str) -> Iterator[Poison]:
    codec = desk.deployment.codec

    def start(**entries: object) -> bytes:
        return json.dumps({"workflow_id": "wf-9", "workflow": REPORT, "inputs": {}, **entries}).encode()

    yield from poison_for_any_topic(codec.encode(StartWorkflow(workflow_id="wf-9", workflow=REPORT)))
    yield b"k", start(inputs={"subject": 2**64}), (), "number_out_of_range"
    yield b"k", start(workflow_id="a b"), (), "bad_id"
    yield b"k", b'{"workflow_id": "wf-9", "workflow_id": "wf-9", "workflow": "x"}', (), "bad_json"
    yield b"k", start(workflow_id="x" * 129), (), "bad_id"
    yield b"k", start(workflow_id=None), (), "wrong_type"
    yield b"k", start(workflow="\ud800"), (), "bad_utf8"
    yield b"k", start(workflow="x" * 800_000), (), "UnknownProgram"
    yield b"k", codec.encode(StepContinue(step_id=step_id)), (), "unknown_type"


def poison_for_external(desk: Desk, step_id: str) -> Iterator[Poison]:
    codec = desk.deployment.codec
    yield from poison_for_any_topic(codec.encode(ExternalEvent(workflow_id="wf-1", name="rain")))
    yield b"k", b'{"workflow_id": "a b", "name": "rain"}', (), "bad_id"
    yield b"k", b'{"workflow_id": "wf-1", "name": "rain", "name": "sun"}', (), "bad_json"
    yield b"k", b'{"workflow_id": "wf-1", "name": "rain", "value": %d}' % 2**64, (), "number_out_of_range"
    yield b"k", codec.encode(StepContinue(step_id=step_id)), (), "unknown_type"


POISON = {"control": poison_for_control, "commands": poison_for_commands, "external": poison_for_external}


def _event(step_id: str) -> Event:
    return Event(
        id=f"{step_id}#1", workflow_id="wf-1", execution_id="e", step_id=step_id, event_type="desk.Ask",
        state="event.Created", payload={}, attempt=1, created_at=0,
    )  # fmt: skip


@in_worlds(EMBEDDED)
@pytest.mark.parametrize("topic", POISON)
def test_poison_between_good_records_is_dead_lettered_and_the_good_ones_are_applied(desk: Desk, topic: str) -> None:
    desk.start()
    deployment = desk.deployment
    name = f"{deployment.config.prefix}{topic}"
    step_id = desk.step(FIRST).id
    poison = list(POISON[topic](desk, step_id))

    for number, (key, value, headers, _) in enumerate(poison):
        deployment.put(name, value, key=key, headers=(*headers, ("number", str(number).encode())), partition=0)
        deployment.client.start(REPORT, {"subject": FIRST}, workflow_id=f"good-{number}")
    deployment.send(StepContinue(step_id=step_id, result={"answer": THIRD}), partition=0)
    deployment.settle()

    assert desk.step(FIRST).returns == {"answer": THIRD}
    assert all(deployment.store.load_workflow(f"good-{number}") for number in range(len(poison)))
    letters = {int(headers_of(letter)["number"]): letter for letter in deployment.dead_letters(name)}
    assert len(letters) == len(deployment.dead_letters(name)) == len(poison)
    origin = {int(headers_of(r)["number"]): r for r in deployment.records(name) if "number" in headers_of(r)}
    for number, (key, value, headers, reason) in enumerate(poison):
        letter, found = letters[number], headers_of(letters[number])
        assert found["afl.dlq.reason"].decode() == reason, f"{number}: {found['afl.dlq.error']!r}"
        assert (letter.key, letter.value) == (key, value)
        assert all(headers_of(letter)[header] == content for header, content in headers)
        assert found["afl.dlq.topic"].decode() == name
        assert int(found["afl.dlq.partition"]) == 0
        assert int(found["afl.dlq.offset"]) == origin[number].offset
        assert int(found["afl.dlq.timestamp"]) == origin[number].timestamp_ms
        assert found.get("afl.dlq.key") == key
        assert found["afl.dlq.error_class"]
        assert found["afl.dlq.error"]


def test_a_record_of_a_newer_format_pauses_its_partition_and_no_other(world: World) -> None:
    desk = Desk(world.deployment(DESK))
    deployment = desk.deployment
    held, other = deployment.id_in_partition(0), deployment.id_in_partition(1)
    for workflow_id in (held, other):
        desk.start(workflow_id)
    control = deployment.topology.control()
    deployment.send(StepContinue(step_id=desk.step(SECOND, held).id, result={"answer": "before"}))
    step_id = desk.step(FIRST, held).id
    newer = StepContinue(step_id=step_id, result={"answer": "of a newer release"})
    deployment.put(control, deployment.codec.encode(newer), key=held.encode(), headers=NEWER)
    deployment.send(StepContinue(step_id=step_id, result={"answer": "behind it"}))
    deployment.settle()
    desk.finish(other)
    desk.start(deployment.id_in_partition(0, "more"))

    assert deployment.workflow(other).status == COMPLETED
    assert desk.step(SECOND, held).returns == {"answer": "before"}
    assert desk.step(FIRST, held).returns == {}
    assert list(desk.evaluator.stats.paused) == [TopicPartition(control, 0)]
    assert "upgrade" in desk.evaluator.stats.paused[TopicPartition(control, 0)]
    assert deployment.dead_letters(control) == []
    positions = {(p.topic, p.partition): offset for p, offset in deployment.store.positions().items()}
    newer_record = next(r for r in deployment.records(control) if headers_of(r).get(NEWER[0][0]) == b"2.0")
    assert positions[(control, 0)] == newer_record.offset


def test_a_record_of_a_newer_format_holds_what_is_behind_it_also_when_its_batch_meets_conflicts(world: World) -> None:
    desk = Desk(world.deployment(DESK, control_partitions=1))
    deployment = desk.deployment
    desk.start()
    desk.start("wf-2")
    control, step_id = deployment.topology.control(), desk.step(FIRST).id
    newer = StepContinue(step_id=step_id, result={"answer": "of a newer release"})
    deployment.send(StepContinue(step_id=desk.step(SECOND).id, result={"answer": "before"}))
    deployment.put(control, deployment.codec.encode(newer), headers=NEWER)
    deployment.send(StepContinue(step_id=step_id, result={"answer": "behind it"}))
    deployment.send(StepContinue(step_id=desk.step(FIRST, "wf-2").id, result={"answer": "behind it"}))
    # Another writer is faster with one of the workflows, twice: the batch is split.
    conflict = WorkflowConflict(workflow_ids=("wf-2",))
    desk.evaluator.faults.fail_at("control.applied", times=2, error=conflict)

    deployment.settle()

    assert desk.evaluator.stats.conflicts == 2
    assert desk.step(SECOND).returns == {"answer": "before"}
    assert desk.step(FIRST).returns == {}
    assert desk.step(FIRST, "wf-2").returns == {}
    positions = {p.topic: offset for p, offset in deployment.store.positions().items()}
    assert positions[control] == 1


@in_worlds(EMBEDDED)
def test_definitions_that_cannot_be_read_while_a_batch_is_split_are_waited_for_too(world: World) -> None:
    deployment = world.deployment(DESK, control_partitions=1)
    interruptions = Interruptions()
    evaluator = deployment.evaluator(interruptions)
    deployment.client.start(REPORT, {"subject": FIRST}, workflow_id="wf-1")
    deployment.settle()
    for workflow_id in ("wf-2", "wf-3", "wf-4"):
        deployment.send(StartWorkflow(workflow_id=workflow_id, workflow=REPORT, inputs={"subject": FIRST}))

    def another_deploys() -> None:
        deployment.client.deploy(program_of(DESK.replace("second", "other")))
        interruptions.fail_at("poll.before_deliver", error=BrokerUnavailable("the broker is away"))

    interruptions.fail_at("control.applied", times=2, error=WorkflowConflict(workflow_ids=("wf-1",)))
    interruptions.happens_at("control.applied", another_deploys, passes=1)
    with pytest.raises(SchemaUnavailable):
        evaluator.turn()
    deployment.settle()

    assert deployment.outcomes() == {"applied": 4}


@in_worlds(EMBEDDED)
def test_a_schema_that_cannot_be_looked_up_is_waited_for_and_nothing_is_skipped(world: World) -> None:
    deployment = world.deployment(DESK)
    faults = Faults()
    writer = Desk(deployment)
    writer.start()
    first, second = writer.step(FIRST).id, writer.step(SECOND).id
    deployment.remove(writer.evaluator, killed=False)
    for step_id, text in ((first, THIRD), (second, "after it")):
        answer = StepContinue(step_id=step_id, result={"answer": text})
        deployment.put(deployment.topology.control(), written_by_another(deployment.codec, answer), key=b"wf-1")
    evaluator = deployment.evaluator(faults)
    key, schema = announcement_of(schema_of_another_writer(answer))
    deployment.put(deployment.topology.schemas(), schema, key=key)
    # The control topic can be read, the schemas topic cannot, three times.
    faults.fail_at("poll.before_deliver", passes=1, times=3, error=BrokerUnavailable("the broker is away"))

    for _ in range(3):
        with pytest.raises(SchemaUnavailable):
            evaluator.turn()
        assert deployment.outcomes() == {}
    deployment.settle()

    assert deployment.outcomes() == {"applied": 2}
    assert writer.step(FIRST).returns == {"answer": THIRD}
    assert writer.step(SECOND).returns == {"answer": "after it"}
    assert deployment.dead_letters(deployment.topology.control()) == []


def test_json_and_headers_of_any_writer_are_taken(desk: Desk) -> None:
    desk.start()
    answer = StepContinue(step_id=desk.step(FIRST).id, result={"answer": THIRD})
    headers = (*headers_for(answer, source="/elsewhere"), ("unknown", b"\xff"), ("content-type", b"application/json"))
    value = json.dumps({"step_id": answer.step_id, "result": {"answer": THIRD}, "unheard_of": 1}).encode()

    desk.deployment.put(desk.deployment.topology.control(), value, headers=headers)
    desk.deployment.settle()

    assert desk.step(FIRST).returns == {"answer": THIRD}
