"""The start of handlers: which record may start, and whether on a thread of the pool or on the one that reads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from afl.core.handlers.routes import Route, RouteTable
from afl_stream.agent.answers import Answering
from afl_stream.agent.cancellations import WAITED_MS
from afl_stream.agent.completions import PoisonEvent
from afl_stream.agent.crash_suspects import Suspects
from afl_stream.agent.inline import InlineBatch, TurnsTaken, may_run_inline
from afl_stream.agent.resources import AgentResources
from afl_stream.agent.subscriptions import Subscription
from afl_stream.agent.work import Work, WorkBatch
from afl_stream.reading.group_reader import FIRST_BACKOFF_S
from afl_stream.wire.messages import Event

#: How long reading waits for batches of quick handlers: two threads that both compute get less done than one at a time.
BATCH_WAIT_S: Final = 0.01


class _Facet(NamedTuple):
    """What is known of a facet while records are selected. `waits`: its events are not started by this member.

    `is_paused`: they are not started by any, until the facet is resumed.
    """

    route: Route | None
    waits: bool = False
    is_paused: bool = False
    is_foreign: bool = False
    is_quick: bool = False
    expected_s: float = float("inf")


class Starting:
    """Starts the handlers of ready records, while slots are free. Belongs to the thread that has the member's turns."""

    def __init__(
        self,
        resources: AgentResources,
        answering: Answering,
        suspects: Suspects,
        routes: RouteTable,
        finish: Callable[[Work], None],
        dead_letter: Callable[[Work, PoisonEvent], None],
    ) -> None:
        """`finish` and `dead_letter` are for records that must not run."""
        self._resources = resources
        self._answering = answering
        self._suspects = suspects
        self._routes = routes
        self._finish = finish
        self._dead_letter = dead_letter
        self._skips_cancelled = resources.config.stream.agent.skip_cancelled
        self._inline_allowed = resources.config.stream.agent.inline_handlers
        #: Records whose turn it is, and whose handler has not started.
        self.ready: deque[Work] = deque()
        #: Records whose facet is paused: they are ready again when a pause changes.
        self.paused: list[Work] = []
        self._pauses_seen = resources.paused.version
        #: Records whose handler runs, or whose answer is being sent.
        self.in_flight: set[Work] = set()
        #: Whether records are ready that only wait for the next call.
        self.has_more = False
        #: The batch that the thread of the member runs at this moment.
        self.inline: InlineBatch | None = None

    def start(self, subscription: Subscription, *, inline: bool) -> None:
        """Start what is ready while slots are free; `inline`: quick handlers may run on this thread.

        Raises TurnsTaken when another thread has taken the turns of the member meanwhile.
        """
        self.has_more = False
        if self._pauses_seen != self._resources.paused.version:
            self._pauses_seen = self._resources.paused.version
            self.ready.extend(self.paused)
            self.paused.clear()
        if not self.ready:
            return
        batches, quick = self._selected(subscription, inline and self._inline_allowed)
        if batches and self._note_starts(batches):
            self._run(batches, wait=quick is None)
        if quick is not None and self._note_starts([quick], unless_certain=True):
            self._run_inline(quick)

    def _selected(self, subscription: Subscription, inline: bool) -> tuple[list[WorkBatch], WorkBatch | None]:
        """Return the batches that start now, each with its slot: those of the pool, and the one for this thread."""
        resources, ready, topics = self._resources, self.ready, subscription.topics
        cancellations, knows_cancelled = resources.cancellations, None
        now_s, now_ms = resources.clock_s(), cancellations.now_ms()
        batches: list[WorkBatch] = []
        quick: WorkBatch | None = None
        waiting: deque[Work] = deque()
        facets: dict[str, _Facet] = {}
        while ready:
            work = ready.popleft()
            event = work.event
            assert event is not None
            facet = facets.get(event.event_type)
            if facet is None:
                facet = facets[event.event_type] = self._facet(event.event_type, subscription)
            if facet.is_paused:
                self.paused.append(work)
                continue
            if work.not_before_s > now_s or facet.waits or work.record.topic not in topics:
                waiting.append(work)
                continue
            work.route = facet.route
            if self._skips_cancelled and not -WAITED_MS < now_ms - event.created_at < WAITED_MS:
                if knows_cancelled is None:
                    knows_cancelled = cancellations.knows_any(now_s)
                if knows_cancelled and cancellations.skips(event, now_s):
                    resources.counters.add("cancelled")
                    self._finish(work)
                    continue
            crashes = work.crashes if work.partition.progress.crash_counts else 0
            if (facet.is_foreign or crashes) and self._ends_unstarted(work, event, crashes, subscription):
                continue
            if inline and facet.is_quick and not crashes:
                if quick is None and resources.pool.reserve():
                    quick = WorkBatch(work, is_secluded=False)
                elif quick is None or not quick.take(work, facet.expected_s):
                    self.has_more = quick is not None
                    waiting.append(work)
                    break
            elif not (batches and not crashes and batches[-1].take(work, facet.expected_s)):
                is_secluded = crashes > 0 and self._suspects.has_one_crash_left(crashes)
                if self._suspects.reserve(work) if is_secluded else resources.pool.reserve():
                    batches.append(WorkBatch(work, is_secluded=is_secluded))
                    continue
                waiting.append(work)
                if not is_secluded:
                    break
        ready.extendleft(reversed(waiting))
        return batches, quick

    def _facet(self, name: str, subscription: Subscription) -> _Facet:
        """Return what is known of a facet now: its handler as it is registered at this moment, for one."""
        route, is_ours = self._routes.find(name), name in subscription.facets
        if is_ours and self._resources.paused.is_active and self._resources.paused.holds(name):
            return _Facet(route, is_paused=True)
        if route is None:
            # About to be taken from this member: the event waits for the facet's next agent.
            return _Facet(None, waits=is_ours, is_foreign=not is_ours)
        observer = self._resources.config.observer
        if observer is not None:
            route = observer.observed(route, name)
        return _Facet(
            route, is_foreign=not is_ours, is_quick=may_run_inline(route), expected_s=route.run_time.mean_s
        )  # fmt: skip

    def _ends_unstarted(self, work: Work, event: Event, crashes: int, subscription: Subscription) -> bool:
        """Answer or skip events that must not run: of foreign facets, or killers of processes."""
        if event.event_type not in subscription.facets:
            self._end_foreign(work, subscription)
            return True
        if self._suspects.has_crashed_too_often(crashes):
            self._dead_letter(work, PoisonEvent(event.id, crashes))
            return True
        return False

    def _end_foreign(self, work: Work, subscription: Subscription) -> None:
        if subscription.topics.get(work.record.topic, False):
            self._resources.counters.add("skipped")
            self._finish(work)
        else:
            self.in_flight.add(work)
            self._answering.fail_without_handler(work)

    def _note_starts(self, batches: Sequence[WorkBatch], *, unless_certain: bool = False) -> bool:
        """Note which records start; return False when the note cannot be made durable now, so that nothing may start.

        The note is made durable first where an earlier process may have run the record too, or where no commit yet says
        that this process is at work: a record that kills at once must be counted. `unless_certain`: others are not
        noted, because nothing is committed while they run.
        """
        starting = [work for batch in batches for work in batch.works]
        if unless_certain and self._are_certain(starting):
            return True
        if self._suspects.note_starts(starting):
            return True
        retry_at_s = self._resources.clock_s() + FIRST_BACKOFF_S
        for work in reversed(starting):
            work.is_running = False
            work.partition.progress.pause(work.record.offset)
            if work.partition.is_assigned:
                work.not_before_s = retry_at_s
                self.ready.appendleft(work)
        for batch in batches:
            self._resources.pool.release()
            if batch.is_secluded:
                self._suspects.end_seclusion()
        return False

    @staticmethod
    def _are_certain(starting: Sequence[Work]) -> bool:
        """Say that the records run, if no earlier process can have started one of them without a trace."""
        for work in starting:
            progress = work.partition.progress
            if not progress.is_announced or work.record.offset < progress.doubtful_below:
                return False
        for work in starting:
            work.is_running = True
        return True

    def _run(self, batches: Sequence[WorkBatch], *, wait: bool) -> None:
        answering, pool = self._answering, self._resources.pool
        self._resources.probe("agent.started")
        answering.sleep()
        for batch in batches:
            for work in batch.works:
                work.tries += 1
            self.in_flight.update(batch.works)
            pool.run(answering.batch(batch))
        if wait and any(len(batch.works) > 1 for batch in batches):
            answering.wait(BATCH_WAIT_S)

    def _run_inline(self, batch: WorkBatch) -> None:
        self._resources.probe("agent.started")
        for work in batch.works:
            work.tries += 1
        self.in_flight.update(batch.works)
        running = self.inline = InlineBatch(self._resources, self._answering, batch.works)
        if not running.run():
            # Nothing of the member may be touched any more: it is in another thread's hands.
            raise TurnsTaken
        self.inline = None
