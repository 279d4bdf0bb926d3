"""Quick handlers on the thread that reads, and what happens when one of them does not end there."""

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event as Flag
from threading import Thread, current_thread, get_ident
from types import FrameType
from typing import Any, Final

import pytest

from afl.core.handlers.outcomes import LEARNING_RUNS
from afl.core.process.crashes import Crash
from afl_stream.exit_codes import ExitCode
from tests.eventually import eventually
from tests.unit.stream.agent.agent_bench import PAY, Deployment, TestAgent, event

ROOT: Final = Path(__file__).parents[4]
#: Steps of events that the handlers of these tests learn with, before the test's own.
LEARNT: Final = range(1_000, 1_000 + 3 * LEARNING_RUNS)
#: The name of a member's own thread.
OWN: Final = "agent-afl.agent.billing.Pay"


class Threads:
    """Notes by step on which threads its handler ran. Once armed, the next run on a member's own thread does `act`."""

    def __init__(self, act: Callable[[], object] = lambda: None) -> None:
        self._act = act
        self._lock = threading.Lock()
        self._is_armed = False
        self.of: dict[int, list[str]] = {}
        #: The step that has acted, and the thread on which it did.
        self.acted: int | None = None
        self.ident: int | None = None

    def handle(self, payload: dict[str, Any]) -> dict[str, Any]:
        step, name = payload["n"], current_thread().name
        with self._lock:
            self.of.setdefault(step, []).append(name)
            acts = self._is_armed and name == OWN
            if acts:
                self._is_armed, self.acted, self.ident = False, step, get_ident()
        if acts:
            self._act()
        return {"n": step}

    def count(self, step: int) -> int:
        return len(self.of.get(step, ()))

    def arm(self) -> None:
        self._is_armed = True


def until_acted(deployment: Deployment, threads: Threads) -> int:
    """Publish events until one is handled on the thread that reads, and acts there; return its step."""
    deployment.publish(*(event(step=step) for step in LEARNT))
    threads.arm()
    steps = iter(range(10_000, 20_000))

    def has_acted() -> bool:
        step = next(steps)
        deployment.publish(event(step=step))
        eventually(lambda: threads.count(step) == 1)
        return threads.acted is not None

    eventually(has_acted)
    assert threads.acted is not None
    return threads.acted


def answer_of(deployment: Deployment, step: int) -> object:
    return deployment.results().get(f"wf-{step}:{step:x}")


@contextmanager
def running(agent: TestAgent) -> Iterator[list[object]]:
    """Run an agent in a thread; yield where its exit code or its error will be."""
    ended: list[object] = []

    def run() -> None:
        try:
            ended.append(agent.run())
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            ended.append(error)

    thread = Thread(target=run, name="runs the agent")
    thread.start()
    try:
        yield ended
    finally:
        agent.stop()
        thread.join(20)
        assert not thread.is_alive()


def test_a_handler_that_was_quick_often_enough_runs_on_the_thread_that_reads() -> None:
    deployment, threads = Deployment(), Threads()
    agent = deployment.agent()
    agent.register(PAY, threads.handle)

    with running(agent) as ended:
        deployment.publish(event(step=1))
        eventually(lambda: threads.count(1) == 1)
        until_acted(deployment, threads)

    assert ended == [ExitCode.OK]
    assert threads.of[1][0].startswith("handler-"), "a first run may take any time"
    assert {len(names) for names in threads.of.values()} == {1}, "each event is handled once"
    assert deployment.results() == {f"wf-{step}:{step:x}": {"n": step} for step in threads.of}


def test_a_quick_handler_that_does_not_end_keeps_its_thread_and_another_one_reads_on() -> None:
    release, deployment = Flag(), Deployment(max_concurrent=4)
    threads = Threads(lambda: release.wait(20))
    agent = deployment.agent()
    agent.register(PAY, threads.handle)

    with running(agent) as ended:
        hung = until_acted(deployment, threads)
        later = range(1, LEARNING_RUNS)
        deployment.publish(*(event(step=step) for step in later))
        eventually(lambda: all(answer_of(deployment, step) for step in later))
        assert all(name.startswith("handler-") for step in later for name in threads.of[step])
        # Those that have answered are counted out a moment later.
        eventually(lambda: agent.health().in_flight == 1)
        committed = deployment.committed()
        release.set()
        eventually(lambda: answer_of(deployment, hung) == {"n": hung})

    assert ended == [ExitCode.OK]
    assert {len(names) for names in threads.of.values()} == {1}
    assert len(deployment.answers()) == len(threads.of), "each event is answered once"
    assert committed is not None
    assert committed.offset <= len(threads.of) - len(later), "no offset moved past the one that hung"


