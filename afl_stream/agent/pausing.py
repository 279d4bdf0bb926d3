"""The facets that are paused, as an agent learns of them: it starts none of their events, and reads no more of them."""

from __future__ import annotations

import logging
from typing import Final

from afl.core.process.stopping import PROCESS_STOP
from afl_stream.errors import NewerFormat, SchemaUnavailable, Unreadable
from afl_stream.reading.topic_log import TopicLog
from afl_stream.topics.declared import Topology
from afl_stream.transport import Transport, TransportError
from afl_stream.wire.codec import Codec
from afl_stream.wire.messages import PAUSE_KEY_PREFIX, Pause
from afl_stream.wire.pauses import Pauses

_log = logging.getLogger(__name__)

#: How often new records are taken, which the broker sends by itself, and how often it is asked whether those are all.
_TAKE_S: Final = 0.5
_ASK_S: Final = 10.0
#: How long the last answer counts.
_KNOWN_FOR_S: Final = 60.0
_PREFIX: Final = PAUSE_KEY_PREFIX.encode()


class PausedFacets:
    """Follows the pauses on the definitions topic. Belongs to the thread that runs the agent.

    An agent that may not read this topic, or a deployment that has none, has no pauses: that is logged once.
    """

    def __init__(self, transport: Transport, codec: Codec, topology: Topology) -> None:
        self._transport = transport
        self._codec = codec
        self._topology = topology
        self._log = TopicLog(transport, topology.definitions())
        self._pauses = Pauses()
        self._taken_s = self._asked_s = float("-inf")
        self._is_readable = True
        self._topics: frozenset[str] = frozenset()
        #: Changes whenever a pause does.
        self.version = 0
        #: Whether any facet is paused: an attribute, because it is asked for each turn.
        self.is_active = False

    def begin(self) -> None:
        """Read what is paused, before the first event is started. Raises SchemaUnavailable: wait and try again."""
        admin = self._transport.admin()
        if self._log.topic not in admin.topic_names():
            self._is_readable = False
            # Only here: an agent loads no module that it does not need.
            from afl_stream.acls import hidden_among, hidden_topic

            if hidden_among(admin, [self._log.topic]):
                _log.warning("pauses of facets are not followed: %s", hidden_topic(self._log.topic))
            return
        self._read(ask=True)

    def look_when_due(self, now_s: float) -> None:
        """Take in what is new, from time to time. A broker that does not answer is asked again later."""
        if now_s - self._taken_s < _TAKE_S or not self._is_readable:
            return
        self._taken_s = now_s
        ask = now_s - self._asked_s >= _ASK_S
        if ask:
            self._asked_s = now_s
        try:
            self._read(ask=ask)
        except SchemaUnavailable as error:
            if not PROCESS_STOP.is_set():
                _log.warning("could not look for pauses: %s", error)

    def holds(self, facet: str) -> bool:
        """Return whether events of a facet are not to be started."""
        return self._pauses.of_facet(facet) is not None

    def holds_topic(self, topic: str) -> bool:
        """Return whether nothing of a topic is to be read: all of its events are of paused facets."""
        return self._pauses.of_all is not None or topic in self._topics

    def close(self) -> None:
        """Close what reads the topic."""
        self._log.close()

    def _read(self, *, ask: bool) -> None:
        try:
            records = self._log.read_to_end() if ask else self._log.read_arrived(_KNOWN_FOR_S)
        except TransportError as error:
            self._is_readable = False
            _log.warning("pauses of facets are not followed, as %s cannot be read: %s", self._log.topic, error)
            return
        for key, value in records or ():
            if value is not None and key is not None and key.startswith(_PREFIX):
                self._take(key, value)
        if self.version != self._pauses.version:
            self.version = self._pauses.version
            self.is_active = self._pauses.holds_facets
            paused = {facet: self._topology.facet(facet) for facet in self._pauses.facets}
            # Of a topic that several facets share the others are read on.
            self._topics = frozenset(topic for topic in paused.values() if not self._topology.is_shared(topic))
            _log.info("paused facets: %s", "all" if self._pauses.of_all else ", ".join(sorted(paused)) or "none")

    def _take(self, key: bytes, value: bytes) -> None:
        try:
            message = self._codec.decode(value)
            if isinstance(message, Pause):
                self._pauses.take(key.decode("utf-8", "replace"), message)
        except (Unreadable, NewerFormat) as error:
            _log.warning("%s: the record under %r is ignored: %s", self._log.topic, key, error)
