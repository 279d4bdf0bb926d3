"""A group's committed offsets are gone, as after a week without members: that is told, and ended runs are skipped."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from afl.engine.model.store import COMPLETED
from afl_stream.agent.agent import Deferred, HandlerContext
from afl_stream.agent.lost_offsets import OffsetsLost
from afl_stream.commands.failures import exit_code_of
from afl_stream.embedded.transport import Crash, EmbeddedBroker
from afl_stream.exit_codes import ExitCode
from afl_stream.transport import CommittedOffset, TopicPartition
from tests.unit.stream.agent import agent_bench
from tests.unit.stream.agent.agent_bench import PAY, event
from tests.worlds.deployment import Deployment
from tests.worlds.desk import ASK, DESK, SECOND, Desk
from tests.worlds.parties import Worker
from tests.worlds.world import embedded

ENDED, OPEN = ("wf-1", "wf-2", "wf-3"), "wf-open"


class Answering:
    """A handler that notes whom it has answered; what a run asks second it leaves for later in one run."""

    def __init__(self) -> None:
        self.handled: list[tuple[str, str]] = []

    def __call__(self, payload: dict[str, Any], context: HandlerContext) -> Any:
        self.handled.append((context.workflow_id, payload["question"]))
        if context.workflow_id == OPEN and payload["question"] == SECOND:
            return Deferred
        return {"answer": payload["question"]}


def desk_without_offsets(directory: Path | None = None) -> Desk:
    """Three runs that have ended and one that waits, all of them handled by a group that has no offsets any more."""
    desk = Desk(embedded(directory, DESK))
    worker = desk.deployment.worker({ASK: Answering()})
    for workflow_id in (*ENDED, OPEN):
        desk.start(workflow_id)
    desk.deployment.settle()
    assert {desk.deployment.workflow(name).status for name in ENDED} == {COMPLETED}
    desk.deployment.remove(worker, killed=False)
    desk.deployment.broker.forget_offsets(desk.deployment.agent_group)
    assert offsets_of(desk.deployment) == {}
    return desk


def offsets_of(deployment: Deployment) -> Mapping[TopicPartition, CommittedOffset]:
    return deployment.committed(deployment.agent_group, [deployment.topology.facet(ASK)])


def refusing(deployment: Deployment) -> None:
    deployment.config = replace(deployment.config, agent=replace(deployment.config.agent, lost_offsets="refuse"))


def stop(worker: Worker) -> None:
    worker.agent.close()
    worker.transport.close()


def turns(turn: Callable[[], object]) -> None:
    for _ in range(5):
        turn()


def ranges_of(deployment: Deployment) -> list[str]:
    topic = deployment.topology.facet(ASK)
    counts = [sum(record.partition == number for record in deployment.records(topic)) for number in range(2)]
    return [f"{topic}[{number}] 0 to {count - 1}" for number, count in enumerate(counts) if count]


@pytest.mark.parametrize("on_disk", [False, True])
def test_events_of_ended_runs_are_skipped_and_the_others_handled_again(
    on_disk: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    desk = desk_without_offsets(tmp_path if on_disk else None)
    if on_disk:
        desk.deployment.crash_and_restart()
        desk.deployment.evaluator()
        assert offsets_of(desk.deployment) == {}
    answering = Answering()

    with caplog.at_level(logging.WARNING):
        worker = desk.deployment.worker({ASK: answering})
        desk.deployment.settle()

    asked = len(desk.deployment.events(ASK))
    assert {workflow_id for workflow_id, _ in answering.handled} == {OPEN}
    assert worker.agent.counts.ended == 3 * len(ENDED) == asked - len(answering.handled)
    (warning,) = [r.getMessage() for r in caplog.records if "no committed offsets" in r.getMessage()]
    assert f"group workers has no committed offsets for {', '.join(ranges_of(desk.deployment))}: {asked} rec" in warning
    # What is answered a second time changes nothing, and the next agent goes on behind it all.
    assert sum(at.offset for at in offsets_of(desk.deployment).values()) == asked


def test_an_agent_that_refuses_says_what_is_lost_and_what_to_do_and_handles_nothing() -> None:
    desk = desk_without_offsets()
    refusing(desk.deployment)
    answering = Answering()
    worker = desk.deployment.worker({ASK: answering})

    with pytest.raises(OffsetsLost) as caught:
        turns(worker.turn)
    stop(worker)

    assert exit_code_of(caught.value) is ExitCode.UNAVAILABLE
    for words in (*ranges_of(desk.deployment), "group workers", "AFL_AGENT_LOST_OFFSETS=continue", "--reset-offsets"):
        assert words in str(caught.value)
    assert answering.handled == []
    assert offsets_of(desk.deployment) == {}


@pytest.mark.parametrize("refuses", [False, True])
def test_a_new_group_is_not_taken_for_one_that_has_lost_its_offsets(
    refuses: bool, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk(embedded(None, DESK))
    if refuses:
        refusing(desk.deployment)
    for workflow_id in ENDED:
        desk.start(workflow_id)
    answering = Answering()

    with caplog.at_level(logging.WARNING):
        worker = desk.deployment.worker({ASK: answering})
        desk.deployment.settle()

    assert len(answering.handled) == 3 * len(ENDED)
    assert worker.agent.counts.ended == 0
    assert "no committed offsets" not in caplog.text


def test_where_the_lifecycle_topic_cannot_be_read_all_is_handled_again_and_that_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = desk_without_offsets()
    desk.deployment.transport.admin().delete_topic(desk.deployment.topology.lifecycle())
    answering = Answering()
    worker = desk.deployment.worker({ASK: answering})

    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            worker.turn()

    assert len(answering.handled) == len(desk.deployment.events(ASK))
    assert f"no committed offsets for {', '.join(ranges_of(desk.deployment))}" in caplog.text
    assert "nor which runs have ended: topic afl.lifecycle does not exist" in caplog.text


def test_where_it_cannot_be_learned_an_agent_that_refuses_refuses() -> None:
    desk = desk_without_offsets()
    desk.deployment.transport.admin().delete_topic(desk.deployment.topology.lifecycle())
    refusing(desk.deployment)
    worker = desk.deployment.worker({ASK: Answering()})

    with pytest.raises(OffsetsLost):
        turns(worker.turn)
    stop(worker)


# --- by the record ----------------------------------------------------------------------------------------------


def handled_of(deployment: agent_bench.Deployment, turns: int = 40) -> set[object]:
    handled: set[object] = set()

    def handle(payload: dict[str, object]) -> dict[str, object]:
        handled.add(payload["n"])
        return {}

    agent = deployment.agent()
    agent.register(PAY, handle)
    for _ in range(turns):
        agent.run_once(0.01)
    assert agent.close() == 0
    return handled


def test_an_event_is_of_an_ended_run_when_it_was_made_before_its_end_and_the_run_was_not_opened_again() -> None:
    deployment = agent_bench.Deployment()
    made_at = event().created_at
    deployment.publish(*(event(step=n) for n in range(1, 9)))
    for number, kind in enumerate(("completed", "error", "cancelled", "reset"), 1):
        deployment.tell(f"workflow.{kind}", number, made_at)
    # The run has ended before this event was made: it was opened again for it.
    deployment.tell("workflow.completed", 5, made_at - 1)
    deployment.tell("workflow.error", 6, made_at + 5)
    deployment.tell("workflow.retried", 6, made_at + 9)
    deployment.tell("workflow.started", 7, made_at + 5)

    assert handled_of(deployment) == {5, 6, 7, 8}


def test_a_new_group_is_not_taken_for_another_because_runs_have_failed_for_want_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    deployment = agent_bench.Deployment()
    deployment.publish(*(event(step=n) for n in range(1, 4)))
    for number in (1, 2):
        deployment.tell("workflow.error", number, event().created_at + 5)

    with caplog.at_level(logging.WARNING):
        assert handled_of(deployment) == {3}

    assert "no committed offsets" not in caplog.text


def test_offsets_that_are_seen_to_be_lost_only_later_are_told_of_then(caplog: pytest.LogCaptureFixture) -> None:
    deployment, count = agent_bench.Deployment(), 250
    deployment.publish(*(event(step=n) for n in range(1, count + 1)))
    deployment.tell("workflow.completed", count, event().created_at + 1)

    with caplog.at_level(logging.WARNING):
        handled = handled_of(deployment)

    assert handled == set(range(1, count))
    assert f"no committed offsets for afl.events.billing.Pay[0] 0 to {count - 1}: {count} records" in caplog.text


def test_an_agent_that_follows_one_that_died_half_way_through_skips_the_rest() -> None:
    deployment, ended = agent_bench.Deployment(window=2), range(2, 9)
    deployment.publish(*(event(step=n) for n in (1, *ended)))
    for number in ended:
        deployment.tell("workflow.completed", number, event().created_at)

    def die(payload: dict[str, object]) -> dict[str, object]:
        raise Crash("handler")

    dying = deployment.agent()
    dying.register(PAY, die)
    with pytest.raises(Crash):
        turns(lambda: dying.run_once(0.01))
    dying.kill()
    committed = deployment.committed()

    assert committed is not None
    assert committed.offset == 0
    assert handled_of(deployment) == {1}


def dies_at_work(deployment: agent_bench.Deployment) -> None:
    def die(payload: dict[str, object]) -> dict[str, object]:
        raise Crash("handler")

    agent = deployment.agent()
    agent.register(PAY, die)
    with pytest.raises(Crash):
        turns(lambda: agent.run_once(0.01))
    agent.kill()


@pytest.mark.parametrize("is_new", [False, True], ids=["noted before", "first read then"])
@pytest.mark.parametrize("is_empty", [False, True], ids=["no topic", "an empty topic"])
def test_what_is_read_again_is_noted_while_which_runs_have_ended_cannot_be_learned(
    is_empty: bool, is_new: bool, caplog: pytest.LogCaptureFixture
) -> None:
    deployment, ended = agent_bench.Deployment(window=2, max_crashes=50), range(2, 9)
    deployment.publish(*(event(step=n) for n in (1, *ended)))
    if not is_new:
        for number in ended:
            deployment.tell("workflow.completed", number, event().created_at)
        dies_at_work(deployment)
    deployment.admin.delete_topic(deployment.topology.lifecycle())
    if is_empty:
        deployment.create_topics([PAY])
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        dies_at_work(deployment)
    text = "has no committed offsets for" if is_new else "reads afl.events.billing.Pay again"
    assert (f"group afl.agent.billing.Pay {text}" in caplog.text) is not is_empty
    assert ("which runs have ended" in caplog.text) is not is_empty

    deployment.create_topics([PAY])
    for number in ended:
        deployment.tell("workflow.completed", number, event().created_at)
    # An empty topic says that nothing has ended: of a new group nothing is noted then.
    assert handled_of(deployment) == ({1, *ended} if is_new and is_empty else {1})


def test_what_is_read_again_is_noted_until_it_is_past(tmp_path: Path) -> None:
    deployment = agent_bench.Deployment(broker=EmbeddedBroker(tmp_path / "log"))
    deployment.publish(*(event(step=n) for n in range(1, 5)))
    deployment.tell("workflow.completed", 4, event().created_at)

    assert handled_of(deployment) == {1, 2, 3}
    deployment.publish(event(step=4))
    deployment.publish(event(step=5))

    assert handled_of(deployment) == {4, 5}, "an event that came later is handled, whatever became of its run"
    committed = deployment.committed()
    assert committed is not None
    assert committed.metadata == ""
