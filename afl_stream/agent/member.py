"""One membership of an agent in one group: the way of each record, from reading to the committed offset."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

from afl.core.handlers.routes import RouteTable
from afl.core.text.warning_limits import LimitedLog
from afl_stream.agent.answers import Answering
from afl_stream.agent.completions import After, Completion, PoisonEvent
from afl_stream.agent.crash_suspects import Suspects
from afl_stream.agent.partitions import AssignedPartitions
from afl_stream.agent.resources import AgentResources
from afl_stream.agent.starting import Starting
from afl_stream.agent.step_queues import StepQueues
from afl_stream.agent.subscriptions import Subscription, SubscriptionChange
from afl_stream.agent.work import PartitionWork, Work
from afl_stream.errors import Unreadable
from afl_stream.reading.group_reader import FIRST_BACKOFF_S
from afl_stream.reading.lag import Lag
from afl_stream.transport import Consumer, Record, TopicPartition
from afl_stream.wire.dead_letters import letter_fields, listing_command, reason_of, text_of
from afl_stream.wire.messages import Event

log = logging.getLogger(__name__)

#: How long reading blocks while unfinished records wait for a report.
BUSY_POLL_S: Final = 0.01
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

    All steps happen on the thread that calls `turn`, except 3 and 4, which happen where the handler runs: on a thread
    of the pool, or, if it is known to be quick, on the thread of the turn. One that turns out slow there keeps that
    thread, and another one takes the turns; see InlineBatch. Records whose handlers are quick start in batches, each
    batch on one thread; a slow handler does not hold up the others of its batch.
    """

    def __init__(
        self, resources: AgentResources, consumer: Consumer, subscription: Subscription, routes: RouteTable
    ) -> None:
        self._resources = resources
        self._answering = Answering(resources, subscription.group)
        self._assigned = AssignedPartitions(resources, consumer, subscription.group, self._before_revoke, self._on_drop)
        self._subscribed = SubscriptionChange(subscription, self._assigned, resources, self._answering.wake_up)
        self._steps = StepQueues()
        self._to_send: list[tuple[float, Work]] = []
        self._suspects = Suspects(resources, self._assigned)
        self._starting = Starting(resources, self._answering, self._suspects, routes, self._finish, self._dead_letter)
        self._ready = self._starting.ready
        self._in_flight = self._starting.in_flight
        self._warnings = LimitedLog(log)
        self._seen_events: OrderedDict[str, None] = OrderedDict()
        resources.pool.on_free(self._answering.wake_up)

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

    def leave(self) -> None:
        """Leave the group, in which nothing was read."""
        self._assigned.leave()

    def change(self, subscription: Subscription | None) -> bool:
        """Let the member change its subscription, or leave, in its next turns. Any thread may. False: it has left."""
        return self._subscribed.change(subscription)

    def turn(self, timeout_s: float, *, reading: bool = True, starting: bool = True, inline: bool = False) -> int:
        """Do all that can be done now; wait for reports up to `timeout_s`. Returns how many records were read.

        `inline`: quick handlers may run on this thread, because another thread is there that calls `take_over`. Raises
        OffsetOutOfRange, UnknownTopic, OffsetsLost, TurnsTaken, and the error that ended the agent.
        """
        resources = self._resources
        resources.shutdown.check()
        self._answering.lines.look()
        if self._subscribed.is_changing and self._follow():
            return 0
        self._advance(starting, inline)
        count = self._read(timeout_s, reading)
        self._advance(starting, inline)
        resources.producer.poll(0)
        resources.pool.expire()
        self._take_completions()
        self._assigned.commit_when_due()
        self._assigned.measure_lag()
        resources.shutdown.check()
        return count

    def take_over(self, now_s: float) -> bool:
        """Take the turns from a thread whose handler does not end; return whether that is so. Any thread may call this.

        The caller sees to it that another thread calls `turn`.
        """
        inline = self._starting.inline
        return inline is not None and inline.take_over(now_s)

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

    @property
    def turned_s(self) -> float:
        """When it has had its last turn. Any thread may ask."""
        return self._assigned.turned_s

    @property
    def lags(self) -> Mapping[TopicPartition, Lag]:
        """The lag of each partition, as last measured. Any thread may ask."""
        return self._assigned.lags

    def health(self) -> tuple[tuple[str, ...], int]:
        """Return what is wrong, in words, and the lag. Any thread may call this."""
        return self._assigned.health(len(self._in_flight))

    # Another subscription

    def _follow(self) -> bool:
        """Change the subscription as far as that is possible now, and return whether the group was left."""
        self._take_completions()
        self._subscribed.follow({work.record.topic for work in self._in_flight}, self._commit_topics)
        if self.has_left:
            self._resources.pool.not_on_free(self._answering.wake_up)
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
        kept = [work for work in self._ready if work.partition is not partition]
        self._ready.clear()
        self._ready.extend(kept)
        paused = self._starting.paused
        paused[:] = [work for work in paused if work.partition is not partition]
        self._ready.extend(self._steps.drop(partition, self._in_flight))

    # Reading

    def _read(self, timeout_s: float, reading: bool) -> int:
        assigned = self._assigned
        backoff_s = assigned.backoff_s()
        if backoff_s is not None:
            self._answering.wait(min(backoff_s, timeout_s))
        # A paused partition does not count: it must not keep the others from being read.
        waiting = len(self._steps) - len(self._starting.paused)
        room = self._resources.config.queue_records - waiting + len(self._in_flight) if reading else 0
        assigned.pause_full(room)
        if room > 0 and not self._ready:
            busy = self._in_flight or assigned.is_dirty or assigned.is_waiting
            return assigned.read(room, min(timeout_s, BUSY_POLL_S) if busy else timeout_s)
        count = assigned.read(max(room, 1), 0.0)
        if not count and not self._starting.has_more:
            self._answering.wait(min(timeout_s, BUSY_POLL_S))
        return count

    def _advance(self, starting: bool, inline: bool) -> None:
        self._take_completions()
        self._suspects.end_seclusion_when_done(self._in_flight)
        if starting:
            for partition in self._assigned:
                if partition.undecoded.records:
                    self._decode(partition)
            self._starting.start(self._subscribed.subscription, inline=inline)

    def _decode(self, partition: PartitionWork) -> None:
        """Decode the records that may be handled now: within the window, and nothing behind a record that must wait."""
        queue, progress, resources = partition.undecoded, partition.progress, self._resources
        if queue.is_held_up or self._subscribed.is_leaving(partition.topic_partition.topic):
            return
        found = queue.decode_below(progress.end_of_window(queue.records[0].offset), resources.records.decoded)
        if not found:
            return
        partition.dirty = True
        repeated = progress.take_all([record.offset for record, _ in found]).repeated
        if repeated:
            resources.counters.add("skipped", len(repeated))
        read_again_until = progress.read_again_until
        for record, decoded in found:
            offset = record.offset
            if repeated and offset in repeated:
                continue
            if offset < read_again_until and self._assigned.read_again.skips(partition.topic_partition, decoded):
                progress.finish(offset)
            else:
                self._enqueue(partition, record, decoded)

    def _enqueue(self, partition: PartitionWork, record: Record, decoded: Event | Unreadable) -> None:
        if isinstance(decoded, Unreadable):
            self._dead_letter(Work(partition, record), decoded)
            return
        work = Work(partition, record, decoded)
        if partition.progress.failed_tries:
            work.earlier_tries = partition.progress.failed_tries.get(record.offset, 0)
        seen, event_id = self._seen_events, decoded.id
        if event_id in seen:
            self._resources.counters.add("duplicates")
        seen[event_id] = None
        if len(seen) > REMEMBERED_EVENTS:
            seen.popitem(last=False)
        if self._steps.add(decoded.step_id, work):
            self._ready.append(work)

    def _dead_letter(self, work: Work, error: Unreadable | PoisonEvent) -> None:
        """Dead-letter an event and answer StepFailed for it."""
        record, reason = work.record, reason_of(error)
        self._resources.counters.add_dead_letter(reason)
        self._warnings.error(
            f"dead letters of {record.topic}, {reason}",
            "%s[%d] offset %d is dead-lettered: %s: %s; it is listed by: %s",
            record.topic,
            record.partition,
            record.offset,
            reason,
            text_of(error),
            listing_command(record, reason),
            extra=letter_fields(record, reason),
        )
        self._in_flight.add(work)
        self._answering.dead_letter(work, error)

    # Settling

    def _take_completions(self) -> None:
        for completion in self._answering.take_completions():
            self._take_completion(completion)
        if acknowledged := self._answering.take_acknowledged():
            self._take_acknowledged(acknowledged)
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
            if work.partition.is_assigned:
                work.partition.progress.failed_tries[work.record.offset] = work.earlier_tries + work.tries
                work.partition.dirty = True
            self._retry(work, completion.wait_s)
        elif completion.after is After.START_AGAIN:
            self._in_flight.discard(work)
            work.is_running = False
            work.tries -= 1
            self._retry(work, 0.0)
        elif completion.after is After.NOTE_START:
            if work.is_running and work.partition.is_assigned:
                work.partition.progress.start(work.record.offset, work)
                work.partition.dirty = True
        elif completion.after is After.SEND_AGAIN:
            self._resources.counters.add("resent")
            refused = "an answer of group %s was not acknowledged: %s"
            self._warnings.warning(
                "answers that were not acknowledged", refused, self.subscription.group, completion.error
            )
            self._to_send.append((self._resources.clock_s() + FIRST_BACKOFF_S, work))
        elif completion.after is After.DROP:
            self._drop_answer(work)
        else:
            self._finish(work)

    def _take_acknowledged(self, works: Sequence[Work]) -> None:
        """Finish the records whose answers are acknowledged, and send what else is to be sent for one."""
        self._assigned.progressed()
        if self._resources.config.observer is not None:
            self._resources.config.observer.answered(works)
        finished: dict[PartitionWork, list[int]] = {}
        for work in works:
            if len(work.outgoing) > 1:
                work.outgoing.pop(0)
                self._answering.send(work)
                continue
            self._in_flight.discard(work)
            if work.tries > 1:
                self._resources.failed_tries.ended(work.step_id)
            offsets = finished.get(work.partition)
            if offsets is None:
                offsets = finished[work.partition] = []
            offsets.append(work.record.offset)
            if self._suspects.is_waiting:
                self._suspects.forget(work)
            if (turned := self._steps.end_turn(work)) is not None:
                self._give_turn(work, turned)
        for partition, offsets in finished.items():
            if partition.is_assigned:
                partition.progress.finish_all(offsets)
                partition.dirty = True
            self._resources.counters.add("answered" if partition.is_assigned else "orphaned", len(offsets))

    def _drop_answer(self, work: Work) -> None:
        """Leave out the answer of a lost partition: its owner answers. If that is this member, it has the answer."""
        self._in_flight.discard(work)
        self._suspects.forget(work)
        turned = self._steps.end_turn(work)
        if turned is not None and turned.is_copy_of(work):
            # Its partition has come back, and the record was read again meanwhile.
            turned.outgoing, turned.tries, turned.earlier_tries = work.outgoing, work.tries, work.earlier_tries
            self._in_flight.add(turned)
            self._answering.send(turned)
            return
        self._resources.counters.add("dropped")
        if turned is not None:
            self._ready.append(turned)

    def _retry(self, work: Work, wait_s: float) -> None:
        if not work.partition.is_assigned:
            self._resources.failed_tries.ended(work.step_id)
            if (turned := self._steps.end_turn(work)) is not None:
                self._ready.append(turned)
            return
        work.partition.progress.pause(work.record.offset)
        work.not_before_s = self._resources.clock_s() + wait_s
        self._ready.append(work)

    def _finish(self, work: Work) -> None:
        self._in_flight.discard(work)
        self._resources.failed_tries.ended(work.step_id)
        self._suspects.forget(work)
        if work.partition.is_assigned:
            work.partition.progress.finish(work.record.offset)
            work.partition.dirty = True
        if (turned := self._steps.end_turn(work)) is not None:
            self._give_turn(work, turned)

    def _give_turn(self, done: Work, turned: Work) -> None:
        """Make the next record of a step ready. A copy of the one that is done has had its turn with it."""
        if turned.is_copy_of(done):
            self._finish(turned)
        else:
            self._ready.append(turned)
