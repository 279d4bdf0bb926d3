"""What no record wakes is caught up on, races between evaluators are decided by the store, and who stops hands over."""

import gc
import json
import threading
from collections.abc import Callable

import pytest

from afl.compiled.program import CompiledProgram
from afl.engine.model.plan import FacetPlan
from afl.engine.model.store import PAUSED, Batch, OutboxRecord, ParkedRecord, WorkflowRow
from afl.engine.workflow_cache import WorkflowCache
from afl.evaluation.evaluator import Evaluator as Engine
from afl.stores.memory.store import MemoryStore
from afl_stream.embedded.transport import Faults
from afl_stream.evaluator.outbox import Lanes, OutboxDispatch
from afl_stream.settings.config import StreamConfig
from afl_stream.topics.declared import Topology
from afl_stream.transport import BrokerUnavailable
from afl_stream.wire.codec import single_object_codec
from afl_stream.wire.headers import headers_for
from afl_stream.wire.messages import StepContinue
from afl_stream.wire.schema_source import InMemorySchemaLog
from tests.scenarios.other_writers import announcement_of, schema_of_another_writer, written_by_another
from tests.worlds.deployment import Deployment, unique_ids
from tests.worlds.desk import ASK, DESK, FIRST, REPORT, THIRD, Desk, step_id_of
from tests.worlds.stores import OneStore
from tests.worlds.world import World, embedded
from tests.worlds.worlds import EMBEDDED_DURABLE, in_worlds

AWAY = BrokerUnavailable("the broker is away")
ECHO = """
namespace echo {
  event facet Wait(j: Json)
  workflow Echo(j: Json) => (j: Json) andThen { w = Wait(j = $.j) yield Echo(j = w.j) }
}
"""


def stray(deployment: Deployment, number: int) -> ParkedRecord:
    """Return a parked answer to a step of a workflow that is never started."""
    workflow_id, topic = f"stray-{number}", deployment.topology.control()
    step_id, now_ms = f"{workflow_id}:ab", deployment.clock.now_ms()
    return ParkedRecord(
        id=f"stray/0/{number}", workflow_id=workflow_id, step_id=step_id, topic=topic, partition=0, offset=number,
        key=b"k", value=json.dumps({"step_id": step_id, "result": {}}).encode(), headers=(),
        parked_at_ms=now_ms, expires_at_ms=now_ms + 3_600_000,
    )  # fmt: skip


def test_an_early_answer_is_found_behind_more_than_a_thousand_stray_ones(world: World) -> None:
    desk = Desk(world.deployment(DESK))
    deployment = desk.deployment
    deployment.store.commit_batch(Batch(parked=[stray(deployment, number) for number in range(1_001)]))
    deployment.clock.advance(10)
    desk.answer(step_id_of(FIRST, "wf-1"), THIRD)
    assert len(deployment.store.parked(limit=5_000)) == 1_002

    desk.start()
    deployment.clock.advance(2_000)
    deployment.settle()

    assert desk.step(FIRST).returns == {"answer": THIRD}
    assert len(deployment.store.parked(limit=5_000)) == 1_001


def test_an_early_answer_whose_schema_was_gone_when_it_was_judged_is_judged_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = world.deployment(DESK)
    desk = Desk(deployment)
    answer = StepContinue(step_id=step_id_of(FIRST, "wf-1"), result={"answer": THIRD})
    key, schema = announcement_of(schema_of_another_writer(answer))
    deployment.put(deployment.topology.schemas(), schema, key=key)
    value = written_by_another(deployment.codec, answer)
    headers = headers_for(answer, source="/elsewhere", at_ms=deployment.clock.now_ms())
    deployment.put(deployment.topology.control(), value, key=b"wf-1", headers=headers)
    desk.start()
    deployment.remove(desk.evaluator, killed=True)
    assert len(deployment.store.parked()) == 1
    deployment.recreate(deployment.topology.schemas())
    successor = deployment.evaluator()
    deployment.settle()
    deployment.clock.advance(2_000)
    deployment.settle()
    assert "a parked answer to step" in caplog.text
    assert len(deployment.store.parked()) == 1
    # Nothing else waits for it.
    Desk(deployment, successor).start("wf-2")
    assert deployment.workflow("wf-2").status == PAUSED

    deployment.put(deployment.topology.schemas(), schema, key=key)
    deployment.clock.advance(2_000)
    deployment.settle()

    assert desk.step(FIRST).returns == {"answer": THIRD}
    assert deployment.store.parked() == []


def test_more_than_a_thousand_records_of_a_dead_writer_are_published_in_one_sweep(world: World) -> None:
    desk, count = Desk(world.deployment(DESK)), 2_500
    deployment, topic = desk.deployment, desk.deployment.topology.facet(ASK)
    left = [OutboxRecord("writer/dead", topic, b"key", b"%d" % number, ()) for number in range(count)]
    deployment.store.commit_batch(Batch(outbox=left, now_ms=deployment.clock.now_ms()))

    deployment.clock.advance(11_000)
    desk.evaluator.turn()

    assert [record.value for record in deployment.records(topic)] == [b"%d" % number for number in range(count)]
    deployment.settle()
    assert deployment.store.outbox() == []
    assert len(deployment.records(topic)) == count


