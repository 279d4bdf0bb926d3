"""Which records of the outbox a pause holds back: events of paused facets."""

from __future__ import annotations

from afl.engine.model.store import OutboxRecord
from afl_stream.topics.declared import Topology
from afl_stream.wire.headers import is_event_of
from afl_stream.wire.pauses import Pauses


class HeldEvents:
    """Says of each record whether it is to be published now. Belongs to the loop's thread."""

    def __init__(self, pauses: Pauses, topology: Topology) -> None:
        self._pauses = pauses
        self._topology = topology
        self._version = -1
        #: By topic: whether all of its records are held, or the paused ones of the facets that share it.
        self._topics: dict[str, bool | tuple[str, ...]] = {}

    @property
    def is_active(self) -> bool:
        """Return whether any facet is paused."""
        return self._pauses.holds_facets

    @property
    def version(self) -> int:
        """Return what changes with each change of a pause."""
        return self._pauses.version

    def holds(self, record: OutboxRecord) -> bool:
        """Return whether a record is held back."""
        if not self._pauses.holds_facets:
            return False
        if self._version != self._pauses.version:
            self._version = self._pauses.version
            self._topics.clear()
        held = self._topics.get(record.topic)
        if held is None:
            held = self._topics[record.topic] = self._of_topic(record.topic)
        return held if isinstance(held, bool) else any(is_event_of(record.headers, facet) for facet in held)

    def _of_topic(self, topic: str) -> bool | tuple[str, ...]:
        if not self._topology.is_facet_topic(topic):
            return False
        if self._pauses.of_all is not None:
            return True
        paused = tuple(facet for facet in self._pauses.facets if self._topology.facet(facet) == topic)
        return paused if self._topology.is_shared(topic) else bool(paused)
