"""The unfinished records of an agent by their steps: events of one step run one at a time, and in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from afl_stream.agent.work import PartitionWork, Work


class StepQueues:
    """Of each step, one record has its turn: it is ready, in flight, or about to start. The others wait behind it."""

    def __init__(self) -> None:
        self._turns: dict[str, Work] = {}
        #: Only of steps with more than one record, which are rare.
        self._behind: dict[str, deque[Work]] = {}
        self._waiting = 0

    def __len__(self) -> int:
        return len(self._turns) + self._waiting

    def add(self, step_id: str, work: Work) -> bool:
        """Take in a record, and return whether its turn is now."""
        if self._turns.setdefault(step_id, work) is work:
            return True
        self._behind.setdefault(step_id, deque()).append(work)
        self._waiting += 1
        return False

    def end_turn(self, work: Work) -> Work | None:
        """Take out a record whose turn it is, and return the one whose turn is next. Others are no longer here."""
        event = work.event
        if event is None or self._turns.get(event.step_id) is not work:
            return None
        step_id = event.step_id
        if step_id not in self._behind:
            del self._turns[step_id]
            return None
        return self._move_on(step_id)

    def drop(self, partition: PartitionWork, in_flight: Collection[Work]) -> list[Work]:
        """Take out the records of a partition that are not in flight; return those whose turn has come by that."""
        for step_id, queue in list(self._behind.items()):
            kept = deque(work for work in queue if work.partition is not partition)
            self._waiting -= len(queue) - len(kept)
            self._behind[step_id] = kept
            if not kept:
                del self._behind[step_id]
        turned: list[Work] = []
        for step_id, work in list(self._turns.items()):
            if work.partition is not partition or work in in_flight:
                continue
            if step_id in self._behind:
                turned.append(self._move_on(step_id))
            else:
                del self._turns[step_id]
        return turned

    def _move_on(self, step_id: str) -> Work:
        queue = self._behind[step_id]
        work = self._turns[step_id] = queue.popleft()
        self._waiting -= 1
        if not queue:
            del self._behind[step_id]
        return work
