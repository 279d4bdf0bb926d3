"""Answers to the events of certain facets: which they are is known once the events before them are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from afl_stream.audit.filters import AskingSteps, AuditFilter
from afl_stream.transport import Consumer, Record, TopicPartition


class AnswersOfFacets:
    """Says which answers are to events of the wanted facets. Belongs to the thread that reads.

    An answer names its step, and no facet. The event of that step was in its topic before the answer was, so once the
    facets' topics are read to an end that was asked for after the answer was read, its facet is known: the event was
    seen, or it is another facet's. Without a filter by facet nothing is asked.
    """

    def __init__(self, wanted: AuditFilter, is_of_facets: Callable[[str], bool], known: Iterable[str]) -> None:
        """Prepare. `is_of_facets` says whether a topic has events of the facets; `known`: steps of earlier ones."""
        self._wanted = wanted
        self._is_of_facets = is_of_facets
        self._steps = AskingSteps(known)
        #: The ends that were asked for and are not reached yet.
        self._ends: dict[TopicPartition, int] = {}
        #: The last record of each partition that was read before these ends were asked for, and before earlier ones.
        self._asked_behind: dict[TopicPartition, int] = {}
        self._decided_to: dict[TopicPartition, int] = {}

    def note_event(self, line: Mapping[str, object]) -> None:
        """Remember the step of an event that is wanted."""
        if line["kind"] == "event":
            self._steps.note(str(line["step"]))

    def takes(self, record: Record, line: Mapping[str, object]) -> bool | None:
        """Return whether a line is of the facets; None: that is not known yet."""
        if not self._wanted.facets or line["kind"] in ("lost", "gap"):
            return True
        facet = line.get("facet")
        if facet is not None:
            return self._wanted.has_facet(str(facet))
        if line["kind"] == "answer":
            if line.get("step") in self._steps:
                return True
            return False if record.offset <= self._decided_to.get(record.topic_partition, -1) else None
        return line["kind"] in ("unreadable", "dead_letter") and self._is_of_facets(
            str(line.get("original_topic") or record.topic)
        )

    def ask(self, consumer: Consumer, read: Mapping[TopicPartition, int]) -> None:
        """Ask where the facets' topics end now. `read` are the last records of all partitions that wait.

        Raises what the transport raises.
        """
        if self._asked_behind:
            return
        bounds = {p: consumer.watermarks(p) for p in consumer.assignment() if self._is_of_facets(p.topic)}
        self._ends = {partition: found.high for partition, found in bounds.items() if found.low < found.high}
        self._asked_behind = dict(read)

    def look(self, consumer: Consumer, waiting: Iterable[TopicPartition]) -> None:
        """Note which of the ends are reached; `waiting` are the partitions with records that are not written yet."""
        if not self._asked_behind:
            return
        assigned, waiting = consumer.assignment(), frozenset(waiting)
        for partition in list(self._ends):
            if partition not in assigned:
                del self._ends[partition]  # Another member reads it: what it has is not for this sink.
            elif partition not in waiting and consumer.position(partition) >= self._ends[partition]:
                del self._ends[partition]
        if not self._ends:
            self._decided_to.update(self._asked_behind)
            self._asked_behind = {}
