"""Records of other releases through the control loop: newer ones wait with their partition, and the rest goes on."""

from __future__ import annotations

import hashlib
import json

import pytest

from afl.engine.model.store import COMPLETED, PAUSED
from afl_stream.transport import Headers, TopicPartition
from afl_stream.wire.headers import HeaderForm, headers_for
from afl_stream.wire.messages import (
    CancelWorkflow,
    FailureReason,
    Message,
    ProgramDefinition,
    ProgramPointer,
    StartWorkflow,
    StepContinue,
    StepFailed,
    StepUpdate,
    name_key,
)
from afl_stream.wire.versions import HEADERS
from tests.worlds.deployment import Deployment, program_of
from tests.worlds.desk import DESK, FIRST, REPORT, THIRD, Desk
from tests.worlds.world import World

WAITING = "wf-1"


def _messages(step_id: str) -> dict[str, Message]:
    return {
        "StepContinue": StepContinue(step_id=step_id, result={"answer": THIRD}),
        "StepFailed": StepFailed(step_id=step_id, error=FailureReason(type="Late", message="too late")),
        "StepUpdate": StepUpdate(step_id=step_id, partial={"answer": THIRD}),
        "StartWorkflow": StartWorkflow(workflow=REPORT, workflow_id="wf-2", inputs={"subject": FIRST}),
        "CancelWorkflow": CancelWorkflow(workflow_id=WAITING),
    }


def _with_version(headers: Headers, name: str, version: str) -> Headers:
    return tuple((key, version.encode() if key == name else value) for key, value in headers)


def _send(deployment: Deployment, message: Message, header: str, version: str) -> str:
    """Produce a record whose headers tell another version; the topic that it went to."""
    topic = deployment.topology.control() if hasattr(message, "step_id") else deployment.topology.commands()
    headers = _with_version(headers_for(message, source="/tests", form=HeaderForm.CLOUDEVENTS), header, version)
    deployment.put(topic, deployment.codec.encode(message, topic), key=WAITING.encode(), headers=headers)
    return topic


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("kind", ["StepContinue", "StepFailed", "StepUpdate", "StartWorkflow", "CancelWorkflow"])
def test_a_newer_record_pauses_its_partition_with_what_to_do(world: World, kind: str, header: str) -> None:
    desk = Desk(world.deployment(DESK, control_partitions=1))
    deployment = desk.deployment
    desk.start()
    before = deployment.workflow(WAITING)

    topic = _send(deployment, _messages(desk.step(FIRST).id)[kind], header, "7.0")
    deployment.settle()

    ((place, why),) = deployment.evaluators[0].stats.paused.items()
    assert place == TopicPartition(topic, 0)
    assert f"{HEADERS[header]} 7.0" in why
    assert "upgrade this process" in why
    assert deployment.workflow(WAITING) == before
    assert deployment.dead_letters(topic) == []


@pytest.mark.parametrize("header", HEADERS)
def test_a_record_of_the_release_before_is_applied(world: World, header: str) -> None:
    desk = Desk(world.deployment(DESK, control_partitions=1))
    desk.start()

    _send(desk.deployment, _messages(desk.step(FIRST).id)["StepContinue"], header, "0.9")
    desk.deployment.settle()

    assert desk.deployment.outcomes() == {"applied": 2}
    assert desk.deployment.evaluators[0].stats.paused == {}


def test_a_record_whose_version_is_none_is_a_dead_letter_and_the_rest_continues(world: World) -> None:
    desk = Desk(world.deployment(DESK, control_partitions=1))
    deployment = desk.deployment
    desk.start()

    topic = _send(deployment, _messages(desk.step(FIRST).id)["StepContinue"], "afl_runtime_version", "seven")
    deployment.settle()
    desk.finish()

    (letter,) = deployment.dead_letters(topic)
    assert dict(letter.headers)["afl.dlq.reason"] == b"wrong_type"
    assert deployment.workflow(WAITING).status == COMPLETED


@pytest.mark.parametrize("component", HEADERS.values())
def test_a_newer_record_in_json_pauses_its_partition_too(world: World, component: str) -> None:
    desk = Desk(world.deployment(DESK, control_partitions=1))
    deployment = desk.deployment
    desk.start()
    value = json.dumps({"step_id": desk.step(FIRST).id, "result": {"answer": THIRD}, component: "7.0"}).encode()

    deployment.put(deployment.topology.control(), value, key=WAITING.encode())
    deployment.settle()

    assert [f"{component} 7.0" in why for why in deployment.evaluators[0].stats.paused.values()] == [True]
    assert deployment.workflow(WAITING).status == PAUSED


def _deployed_by_a_newer_release(deployment: Deployment, *, in_the_record: bool) -> str:
    """Return a program that a newer release has deployed: of a newer form, or in a newer record."""
    text = json.dumps({"type": "Program", **({} if in_the_record else {"schemaVersion": "3.0"})})
    fingerprint = hashlib.sha256(text.encode()).hexdigest()
    packed = ProgramDefinition.packed(fingerprint, text)
    if in_the_record:
        packed = ProgramDefinition(
            fingerprint=fingerprint, encoding=packed.encoding, program=packed.program, runtime_version="7.0"
        )
    topic = deployment.topology.definitions()
    for key, message in (
        (fingerprint, packed),
        (name_key("later.Work"), ProgramPointer(workflow="later.Work", fingerprint=fingerprint)),
    ):
        deployment.put(topic, deployment.codec.encode(message, topic), key=key.encode())
    return fingerprint


@pytest.mark.parametrize("in_the_record", [True, False])
@pytest.mark.parametrize("by_name", [True, False])
def test_a_start_of_what_a_newer_release_has_deployed_waits_for_the_upgrade(
    world: World, by_name: bool, in_the_record: bool
) -> None:
    deployment = world.deployment(DESK, control_partitions=1)
    deployment.evaluator()
    fingerprint = _deployed_by_a_newer_release(deployment, in_the_record=in_the_record)

    deployment.send(
        StartWorkflow(workflow="later.Work", workflow_id="wf-1", program=None if by_name else fingerprint, inputs={})
    )
    deployment.settle()

    (why,) = deployment.evaluators[0].stats.paused.values()
    assert "upgrade this process" in why
    assert deployment.dead_letters(deployment.topology.commands()) == []
    assert deployment.store.load_workflow("wf-1") is None


def test_what_is_deployed_again_in_a_form_that_is_read_can_be_started(world: World) -> None:
    deployment = world.deployment(DESK, control_partitions=1)
    deployment.evaluator()
    _deployed_by_a_newer_release(deployment, in_the_record=True)
    program = program_of("namespace later { workflow Work() => (n: Long) andThen { yield Work(n = 1) } }")
    deployment.client.deploy(program)

    deployment.client.start("later.Work", {}, workflow_id="wf-1")
    deployment.settle()

    assert deployment.workflow("wf-1").status == COMPLETED
