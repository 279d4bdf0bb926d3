"""Requests that were at work when their worker died: one of them may have killed it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from afl.core.clock import epoch_ms
from afl_stream.pubsub.errors import PubSubError
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent, StoredEvent

#: The consumer type of a note in a request's events that its worker has died. The note is of no topic, so that a run
#: passes over it. Stored: never change it.
_NOTED_BY: Final = "WorkflowWorker after a crash"


class WorkersDied(PubSubError):
    """A request was at work whenever its worker died, several times in a row, and is not run any more."""

    def __init__(self, workflow: str, request_id: str, crashes: int) -> None:
        super().__init__(f"its worker died {crashes} times while it ran; it is tried again when somebody invokes it")
        self.workflow = workflow
        self.request_id = request_id
        self.crashes = crashes


class CrashSuspects:
    """The suspects of one worker.

    Each crash is noted in the events of the requests that were at work. One that has got nowhere since an earlier crash
    runs while no other such request does, so that the next crash is noted for it alone; at `limit` notes it fails.
    """

    def __init__(self, limit: int, worker: str) -> None:
        self.limit = limit
        self.seclusion = asyncio.Lock()
        self._worker = worker
        #: By request, its partition.
        self._suspects: dict[str, int] = {}

    def add(self, request_id: str, partition: int) -> None:
        """Note a request that stands as running, in a partition whose last owner died."""
        self._suspects[request_id] = partition

    def drop(self, partitions: frozenset[int]) -> None:
        """Forget the suspects of partitions that go to another worker."""
        self._suspects = {each: number for each, number in self._suspects.items() if number not in partitions}

    def take(self, request_id: str) -> bool:
        """Return whether the request is a suspect. It is none any more: another crash will be another worker's."""
        return self._suspects.pop(request_id, None) is not None

    def note(self, request_id: str) -> ConsumeFromTopicEvent:
        """Return the note of one crash."""
        return ConsumeFromTopicEvent("", request_id, "", 0, None, self._worker, _NOTED_BY, epoch_ms())


def crashes_noted(events: Sequence[StoredEvent]) -> int:
    """Return how often the worker of a request has died since the request last got anywhere."""
    count = 0
    for event in reversed(events):
        if not isinstance(event, ConsumeFromTopicEvent) or event.consumer_type != _NOTED_BY:
            break
        count += 1
    return count
