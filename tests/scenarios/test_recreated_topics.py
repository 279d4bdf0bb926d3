"""A facet's topic is deleted and recreated: nothing that was noted of the earlier one holds for the new one."""

import logging

import pytest

from afl_stream.embedded.transport import Crash
from afl_stream.transport import UnknownTopic
from tests.unit.stream.agent.agent_bench import PAY, Deployment, TestAgent, event

EARLIER, LATER = range(1, 5), range(11, 17)


def working(deployment: Deployment, *deadly: int) -> TestAgent:
    agent = deployment.agent()

    def handle(payload: dict[str, object]) -> dict[str, object]:
        if payload["n"] in deadly:
            raise Crash("handler")
        return {"n": payload["n"]}

    agent.register(PAY, handle)
    return agent


def turns(agent: TestAgent, count: int = 5) -> None:
    for _ in range(count):
        agent.run_once(0.01)


def recreate(deployment: Deployment) -> None:
    topic = deployment.topology.facet(PAY)
    deployment.admin.delete_topic(topic)
    deployment.admin.create_topic(topic, partitions=1)


def publish(deployment: Deployment, numbers: range) -> None:
    deployment.publish(*(event(step=n) for n in numbers))


def handled(deployment: Deployment) -> set[str]:
    return {step for step, result in deployment.results().items() if isinstance(result, dict)}


def steps(*numbers: int) -> set[str]:
    return {f"wf-{n}:{n:x}" for n in numbers}


@pytest.mark.parametrize("agent_is", ["running", "stopping", "away", "dead"])
def test_no_record_is_skipped_of_a_topic_that_was_recreated_while_its_agent(agent_is: str) -> None:
    deployment = Deployment()
    publish(deployment, EARLIER)
    agent = working(deployment)
    turns(agent)

    if agent_is == "away":
        assert agent.close() == 0
    elif agent_is == "dead":
        agent.kill()
    recreate(deployment)
    publish(deployment, LATER)
    if agent_is == "stopping":
        assert agent.close() == 0
    if agent_is != "running":
        agent = working(deployment)
    turns(agent)

    assert handled(deployment) == steps(*EARLIER, *LATER)
    assert agent.close() == 0


def test_what_was_finished_above_the_offset_in_the_earlier_topic_is_handled_in_the_new_one() -> None:
    deployment = Deployment()
    publish(deployment, EARLIER)
    # The first event is never through, so the others are finished above the committed offset.
    dying = working(deployment, 1)
    with pytest.raises(Crash):
        turns(dying)
    recreate(deployment)
    publish(deployment, LATER)
    dying.kill()

    agent = working(deployment)
    turns(agent)

    assert steps(*LATER) <= handled(deployment)
    assert agent.counts.crashes_seen == 0
    assert agent.counts.skipped == 0


def test_what_ran_when_the_topic_was_recreated_is_answered_and_moves_no_offset_of_the_new_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    deployment = Deployment()
    publish(deployment, EARLIER)
    agent = deployment.agent()

    def handle(payload: dict[str, object]) -> dict[str, object]:
        if payload["n"] == EARLIER[-1]:
            recreate(deployment)
            publish(deployment, LATER)
        return {"n": payload["n"]}

    agent.register(PAY, handle)
    with caplog.at_level(logging.WARNING):
        turns(agent)

    assert handled(deployment) == steps(*EARLIER, *LATER)
    committed = deployment.committed()
    assert committed is not None
    assert committed.offset == len(LATER)
    assert f"{deployment.topology.facet(PAY)} was deleted and recreated" in caplog.text


def test_nothing_is_committed_for_a_topic_that_is_gone() -> None:
    deployment = Deployment()
    publish(deployment, EARLIER)
    agent = working(deployment)
    turns(agent)
    deployment.admin.delete_topic(deployment.topology.facet(PAY))

    with pytest.raises(UnknownTopic):
        turns(agent)
    agent.close()

    assert deployment.committed() is None
