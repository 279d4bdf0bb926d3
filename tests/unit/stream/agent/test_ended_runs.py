"""What is known of ended runs is what stands on the lifecycle topic now, and whether all of it was read is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from afl.core.process.stopping import PROCESS_STOP
from afl_stream.agent.ended_runs import EndedRuns
from afl_stream.agent.lost_offsets import OffsetsLost
from afl_stream.embedded.transport import Faults, Swallowed
from afl_stream.reading.log_ranges import NotReadInTime, read_ranges
from afl_stream.transport import Stopping, TopicPartition, Transport, Watermarks
from tests.unit.stream.agent.agent_bench import PAY, Deployment, TransportOfUntoldIds, event

MADE_AT = event().created_at


@pytest.fixture
def told_to_end() -> Iterator[Callable[[], None]]:
    """Call it to have the process told to end, for the rest of the test."""
    yield PROCESS_STOP.set
    PROCESS_STOP.clear()


def runs_of(deployment: Deployment, transport: Transport | None = None, **settings: float) -> EndedRuns:
    return EndedRuns(transport or deployment.transport, deployment.codec, deployment.topology.lifecycle(), **settings)


def known_of(runs: EndedRuns, *steps: int) -> list[int]:
    return [step for step in steps if runs.has_completed(event(step=step))]


def test_what_was_not_read_to_the_end_in_time_is_not_known() -> None:
    deployment = Deployment()
    deployment.tell("workflow.completed", 1, MADE_AT)

    assert runs_of(deployment, read_s=0.0).read() == "afl.lifecycle could not be read to the end in 0 s"
    assert runs_of(deployment).read() is None


def test_ranges_that_are_not_read_in_time_are_an_error() -> None:
    deployment = Deployment()
    deployment.publish(event())
    partition = TopicPartition(deployment.topology.facet(PAY), 0)
    reading = read_ranges(deployment.transport, {partition: Watermarks(low=0, high=2)}, 0.2)

    assert [record.offset for record in next(reading)] == [0]
    with pytest.raises(NotReadInTime, match=r"Pay could not be read to the end in 0\.2 s"):
        next(reading)


@pytest.mark.parametrize("tells_ids", [True, False])
def test_a_lifecycle_topic_that_was_made_again_is_read_from_its_beginning(tells_ids: bool) -> None:
    deployment = Deployment()
    transport = TransportOfUntoldIds(deployment.broker)
    transport.tells_ids = tells_ids
    runs = runs_of(deployment, transport)
    deployment.tell("workflow.completed", 1, MADE_AT)
    deployment.tell("workflow.completed", 1, MADE_AT)
    assert runs.read() is None

    deployment.admin.delete_topic(deployment.topology.lifecycle())
    deployment.create_topics([])
    # Of a topic without an id only its length tells.
    for step in (2, 3) if tells_ids else (2,):
        deployment.tell("workflow.completed", step, MADE_AT)
    assert runs.read() is None

    assert known_of(runs, 1, 2, 3) == ([1, 2, 3] if tells_ids else [1, 2])


def test_reading_stops_once_the_process_is_told_to_end(told_to_end: Callable[[], None]) -> None:
    deployment = Deployment()
    deployment.tell("workflow.completed", 1, MADE_AT)
    told_to_end()

    with pytest.raises(Stopping):
        runs_of(deployment).read()


def refusing(deployment: Deployment) -> Deployment:
    deployment.stream = replace(deployment.stream, agent=replace(deployment.stream.agent, lost_offsets="refuse"))
    return deployment


def test_an_agent_that_is_told_to_end_takes_no_offsets_for_lost_and_handles_nothing(
    told_to_end: Callable[[], None],
) -> None:
    deployment = refusing(Deployment())
    deployment.publish(event())
    deployment.tell("workflow.completed", 1, MADE_AT)
    agent = deployment.agent()
    agent.register(PAY, lambda payload: {})
    agent.start()
    told_to_end()

    for _ in range(3):
        assert agent.turn(0.0) == 0
    assert agent.close() == 0
    assert deployment.committed() is None


@pytest.mark.long
def test_an_agent_that_refuses_lost_offsets_refuses_where_the_topic_is_not_read_to_its_end() -> None:
    deployment, faults = refusing(Deployment()), Faults()
    deployment.publish(event())
    deployment.tell("workflow.completed", 1, MADE_AT)
    agent = deployment.agent(transport_probe=faults.probe)
    agent.register(PAY, lambda payload: {})
    agent.start()
    faults.fail_at("poll.before_deliver", 1_000_000, error=Swallowed())

    with pytest.raises(
        OffsetsLost, match=r"nor which runs have ended: afl\.lifecycle could not be read to the end in 30 s"
    ):
        agent.turn(0.1)
    agent.close()
