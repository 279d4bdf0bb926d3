"""One membership of an agent in one group: the way of each record, from reading to the committed offset."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Final

from afl.core.handlers.routes import RouteTable
from afl.core.text.warning_limits import LimitedLog
from afl_stream.agent.answers import After, Answering, Completion, PoisonEvent
from afl_stream.agent.crash_suspects import Suspects
from afl_stream.agent.partitions import AssignedPartitions
from afl_stream.agent.resources import AgentResources
from afl_stream.agent.subscriptions import Subscription, SubscriptionChange
from afl_stream.agent.work import PartitionWork, Work, WorkBatch
from afl_stream.errors import Unreadable
from afl_stream.reading.group_reader import FIRST_BACKOFF_S
from afl_stream.transport import Consumer, Record, TopicPartition
from afl_stream.wire.messages import Event

log = logging.getLogger(__name__)

#: How long reading blocks while unfinished records wait for a report.
BUSY_POLL_S: Final = 0.01
#: How long reading waits for batches of quick handlers: two threads that both compute get less done than one at a time.
BATCH_WAIT_S: Final = 0.01
#: How long partitions that are taken away wait for answers that are on their way.
REVOKE_FLUSH_S: Final = 1.0
#: Event ids remembered to count duplicates.
REMEMBERED_EVENTS: Final = 10_000


class GroupMember:
    """Reads the facets of one group, has their events handled, and commits what is answered.

    A record goes this way; a probe is called at the end of each step:
      1. it is read                                                                        (agent.polled)
      2. its start is noted; the note is committed if it is the partition's first here, or
         if an earlier process may have run the record                                     (agent.started)
      3. its handler runs                                                                  (agent.handled)
      4. its answer is produced                                                            (agent.produced)
      5. the broker acknowledges the answer                                                (agent.acknowledged)
      6. the offset moves past it, and past nothing unfinished                             (agent.committed)

    After a crash before 4 the handler runs again, with the same event id. After a crash between 4 and 6 it runs again
    too, and answers a second time; the first answer has won by then. The process that runs the record next counts a
    crash in 3, and treats all records that were running as suspects; see Suspects. After 6 nothing is done again.

    All steps happen on the thread that calls `turn`, except 3 and 4, which happen where the handler runs. Records whose
    handlers are quick start in batches, each batch on one thread; a slow handler does not hold up the others of its
    batch.
    """

    def __init__(
        self, resources: AgentResources, consumer: Consumer, subscription: Subscription, routes: RouteTable
    ) -> None:
        self._resources = resources
        self._routes = routes
        self._skips_cancelled = resources.config.stream.agent.skip_cancelled
        self._answering = Answering(resources, subscription.group)
        self._assigned = AssignedPartitions(resources, consumer, subscription.group, self._before_revoke, self._on_drop)
        self._subscribed = SubscriptionChange(subscription, self._assigned, resources, self._answering.wake.set)
        #: Work by step, the one whose turn it is first: that one is ready, in flight, or about to start.
        self._steps: dict[str, deque[Work]] = {}
        self._queued = 0
        self._ready: deque[Work] = deque()
        self._to_send: list[tuple[float, Work]] = []
        self._in_flight: set[Work] = set()
        self._suspects = Suspects(resources, self._assigned)
        self._warnings = LimitedLog(log)
        self._seen_events: OrderedDict[str, None] = OrderedDict()
        resources.pool.on_free(self._answering.wake.set)

    @property
    def subscription(self) -> Subscription:
        """The subscription of this member now."""
        return self._subscribed.subscription

    @property
    def has_left(self) -> bool:
        """Return whether it has left the group. It does not come back."""
        return self._subscribed.has_left

    def join(self) -> None:
        """Join the group."""
        self._subscribed.join()

    def change(self, subscription: Subscription | None) -> bool:
        """Let the member change its subscription, or leave, in its next turns. Any thread may. False: it has left."""
        return self._subscribed.change(subscription)

    def turn(self, timeout_s: float, *, reading: bool = True, starting: bool = True) -> int:
        """Do all that can be done now; wait for reports up to `timeout_s`. Returns how many records were read.

        Raises OffsetOutOfRange, UnknownTopic, OffsetsLost, and the error that ended the agent.
        """
        resources = self._resources
        resources.shutdown.check()
        if self._subscribed.is_changing and self._follow():
            return 0
        self._advance(starting)
        count = self._read(timeout_s, reading)
        self._advance(starting)
        resources.producer.poll(0)
        resources.pool.expire()
        self._take_completions()
        self._assigned.commit_when_due()
        self._assigned.measure_lag()
        resources.shutdown.check()
        return count

    @property
    def is_busy(self) -> bool:
        """Return whether a handler runs, an acknowledgement is awaited, or a record could start."""
        now_s = self._resources.clock_s()
        return bool(self._in_flight or any(work.not_before_s <= now_s for work in tuple(self._ready)))

    @property
    def has_work(self) -> bool:
        """Return whether a record that was read is unfinished, including one that waits for its next retry."""
        return bool(self._in_flight or self._ready)

    @property
    def has_read_all(self) -> bool:
        """Return whether the broker says that no record is left to read."""
        return self._assigned.has_read_all

    @property
    def has_partitions(self) -> bool:
        """Return whether the group has assigned partitions to this member."""
        return any(True for _ in self._assigned)

    @property
    def in_flight(self) -> int:
        """The number of records whose handler runs, or whose answer is being sent."""
        return len(self._in_flight)

    def under_way(self) -> tuple[list[str], int]:
        """Return the facet of each running handler, and how many answers are being sent. Any thread may call this."""
        works = tuple(self._in_flight)
        running = [work.event.event_type for work in works if work.event is not None and not work.outgoing]
        return running, len(works) - len(running)

    def commit(self) -> None:
        """Commit what is finished, and wait until that is durable."""
        self._take_completions()
        self._assigned.commit_now()

    def drain(self, deadline_s: float) -> bool:
        """Finish the running handlers, answer, commit, leave. False: a handler was still running at the deadline."""
        self._resources.pool.recall()
        while self._in_flight and self._resources.clock_s() < deadline_s:
            self.turn(BUSY_POLL_S, reading=False, starting=False)
        self._resources.shutdown.check()
        finished = not self._in_flight
        if not self.has_left:
            self._assigned.leave()
        self._resources.shutdown.check()
        return finished

    def health(self) -> tuple[tuple[str, ...], int]:
        """Return what is wrong, in words, and the lag. Any thread may call this."""
        return self._assigned.health(len(self._in_flight))

    # Another subscription

    def _follow(self) -> bool:
        """Change the subscription as far as that is possible now, and return whether the group was left."""
        self._take_completions()
        self._subscribed.follow({work.record.topic for work in self._in_flight}, self._commit_topics)
        if self.has_left:
            self._resources.pool.not_on_free(self._answering.wake.set)
        return self.has_left

    def _commit_topics(self, topics: frozenset[str]) -> bool:
        partitions = [partition for partition in self._assigned if partition.topic_partition.topic in topics]
        return self._assigned.commit(partitions, wait=True, clean=True)

    # Partitions that go

    def _before_revoke(self, partitions: Sequence[TopicPartition]) -> None:
        """Take in reports of answers being sent.

        Running handlers continue: their answers count, their offsets do not.
        """
        self._resources.pool.recall()
        if any(work.outgoing and work.partition.topic_partition in partitions for work in self._in_flight):
            self._resources.producer.flush(REVOKE_FLUSH_S)
        self._take_completions()

    def _on_drop(self, partition: PartitionWork) -> None:
        self._suspects.drop(partition)
        self._ready = deque(work for work in self._ready if work.partition is not partition)
        for step_id, queue in list(self._steps.items()):
            kept = deque(work for work in queue if work.partition is not partition or work in self._in_flight)
            self._queued -= len(queue) - len(kept)
            self._steps[step_id] = kept
            if not kept:
                del self._steps[step_id]
            elif kept[0] is not queue[0]:
                self._ready.append(kept[0])

    # Reading

    def _read(self, timeout_s: float, reading: bool) -> int:
        assigned = self._assigned
        backoff_s = assigned.backoff_s()
        if backoff_s is not None:
            self._answering.wake.wait(min(backoff_s, timeout_s))
        # A paused partition does not count: it must not keep the others from being read.
        room = self._resources.config.queue_records - self._queued + len(self._in_flight) if reading else 0
        assigned.pause_full(room)
        if room > 0 and not self._ready:
            busy = self._in_flight or assigned.is_dirty or assigned.is_waiting
            return assigned.read(room, min(timeout_s, BUSY_POLL_S) if busy else timeout_s)
        count = assigned.read(max(room, 1), 0.0)
        if not count:
            self._answering.wake.wait(min(timeout_s, BUSY_POLL_S))
        return count

    def _advance(self, starting: bool) -> None:
        self._take_completions()
        self._suspects.end_seclusion_when_done(self._in_flight)
        if starting:
            for partition in self._assigned:
                self._decode(partition)
            self._start()

    def _decode(self, partition: PartitionWork) -> None:
        """Decode the records that may be handled now: within the window, and nothing behind a record that must wait."""
        queue = partition.undecoded
        if not queue.records or queue.is_held_up:
            return
        if self._subscribed.is_leaving(partition.topic_partition.topic):
            return
        progress = partition.progress
        while queue.records and progress.has_room_for(queue.records[0].offset):
            record = queue.records[0]
            decoded = queue.decode_first(self._resources.records.decoded)
            if decoded is None:
                return
            queue.remove_first()
            partition.dirty = True
            if progress.take(record.offset):
                if record.offset < progress.read_again_until and self._assigned.read_again.skips(
                    partition.topic_partition, decoded
                ):
                    progress.finish(record.offset)
                else:
                    self._enqueue(partition, record, decoded)
            else:
                self._resources.counters.add("skipped")

    def _enqueue(self, partition: PartitionWork, record: Record, decoded: Event | Unreadable) -> None:
        if isinstance(decoded, Unreadable):
            self._dead_letter(Work(partition=partition, record=record), decoded)
            return
        work = Work(partition=partition, record=record, event=decoded)
        if decoded.id in self._seen_events:
            self._resources.counters.add("duplicates")
        self._seen_events[decoded.id] = None
        if len(self._seen_events) > REMEMBERED_EVENTS:
            self._seen_events.popitem(last=False)
        queue = self._steps.setdefault(decoded.step_id, deque())
        queue.append(work)
        self._queued += 1
        if len(queue) == 1:
            self._ready.append(work)

    # Running

    def _start(self) -> None:
        """Start what is ready while slots are free."""
        if not self._ready:
            return
        batches: list[WorkBatch] = []
        waiting: deque[Work] = deque()
        now_s = self._resources.clock_s()
        while self._ready:
            work = self._ready.popleft()
            if work.not_before_s > now_s or not self._has_route(work):
                waiting.append(work)
                continue
            crashes = work.crashes
            if self._ends_unstarted(work, crashes) or (batches and not crashes and batches[-1].take(work)):
                continue
            is_secluded = crashes > 0 and self._suspects.has_one_crash_left(crashes)
            if self._suspects.reserve(work) if is_secluded else self._resources.pool.reserve():
                batches.append(WorkBatch(work, is_secluded=is_secluded))
            else:
                waiting.append(work)
                if not is_secluded:
                    break
        self._ready.extendleft(reversed(waiting))
        if batches and self._note_starts(batches):
            self._run(batches)

    def _run(self, batches: Sequence[WorkBatch]) -> None:
        answering, pool = self._answering, self._resources.pool
        self._resources.probe("agent.started")
        answering.wake.clear()
        for batch in batches:
            for work in batch.works:
                work.tries += 1
            self._in_flight.update(batch.works)
            pool.run(answering.batch(batch))
        if any(len(batch.works) > 1 for batch in batches):
            answering.wake.wait(BATCH_WAIT_S)

    def _has_route(self, work: Work) -> bool:
        """Give a record that is to start its handler, as it is registered now.

        Returns False when the facet is about to be taken from this member: the event waits for the facet's next agent.
        """
        event = work.event
        assert event is not None
        if self._subscribed.is_leaving(work.record.topic):
            return False
        work.route = self._routes.find(event.event_type)
        return work.route is not None or event.event_type not in self.subscription.facets

    def _ends_unstarted(self, work: Work, crashes: int) -> bool:
        """Answer or skip events that must not run: of cancelled runs, foreign facets, or killers of processes."""
        event = work.event
        assert event is not None
        if self._skips_cancelled and self._resources.cancellations.skips(event, self._resources.clock_s()):
            self._resources.counters.add("cancelled")
            self._finish(work)
            return True
        if event.event_type not in self.subscription.facets:
            if self.subscription.topics.get(work.record.topic, False):
                self._resources.counters.add("skipped")
                self._finish(work)
            else:
                self._in_flight.add(work)
                self._answering.fail_without_handler(work)
            return True
        if self._suspects.has_crashed_too_often(crashes):
            self._dead_letter(work, PoisonEvent(event.id, crashes))
            return True
        return False

    def _note_starts(self, batches: Sequence[WorkBatch]) -> bool:
        """Note which records start; return False when the note cannot be made durable now, so that nothing may start.

        The note is made durable first where an earlier process may have run the record too, or where no commit yet says
        that this process is at work: a record that kills at once must be counted.
        """
        starting = [work for batch in batches for work in batch.works]
        if self._suspects.note_starts(starting):
            return True
        retry_at_s = self._resources.clock_s() + FIRST_BACKOFF_S
        for work in reversed(starting):
            work.is_running = False
            work.partition.progress.pause(work.record.offset)
            if work.partition.is_assigned:
                work.not_before_s = retry_at_s
                self._ready.appendleft(work)
        for batch in batches:
            self._resources.pool.release()
            if batch.is_secluded:
                self._suspects.end_seclusion()
        return False

    def _dead_letter(self, work: Work, error: Unreadable | PoisonEvent) -> None:
        """Dead-letter an event and answer StepFailed for it."""
        self._resources.counters.add("dead_lettered")
        partition, message = work.partition.topic_partition, "%s[%d] offset %d is dead-lettered: %s"
        self._warnings.error(f"dead letters of {partition.topic}", message, *partition, work.record.offset, error)
        self._in_flight.add(work)
        self._answering.dead_letter(work, error)

    # Settling

    def _take_completions(self) -> None:
        for completion in self._answering.take_completions():
            self._take_completion(completion)
        if self._to_send:
            now_s = self._resources.clock_s()
            due = [work for at_s, work in self._to_send if at_s <= now_s]
            self._to_send = [entry for entry in self._to_send if entry[0] > now_s]
            for work in due:
                self._answering.send(work)

    def _take_completion(self, completion: Completion) -> None:
        work = completion.work
        self._assigned.progressed()
        if completion.after is After.RETRY:
            self._in_flight.discard(work)
            self._retry(work, completion.wait_s)
        elif completion.after is After.START_AGAIN:
            self._in_flight.discard(work)
            work.tries -= 1
            self._retry(work, 0.0)
        elif completion.after is After.SEND_AGAIN:
            self._resources.counters.add("resent")
            refused = "an answer of group %s was not acknowledged: %s"
            self._warnings.warning(
                "answers that were not acknowledged", refused, self.subscription.group, completion.error
            )
            self._to_send.append((self._resources.clock_s() + FIRST_BACKOFF_S, work))
        elif completion.after is After.SEND_NEXT and len(work.outgoing) > 1:
            work.outgoing.popleft()
            self._answering.send(work)
        else:
            if completion.after is After.SEND_NEXT:
                self._resources.counters.add("answered" if work.partition.is_assigned else "orphaned")
            self._finish(work)

    def _retry(self, work: Work, wait_s: float) -> None:
        if not work.partition.is_assigned:
            self._next_of_step(work, done=False)
            return
        work.partition.progress.pause(work.record.offset)
        work.not_before_s = self._resources.clock_s() + wait_s
        self._ready.append(work)

    def _finish(self, work: Work) -> None:
        self._in_flight.discard(work)
        self._suspects.forget(work)
        if work.partition.is_assigned:
            work.partition.progress.finish(work.record.offset)
            work.partition.dirty = True
        self._next_of_step(work, done=True)

    def _next_of_step(self, work: Work, *, done: bool) -> None:
        """Give the next record of the step its turn. With `done`, a copy that was read meanwhile has had its turn."""
        step_id = work.step_id
        queue = self._steps.get(step_id) if step_id is not None else None
        if queue is None or queue[0] is not work:
            return
        queue.popleft()
        self._queued -= 1
        if not queue:
            del self._steps[work.step_id or ""]
        elif done and queue[0].is_copy_of(work):
            self._finish(queue[0])
        else:
            self._ready.append(queue[0])
