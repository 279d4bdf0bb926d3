"""Whatever agents of a group die of, and whenever, every event is answered and every offset committed in the end."""

import random
from collections import Counter
from threading import Lock

import pytest

from afl_stream.embedded.transport import Crash, Faults
from afl_stream.transport import TopicPartition
from tests.unit.stream.agent.agent_bench import PAY, Deployment, TestAgent, event

PARTITIONS = 3
EVENTS = 40
AGENT_STEPS = ("polled", "started", "handled", "produced", "acknowledged", "committed")
TRANSPORT_POINTS = (
    "produce.before_append",
    "produce.after_append_before_ack",
    "commit.before",
    "commit.after",
    "poll.before_deliver",
    "rebalance.before_revoke",
    "rebalance.after_revoke",
    "rebalance.before_assign",
)


class Staff:
    """Up to three agents of one group; each dies at a point that was drawn for it, until the last ones live on."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        # Crashes here are the agents' own, never the events' fault: none of them may be given up.
        self.deployment = Deployment(
            partitions=PARTITIONS,
            max_concurrent=self.draw.choice([1, 2, 5]),
            window=self.draw.choice([2, 5, 50]),
            max_crashes=1_000,
        )
        self.agents: list[TestAgent] = []
        self.deaths = 0
        self.ran: Counter[str] = Counter()
        self._lock = Lock()

    def hire(self, *, mortal: bool) -> None:
        steps, points = Faults(), Faults()
        if mortal and self.draw.random() < 0.5:
            steps.fail_at(f"agent.{self.draw.choice(AGENT_STEPS)}", passes=self.draw.randrange(10))
        elif mortal:
            points.fail_at(self.draw.choice(TRANSPORT_POINTS), passes=self.draw.randrange(10))
        agent = self.deployment.agent(probe=steps.probe, transport_probe=points.probe)
        agent.register(PAY, self._handle)
        self.agents.append(agent)

    def work(self, turns: int, *, mortal: bool) -> None:
        for _ in range(turns):
            if len(self.agents) < 3:
                self.hire(mortal=mortal)
            agent = self.draw.choice(self.agents)
            try:
                agent.turn(0.001)
                if mortal and self.draw.random() < 0.05:
                    self.agents.remove(agent)
                    agent.close()
            except Crash:
                agent.kill()
                self.deaths += 1
                self.agents = [other for other in self.agents if other is not agent]

    def committed(self) -> list[int]:
        partitions = [TopicPartition(self.deployment.topology.facet(PAY), n) for n in range(PARTITIONS)]
        reader = self.deployment.transport.consumer(self.deployment.stream.agent_group(PAY))
        found = reader.committed(partitions)
        return [found[partition].offset if partition in found else 0 for partition in partitions]

    def _handle(self, payload: dict[str, object], context: object) -> dict[str, object]:
        with self._lock:
            self.ran[str(payload["n"])] += 1
        return {"n": payload["n"]}


@pytest.mark.parametrize("seed", range(12))
def test_agents_that_die_at_drawn_points_lose_nothing(seed: int) -> None:
    staff = Staff(seed)
    staff.deployment.publish(*(event(step=n) for n in range(1, EVENTS + 1)))

    staff.work(150, mortal=True)
    staff.deployment.publish(*(event(step=n) for n in range(EVENTS + 1, 2 * EVENTS + 1)))
    staff.work(100, mortal=True)
    # Those that were to die later do so while the last ones take over.
    for _ in range(100):
        staff.work(20, mortal=False)
        if sum(staff.committed()) == 2 * EVENTS:
            break

    assert sum(staff.committed()) == 2 * EVENTS
    assert staff.deployment.results() == {f"wf-{n}:{n:x}": {"n": n} for n in range(1, 2 * EVENTS + 1)}
    assert set(staff.ran) == {str(n) for n in range(1, 2 * EVENTS + 1)}
    assert staff.deployment.dead_letters() == []
    assert staff.deaths
