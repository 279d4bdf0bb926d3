"""A crash at any step of a script's way, takeovers and rivals: it may run twice, and has its effect once."""

from __future__ import annotations

import pytest

from afl.engine.model.store import COMPLETED, RUNNING
from afl_stream.embedded.transport import Crash
from afl_stream.wire.messages import StepContinue
from tests.scenarios.test_orphaned_outbox import two_evaluators
from tests.worlds.delivery_checks import assert_delivered, assert_no_offset_past_its_effect
from tests.worlds.deployment import Deployment
from tests.worlds.parties import Interruptions
from tests.worlds.press import HANDLERS, ITEMS, PRESS, Presses, start_catalogue
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED, KAFKA, MONGO, SQLITE, STANDALONE_MONGO, Crashing, in_worlds, with_values

#: The steps of a script's way (evaluator/script_turns.py) and of the batches that it is part of, and how often a run
#: comes by there.
POINTS = {
    "control.read": 2,
    "control.applied": 4,
    "control.persisted": 4,
    "control.published": 4,
    "control.committed": 4,
    "scripts.submitted": 2,
    "scripts.taken": 2,
    "store.compared": 4,
    "store.written": 4,
    "store.committed": 4,
    "outbox.published": 3,
}
CRASHES = [Crashing(point, n) for point, most in POINTS.items() for n in range(most)]


def is_quick_on_servers(crash: object) -> bool:
    return crash == Crashing("control.persisted", 0)


#: A script after an answer.
LATE = """
namespace late {
  event facet Ask(what: String) => (said: String)
  facet Loud(item: String) => (text: String) script { result["text"] = params["item"].upper() }
  workflow Say() => (text: String) andThen { a = Ask(what = "tea") l = Loud(item = a.said) yield Say(text = l.text) }
}
"""


def assert_of_one_run_each(deployment: Deployment, workflow_id: str) -> None:
    """Check that outputs, steps and events are of the same run of each script."""
    row = deployment.workflow(workflow_id)
    assert row.status == COMPLETED
    outputs = row.outputs
    assert outputs is not None
    by_item = {s.params["item"]: s.returns["text"] for s in deployment.steps(workflow_id) if "item" in s.params}
    texts = [by_item[item] for item in ITEMS]
    assert outputs["texts"] == texts
    asked = {event.payload["text"] for event in deployment.events("press.Print") if event.workflow_id == workflow_id}
    assert asked == set(texts)
    (root, *_) = deployment.steps(workflow_id)
    assert outputs["opened"] == root.params["opened"]


@pytest.mark.parametrize(
    ("world", "crash"),
    [
        *with_values(SQLITE, CRASHES),
        *with_values(MONGO, [crash for crash in CRASHES if crash.point != "store.compared"], is_quick_on_servers),
        *with_values(STANDALONE_MONGO, CRASHES),
        *with_values(KAFKA, [crash for crash in CRASHES if not crash.passes], is_quick_on_servers),
    ],
    indirect=["world"],
    ids=str,
)
def test_a_crash_anywhere_on_a_scripts_way_loses_nothing_and_has_one_effect(world: World, crash: Crashing) -> None:
    presses = Presses()
    deployment = world.deployment(PRESS, scripts=presses)
    evaluator = deployment.evaluator()
    deployment.worker(HANDLERS)
    start_catalogue(deployment)
    evaluator.faults.fail_at(crash.point, passes=crash.passes)

    with pytest.raises(Crash, match=crash.point):
        deployment.settle()
    deployment.crash_and_restart()
    assert_no_offset_past_its_effect(deployment)
    deployment.evaluator()
    deployment.worker(HANDLERS)
    deployment.settle()

    assert_delivered(deployment, ["wf-1"])
    assert_of_one_run_each(deployment, "wf-1")
    deployment.crash()


@in_worlds(EMBEDDED)
def test_whoever_takes_a_partition_over_runs_the_scripts_that_its_owner_left(world: World) -> None:
    presses = Presses(holds=True)
    deployment = world.deployment(PRESS, scripts=presses)
    first = deployment.evaluator()
    start_catalogue(deployment)
    deployment.round()
    deployment.remove(first, killed=True)
    assert deployment.workflow("wf-1").status == RUNNING

    presses.holds = False
    deployment.evaluator()
    deployment.worker(HANDLERS)
    deployment.settle()

    assert presses.runs[f"opened of {ITEMS}"] == 2
    assert_delivered(deployment, ["wf-1"])
    assert_of_one_run_each(deployment, "wf-1")


