"""Lost schemas and definitions are waited for and published again; forged ones are refused."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from afl.core.declared_returns import DeclaredReturns
from afl.engine.model.store import COMPLETED
from afl_stream.audit.audit import Audit, AuditConfig, AuditFile
from afl_stream.embedded.transport import Faults
from afl_stream.evaluator.service import EvaluatorService
from afl_stream.programs.definitions import Definitions, UnknownProgram
from afl_stream.resources import schema_text
from afl_stream.wire.headers import headers_for
from afl_stream.wire.messages import (
    Message,
    ProgramDefinition,
    ProgramPointer,
    StartWorkflow,
    StepContinue,
    name_key,
)
from tests.eventually import eventually
from tests.scenarios.forged_schemas import forged, swap_payload_fields
from tests.scenarios.other_writers import announcement_of, schema_of_another_writer, written_by_another
from tests.worlds.deployment import Deployment, program_of
from tests.worlds.desk import ASK, DESK, FIRST, REPORT, THIRD, Desk
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED, in_worlds

PAY = """
namespace pay {
  event facet Move(payer: String, payee: String) => (told: String)
  workflow Transfer(payer: String, payee: String) => (told: String) andThen {
    m = Move(payer = $.payer, payee = $.payee)
    yield Transfer(told = m.told)
  }
}
"""
TRANSFER = "pay.Transfer"
INPUTS = {"payer": "ann", "payee": "bob"}


def told(payload: dict[str, object], context: object) -> dict[str, object]:
    return {"told": f"{payload['payer']} pays {payload['payee']}"}


def answer(payload: dict[str, object], context: object) -> dict[str, object]:
    return {"answer": payload["question"]}


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]


def with_settings(deployment: Deployment, topic: str, **settings: str) -> None:
    """Make a topic again with other settings, as a platform team does that creates topics its own way."""
    admin = deployment.transport.admin()
    found = admin.topics([topic])[topic]
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    admin.delete_topic(topic)
    admin.create_topic(topic, partitions=found.partitions, settings={**found.settings, **dotted})


def test_the_schemas_that_others_write_are_there_after_a_deploy(world: World) -> None:
    # Agents, starters and producers then need no right to write any.
    deployment = world.deployment(DESK)
    topology = deployment.topology
    topics = (topology.control(), topology.commands(), topology.external())
    wanted = {schema_text(name) for topic in topics for name in topology.record_schemas()[topic]}

    announced = {record.value.decode() for record in deployment.records(topology.schemas()) if record.value is not None}

    assert wanted - announced == set()


class Watched:
    """An evaluator whose looks at its store and its schemas the test calls for."""

    def __init__(self, deployment: Deployment) -> None:
        self.now_s = 0.0
        self.service = EvaluatorService(
            deployment.config,
            deployment.cluster.transport(Faults()),
            deployment.store,
            clock=deployment.clock,
            monotonic_s=lambda: self.now_s,
        )
        self.deployment = deployment

    def look(self) -> None:
        self.now_s += 60.0
        self.settle()

    def settle(self) -> None:
        quiet = 0
        while quiet < 3:
            moved = self.service.loop.run_once(0.0) + self.deployment.round()
            quiet = 0 if moved or not self.service.loop.is_idle() else quiet + 1


# --- settings of topics ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "policy", "right"),
    [
        ("schemas", "delete", "compact"),
        ("schemas", "compact,delete", "compact"),
        ("definitions", "delete", "compact"),
        ("control", "compact", "delete"),
        ("commands", "compact,delete", "delete"),
    ],
)
def test_an_evaluator_tells_which_topic_loses_records_and_how_to_mend_it(
    world: World, kind: str, policy: str, right: str, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = world.deployment(DESK)
    topic = getattr(deployment.topology, kind)()
    with_settings(deployment, topic, cleanup_policy=policy)

    deployment.evaluator()

    (found,) = errors(caplog)
    assert f"topic {topic} has cleanup.policy={policy}, not {right}" in found
    assert f"--entity-name {topic} --add-config cleanup.policy={right}" in found


@in_worlds(EMBEDDED)
def test_an_agent_tells_it_of_its_own_topics(world: World, caplog: pytest.LogCaptureFixture) -> None:
    deployment = world.deployment(DESK)
    with_settings(deployment, deployment.topology.facet(ASK), cleanup_policy="compact")
    with_settings(deployment, deployment.topology.schemas(), cleanup_policy="delete")

    deployment.worker({ASK: answer}).join()

    assert [line.partition(" has ")[0] for line in errors(caplog)] == ["topic afl.events.desk.Ask", "topic afl.schemas"]


@in_worlds(EMBEDDED)
def test_an_audit_tells_it_too(world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    deployment = world.deployment(DESK)
    with_settings(deployment, deployment.topology.schemas(), cleanup_policy="delete")
    audit = Audit(AuditConfig(stream=deployment.config), deployment.transport, AuditFile(tmp_path / "audit.jsonl"))

    audit.start()

    assert [line.partition(" has ")[0] for line in errors(caplog)] == ["topic afl.schemas"]
    audit.close()


@in_worlds(EMBEDDED)
def test_topics_as_declared_are_not_spoken_of(world: World, caplog: pytest.LogCaptureFixture) -> None:
    deployment = world.deployment(DESK)

    deployment.evaluator()
    deployment.worker({ASK: answer}).join()

    assert errors(caplog) == []


# --- schemas that are gone ------------------------------------------------------------------------------------------


def test_an_event_whose_schema_is_gone_waits_until_its_evaluator_has_announced_it_again(world: World) -> None:
    deployment = world.deployment(DESK)
    evaluator = Watched(deployment)
    deployment.client.start(REPORT, {"subject": FIRST}, workflow_id="wf-1")

    def has_asked() -> bool:
        evaluator.settle()
        return bool(deployment.records(deployment.topology.facet(ASK)))

    # A broker takes its time until it hands the start over.
    eventually(has_asked)
    deployment.recreate(deployment.topology.schemas())
    worker = deployment.worker({ASK: answer})

    for _ in range(5):
        worker.turn()
    assert deployment.dead_letters(deployment.topology.facet(ASK)) == []
    assert deployment.records(deployment.topology.control()) == []

    evaluator.look()

    def has_ended() -> bool:
        worker.turn()
        evaluator.settle()
        return deployment.workflow("wf-1").status == COMPLETED

    # The agent tries again after a back-off, by the clock of the machine.
    eventually(has_ended)
    assert deployment.workflow("wf-1").outputs == {"answers": [FIRST, "second", FIRST]}


@in_worlds(EMBEDDED)
def test_an_answer_whose_schema_is_gone_waits_until_it_is_announced_again(world: World) -> None:
    deployment = world.deployment(DESK)
    desk = Desk(deployment)
    desk.start()
    continued = StepContinue(step_id=desk.step(FIRST).id, result={"answer": THIRD})
    key, schema = announcement_of(schema_of_another_writer(continued))
    value = written_by_another(deployment.codec, continued)
    headers = headers_for(continued, source="/elsewhere", at_ms=deployment.clock.now_ms())
    deployment.clock.advance(1_000)
    deployment.recreate(deployment.topology.schemas())
    evaluator = Watched(deployment)
    deployment.remove(desk.evaluator, killed=False)
    deployment.put(deployment.topology.control(), value, key=b"wf-1", headers=headers)

    evaluator.settle()
    (why,) = evaluator.service.loop.stats().paused.values()
    assert "was announced, and" in why
    deployment.put(deployment.topology.schemas(), schema, key=key)
    deployment.clock.advance(60_000)
    evaluator.look()

    assert desk.step(FIRST).returns == {"answer": THIRD}
    assert deployment.dead_letters(deployment.topology.control()) == []


def test_a_strangers_record_of_an_unknown_schema_is_a_dead_letter_all_the_same(world: World) -> None:
    deployment = world.deployment(DESK)
    desk = Desk(deployment)
    deployment.recreate(deployment.topology.schemas())
    deployment.put(deployment.topology.control(), b"\xc3\x01" + bytes(range(8)), key=b"wf-1")
    deployment.settle()

    assert len(deployment.dead_letters(deployment.topology.control())) == 1
    desk.start()


# --- definitions ----------------------------------------------------------------------------------------------------


def define(deployment: Deployment, key: str, message: Message) -> None:
    topic = deployment.topology.definitions()
    deployment.put(topic, deployment.codec.encode(message, topic), key=key.encode())


def test_a_definitions_topic_made_again_gets_what_a_running_evaluator_knows(world: World) -> None:
    deployment = world.deployment(DESK)
    evaluator = Watched(deployment)
    deployment.recreate(deployment.topology.definitions())

    evaluator.look()

    known = Definitions(deployment.transport, deployment.codec, deployment.topology.definitions())
    assert known.workflows() == {REPORT: deployment.programs[0].fingerprint}
    assert known.find(REPORT)[0].text == deployment.programs[0].text
    assert known.claims.current is not None


def test_a_definition_that_cannot_be_read_is_a_log_line_and_keeps_no_other_from_being_read(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = world.deployment(DESK)
    topic = deployment.topology.definitions()
    for key, value in ((b"name:shop.Buy", b"\x00junk"), (b"\xff", b"{}"), (None, b"\xc3\x01" + bytes(8))):
        deployment.put(topic, value, key=key)
    define(deployment, "ab" * 32, ProgramDefinition(fingerprint="ab" * 32, program=b"no zlib"))

    evaluator = deployment.evaluator()
    deployment.client.start(REPORT, {"subject": FIRST}, workflow_id="wf-1")
    deployment.settle()

    assert evaluator.store.load_workflow("wf-1") is not None
    lines = [record.getMessage() for record in caplog.records if "is ignored" in record.getMessage()]
    assert len({line for line in lines if "name:shop.Buy" in line}) == 1
    assert any("ab" * 32 in line for line in lines)


def test_a_definition_counts_once_its_schema_is_there_and_is_told_of_once_before(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = world.deployment(DESK)
    pointer = ProgramPointer(workflow="shop.Later", fingerprint=deployment.programs[0].fingerprint)
    topic = deployment.topology.definitions()
    value = written_by_another(deployment.codec, pointer)
    deployment.put(topic, value, key=name_key("shop.Later").encode())
    definitions = Definitions(deployment.transport, deployment.codec, topic)
    for number in range(3):
        definitions.publish(
            name_key(f"shop.Other{number}"), ProgramPointer(workflow=f"shop.Other{number}", fingerprint="f")
        )
        assert "shop.Later" not in definitions.workflows()
    assert caplog.text.count("name:shop.Later is ignored") == 1

    key, schema = announcement_of(schema_of_another_writer(pointer))
    deployment.put(deployment.topology.schemas(), schema, key=key)
    definitions.publish(name_key("shop.Last"), ProgramPointer(workflow="shop.Last", fingerprint="f"))

    assert definitions.workflows()["shop.Later"] == pointer.fingerprint


def test_a_program_under_the_fingerprint_of_another_is_refused_and_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = world.deployment(DESK)
    wanted, other = deployment.programs[0], program_of(PAY)
    forged_program = ProgramDefinition.packed(wanted.fingerprint, other.text.decode())
    define(deployment, wanted.fingerprint, forged_program)

    definitions = Definitions(deployment.transport, deployment.codec, deployment.topology.definitions())

    assert definitions.find(REPORT, wanted.fingerprint)[0].text == wanted.text
    assert "its SHA-256 is not its fingerprint" in caplog.text


def test_a_start_that_names_a_program_by_its_fingerprint_runs_that_or_nothing(world: World) -> None:
    deployment = world.deployment(PAY)
    named = program_of(DESK)
    define(deployment, named.fingerprint, ProgramDefinition.packed(named.fingerprint, program_of(PAY).text.decode()))
    deployment.evaluator()
    deployment.send(StartWorkflow(workflow_id="wf-1", workflow=REPORT, program=named.fingerprint, inputs={}))
    deployment.settle()

    assert deployment.store.load_workflow("wf-1") is None
    (letter,) = deployment.dead_letters(deployment.topology.commands())
    assert dict(letter.headers)["afl.dlq.reason"] == b"UnknownProgram"


def test_a_name_points_to_a_program_under_its_own_key_only(world: World, caplog: pytest.LogCaptureFixture) -> None:
    deployment = world.deployment(DESK)
    define(deployment, name_key("other.Report"), ProgramPointer(workflow=REPORT, fingerprint="ab" * 32))

    definitions = Definitions(deployment.transport, deployment.codec, deployment.topology.definitions())

    assert definitions.workflows() == {REPORT: deployment.programs[0].fingerprint}
    assert f"the key of this record would be name:{REPORT}" in caplog.text


def test_the_store_has_a_program_that_the_topic_has_not(world: World) -> None:
    deployment = world.deployment(DESK)
    fingerprint = deployment.programs[0].fingerprint
    empty = world.deployment()
    stored = Definitions(
        empty.transport, empty.codec, empty.topology.definitions(), {fingerprint: deployment.programs[0].text}.get
    )

    assert stored.find(REPORT, fingerprint)[0].fingerprint == fingerprint
    with pytest.raises(UnknownProgram):
        stored.find(REPORT, "ab" * 32)


# --- forged schemas -------------------------------------------------------------------------------------------------


def test_a_forged_schema_of_the_same_fingerprint_swaps_no_fields(world: World) -> None:
    deployment = world.deployment(PAY)
    deployment.evaluator()
    deployment.client.start(TRANSFER, INPUTS, workflow_id="wf-1")
    deployment.settle()
    params, returns = [{"name": n, "type": "String"} for n in INPUTS], DeclaredReturns(("told",))
    genuine = deployment.codec.event_writer("pay.Move", params, returns=returns).schema
    key, value = announcement_of(forged(genuine, swap_payload_fields))
    deployment.put(deployment.topology.schemas(), value, key=key)

    deployment.worker({"pay.Move": told}).join()
    deployment.settle()

    assert deployment.workflow("wf-1").outputs == {"told": "ann pays bob"}


def test_a_forged_schema_that_came_first_has_its_workflow_refused_and_not_misread(world: World) -> None:
    deployment = world.deployment(PAY)
    elsewhere = world.deployment(PAY)
    params, returns = [{"name": n, "type": "String"} for n in INPUTS], DeclaredReturns(("told",))
    genuine = elsewhere.codec.event_writer("pay.Move", params, returns=returns).schema
    key, value = announcement_of(forged(genuine, swap_payload_fields))
    deployment.put(deployment.topology.schemas(), value, key=key)
    deployment.evaluator()

    deployment.client.start(TRANSFER, INPUTS, workflow_id="wf-1")
    deployment.settle()

    (letter,) = deployment.dead_letters(deployment.topology.commands())
    assert b"is taken by another one" in (dict(letter.headers)["afl.dlq.error"] or b"")
    assert deployment.store.load_workflow("wf-1") is None
