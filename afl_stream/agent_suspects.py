"""Events that may have killed their process: run one at a time, so that in the end only the culprit is given up."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final

from afl_stream.agent_partitions import FIRST_BACKOFF_S, HeldPartitions
from afl_stream.agent_runtime import Shared
from afl_stream.agent_work import PartitionWork, Work

log = logging.getLogger(__name__)

#: A first crash tells only what ran, or had run a moment before. It takes one more to tell who did it.
FEWEST_CRASHES: Final = 2


class Suspects:
    """
    The suspects of one member: records that were running when a process died, by what it had noted.

    A record is given up after `agent.max_crashes` crashes, two at least. All of them but the last may be the doing of
    a record beside it; the last one may not:
      1. a suspect that has one crash left runs when nothing else does in this process, and nothing starts beside it;
         other suspects run beside records that are under no suspicion, but never two at a time,
      2. before it starts it is durable that it runs,
      3. when it has ended, and its answer is acknowledged, it is durable that it runs no longer before anything starts.

    A crash in 3, when its handler has ended and that is not durable, counts against it all the same: no record can have
    done it, and that is a matter of milliseconds while a broker answers. Belongs to the thread of the member; the leave
    to run alone is one for all members of an agent.
    """

    def __init__(self, shared: Shared, held: HeldPartitions) -> None:
        self._shared = shared
        self._held = held
        self._most_crashes = max(FEWEST_CRASHES, shared.config.stream.agent.max_crashes)
        #: The one that runs, or has run and is not known to have ended by all who come after a crash.
        self._running: Work | None = None
        #: The one that waits until nothing else runs.
        self._waiting: Work | None = None
        self._again_s = 0.0

    def is_convicted(self, crashes: int) -> bool:
        """Whether a record with so many crashes is to be given up."""
        return crashes >= self._most_crashes

    def reserve(self, work: Work) -> bool:
        """Take a slot for a suspect, if it may start now."""
        is_last = work.crashes == self._most_crashes - 1
        if self._running is not None or not self._shared.pool.reserve_alone(self, secluded=is_last):
            if is_last and self._running is None and self._waiting is None:
                self._waiting = work
            return False
        if is_last:
            log.warning(
                "event %s runs with nothing beside it: its handler was running in %d processes when they died",
                work.event.id if work.event is not None else "",
                work.crashes,
            )
        self._running, self._waiting = work, None
        return True

    def not_started(self) -> None:
        """The suspect that a slot was taken for could not be started."""
        self._running = None
        self._shared.pool.end_alone(self)

    def let_others_start(self, in_flight: Collection[Work]) -> None:
        """Once the suspect that ran is through, make that durable, and let others start."""
        work = self._running
        if work is None or work in in_flight:
            return
        now_s = self._shared.clock_s()
        if now_s < self._again_s:
            return
        if work.partition.held and not self._held.commit([work.partition], wait=True):
            self._again_s = now_s + FIRST_BACKOFF_S
            return
        self.not_started()

    def drop(self, partition: PartitionWork) -> None:
        """The partition is gone, and with it the suspect that waits."""
        if self._waiting is not None and self._waiting.partition is partition:
            self._waiting = None
            self._shared.pool.withdraw(self)
