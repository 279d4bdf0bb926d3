"""An agent that dies at any step is followed by one that answers every event, and copies carry the same event id."""

from collections import Counter

import pytest

from afl_stream.embedded.transport import Crash, Faults
from afl_stream.wire.messages import StepContinue, StepFailed
from tests.eventually import eventually
from tests.unit.stream.agent.agent_bench import PAY, Deployment, TestAgent, event, named

EVENTS = 6


def deployment_with_events() -> Deployment:
    deployment = Deployment(max_concurrent=2)
    deployment.publish(*(event(step=n) for n in range(1, EVENTS + 1)))
    return deployment


def work_until_it_dies(deployment: Deployment, faults: Faults) -> None:
    agent = deployment.agent(probe=faults.probe)
    agent.register(PAY, lambda payload: {"n": payload["n"]})
    with pytest.raises(Crash):
        keep_working(agent)
    agent.kill()


def keep_working(agent: TestAgent) -> None:
    for _ in range(10):
        agent.run_once(0.01)


def work_one_by_one(deployment: Deployment, agent: TestAgent) -> None:
    """Publish each event when the one before is committed, so that there are as many commits."""
    for number in range(1, EVENTS + 1):
        deployment.publish(event(step=number))
        eventually(lambda: has_committed(deployment, agent, number))  # noqa: B023 - asked in this round only


def has_committed(deployment: Deployment, agent: TestAgent, offset: int) -> bool:
    """Whether the agent has committed this offset after another turn."""
    agent.run_once(0.01)
    committed = deployment.committed()
    return committed is not None and committed.offset == offset


def follow(deployment: Deployment) -> TestAgent:
    agent = deployment.agent()
    agent.register(PAY, lambda payload: {"n": payload["n"]})
    agent.run_once(1)
    agent.run_once(0)
    assert agent.close() == 0
    return agent


@pytest.mark.parametrize("passes", [0, 3])
@pytest.mark.parametrize("step", ["handled", "produced", "acknowledged"])
def test_a_crash_within_the_work_on_a_record_loses_nothing(step: str, passes: int) -> None:
    deployment, faults = deployment_with_events(), Faults()
    faults.fail_at(f"agent.{step}", passes=passes)

    work_until_it_dies(deployment, faults)
    follow(deployment)

    assert_all_answered(deployment)


@pytest.mark.parametrize("step", ["polled", "started", "committed"])
def test_a_crash_between_the_steps_of_a_turn_loses_nothing(step: str) -> None:
    deployment, faults = deployment_with_events(), Faults()
    faults.fail_at(f"agent.{step}")

    work_until_it_dies(deployment, faults)
    follow(deployment)

    assert_all_answered(deployment)


@pytest.mark.parametrize("passes", [0, 1, 2])
@pytest.mark.parametrize(
    "point", ["produce.before_append", "produce.after_append_before_ack", "commit.before", "commit.after"]
)
def test_a_crash_inside_the_transport_loses_nothing(point: str, passes: int) -> None:
    deployment, faults = Deployment(max_concurrent=2), Faults()
    # The announcement of the answers' schemas produces three records before the first answer.
    faults.fail_at(point, passes=passes + (3 if point.startswith("produce") else 0))
    agent = deployment.agent(transport_probe=faults.probe)
    agent.register(PAY, lambda payload: {"n": payload["n"]})

    with pytest.raises(Crash):
        work_one_by_one(deployment, agent)
    agent.kill()
    published = len(deployment.records(deployment.topology.facet(PAY)))
    deployment.publish(*(event(step=n) for n in range(published + 1, EVENTS + 1)))
    follow(deployment)

    assert_all_answered(deployment)


def assert_all_answered(deployment: Deployment) -> None:
    assert deployment.results() == {f"wf-{n}:{n:x}": {"n": n} for n in range(1, EVENTS + 1)}
    for answer in deployment.answers():
        assert isinstance(answer, StepContinue)
        assert answer.event_id == f"{answer.step_id}#1"
    committed = deployment.committed()
    assert committed is not None
    assert committed.offset == EVENTS
    assert committed.metadata == ""


def test_nothing_is_handled_again_once_its_offset_is_committed() -> None:
    deployment, faults = deployment_with_events(), Faults()
    agent = deployment.agent(probe=faults.probe)
    agent.register(PAY, lambda payload: {})
    agent.run_once(1)
    agent.run_once(0)
    agent.kill()

    assert follow(deployment).counts.read == 0
    assert len(deployment.answers()) == EVENTS


class Deadly:
    """A handler that kills its process on some steps, as a segmentation fault would."""

    def __init__(self, *deadly: int) -> None:
        self.deadly = deadly
        self.ran: Counter[object] = Counter()

    def __call__(self, payload: dict[str, object]) -> dict[str, object]:
        self.ran[payload["n"]] += 1
        if payload["n"] in self.deadly:
            raise Crash("handler")
        return {"n": payload["n"]}


def live_and_die(deployment: Deployment, handler: Deadly, lives: int) -> TestAgent | None:
    """Start agents one after the other until one survives its work; return it."""
    for _ in range(lives):
        agent = deployment.agent()
        agent.register(PAY, handler)
        try:
            for _ in range(4):
                agent.run_once(0.01)
        except Crash:
            agent.kill()
        else:
            return agent
    return None


def test_a_record_that_kills_its_process_is_given_up_after_so_many_crashes_and_its_step_is_told() -> None:
    deployment = Deployment(max_concurrent=4, max_crashes=3)
    deployment.publish(*(event(step=n) for n in range(1, EVENTS + 1)))
    handler = Deadly(3)

    survivor = live_and_die(deployment, handler, lives=5)

    assert survivor is not None
    assert handler.ran[3] in (3, 4)
    assert survivor.counts.dead_lettered == 1
    results = deployment.results()
    assert results.pop("wf-3:3") == "PoisonEvent"
    assert results == {f"wf-{n}:{n:x}": {"n": n} for n in (1, 2, 4, 5, 6)}
    (failed,) = [answer for answer in deployment.answers() if isinstance(answer, StepFailed)]
    assert (failed.event_id, failed.answer_token) == ("wf-3:3#1", "token-3")
    (letter,) = deployment.dead_letters()
    assert dict(letter.headers)["afl.dlq.reason"] == b"PoisonEvent"
    assert dict(letter.headers)["afl.dlq.offset"] == b"2"
    assert letter.key == b"wf-3:3"


def test_two_killers_do_not_take_their_neighbours_along() -> None:
    deployment = Deployment(max_concurrent=6, max_crashes=3)
    deployment.publish(*(event(step=n) for n in range(1, EVENTS + 1)))

    survivor = live_and_die(deployment, Deadly(2, 5), lives=12)

    assert survivor is not None
    results = deployment.results()
    assert {step for step, result in results.items() if result == "PoisonEvent"} == {"wf-2:2", "wf-5:5"}
    assert len(results) == EVENTS


def test_a_crash_between_dead_letter_and_answer_does_both_again() -> None:
    deployment, faults = Deployment(), Faults()
    deployment.publish_bytes(PAY, None, key=b"wf-9:9", headers=named("wf-9:9", 1))
    faults.fail_at("agent.acknowledged")

    work_until_it_dies(deployment, faults)
    follow(deployment)

    assert len(deployment.dead_letters()) == 2
    assert deployment.results() == {"wf-9:9": "UnreadableEvent"}
