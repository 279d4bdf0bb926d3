"""Finished runs go when their time is over, and are still known for what they were."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from afl.engine.errors import WorkflowPurged
from afl.engine.model.store import COMPLETED
from afl.engine.model.tombstones import PURGED, PURGING
from afl.evaluation.evaluator import Evaluator
from afl.stores.maintenance.check import Inspection
from afl.stores.maintenance.purge import ROWS_PER_SLICE
from afl_stream.embedded.transport import Crash, Faults
from afl_stream.errors import AlreadyExists, AlreadyPurged
from afl_stream.evaluator.runs import check_same_start
from afl_stream.settings.config import StoreSettings
from afl_stream.wire.messages import CancelWorkflow, Lifecycle, StartWorkflow, StepContinue
from tests.contract.upkeep_contract import PURGE_POINTS
from tests.worlds.deployment import Deployment
from tests.worlds.desk import DESK, FIRST, REPORT, SECOND, THIRD, Desk
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED, EMBEDDED_DURABLE, in_worlds

#: How long things are kept is measured by the clock that the test moves.
WORLDS = EMBEDDED

#: As settings have it, and in milliseconds.
KEPT, KEPT_MS = "60s", 60_000
REMEMBERED, REMEMBERED_MS = "2h", 7_200_000
#: How often an evaluator looks for what is due.
LOOK_MS = 60_000

WIDE = """
namespace wide {
  facet Twice(n: Long) => (n: Long)
  event facet Count(n: Long) => (n: Long)
  workflow Wide(ns: [Long]) => (last: Long) andThen foreach n in $.ns {
    t = Twice(n = $.n + 1)
    yield Wide(last = t.n)
  }
}
"""


def with_retention(deployment: Deployment) -> Deployment:
    settings = StoreSettings(retention=KEPT, tombstone_retention=REMEMBERED)
    deployment.config = replace(deployment.config, store=settings)
    return deployment


def a_desk(world: World) -> Desk:
    return Desk(with_retention(world.deployment(DESK, control_partitions=1)))


def finished(desk: Desk, workflow_id: str = "wf-1") -> str:
    """Return a run that has ended; one of its steps."""
    desk.start(workflow_id)
    step_id = desk.step(FIRST, workflow_id).id
    desk.finish(workflow_id)
    assert desk.deployment.workflow(workflow_id).status == COMPLETED
    return step_id


def later(deployment: Deployment, ms: int) -> None:
    """Let time go by, and the evaluators look what is due."""
    deployment.clock.advance(ms)
    deployment.settle()
    deployment.clock.advance(LOOK_MS)
    deployment.settle()


def test_a_finished_run_goes_when_its_time_is_over_and_others_stay(world: World) -> None:
    desk = a_desk(world)
    deployment = desk.deployment
    finished(desk)
    desk.start("wf-2")

    deployment.clock.advance(KEPT_MS - 10_000)
    deployment.settle()
    assert deployment.workflow("wf-1").status == COMPLETED
    later(deployment, 10_000)

    stone = deployment.store.tombstone("wf-1")
    assert stone is not None
    assert (stone.state, stone.status, stone.name) == (PURGED, COMPLETED, REPORT)
    assert deployment.store.load_workflow("wf-1") is None
    assert deployment.steps("wf-1") == []
    assert len(deployment.steps("wf-2")) > 0
    desk.finish("wf-2")
    assert deployment.workflow("wf-2").status == COMPLETED


def test_without_a_setting_nothing_goes(world: World) -> None:
    desk = Desk(world.deployment(DESK, control_partitions=1))
    finished(desk)

    later(desk.deployment, 10 * KEPT_MS)

    assert desk.deployment.workflow("wf-1").status == COMPLETED


def test_an_answer_to_a_purged_run_is_late_and_not_parked(world: World) -> None:
    desk = a_desk(world)
    deployment = desk.deployment
    step_id = finished(desk)
    later(deployment, KEPT_MS)

    desk.send(StepContinue(step_id=step_id, result={"answer": THIRD}))

    assert deployment.outcomes()["late"] == 1
    assert deployment.store.parked() == []
    assert deployment.milestones("wf-1")[-1].kind == "answer.late"


def test_the_same_start_of_a_purged_run_does_nothing_and_another_one_is_refused(world: World) -> None:
    desk = a_desk(world)
    deployment = desk.deployment
    finished(desk)
    later(deployment, KEPT_MS)

    desk.send(StartWorkflow(workflow=REPORT, workflow_id="wf-1", inputs={"subject": FIRST}))
    assert deployment.outcomes()["duplicate"] == 1
    desk.send(StartWorkflow(workflow=REPORT, workflow_id="wf-1", inputs={"subject": SECOND}))

    assert deployment.outcomes()["rejected"] == 1
    (letter,) = deployment.dead_letters(deployment.topology.commands())
    assert dict(letter.headers)["afl.dlq.reason"] == b"AlreadyExists"
    assert deployment.store.load_workflow("wf-1") is None


def test_a_purged_run_that_is_cancelled_is_late(world: World) -> None:
    desk = a_desk(world)
    finished(desk)
    later(desk.deployment, KEPT_MS)

    desk.send(CancelWorkflow(workflow_id="wf-1"))

    assert desk.deployment.outcomes()["late"] == 1
    assert desk.deployment.dead_letters(desk.deployment.topology.commands()) == []


def test_whoever_starts_a_purged_run_here_is_told(world: World) -> None:
    desk = a_desk(world)
    deployment, program = desk.deployment, desk.deployment.programs[0]
    finished(desk)
    later(deployment, KEPT_MS)
    store = deployment.store

    with pytest.raises(AlreadyPurged, match=r"ended as COMPLETED on 2023-.* and was purged"):
        check_same_start(store, "wf-1", REPORT, program, {"subject": FIRST})
    with pytest.raises(AlreadyExists):
        check_same_start(store, "wf-1", REPORT, program, {"subject": SECOND})
    result = Evaluator(store).execute(REPORT, {"subject": FIRST}, program, workflow_id="wf-1")
    assert isinstance(result.error, WorkflowPurged)


def test_the_id_of_a_run_is_free_again_when_its_tombstone_is_forgotten(world: World) -> None:
    desk = a_desk(world)
    deployment = desk.deployment
    finished(desk)
    later(deployment, KEPT_MS)
    later(deployment, REMEMBERED_MS)

    assert deployment.store.tombstone("wf-1") is None
    finished(desk)
    assert [step.workflow_id for step in deployment.steps("wf-1")]


def test_a_run_whose_records_wait_to_be_published_is_kept(world: World) -> None:
    desk = a_desk(world)
    deployment = desk.deployment
    desk.start()
    deployment.transport.admin().delete_topic(deployment.topology.lifecycle())
    desk.finish()

    later(deployment, KEPT_MS)
    assert deployment.workflow("wf-1").status == COMPLETED
    deployment.client.apply_topics(deployment.programs)
    later(deployment, 10_000)
    later(deployment, 10_000)

    assert deployment.store.load_workflow("wf-1") is None
    assert isinstance(deployment.milestones("wf-1")[-1], Lifecycle)


# MongoDB's server on a busy machine reads fifteen thousand steps for a while.
@pytest.mark.timeout(400)
def test_a_large_run_goes_in_slices_while_another_is_answered(world: World) -> None:
    deployment = with_retention(world.deployment(WIDE, DESK, control_partitions=1))
    desk = Desk(deployment)
    deployment.client.start("wide.Wide", {"ns": list(range(5_000))}, workflow_id="wide")
    deployment.settle()
    total = len(deployment.steps("wide"))
    assert total > 15_000
    deployment.clock.advance(KEPT_MS + LOOK_MS)
    desk.evaluator.turn()

    left = []
    while deployment.steps("wide"):
        left.append(len(deployment.steps("wide")))
        deployment.clock.advance(1_000)
        desk.evaluator.turn()
        if len(left) == 2:
            finished(desk)

    assert left[0] > left[1] > 10_000
    assert all(before - after <= 2 * ROWS_PER_SLICE for before, after in pairwise(left))
    assert deployment.workflow("wf-1").status == COMPLETED


@in_worlds(EMBEDDED_DURABLE)
@pytest.mark.parametrize("point", PURGE_POINTS)
def test_an_evaluator_that_dies_while_it_purges_leaves_the_rest_to_the_next(world: World, point: str) -> None:
    deployment = with_retention(world.deployment(WIDE, control_partitions=1))
    deployment.evaluator()
    # More rows than a slice has.
    deployment.client.start("wide.Wide", {"ns": list(range(ROWS_PER_SLICE))}, workflow_id="wf-1")
    deployment.settle()
    step_id = deployment.steps("wf-1")[-1].id
    (evaluator,) = deployment.evaluators
    evaluator.faults.fail_at(point)

    deployment.clock.advance(KEPT_MS)
    with pytest.raises(Crash):
        later(deployment, LOOK_MS)
    deployment.crash_and_restart()
    found = deployment.store.tombstone("wf-1")
    assert (found is None) == (point == "purge.chosen")
    assert found is None or (found.state == PURGING) == (point != "purge.finished")
    deployment.evaluator(Faults())
    deployment.settle()
    deployment.send(StepContinue(step_id=step_id, result={"answer": THIRD}))
    later(deployment, LOOK_MS)

    stone = deployment.store.tombstone("wf-1")
    assert stone is not None
    assert stone.state == PURGED
    assert deployment.steps("wf-1") == []
    assert [str(finding) for finding in Inspection(store=deployment.store).findings()] == []
    deployment.crash()
