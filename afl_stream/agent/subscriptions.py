"""What a member of a group is there for, and how it goes over to another duty while it runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from afl_stream.agent.partitions import HeldPartitions
from afl_stream.agent.resources import Shared

log = logging.getLogger(__name__)

#: How long a commit that was refused is let be before a topic is left: a rebalance may be under way.
COMMIT_AGAIN_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """What a group of agents is there for. `topics` says of each whether it is declared to be shared by facets."""

    group: str
    facets: frozenset[str] = frozenset()
    topics: Mapping[str, bool] = field(default_factory=dict)


class Attendance:
    """The topics that a member reads. All but `change` belongs to the thread that lets the member take its turns."""

    def __init__(self, duty: Duty, held: HeldPartitions, shared: Shared, wake: Callable[[], None]) -> None:
        self.duty = duty
        #: Whether the member has left its group. It does not come back.
        self.has_left = False
        self._held = held
        self._shared = shared
        self._wake = wake
        self._wanted = duty
        self._subscribed: frozenset[str] = frozenset()
        self._lock = Lock()
        self._commit_again_s = 0.0

    def begin(self) -> None:
        """Become a member of the group."""
        self._read_only(self.duty)
        self._subscribe(frozenset(self.duty.topics))

    def change(self, duty: Duty | None) -> bool:
        """Let the member go over to another duty of its group, or leave, in its next turns. Any thread may ask.

        False: it has left for good.
        """
        wanted = Duty(group=self.duty.group) if duty is None else duty
        with self._lock:
            if not self.has_left and wanted != self._wanted:
                self._wanted = wanted
                self._wake()
            return not self.has_left

    @property
    def is_changing(self) -> bool:
        """Whether there is something to `follow`."""
        return self._wanted is not self.duty or self._subscribed != self.duty.topics.keys()

    def is_leaving(self, topic: str) -> bool:
        """Whether nothing of this topic is to be started any more."""
        return topic not in self.duty.topics

    def follow(self, topics_at_work: set[str], commit: Callable[[frozenset[str]], bool]) -> None:
        """Go over to the duty that is wanted. `topics_at_work`: those of records whose handlers run. `commit` makes what
        is finished of some topics durable, and says whether that could be done now: else it is tried again later.

        For a topic that is not to be read any more, in this order:
          1. nothing of it is read or started; the handlers at work for it end, and are answered,
          2. what is finished is committed                                                  (agent.committed)
          3. the topic is left: its partitions go to others of the group                    (facet.left)

        A crash before 2 handles again what was not committed. After it, whoever reads the topic next, maybe this agent
        much later, goes on behind what was finished. New topics are joined at once, the others are read all the while.
        """
        duty = self._wanted
        self._read_only(duty)
        wanted = frozenset(duty.topics)
        left = self._subscribed - wanted - topics_at_work
        if left and not self._is_committed(left, commit):
            left = frozenset()
        topics = wanted | (self._subscribed - left)
        if topics == self._subscribed:
            return
        if topics:
            self._subscribe(topics)
        elif not self._leave_for_good(duty):
            return
        if left:
            log.info("group %s: left %s", duty.group, ", ".join(sorted(left)))
            self._shared.probe("facet.left")

    def _is_committed(self, topics: frozenset[str], commit: Callable[[frozenset[str]], bool]) -> bool:
        now_s = self._shared.clock_s()
        if now_s < self._commit_again_s:
            return False
        self._commit_again_s = now_s + COMMIT_AGAIN_S
        done = commit(topics)
        if done:
            self._commit_again_s = 0.0
        return done

    def _read_only(self, duty: Duty) -> None:
        self.duty = duty
        self._held.wanted = frozenset(duty.topics)

    def _subscribe(self, topics: frozenset[str]) -> None:
        self._held.join(sorted(topics))
        self._subscribed = topics

    def _leave_for_good(self, duty: Duty) -> bool:
        """Leave the group, unless another duty has come meanwhile."""
        with self._lock:
            if self._wanted is not duty:
                return False
            self.has_left = True
        self._held.leave()
        return True
