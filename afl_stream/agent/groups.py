"""The groups that an agent is a member of: joined, changed and left while it runs, with one thread for each."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from threading import Event as Flag
from threading import Lock, Thread
from typing import Final

from afl.core.handlers.routes import RouteTable
from afl.core.text.exception_text import exception_line
from afl_stream.agent.inline import TurnsTaken
from afl_stream.agent.member import BUSY_POLL_S, GroupMember
from afl_stream.agent.resources import AgentHealth, AgentResources
from afl_stream.agent.subscriptions import Subscription
from afl_stream.transport import Assignor, Transport

log = logging.getLogger(__name__)

#: How often it is looked whether a handler holds up the thread of its member.
WATCH_S: Final = 0.05


class Memberships:
    """One member for each group that has a subscription.

    Either one thread calls `turn` and `settle`, or `run` starts a thread for each member, on which quick handlers run
    too: when one of these does not end, another thread takes the member's turns. Any thread may call `follow`; the
    change happens in the next turn of the member concerned.
    """

    def __init__(self, resources: AgentResources, transport: Transport, routes: RouteTable) -> None:
        self._resources = resources
        self._transport = transport
        self._routes = routes
        self._members: dict[str, GroupMember] = {}
        #: Set when a member that has a thread is through: drained, or dead.
        self._served: dict[GroupMember, Flag] = {}
        self._lock = Lock()
        self._is_running = False
        self._nap = Flag()
        #: Whether a handler still ran when its member had to leave.
        self.work_left = False
        if resources.config.observer is not None:
            resources.config.observer.members = lambda: self.members
            resources.config.observer.dead_letters = resources.counters.dead_letters

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
            for subscription in wanted.values():
                member = self._member(subscription)
                try:
                    member.join()
                except Exception:
                    member.leave()
                    raise
                self._members[member.subscription.group] = member
                if self._is_running:
                    self._start(member)

    def _member(self, subscription: Subscription) -> GroupMember:
        config = self._resources.config
        assignor = Assignor(config.stream.agent.assignor)
        consumer = self._transport.consumer(subscription.group, client_id=config.name, assignor=assignor)
        return GroupMember(self._resources, consumer, subscription, self._routes)

    def leave(self) -> None:
        """Leave all groups: nothing was read."""
        for member in self.members:
            member.leave()

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
        ended = Flag()
        Thread(target=self._watch, args=(ended,), name="agent-watch", daemon=True).start()
        try:
            while not shutdown.is_stopping:
                keep_up()
                self._nap.wait(self._resources.config.poll_timeout_s)
            self._wait_for_all()
        except Exception as error:  # noqa: BLE001 - the agent ends in good order, and `run` raises it
            shutdown.fail(error)
            self._wait_for_all()
        except BaseException as error:  # noqa: BLE001 - the same, but in no order at all
            shutdown.die(error)
        finally:
            ended.set()

    def _wait_for_all(self) -> None:
        with self._lock:
            # From here on no member is started.
            self._is_running = False
            served = list(self._served.values())
        for flag in served:
            flag.wait()

    def _start(self, member: GroupMember) -> None:
        for left in [left for left in self._served if left.has_left]:
            del self._served[left]
        self._served[member] = Flag()
        self._start_thread(member)

    def _start_thread(self, member: GroupMember) -> None:
        name = f"agent-{member.subscription.group}"
        Thread(target=self._serve, args=(member, self._served[member]), name=name, daemon=True).start()

    def _watch(self, ended: Flag) -> None:
        """Let another thread take the turns of each member whose thread a handler holds up."""
        while not ended.wait(WATCH_S):
            now_s = self._resources.clock_s()
            for member in tuple(self._members.values()):
                if member.take_over(now_s):
                    log.info(
                        "group %s: a quick handler has turned slow, another thread reads on", member.subscription.group
                    )
                    self._start_thread(member)

    def _serve(self, member: GroupMember, served: Flag) -> None:
        """Take a member's turns until it is told to stop, then drain it. An error of one member ends all of them."""
        try:
            self._take_turns(member)
        except TurnsTaken:
            # Another thread is here by now.
            return
        self._drain(member)
        served.set()

    def _take_turns(self, member: GroupMember) -> None:
        shutdown = self._resources.shutdown
        try:
            while not shutdown.is_stopping and not member.has_left:
                member.turn(self._resources.config.poll_timeout_s, inline=True)
        except TurnsTaken:
            raise
        except Exception as error:  # noqa: BLE001 - the agent ends in good order, and `run` raises it
            log.error("group %s: %s", member.subscription.group, exception_line(error))
            shutdown.fail(error)
        except BaseException as error:  # noqa: BLE001 - the same, but in no order at all
            shutdown.die(error)

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
