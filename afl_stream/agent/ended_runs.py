"""Runs that have ended, read from the lifecycle topic for agents that read events again that may be answered."""

from __future__ import annotations

from threading import Lock
from typing import Final

from afl_stream.reading.log_ranges import read_ranges
from afl_stream.transport import (
    Record,
    Stopping,
    TopicPartition,
    Transport,
    TransportError,
    Watermarks,
    is_another_topic,
)
from afl_stream.wire.codec import Codec
from afl_stream.wire.messages import CONTINUED, Event
from afl_stream.wire.run_milestones import RunTimes, milestone_of

#: Milestones after which an earlier event needs no answer: it was answered,
_COMPLETED: Final = "workflow.completed"
#: or its run has failed, or was cancelled or reset, or continued as new. This does not tell whether a handler has had
#: the event.
_FAILED: Final = "workflow.error"
_WITHDRAWALS: Final = frozenset({"workflow.cancelled", "workflow.reset", CONTINUED})
#: Milestones after which an ended run continues, and may wait for its earlier events.
_OPENINGS: Final = frozenset({"workflow.retried", "workflow.rerun"})
_KINDS: Final = frozenset({_COMPLETED, _FAILED}) | _WITHDRAWALS | _OPENINGS
#: Runs that are remembered, the latest; and how long reading may take. Events of unknown runs are handled.
_REMEMBERED: Final = 500_000
_READ_S: Final = 30.0


class EndedRuns:
    """The ended runs on the lifecycle topic, as of the last `read`. Any thread may ask.

    An event belongs to an ended run when it was made before the run's last ending, and the run was not opened again
    after that. For a run whose ending is not on the topic, any more or yet, the answer is no.
    """

    def __init__(self, transport: Transport, codec: Codec, topic: str, *, read_s: float = _READ_S) -> None:
        """Prepare to read. `read_s` limits the time of one `read`."""
        self._transport = transport
        self._codec = codec
        self._topic = topic
        self._read_s = read_s
        self._topic_id = ""
        self._lock = Lock()
        self._completed = RunTimes(_REMEMBERED)
        self._failed = RunTimes(_REMEMBERED)
        self._withdrawn = RunTimes(_REMEMBERED)
        self._positions: dict[TopicPartition, int] = {}

    def read(self) -> str | None:
        """Read what is new on the topic, and return None, or why it could not be read to its end.

        Raises Stopping once the process is told to end.
        """
        with self._lock:
            try:
                self._read()
            except Stopping:
                raise
            except TransportError as error:
                return str(error)
        return None

    @property
    def are_known(self) -> bool:
        """Return whether any ended run is known."""
        return bool(self._completed or self._failed or self._withdrawn)

    def has_ended(self, event: Event) -> bool:
        """Return whether the event's run has ended since the event was made."""
        return self._failed.came_after(event) or self.has_completed(event)

    def has_completed(self, event: Event) -> bool:
        """Return whether the event's run has completed since the event was made, so that the event was answered."""
        return self._completed.came_after(event)

    def was_withdrawn(self, event: Event) -> bool:
        """Return whether the event's run was cancelled or reset, or continued as new, since the event was made."""
        return self._withdrawn.came_after(event)

    def _read(self) -> None:
        admin = self._transport.admin()
        found = admin.topics([self._topic]).get(self._topic)
        if found is None:
            # Only here: an agent loads no module that it does not need.
            from afl_stream.acls import unlisted

            raise unlisted(admin, self._topic)
        if is_another_topic(self._topic_id, found.topic_id):
            self._positions.clear()
        self._topic_id = found.topic_id or self._topic_id
        reader = self._transport.consumer(None)
        try:
            bounds = {
                (partition := TopicPartition(self._topic, number)): reader.watermarks(partition)
                for number in range(found.partitions)
            }
        finally:
            reader.close()
        # Records beyond the end belonged to another topic, also where the broker tells no ids.
        self._positions = {w: read for w, read in self._positions.items() if w in bounds and read <= bounds[w].high}
        ranges = {
            partition: Watermarks(low=max(at.low, self._positions.get(partition, 0)), high=at.high)
            for partition, at in bounds.items()
        }
        for records in read_ranges(self._transport, ranges, self._read_s):
            for record in records:
                self._note(record)
                self._positions[record.topic_partition] = record.offset + 1

    def _note(self, record: Record) -> None:
        milestone = milestone_of(record, self._codec, _KINDS)
        if milestone is None:
            return
        if milestone.kind in _OPENINGS:
            self._completed.forget(milestone.workflow_id)
            self._failed.forget(milestone.workflow_id)
        elif milestone.kind == _COMPLETED:
            self._completed.note(milestone)
        elif milestone.kind == _FAILED:
            self._failed.note(milestone)
        else:
            self._withdrawn.note(milestone)
