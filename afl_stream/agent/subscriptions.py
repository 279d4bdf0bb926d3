"""The subscription of a group's member: which facets and topics it serves, and how it changes while it runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from afl_stream.agent.partitions import AssignedPartitions
from afl_stream.agent.resources import AgentResources

log = logging.getLogger(__name__)

#: Backoff after a refused commit before a topic is left: a rebalance may be under way.
COMMIT_AGAIN_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The facets and topics of a group of agents. `topics` says of each topic whether several facets share it."""

    group: str
    facets: frozenset[str] = frozenset()
    topics: Mapping[str, bool] = field(default_factory=dict)


class SubscriptionChange:
    """The topics that a member reads. All methods but `change` belong to the thread that gives the member its turns."""

    def __init__(
        self,
        subscription: Subscription,
        assigned: AssignedPartitions,
        resources: AgentResources,
        wake: Callable[[], None],
    ) -> None:
        self.subscription = subscription
        #: Whether the member has left its group. It does not come back.
        self.has_left = False
        self._assigned = assigned
        self._resources = resources
        self._wake = wake
        self._wanted = subscription
        self._subscribed: frozenset[str] = frozenset()
        self._lock = Lock()
        self._commit_again_s = 0.0

    def join(self) -> None:
        """Join the group."""
        self._read_only(self.subscription)
        self._subscribe(frozenset(self.subscription.topics))

    def change(self, subscription: Subscription | None) -> bool:
        """Let the member change its subscription, or leave, in its next turns. Any thread may call this.

        Returns False when the member has left for good.
        """
        wanted = Subscription(group=self.subscription.group) if subscription is None else subscription
        with self._lock:
            if not self.has_left and wanted != self._wanted:
                self._wanted = wanted
                self._wake()
            return not self.has_left

    @property
    def is_changing(self) -> bool:
        """Return whether a change is left to `follow`."""
        return self._wanted is not self.subscription or self._subscribed != self.subscription.topics.keys()

    def is_leaving(self, topic: str) -> bool:
        """Return whether no record of this topic may be started any more."""
        return topic not in self.subscription.topics

    def follow(self, topics_at_work: set[str], commit: Callable[[frozenset[str]], bool]) -> None:
        """Change to the subscription that is wanted.

        `topics_at_work` are the topics of records whose handlers run. `commit` makes the finished records of some
        topics durable, and returns whether it could; if not, it is tried again later.

        A topic that is not read any more is left in this order:
          1. none of its records is read or started; its running handlers end, and are answered,
          2. what is finished is committed                                                  (agent.committed)
          3. the subscription drops the topic: other members get its partitions             (facet.left)

        After a crash before 2, what was not committed is handled again. After 2, the next reader of the topic (maybe
        this agent, much later) continues behind what was finished. New topics are joined at once, and the other topics
        are read all the while.
        """
        subscription = self._wanted
        self._read_only(subscription)
        wanted = frozenset(subscription.topics)
        left = self._subscribed - wanted - topics_at_work
        if left and not self._is_committed(left, commit):
            left = frozenset()
        topics = wanted | (self._subscribed - left)
        if topics == self._subscribed:
            return
        if topics:
            self._subscribe(topics)
        elif not self._leave_for_good(subscription):
            return
        if left:
            log.info("group %s: unsubscribed from %s", subscription.group, ", ".join(sorted(left)))
            self._resources.probe("facet.left")

    def _is_committed(self, topics: frozenset[str], commit: Callable[[frozenset[str]], bool]) -> bool:
        now_s = self._resources.clock_s()
        if now_s < self._commit_again_s:
            return False
        self._commit_again_s = now_s + COMMIT_AGAIN_S
        done = commit(topics)
        if done:
            self._commit_again_s = 0.0
        return done

    def _read_only(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self._assigned.wanted = frozenset(subscription.topics)

    def _subscribe(self, topics: frozenset[str]) -> None:
        self._assigned.join(sorted(topics))
        self._subscribed = topics

    def _leave_for_good(self, subscription: Subscription) -> bool:
        """Leave the group, unless another subscription has come meanwhile."""
        with self._lock:
            if self._wanted is not subscription:
                return False
            self.has_left = True
        self._assigned.leave()
        return True
