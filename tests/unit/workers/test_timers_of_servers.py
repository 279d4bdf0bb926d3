"""Pollers and runners fire the timers of their store, and leave steps alone that wait for the runtime."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from afl.core.clock import ManualClock
from afl.runtime import AgentPoller, AgentPollerConfig
from tests.unit.workers.runner_shop import clock_at, runner_of
from tests.unit.workers.workshop import Workshop, opened

PROGRAM = """
namespace shop {
    event facet Pay(order: String) => (receipt: String)
    workflow Later(order: String) => (receipt: String) andThen {
        pause = afl.Sleep(minutes = 10)
        paid = Pay(order = $.order ++ (pause.woke_at > 0)) with Retry(times = 1, delay_ms = 5000)
        yield Later(receipt = paid.receipt)
    }
    workflow Told() => (data: Json) andThen {
        w = afl.WaitForEvent(name = "go")
        yield Told(data = w.data)
    }
}
"""


@pytest.fixture
def clock() -> ManualClock:
    return clock_at()


@pytest.fixture(params=["memory", "sqlite"])
def shop(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Workshop]:
    workshop = Workshop(opened(request.param, tmp_path, clock), clock, PROGRAM)
    yield workshop
    workshop.store.close()


def test_a_poll_fires_due_timers_and_does_the_tasks_that_follow(shop: Workshop, clock: ManualClock) -> None:
    poller = AgentPoller(shop.store, shop.evaluator, AgentPollerConfig(), clock=clock)
    attempts: list[object] = []

    def pay(payload: dict[str, object]) -> dict[str, object]:
        attempts.append(payload["order"])
        if len(attempts) == 1:
            raise OSError("the bank is away")
        return {"receipt": "r"}

    poller.register("shop.Pay", pay)
    shop.start("Later", order="17")
    assert poller.poll_once() == 0

    clock.advance(600_000)
    assert poller.poll_once() == 1
    # The next attempt is five seconds later.
    clock.advance(4_999)
    assert poller.poll_once() == 0
    clock.advance(1)
    assert poller.poll_once() == 1

    assert attempts == ["17true", "17true"]
    assert shop.outputs() == {"receipt": "r"}
    assert shop.store.next_timer_ms() is None


def test_a_runner_fires_due_timers_and_makes_no_task_for_a_wait(shop: Workshop, clock: ManualClock) -> None:
    runner = runner_of(shop)
    shop.start("Told", "told")
    shop.start("Later", order="17")

    clock.advance(600_000)
    runner.run_once()

    assert [task.name for task in shop.tasks()] == ["shop.Pay"]
    assert shop.tasks("told") == []


def test_events_that_were_raised_beside_a_start_reach_it_without_a_timer(shop: Workshop, clock: ManualClock) -> None:
    poller = AgentPoller(shop.store, shop.evaluator, AgentPollerConfig(), clock=clock)
    shop.start("Told")
    # A process that raised it, and died before it went on.
    shop.evaluator.raise_event("run", "go", 5)
    clock.advance(60_000)

    poller.poll_once()

    assert shop.outputs() == {"data": 5}