@in_worlds(EMBEDDED)
def test_a_script_that_a_dead_evaluator_left_is_run_by_one_that_has_the_workflow_in_memory_from_before(
    world: World,
) -> None:
    presses = Presses(holds=True)
    deployment = world.deployment(LATE, scripts=presses)
    deployment.evaluator()
    names = [deployment.id_in_partition(number) for number in (0, 1)]
    for name in names:
        deployment.client.start("late.Say", {}, workflow_id=name)
    deployment.settle()
    second = deployment.evaluator()
    deployment.settle_among_all()
    (number,) = second.partitions()
    asked = deployment.step(names[number], "late.Ask")
    deployment.send(StepContinue(step_id=asked.id, result={"said": "tea"}))
    for _ in range(4):
        deployment.round()
    assert second.stats.scripts == 1
    deployment.remove(second, killed=True)
    presses.lying.clear()

    presses.holds = False
    deployment.settle()

    assert deployment.workflow(names[number]).outputs == {"text": "text 2"}


@in_worlds(EMBEDDED)
def test_an_end_that_comes_after_another_evaluator_has_applied_one_changes_nothing(world: World) -> None:
    presses = Presses(holds=True)
    deployment = world.deployment(PRESS, scripts=presses)
    frozen = deployment.evaluator()
    start_catalogue(deployment)
    frozen.turn()
    frozen.turn()
    assert [value for value, _ in presses.lying] == ["opened 1"]

    deployment.broker.expire(frozen.consumer())
    successor = deployment.evaluator()
    for _ in range(3):
        successor.turn()
    assert [value for value, _ in presses.lying] == ["opened 1", "opened 2"]
    # The successor's run ends first.
    presses.lying.rotate(-1)
    presses.end_first()
    successor.turn()
    presses.holds = False
    presses.release()
    deployment.worker(HANDLERS)
    deployment.settle()

    assert_delivered(deployment, ["wf-1"])
    outputs = deployment.workflow("wf-1").outputs
    assert outputs is not None
    assert outputs["opened"] == "opened 2"


@in_worlds(EMBEDDED)
def test_a_commit_that_another_evaluator_overtakes_is_computed_again_with_its_script_once(world: World) -> None:
    presses = Presses()
    deployment = world.deployment(PRESS, scripts=presses)
    interruptions = Interruptions()
    overtaken = deployment.evaluator(interruptions)
    deployment.worker(HANDLERS)
    start_catalogue(deployment)
    overtaken.turn()

    def another_goes_on() -> None:
        deployment.broker.expire(overtaken.consumer())
        successor = deployment.evaluator()
        for _ in range(4):
            successor.turn()

    interruptions.happens_at("control.applied", another_goes_on)
    deployment.settle()

    assert_delivered(deployment, ["wf-1"])
    assert_of_one_run_each(deployment, "wf-1")


@in_worlds(EMBEDDED)
def test_partitions_that_move_to_and_fro_while_scripts_run_have_no_script_run_for_nothing(world: World) -> None:
    presses = Presses(holds=True)
    deployment = world.deployment(PRESS, scripts=presses)
    deployment.evaluator()
    deployment.worker(HANDLERS)
    start_catalogue(deployment)
    deployment.round()
    for _ in range(3):
        deployment.rebalance()
        deployment.round()
    presses.holds = False
    presses.release()
    deployment.settle()

    assert presses.runs[f"opened of {ITEMS}"] == 1
    assert_delivered(deployment, ["wf-1"])


def test_two_evaluators_run_the_scripts_of_their_own_workflows(world: World) -> None:
    presses = Presses()
    deployment = world.deployment(PRESS, scripts=presses)
    first, second = two_evaluators(deployment)
    deployment.worker(HANDLERS)
    ids = [start_catalogue(deployment, deployment.id_in_partition(number, "wf")) for number in (0, 1)]
    deployment.settle()

    assert_delivered(deployment, ids)
    for workflow_id in ids:
        assert_of_one_run_each(deployment, workflow_id)
    assert first.stats.scripts == second.stats.scripts == 0
