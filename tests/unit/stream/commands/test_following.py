"""The wait for the end of a run, where the broker goes away meanwhile."""

from __future__ import annotations

import itertools

from afl.core.process.stopping import StopFlag
from afl_stream.commands.following import RunFollower
from afl_stream.reading.watchdog import Watchdog
from afl_stream.settings.config import KafkaSettings
from afl_stream.transport import BrokerUnavailable, BrokerView
from afl_stream.wire.messages import Lifecycle


class LateMilestones:
    """Milestones of which the end of the run comes with the third read."""

    def __init__(self) -> None:
        self.consumer = self
        self._reads = itertools.count(1)

    def read(self, _timeout_s: float) -> list[Lifecycle]:
        if next(self._reads) < 3:
            return []
        return [Lifecycle(workflow_id="w1", kind="workflow.completed", at=1, outputs={})]

    def view(self) -> BrokerView:
        return BrokerView(is_reported=True)


def test_a_broker_that_cannot_be_asked_what_a_run_waits_for_does_not_end_the_wait_for_it() -> None:
    asked: list[str] = []

    def ask() -> None:
        asked.append("why")
        raise BrokerUnavailable("no broker answers at kafka-1:9092")

    ending = RunFollower("w1", "c-1", is_drawn=True).follow(
        LateMilestones(),  # type: ignore[arg-type]  # it is read, and asked for its broker
        Watchdog(KafkaSettings(), "the wait for w1"),
        timeout_s=None,
        stop=StopFlag(),
        on_long_wait=ask,
        long_wait_s=0.0,
    )

    assert asked == ["why"]
    assert ending.row is not None
    assert ending.row.status == "COMPLETED"
