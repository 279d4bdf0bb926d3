"""What an audit writes about a record: its line, where it is wanted, and before it a line about missing offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from afl_stream.audit.answers_of_facets import AnswersOfFacets
from afl_stream.audit.filters import AuditFilter
from afl_stream.audit.gaps import Gap
from afl_stream.audit.lines import dead_letter_line, encode_line, gap_line, line_of, lost_line, unreadable_line
from afl_stream.errors import Unreadable
from afl_stream.sensitive.redaction import Redaction
from afl_stream.topics.declared import Topology
from afl_stream.transport import Record
from afl_stream.wire.codec import Codec, addressed
from afl_stream.wire.messages import ExternalEvent

#: In the place of lines: whether the record is wanted is not known yet.
UNDECIDED: Final[list[bytes]] = []


class RecordLines:
    """The lines of the records of one audit. Belongs to the thread that reads."""

    def __init__(
        self,
        topology: Topology,
        codec: Codec,
        wanted: AuditFilter,
        asking_steps: Iterable[str],
        count: Callable[..., None],
        redaction: Redaction,
    ) -> None:
        """Prepare. `count` adds to the counters of the audit; `redaction` hides what is sensitive."""
        self._redaction = redaction
        self._topology = topology
        self._codec = codec
        self._wanted = wanted
        self._count = count
        self._takes_all = wanted.takes_all
        self.answers = AnswersOfFacets(wanted, self.is_of_facets, asking_steps)
        self._in_json = (topology.control(), topology.commands(), topology.external())
        self._of_facets: dict[str, bool] = {}

    def _may_be_json(self, topic: str) -> bool:
        return topic in self._in_json or self._topology.is_facet_topic(topic)

    def is_of_facets(self, topic: str) -> bool:
        """Return whether a topic has events of the wanted facets."""
        found = self._of_facets.get(topic)
        if found is None:
            facets = self._topology.facets_of(topic)
            found = self._of_facets[topic] = any(map(self._wanted.has_facet, facets))
        return found

    def of(self, record: Record) -> list[bytes]:
        """Return the lines of a record: none if it is not wanted, and UNDECIDED while that is not known.

        Raises SchemaUnavailable and NewerFormat: the record has to wait.
        """
        if self._takes_all:
            line = self._line(record)
        elif not self._wanted.takes_time(record.timestamp_ms) or self._is_of_other_facets(record.topic):
            self._count(dropped=1)
            return []
        else:
            line = self._line(record)
            takes = self.answers.takes(record, line) if self._wanted.takes_workflow(line) else False
            if takes is None:
                return UNDECIDED
            if not takes:
                self._count(dropped=1)
                return []
            self.answers.note_event(line)
        self._count(written=1, unreadable=line["kind"] == "unreadable")
        return [encode_line(line)]

    def of_gap(self, gap: Gap) -> bytes:
        """Return the line about missing offsets, and count them."""
        if gap.reason is None:
            self._count(lost=gap.found - gap.expected)
            return encode_line(lost_line(gap.partition, gap.expected, gap.found))
        self._count(gaps=1)
        return encode_line(gap_line(gap.partition, gap.expected, gap.found, gap.reason))

    def _is_of_other_facets(self, topic: str) -> bool:
        """Return whether all records of a topic are events of facets that are not wanted."""
        return bool(self._wanted.facets) and self._topology.is_facet_topic(topic) and not self.is_of_facets(topic)

    def _line(self, record: Record) -> Mapping[str, object]:
        if self._topology.is_dead_letters(record.topic):
            return dead_letter_line(record)
        try:
            message = self._codec.decode(record.value, record.headers, json_allowed=self._may_be_json(record.topic))
            if isinstance(message, ExternalEvent):
                message = addressed(message, record.key)
        except Unreadable as error:
            return unreadable_line(record, error.reason.value, error.detail)
        return line_of(record, self._redaction.message(message, record.headers))
