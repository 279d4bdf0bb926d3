"""An agent whose broker does not answer, or has lost a topic: it waits, logs it, and continues with other topics."""

from __future__ import annotations

import logging
from threading import Thread

import pytest

from afl_stream.embedded.transport import Crash, Faults
from afl_stream.transport import BrokerUnavailable, UnknownTopic
from tests.eventually import eventually
from tests.unit.stream.agent.agent_bench import PAY, Deployment, event

REFUND = "billing.Refund"
AWAY = BrokerUnavailable("no broker answers at 127.0.0.1:9092")


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def warnings_with(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    found = [record for record in caplog.records if record.levelno >= logging.WARNING]
    return [record.getMessage() for record in found if words in record.getMessage()]


# --- topics that vanish -----------------------------------------------------------------------------------------


def test_a_facet_topic_that_vanishes_ends_no_other_facet_and_is_taken_up_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    deployment, clock = Deployment([PAY, REFUND]), Clock()
    agent = deployment.agent(clock_s=clock)
    seen: list[str] = []
    agent.register(PAY, lambda payload: seen.append(f"pay {payload['n']}"))
    agent.register(REFUND, lambda payload: seen.append(f"refund {payload['n']}"))
    topic = deployment.topology.facet(PAY)

    def turns_until(count: int) -> None:
        def turned() -> bool:
            agent.run_once(0.05)
            clock.now_s += 1
            return len(seen) == count

        eventually(turned, 60)

    deployment.publish(event(step=1), event(REFUND, step=2))
    turns_until(2)
    deployment.admin.delete_topic(topic)
    deployment.publish(event(REFUND, step=3))
    turns_until(3)
    deployment.create_topics([PAY])
    deployment.publish(event(step=4))
    turns_until(4)

    assert agent.close() == 0
    assert seen[2:] == ["refund 3", "pay 4"]
    (gone,) = warnings_with(caplog, "the agent continues with its other facets until the topic exists again")
    assert topic in gone
    assert warnings_with(caplog, "exist again and are read") == [f"topics that exist again and are read: {topic}"]


def test_an_agent_whose_only_topic_vanishes_ends_and_says_which() -> None:
    deployment = Deployment()
    agent = deployment.agent()
    agent.register(PAY, lambda payload: None)
    agent.run_once(0.05)
    deployment.admin.delete_topic(deployment.topology.facet(PAY))

    with pytest.raises(UnknownTopic, match=PAY):
        agent.run()


# --- the start --------------------------------------------------------------------------------------------------


def test_an_agent_that_starts_while_a_broker_comes_back_waits_for_it(caplog: pytest.LogCaptureFixture) -> None:
    deployment, faults = Deployment(), Faults()
    agent = deployment.agent(transport_probe=faults.probe)
    agent.register(PAY, lambda payload: None)
    # The schemas of the answers cannot be announced three times.
    faults.fail_at("produce.before_append", times=3, error=AWAY)
    deployment.publish(event())

    agent.start()
    agent.run_once(5)

    assert agent.close() == 0
    assert len(deployment.answers()) == 1
    (begins,) = warnings_with(caplog, "127.0.0.1:9092")
    (ends,) = warnings_with(caplog, "the broker is back")
    assert "up to 600 s" in begins
    assert ends


def test_the_word_to_stop_ends_the_wait_of_a_start() -> None:
    deployment, faults = Deployment(), Faults()
    agent = deployment.agent(transport_probe=faults.probe)
    agent.register(PAY, lambda payload: None)
    faults.fail_at("produce.before_append", times=1_000_000, error=AWAY)
    codes: list[int] = []
    thread = Thread(target=lambda: codes.append(agent.run()))
    thread.start()
    eventually(lambda: faults.reached("produce.before_append") > 0, 60)

    agent.stop()
    thread.join(60)

    assert codes == [0]


def test_an_agent_that_dies_while_it_looks_at_what_the_broker_says_has_lost_nothing() -> None:
    deployment, faults = Deployment(), Faults()
    dying = deployment.agent(transport_probe=faults.probe, config={"lag_interval_s": 0.0})
    dying.register(PAY, lambda payload: None)
    faults.fail_at("view.before_answer")
    deployment.publish(event())

    with pytest.raises(Crash):
        dying.run_once(5)
    dying.kill()
    successor = deployment.agent()
    successor.register(PAY, lambda payload: {"n": 1})
    successor.run_once(5)

    assert successor.close() == 0
    assert deployment.results() == {"wf-1:1": {"n": 1}}
