"""The groups that an agent is a member of: joined, changed and left while it runs, with one thread for each."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from threading import Event as Flag
from threading import Lock, Thread

from afl.core.handlers.routes import RouteTable
from afl.core.text.exception_text import exception_line
from afl_stream.agent.member import BUSY_POLL_S, GroupMember
from afl_stream.agent.resources import AgentHealth, AgentResources
from afl_stream.agent.subscriptions import Subscription
from afl_stream.transport import Transport

log = logging.getLogger(__name__)


class Memberships:
    """One member for each group that has a subscription.

    Either one thread calls `turn` and `settle`, or `run` starts a thread for each member. Any thread may call `follow`;
    the change happens in the next turn of the member concerned.
    """

    def __init__(self, resources: AgentResources, transport: Transport, routes: RouteTable) -> None:
        self._resources = resources
        self._transport = transport
        self._routes = routes
        self._members: dict[str, GroupMember] = {}
        self._threads: dict[GroupMember, Thread] = {}
        self._lock = Lock()
        self._is_running = False
        self._nap = Flag()
        #: Whether a handler still ran when its member had to leave.
        self.work_left = False

    @property
    def members(self) -> list[GroupMember]:
        """The members that have not left."""
        return [member for member in tuple(self._members.values()) if not member.has_left]

    # Reports. Any thread may ask

    def remaining(self) -> str:
        """Describe the work left before all members have drained. Takes no lock, because a signal handler calls it."""
        running: Counter[str] = Counter()
        outgoing = 0
        for member in self.members:
            facets, answers = member.under_way()
            running.update(facets)
            outgoing += answers
        reported = []
        if running:
            listed = ", ".join(f"{facet} {count}" for facet, count in sorted(running.items()))
            grace_s = self._resources.config.stream.agent.grace_s
            count = running.total()
            reported.append(
                f"{count} handler{'' if count == 1 else 's'} running ({listed}), waited for up to {grace_s} s"
            )
        if outgoing:
            reported.append(f"{outgoing} answers to be acknowledged by the broker")
        return "; ".join(reported)

    def health(self) -> AgentHealth:
        """Return whether the members make progress."""
        members = self.members
        found = [member.health() for member in members]
        reasons = (*(reason for some, _ in found for reason in some), *self._resources.shutdown.reasons())
        return AgentHealth(
            ready=not reasons,
            reasons=reasons,
            lag=sum(lag for _, lag in found),
            in_flight=sum(member.in_flight for member in members),
        )

    # Subscriptions

    def follow(self, subscriptions: Iterable[Subscription]) -> None:
        """Join, change and leave groups as these subscriptions say.

        A group without a subscription is left when its running handlers have ended and their answers are committed; no
        new handler starts for it. Raises what the transport raises.
        """
        wanted = {subscription.group: subscription for subscription in subscriptions}
        with self._lock:
            if self._resources.shutdown.is_stopping:
                return
            for group, member in list(self._members.items()):
                if member.change(wanted.get(group)):
                    wanted.pop(group, None)
                else:
                    del self._members[group]
            new = [self._member(subscription) for subscription in wanted.values()]
            for member in new:
                member.join()
                self._members[member.subscription.group] = member
                if self._is_running:
                    self._start(member)

    def _member(self, subscription: Subscription) -> GroupMember:
        consumer = self._transport.consumer(subscription.group, client_id=self._resources.config.name)
        return GroupMember(self._resources, consumer, subscription, self._routes)

    # In the caller's thread

    def turn(self, timeout_s: float) -> int:
        """Let each member do what it can do without waiting for a handler; return the number of records read."""
        members = self.members
        if not members:
            self._nap.wait(timeout_s)
        return sum(member.turn(timeout_s) for member in members)

    def settle(self) -> int:
        """Wait until everything that was read is answered, and commit."""
        while any(member.is_busy for member in self.members):
            for member in self.members:
                member.turn(BUSY_POLL_S, reading=False)
        for member in self.members:
            member.commit()
        return 0

    def drain(self) -> None:
        """Finish, answer, commit and leave, one group after the other."""
        for member in self.members:
            self._drain(member)

    # With threads

    def run(self, keep_up: Callable[[], None]) -> None:
        """Work until the agent is told to stop, then drain. This thread calls `keep_up` repeatedly.

        An error of one member, or of `keep_up`, ends all of them.
        """
        shutdown = self._resources.shutdown
        with self._lock:
            self._is_running = True
            for member in self.members:
                self._start(member)
        try:
            while not shutdown.is_stopping:
                keep_up()
                self._nap.wait(self._resources.config.poll_timeout_s)
            for thread in self._started():
                thread.join()
        except Exception as error:  # noqa: BLE001 - the agent ends in good order, and `run` raises it
            shutdown.fail(error)
            for thread in self._started():
                thread.join()
        except BaseException as error:  # noqa: BLE001 - the same, but in no order at all
            shutdown.die(error)

    def _started(self) -> list[Thread]:
        with self._lock:
            # From here on no member is started.
            self._is_running = False
            return list(self._threads.values())

    def _start(self, member: GroupMember) -> None:
        name = f"agent-{member.subscription.group}"
        for left in [left for left in self._threads if left.has_left]:
            del self._threads[left]
        thread = self._threads[member] = Thread(target=self._serve, args=(member,), name=name, daemon=True)
        thread.start()

    def _serve(self, member: GroupMember) -> None:
        """Run one member until it is told to stop, then drain it. An error of one member ends all of them."""
        shutdown = self._resources.shutdown
        try:
            while not shutdown.is_stopping and not member.has_left:
                member.turn(self._resources.config.poll_timeout_s)
        except Exception as error:  # noqa: BLE001 - the agent ends in good order, and `run` raises it
            log.error("group %s: %s", member.subscription.group, exception_line(error))
            shutdown.fail(error)
        except BaseException as error:  # noqa: BLE001 - the same, but in no order at all
            shutdown.die(error)
        self._drain(member)

    def _drain(self, member: GroupMember) -> None:
        resources = self._resources
        if resources.shutdown.is_dead or member.has_left:
            return
        try:
            if not member.drain(resources.clock_s() + resources.config.stream.agent.grace_s):
                self.work_left = True
        except Exception as error:  # noqa: BLE001 - whatever keeps one member from leaving, the others leave
            resources.shutdown.fail(error)
        except BaseException as error:  # noqa: BLE001 - the process is to die of it
            resources.shutdown.die(error)
