"""Groups without committed offsets whose topics hold records: a new group, or one whose offsets are lost.

Brokers drop the offsets of a group that has had no members for `offsets.retention.minutes`, 7 days unless set. The
broker then answers as for a group that never existed. The records tell the two apart: if the topics hold events of runs
that have completed since, an agent has handled them, so the group's offsets are taken for lost.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Final

from afl_stream.agent.resources import AgentResources
from afl_stream.errors import NewerFormat, SchemaUnavailable, StreamError, Unreadable
from afl_stream.reading.log_ranges import NotReadInTime, read_ranges
from afl_stream.reading.lost_offsets import DROPPED, in_words, uncommitted_ranges
from afl_stream.transport import CommittedOffset, Consumer, TopicPartition, Watermarks
from afl_stream.wire.messages import Event

log = logging.getLogger(__name__)

#: The number of each partition's oldest records that are read before any is handled, and the time limit for that.
_LOOKED_AT: Final = 200
_LOOK_S: Final = 10.0
#: Why offsets are taken for lost.
_LOST: Final = f"its topics hold events of completed runs, which were handled: {DROPPED}"
_UNKNOWN: Final = (
    "it is not known whether brokers have dropped them (offsets.retention.minutes) or the group is new, nor which "
    "runs have ended"
)


class OffsetsLost(StreamError):
    """A group has no committed offsets, and its topics hold events that were handled."""

    def __init__(self, group: str, ranges: Mapping[TopicPartition, Watermarks], why: str) -> None:
        """Build the message from the ranges, and from `why` the offsets are taken for lost."""
        topics = sorted({partition.topic for partition in ranges})
        options = " ".join(f"--topic {topic}" for topic in topics)
        super().__init__(
            f"group {group} has no committed offsets for {in_words(ranges)}, and {why}. It reads nothing, as "
            'agent.lost_offsets says. With "continue" (AFL_AGENT_LOST_OFFSETS=continue) it reads all of that '
            "again and skips the events of ended runs; to start elsewhere, set its offsets: "
            f"kafka-consumer-groups.sh --group {group} {options} --reset-offsets --to-datetime "
            "2026-01-31T00:00:00.000 --execute"
        )
        self.group, self.ranges = group, dict(ranges)


class ReadAgain:
    """The records that one member reads and that may have been handled before. Belongs to the member's thread."""

    def __init__(self, resources: AgentResources, group: str) -> None:
        self._resources = resources
        self._group = group
        self._refuses = resources.config.stream.agent.lost_offsets == "refuse"
        #: Partitions read from their beginning without an offset, and not logged as lost.
        self._unreported: dict[TopicPartition, Watermarks] = {}

    def ends(
        self,
        consumer: Consumer,
        partitions: Collection[TopicPartition],
        committed: Mapping[TopicPartition, CommittedOffset],
        noted: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, int]:
        """Return, for each assigned partition, the offset up to which records may have been handled before.

        Partitions without such records are left out. `noted` are the ends that an earlier process has noted, of
        partitions with an offset. Raises OffsetsLost where offsets are lost and that is refused, Stopping once the
        process is told to end, and what the transport raises.
        """
        uncommitted = uncommitted_ranges(consumer, partitions, committed)
        if not uncommitted and not noted:
            return {}
        why_unknown = self._resources.ended_runs.read()
        if uncommitted:
            self._judge(uncommitted, why_unknown)
        elif why_unknown is not None:
            log.warning(
                "group %s reads %s again, as an earlier process of it had begun to; it is not known which runs have "
                "ended, so their events may be handled once more: %s",
                self._group, ", ".join(sorted({partition.topic for partition in noted})), why_unknown,
            )  # fmt: skip
        # Of a new group of a deployment where nothing has ended nothing has to be noted.
        if why_unknown is None and not self._resources.ended_runs.are_known:
            return dict(noted)
        return {**noted, **{partition: bounds.high for partition, bounds in uncommitted.items()}}

    def _judge(self, uncommitted: Mapping[TopicPartition, Watermarks], why_unknown: str | None) -> None:
        """Log whether partitions without an offset are taken for new or for lost."""
        if why_unknown is not None:
            if self._refuses:
                raise OffsetsLost(self._group, uncommitted, f"{_UNKNOWN}: {why_unknown}")
            log.warning(
                "group %s has no committed offsets for %s, and handles all events that are not known to belong to "
                "an ended run, because %s: %s",
                self._group, in_words(uncommitted), _UNKNOWN, why_unknown,
            )  # fmt: skip
            return
        try:
            are_lost = self._stand_answered_among(uncommitted)
        except NotReadInTime as error:
            if self._refuses:
                raise OffsetsLost(self._group, uncommitted, f"{_UNKNOWN}: {error}") from error
            log.warning("group %s has no committed offsets, and counts as new: %s", self._group, error)
            are_lost = False
        if are_lost:
            self._report_lost(uncommitted)
        else:
            self._unreported.update(uncommitted)
            log.info(
                "group %s is new to %s, and starts at the beginning of the log", self._group, in_words(uncommitted)
            )

    def _stand_answered_among(self, uncommitted: Mapping[TopicPartition, Watermarks]) -> bool:
        """Return whether an event of a completed run is among the oldest records."""
        if not self._resources.ended_runs.are_known:
            return False
        oldest = {
            partition: Watermarks(low=bounds.low, high=min(bounds.high, bounds.low + _LOOKED_AT))
            for partition, bounds in uncommitted.items()
        }
        for records in read_ranges(self._resources.transport, oldest, _LOOK_S):
            for record in records:
                try:
                    event = self._resources.records.decode(record)
                except (StreamError, SchemaUnavailable, NewerFormat):
                    continue  # Handling it reports what is wrong with it.
                if self._resources.ended_runs.has_completed(event):
                    return True
        return False

    def skips(self, partition: TopicPartition, event: Event | Unreadable) -> bool:
        """Return whether a record of such a range belongs to an ended run and is skipped. Raises OffsetsLost."""
        if isinstance(event, Unreadable):
            return False
        if not self._resources.ended_runs.has_ended(event):
            return self._is_withdrawn(event)
        if partition in self._unreported and self._resources.ended_runs.has_completed(event):
            self._report_lost(dict(self._unreported))
            self._unreported.clear()
        self._resources.counters.add("ended")
        return True

    def _is_withdrawn(self, event: Event) -> bool:
        """Return whether the event's run was cancelled or reset, also where the agent's look at the topic's end missed
        it.
        """
        if not (self._resources.config.stream.agent.skip_cancelled and self._resources.ended_runs.was_withdrawn(event)):
            return False
        self._resources.cancellations.tell_skipped(event.workflow_id)
        self._resources.counters.add("cancelled")
        return True

    def _report_lost(self, ranges: Mapping[TopicPartition, Watermarks]) -> None:
        if self._refuses:
            raise OffsetsLost(self._group, ranges, _LOST)
        log.warning(
            "group %s has no committed offsets for %s, and %s. All of it is read again: events of ended runs are "
            "skipped, the others are handled, some perhaps a second time (agent.lost_offsets)",
            self._group, in_words(ranges), _LOST,
        )  # fmt: skip
