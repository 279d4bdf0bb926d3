"""Only the event whose handler was running when a process died is given up; those beside it are answered."""

from collections import Counter
from threading import Barrier
from threading import Event as Flag

import pytest

from afl_stream.embedded.transport import Crash
from afl_stream.reading.offset_tracker import PartitionProgress
from tests.eventually import eventually
from tests.unit.stream.agent.agent_bench import PAY, Deployment, TestAgent, event

EVENTS = 8
#: More processes than it takes to be rid of two killers at three crashes each.
MOST_LIVES = 12


class Neighbourhood:
    """Handlers of which some kill their process: at once, or after all that is slow has begun beside them."""

    def __init__(self, killers: set[int], slow: set[int] = frozenset()) -> None:  # type: ignore[assignment]  # only read
        self.killers = killers
        self.slow = slow
        self.ran: Counter[object] = Counter()
        #: Set when the process dies, which ends its slow handlers.
        self.died = Flag()

    def __call__(self, payload: dict[str, object]) -> dict[str, object]:
        number = payload["n"]
        self.ran[number] += 1
        if number in self.killers:
            self.died.set()
            raise Crash("handler")
        if number in self.slow:
            self.died.wait(0.05)
        return {"n": number}


def lives_until_done(deployment: Deployment, handler: Neighbourhood) -> TestAgent:
    """Start one agent after the other until one survives all of its work."""
    for _ in range(MOST_LIVES):
        handler.died.clear()
        agent = deployment.agent()
        agent.register(PAY, handler)
        try:
            agent.run_once(1)
            while agent.has_work:
                agent.run_once(0.01)
            agent.run_once(0.01)
        except Crash:
            agent.kill()
        else:
            return agent
    raise AssertionError(f"no agent survived: {handler.ran}")


def assert_only_killers_are_given_up(deployment: Deployment, killers: set[int]) -> None:
    expected: dict[str, object] = {
        f"wf-{n}:{n:x}": "PoisonEvent" if n in killers else {"n": n} for n in range(1, EVENTS + 1)
    }
    assert deployment.results() == expected
    # A process that dies before it has committed a dead letter sends it again.
    assert {letter.key for letter in deployment.dead_letters()} == {f"wf-{n}:{n:x}".encode() for n in killers}


@pytest.mark.parametrize("max_concurrent", [1, 4, *(pytest.param(n, marks=pytest.mark.long) for n in (2, 16))])
@pytest.mark.parametrize("max_crashes", [2, 3, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "killers",
    [{2}, {2, 5}, *(pytest.param(of, marks=pytest.mark.long) for of in ({1}, {EVENTS}, {1, 2}, {2, 3}, {3, EVENTS}))],
    ids=str,
)
def test_an_event_beside_those_that_kill_their_agent_is_answered(
    killers: set[int], max_crashes: int, max_concurrent: int
) -> None:
    deployment = Deployment(max_concurrent=max_concurrent, max_crashes=max_crashes)
    deployment.publish(*(event(step=n) for n in range(1, EVENTS + 1)))

    lives_until_done(deployment, Neighbourhood(killers))

    assert_only_killers_are_given_up(deployment, killers)


@pytest.mark.parametrize("max_concurrent", [2, 4])
@pytest.mark.parametrize("max_crashes", [2, 3])
@pytest.mark.parametrize("partitions", [1, 3])
def test_an_event_that_runs_beside_one_killer_after_another_is_answered(
    partitions: int, max_crashes: int, max_concurrent: int
) -> None:
    killers = {2, 4}
    deployment = Deployment(max_concurrent=max_concurrent, max_crashes=max_crashes, partitions=partitions)
    deployment.publish(*(event(step=n) for n in range(1, EVENTS + 1)))

    lives_until_done(deployment, Neighbourhood(killers, slow=set(range(1, EVENTS + 1)) - killers))

    assert_only_killers_are_given_up(deployment, killers)


def test_what_ran_when_a_machine_was_switched_off_runs_side_by_side_again_at_once() -> None:
    """All its running events are suspects then, and none of them has done any harm."""
    together = 6
    deployment = Deployment(max_concurrent=together, max_crashes=3)
    deployment.publish(*(event(step=n) for n in range(1, together + 1)))
    began, off = Barrier(together), Flag()

    def work_until_switched_off(payload: dict[str, object]) -> dict[str, object]:
        off.wait(30)
        return {}

    first = deployment.agent()
    first.register(PAY, work_until_switched_off)
    eventually(lambda: first.turn(0.01) is not None and first.health().in_flight == together, 30)
    eventually(lambda: first.turn(0.01) is not None and marks_of(deployment) == together, 30)
    first.kill()
    off.set()

    def all_at_once(payload: dict[str, object]) -> dict[str, object]:
        began.wait(30)
        return {"n": payload["n"]}

    second = deployment.agent()
    second.register(PAY, all_at_once)
    while second.counts.answered < together:
        second.run_once(0.01)

    assert second.counts.crashes_seen == together
    assert second.counts.handled == together


def marks_of(deployment: Deployment) -> int:
    """How many records the group has noted as running."""
    committed = deployment.committed()
    return 0 if committed is None else sum(PartitionProgress(committed, 100).crashes(n) for n in range(EVENTS))


def test_a_suspect_whose_run_is_cancelled_while_it_waits_to_run_alone_holds_up_nobody() -> None:
    other = "billing.Other"
    deployment = Deployment((PAY, other), max_crashes=2)
    deployment.publish(event(PAY, 1))
    killed = deployment.agent()
    killed.register(PAY, Neighbourhood({1}))
    with pytest.raises(Crash):
        eventually(lambda: killed.run_once(0.1) < 0, 30)
    killed.kill()
    began, may_continue, handled = Flag(), Flag(), Flag()

    def hold_the_second(payload: dict[str, object]) -> dict[str, object]:
        if payload["n"] == 2:
            began.set()
            assert may_continue.wait(60)
        else:
            handled.set()
        return {}

    suspect = Neighbourhood(set())
    agent = deployment.agent()
    agent.register(other, hold_the_second)
    deployment.publish(event(other, 2))
    eventually(lambda: agent.turn(0.01) is not None and began.is_set(), 30)
    agent.register(PAY, suspect)
    eventually(lambda: agent.turn(0.01) is not None and agent.counts.read == 2, 30)
    agent.turn(0.01)
    assert not suspect.ran

    deployment.tell("workflow.cancelled", 1, event().created_at + 1)
    eventually(lambda: agent.turn(0.01) is not None and agent.counts.cancelled == 1, 30)
    deployment.publish(event(other, 3))
    try:
        eventually(lambda: agent.turn(0.01) is not None and handled.is_set(), 30)
    finally:
        may_continue.set()
    assert agent.close() == 0
    assert not suspect.ran