def test_the_next_owner_knows_which_handler_hung_when_the_process_died() -> None:
    release, deployment = Flag(), Deployment()
    threads = Threads(lambda: release.wait(20))
    agent = deployment.agent()
    agent.register(PAY, threads.handle)

    with running(agent):
        until_acted(deployment, threads)
        deployment.publish(event(step=1))
        eventually(lambda: (at := deployment.committed()) is not None and at.metadata.endswith(" c0:1"))
        agent.kill()
        release.set()


def test_a_time_limit_holds_for_a_quick_handler_that_turns_slow() -> None:
    release, deployment = Flag(), Deployment()
    threads = Threads(lambda: release.wait(20))
    agent = deployment.agent()
    agent.register(PAY, threads.handle, timeout_ms=1_000)

    with running(agent) as ended:
        hung = until_acted(deployment, threads)
        eventually(lambda: answer_of(deployment, hung) == "Timeout")
        release.set()
        deployment.publish(event(step=1))
        eventually(lambda: answer_of(deployment, 1))

    assert ended == [ExitCode.OK]
    assert agent.counts.timed_out == 1
    assert len(deployment.answers()) == len(threads.of), "what it returned late is no second answer"


def test_an_awaitable_that_is_returned_after_the_time_limit_is_no_second_answer_and_ends_no_agent() -> None:
    release, deployment = Flag(), Deployment()
    threads = Threads(lambda: release.wait(20))
    agent = deployment.agent()

    def handle(payload: dict[str, Any]) -> object:
        result = threads.handle(payload)

        async def later() -> dict[str, Any]:
            return result

        return later() if threads.acted == payload["n"] else result

    agent.register(PAY, handle, timeout_ms=1_000)
    with running(agent) as ended:
        hung = until_acted(deployment, threads)
        eventually(lambda: answer_of(deployment, hung) == "Timeout")
        (own,) = (thread for thread in threading.enumerate() if thread.name == OWN and thread.ident == threads.ident)
        release.set()
        own.join(20)
        deployment.publish(event(step=1))
        eventually(lambda: answer_of(deployment, 1) == {"n": 1})

    assert ended == [ExitCode.OK]
    assert len(deployment.answers()) == len(threads.of)


def test_a_handler_with_a_shorter_time_limit_never_runs_on_the_thread_that_reads() -> None:
    deployment, threads = Deployment(), Threads()
    agent = deployment.agent()
    agent.register(PAY, threads.handle, timeout_ms=999)

    with running(agent):
        deployment.publish(*(event(step=step) for step in LEARNT))
        eventually(lambda: agent.counts.answered == len(LEARNT))
        deployment.publish(*(event(step=step) for step in range(1, 50)))
        eventually(lambda: agent.counts.answered == len(LEARNT) + 49)

    assert all(name.startswith("handler-") for names in threads.of.values() for name in names)


