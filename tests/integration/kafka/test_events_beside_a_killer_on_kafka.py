"""Only the event that kills its agent is given up, on a real broker, where processes die of SIGKILL."""

import pytest

from afl_stream.wire.messages import StepContinue, StepFailed
from tests.eventually import eventually
from tests.unit.stream.agent.agent_bench import event
from tests.worlds.deployment import Deployment
from tests.worlds.party_handlers import DEADLY
from tests.worlds.processes import DEADLINE_S, Party
from tests.worlds.shop import SHOP
from tests.worlds.world import Deployments

PRICE = "shop.Price"
EVENTS = 6
#: Processes that it may take to be rid of two killers.
MOST_LIVES = 10


def publish(deployment: Deployment, killers: set[int]) -> None:
    for number in range(1, EVENTS + 1):
        asked = event(PRICE, number, payload={"item": DEADLY if number in killers else f"item {number}"})
        value = deployment.codec.encode(asked, deployment.topology.facet(PRICE))
        deployment.queue(deployment.topology.facet(PRICE), value, key=asked.step_id.encode())
    deployment.flush()


def first_answers(deployment: Deployment) -> dict[str, str]:
    """By step, what was answered first: ok, or the error's type."""
    found: dict[str, str] = {}
    for answer in deployment.messages(deployment.topology.control()):
        if isinstance(answer, StepContinue):
            found.setdefault(answer.step_id, "ok")
        elif isinstance(answer, StepFailed):
            found.setdefault(answer.step_id, answer.error.type)
    return found


def died(agent: Party, deployment: Deployment) -> bool:
    """Wait until the agent has died, or everything is answered; whether it died."""
    eventually(lambda: agent.has_died() or len(first_answers(deployment)) == EVENTS, DEADLINE_S, interval_s=0.1)
    return agent.has_died()


@pytest.mark.long
@pytest.mark.parametrize(
    ("killers", "max_crashes", "max_concurrent"),
    [
        ({2}, 2, 1),
        ({2, 3}, 3, 1),
        ({2, 4}, 2, 4),
    ],
    ids=str,
)
def test_an_event_beside_those_that_kill_their_agent_is_answered(
    deployments: Deployments, killers: set[int], max_crashes: int, max_concurrent: int
) -> None:
    deployment = deployments(
        SHOP,
        settings={
            "AFL_TOPICS_EVENT_PARTITIONS": "1",
            "AFL_AGENT_MAX_CRASHES": str(max_crashes),
            "AFL_AGENT_MAX_CONCURRENT": str(max_concurrent),
        },
    )
    publish(deployment, killers)

    lives = 1
    while died(deployment.processes.agent(), deployment):
        lives += 1
        assert lives <= MOST_LIVES

    expected = {f"wf-{n}:{n:x}": "PoisonEvent" if n in killers else "ok" for n in range(1, EVENTS + 1)}
    assert first_answers(deployment) == expected
    letters = {letter.key for letter in deployment.dead_letters(deployment.topology.facet(PRICE))}
    assert letters == {f"wf-{n}:{n:x}".encode() for n in killers}