class StartedMeanwhile(MemoryStore):
    """Once, right after a reader has found that a workflow is missing, another process acts."""

    def __init__(self) -> None:
        super().__init__(prefix=StreamConfig().prefix)
        self.meanwhile: Callable[[], object] | None = None

    def load_workflow(self, workflow_id: str) -> WorkflowRow | None:
        row, action = super().load_workflow(workflow_id), self.meanwhile
        if row is None and action is not None:
            self.meanwhile = None
            action()
        return row


def test_a_cancel_that_another_evaluators_start_overtakes_cancels_it() -> None:
    store = StartedMeanwhile()
    deployment = embedded(None, DESK, stores=OneStore(lambda config, clock: store))
    Desk(deployment)
    program = deployment.programs[0]
    store.meanwhile = lambda: Engine(store).execute(REPORT, {"subject": FIRST}, program, workflow_id="wf-1")

    deployment.client.cancel("wf-1", "no more")
    deployment.settle()

    assert deployment.outcomes() == {"applied": 1}
    row = deployment.workflow("wf-1")
    assert row.error is not None
    assert (row.status, row.error.type) == ("CANCELLED", "Cancelled")


@pytest.mark.parametrize(("first", "other"), [(1, True), (0, False), ([1], [True]), ({"a": 1}, {"a": True})], ids=str)
def test_a_start_with_true_for_one_is_another_start(world: World, first: object, other: object) -> None:
    deployment = world.deployment(ECHO)
    deployment.evaluator()
    for value in (first, first, other):
        deployment.client.start("echo.Echo", {"j": value}, workflow_id="wf-1")
        deployment.settle()

    assert deployment.outcomes() == {"applied": 1, "duplicate": 1, "rejected": 1}
    (letter,) = deployment.dead_letters(deployment.topology.commands())
    assert dict(letter.headers)["afl.dlq.reason"] == b"AlreadyExists"


def test_a_service_that_ends_with_an_error_leaves_its_partitions_to_the_others_at_once(world: World) -> None:
    deployment, faults = world.deployment(DESK), Faults()
    failing, other = deployment.evaluator(faults), deployment.evaluator()
    deployment.settle_among_all()
    assert failing.partitions() | other.partitions() == {0, 1}
    workflow_id = deployment.id_in_partition(min(failing.partitions()))
    deployment.client.start(REPORT, {"subject": FIRST}, workflow_id=workflow_id)
    faults.fail_at("control.applied", error=OSError("no space left"))

    with pytest.raises(OSError, match="no space left"):
        failing.service.run(threading.Event())
    deployment.evaluators.remove(failing)
    deployment.settle()

    assert other.partitions() == {0, 1}
    assert len(deployment.events(ASK)) == 2


@in_worlds(EMBEDDED_DURABLE)
def test_a_service_that_cannot_publish_when_it_closes_leaves_its_group_all_the_same(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = world.deployment(DESK, control_partitions=1)
    closing = Desk(deployment).evaluator
    # An earlier workflow, so that all schemas are announced.
    deployment.client.start(REPORT, {"subject": FIRST}, workflow_id="wf-0")
    deployment.settle()
    deployment.client.start(REPORT, {"subject": FIRST}, workflow_id="wf-1")
    deployment.broker_faults.fail_at("log.before_write", times=1_000_000, error=AWAY)
    for _ in range(3):
        closing.turn()

    closing.service.loop.close(0.0)
    assert "3 outbox records wait in the store" in caplog.text
    deployment.evaluators.remove(closing)
    deployment.broker_faults.clear()
    other = deployment.evaluator()
    deployment.settle()

    assert other.partitions() == {0}
    assert len(unique_ids(deployment.records(deployment.topology.facet(ASK)))) == 4
    deployment.crash()


def noting(number: int) -> CompiledProgram:
    """One of many versions of a program."""
    note = {"type": "EventFacetDecl", "name": "Noted", "params": [{"name": "n", "type": "Long"}]}
    arguments = [{"name": "n", "value": number}]
    step = {"type": "StepStmt", "name": "a", "call": {"target": "Noted", "args": arguments}}
    workflow = {"type": "WorkflowDecl", "name": "W", "body": {"type": "AndThenBlock", "steps": [step]}}
    return CompiledProgram({"type": "Program", "declarations": [note, workflow]})


def test_what_was_made_ready_for_a_program_goes_when_its_plan_does() -> None:
    topology = Topology(StreamConfig())
    dispatch = OutboxDispatch(single_object_codec(InMemorySchemaLog()), topology, Lanes(1))
    workflows = WorkflowCache(MemoryStore(), dispatch, prepare=dispatch.prepare)

    # 256 are kept.
    for number in range(300):
        workflows.plan(noting(number), "W")
    gc.collect()

    plans = [found for found in gc.get_objects() if type(found) is FacetPlan and found.name == "Noted"]
    assert len(plans) == 256