@pytest.mark.parametrize("way", ["coroutine function", "callers' own loop", "switched off"])
def test_other_handlers_never_run_on_the_thread_that_reads(way: str) -> None:
    deployment, threads = Deployment(), Threads()
    deployment.settings(inline_handlers=way != "switched off")
    agent = deployment.agent()

    async def handle(payload: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return threads.handle(payload)

    agent.register(PAY, handle if way == "coroutine function" else threads.handle)
    deployment.publish(*(event(step=step) for step in LEARNT))
    if way == "callers' own loop":
        while len(threads.of) < len(LEARNT):
            agent.run_once(1)
        agent.close()
    else:
        with running(agent):
            eventually(lambda: agent.counts.answered == len(LEARNT))

    assert all(name.startswith("handler-") for names in threads.of.values() for name in names)


def test_a_quick_handler_that_returns_an_awaitable_has_it_awaited() -> None:
    deployment, threads = Deployment(), Threads()
    agent = deployment.agent()

    def handle(payload: dict[str, Any]) -> object:
        result = threads.handle(payload)

        async def later() -> dict[str, Any]:
            await asyncio.sleep(0)
            return {**result, "later": True}

        return later() if threads.acted == payload["n"] else result

    agent.register(PAY, handle)
    with running(agent):
        step = until_acted(deployment, threads)
        eventually(lambda: answer_of(deployment, step) == {"n": step, "later": True})


def test_an_agent_stops_in_its_grace_period_while_a_quick_handler_hangs() -> None:
    release, deployment = Flag(), Deployment(grace_s=1)
    threads = Threads(lambda: release.wait(20))
    agent = deployment.agent()
    agent.register(PAY, threads.handle)

    with running(agent) as ended:
        hung = until_acted(deployment, threads)
        agent.stop()
        eventually(lambda: ended == [ExitCode.WORK_LEFT])
        release.set()

    assert answer_of(deployment, hung) is None


def test_a_partition_goes_to_another_agent_while_a_quick_handler_hangs() -> None:
    release, deployment = Flag(), Deployment(partitions=2)
    threads = Threads(lambda: release.wait(20))
    first, second = deployment.agent(), deployment.agent()
    first.register(PAY, threads.handle)
    second.register(PAY, lambda payload: {"n": payload["n"]})

    with running(first):
        until_acted(deployment, threads)
        with running(second):
            eventually(lambda: second.groups and second.own_partitions())
            eventually(lambda: len(first.own_partitions()) == 1)
            release.set()


def test_an_exception_of_a_quick_handler_fails_its_step_and_no_other() -> None:
    deployment, threads = Deployment(), Threads(lambda: sys.exit("no more"))
    agent = deployment.agent()
    agent.register(PAY, threads.handle)

    with running(agent) as ended:
        failed = until_acted(deployment, threads)
        deployment.publish(event(step=1))
        eventually(lambda: answer_of(deployment, 1) == {"n": 1})

    assert ended == [ExitCode.OK]
    assert answer_of(deployment, failed) == "SystemExit"


def test_the_death_of_the_process_in_a_quick_handler_leaves_its_event_to_the_next_agent() -> None:
    deployment = Deployment()

    def die() -> None:
        raise Crash("dies in its handler")

    threads = Threads(die)
    agent = deployment.agent()
    agent.register(PAY, threads.handle)
    with running(agent) as ended:
        killer = until_acted(deployment, threads)
        eventually(lambda: ended)
    agent.kill()
    assert isinstance(ended[0], Crash)

    successor = deployment.agent()
    successor.register(PAY, lambda payload: {"n": payload["n"], "again": True})
    successor.run_once(1)
    assert answer_of(deployment, killer) == {"n": killer, "again": True}


#: The most calls of our own Python functions that one event may cost an agent with a quick, plain handler.
MOST_CALLS: Final = 60
#: Where others take the processor, quick runs look slow and more of them are in the pool: the best of so many counts.
COUNTS: Final = 3


def calls_for_each_of(events: int) -> float:
    """Return how many of our functions an agent has called for each event that it has answered."""
    deployment = Deployment(window=1_000)
    agent = deployment.agent(config={"commit_interval_s": 60.0})
    agent.register(PAY, lambda payload: {"n": payload["n"]})
    deployment.publish(*(event(step=step) for step in range(1, events + 1)))
    calls: Counter[str] = Counter()

    def count(frame: FrameType, what: str, _argument: object) -> None:
        if what == "call":
            calls[frame.f_code.co_filename] += 1

    threading.setprofile(count)
    try:
        with running(agent):
            eventually(lambda: agent.counts.answered == events, 60)
    finally:
        threading.setprofile(None)
    ours = sum(
        number
        for name, number in calls.items()
        # Code that is compiled at run time, the codec's, has no file.
        if name.startswith("<") or (name.startswith(str(ROOT / "afl")) and "embedded" not in name)
    )
    return ours / events


def test_an_event_costs_an_agent_a_bounded_number_of_calls() -> None:
    fewest = min(calls_for_each_of(2_000) for _ in range(COUNTS))

    assert 10 < fewest <= MOST_CALLS, "below 10, the count has missed the agent's threads"
