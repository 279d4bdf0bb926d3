"""A gateway that dies between two of its steps loses no event, and no answer counts twice."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest

from tests.eventually import eventually
from tests.scenarios.gateway.world import CHARGE, Shop, Worker


class Died(Exception):
    """The end of a gateway's process, as a test makes it."""


class DiesAt:
    """Ends a gateway at a step: from then on its agents produce and commit nothing."""

    def __init__(self, step: str) -> None:
        self._step = step
        self.worker: Worker | None = None
        self.is_dead = threading.Event()

    def __call__(self, step: str) -> None:
        if step != self._step or self.is_dead.is_set():
            return
        self.is_dead.set()
        assert self.worker is not None
        for agent in self.worker.gateway.agents:
            agent.agent.abandon(Died())


def _try(deed: Any) -> None:
    """Do what a worker does with a gateway that dies meanwhile: whatever it gets, it goes on."""
    with suppress(AssertionError, Died):
        deed()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("step", ["gateway.offered", "gateway.leased", "gateway.answered", "gateway.ended"])
def test_a_crash_after_each_step_leaves_one_effect(shop: Shop, step: str) -> None:
    probe = DiesAt(step)
    with shop.gateway(probe=probe) as worker:
        probe.worker = worker
        worker.start("Checkout", "r-1", order="17")
        is_answered = step in ("gateway.answered", "gateway.ended")
        if step != "gateway.offered":
            event = worker.take()
            if is_answered:
                _try(lambda: worker.complete(event, receipt="before"))
        eventually(probe.is_dead.is_set, 10)

    with shop.gateway() as worker:
        # At least once: what was not committed is offered again, also where its answer was taken already.
        again = worker.take()
        assert again["payload"]["order"] == "17"
        worker.complete(again, receipt="after")
        shown = worker.ended("r-1")
        # And it is committed then.
        eventually(lambda: worker.gateway.desk(CHARGE).counts == (0, 0), 10)

    assert shown["outputs"] == {"receipt": "before" if is_answered else "after"}
    with shop.gateway() as worker:
        assert worker.poll(wait_s=0.3) == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_events_survive_more_crashes_than_a_handler_may_cause(shop: Shop) -> None:
    """A gateway that dies while an event waits is not killed by that event."""
    for number in range(4):
        probe = DiesAt("gateway.offered")
        with shop.gateway(probe=probe) as worker:
            probe.worker = worker
            if not number:
                worker.start("Checkout", "r-1", order="17")
            eventually(probe.is_dead.is_set, 10)

    with shop.gateway() as worker:
        worker.complete(worker.take(), receipt="at last")
        assert worker.ended("r-1")["outputs"] == {"receipt": "at last"}
