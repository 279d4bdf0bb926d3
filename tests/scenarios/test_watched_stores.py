"""What a store tells of a run is what its milestones on the lifecycle topic tell."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from afl_stream.commands.watching.stored_runs import StoredRuns
from afl_stream.settings.config import LifecycleSettings
from afl_stream.wire.messages import Lifecycle
from tests.worlds.deployment import Deployment
from tests.worlds.naps import NAPS, answer, fail, pass_time, start
from tests.worlds.world import World
from tests.worlds.worlds import EACH_ONCE

WORLDS = EACH_ONCE


def told(milestones: list[Lifecycle]) -> list[tuple[object, ...]]:
    return [
        (milestone.kind, milestone.step_id, milestone.facet, milestone.workflow if milestone.step_id is None else None,
         milestone.error.message if milestone.error else None)
        for milestone in milestones
    ]  # fmt: skip


def succeeds(deployment: Deployment) -> None:
    answer(deployment)


def fails(deployment: Deployment) -> None:
    fail(deployment)


def tries_again(deployment: Deployment) -> None:
    fail(deployment, "Busy")


def succeeds_later(deployment: Deployment) -> None:
    pass_time(deployment, 1_000)


def runs_out_of_time(deployment: Deployment) -> None:
    pass_time(deployment, 61_000)


Deed = Callable[[Deployment], None]


@pytest.mark.parametrize(
    ("workflow", "deeds"),
    [
        ("Plain", (succeeds,)),
        ("Plain", (fails,)),
        ("Urgent", (runs_out_of_time,)),
        ("Choosy", (tries_again, succeeds_later, succeeds)),
    ],
)
def test_each_look_tells_what_the_topic_tells(world: World, workflow: str, deeds: tuple[Deed, ...]) -> None:
    deployment = world.deployment(NAPS, lifecycle=LifecycleSettings(steps="on"))
    deployment.evaluator()
    deployment.settle()
    watched = StoredRuns(deployment.store, "wf-1")
    assert watched.look() == []
    start(deployment, workflow)
    seen = watched.look()
    for deed in deeds:
        deed(deployment)
        seen += watched.look()

    assert told(seen) == told(deployment.milestones("wf-1"))
    assert watched.look() == []


def test_all_runs_are_told_from_some_time_on(world: World) -> None:
    deployment = world.deployment(NAPS)
    deployment.evaluator()
    deployment.settle()
    start(deployment, "Plain", "wf-1")
    answer(deployment, workflow_id="wf-1")
    deployment.clock.advance(10_000)
    since_ms = deployment.clock.now_ms()
    start(deployment, "Plain", "wf-2")

    later = StoredRuns(deployment.store, since_ms=since_ms)
    assert [(m.workflow_id, m.kind) for m in later.look()] == [("wf-2", "workflow.started")]
    answer(deployment, workflow_id="wf-2")
    assert [(m.workflow_id, m.kind) for m in later.look()] == [("wf-2", "workflow.completed")]
    assert {m.workflow_id for m in StoredRuns(deployment.store).look()} == {"wf-1", "wf-2"}
