"""How long topics keep events, by the topics' own settings."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from afl.core.clock import Clock
from afl_stream.topics.declared import Topology
from afl_stream.transport import Admin, TopicDescription, TransportError

_log = logging.getLogger(__name__)

#: How long what was asked is used.
_ASKED_EVERY_S: Final = 600.0
#: How long an error is left alone.
_AFTER_ERROR_S: Final = 60.0


class TopicRetention:
    """The topics of events whose records are deleted in time, asked for again now and then. Belongs to one thread."""

    def __init__(self, admin: Admin, topology: Topology, clock: Clock) -> None:
        self._admin = admin
        self._topology = topology
        self._clock = clock
        self._next_s = float("-inf")
        self._halves: Mapping[str, int] = {}

    def halves_ms(self) -> Mapping[str, int]:
        """Return half of the retention of each topic of events, in milliseconds; without those that keep all records.

        While the broker does not tell, what it has told last.
        """
        now_s = self._clock.monotonic_s()
        if now_s >= self._next_s:
            try:
                names = [name for name in self._admin.topic_names() if self._topology.is_facet_topic(name)]
                described = self._admin.topics(names).values() if names else ()
                self._halves = {topic.name: half for topic in described if (half := _half_ms(topic)) is not None}
                self._next_s = now_s + _ASKED_EVERY_S
            except TransportError as error:
                self._next_s = now_s + _AFTER_ERROR_S
                _log.warning("the retention of the topics is not known, and is asked for again: %s", error)
        return self._halves


def _half_ms(topic: TopicDescription) -> int | None:
    """Return half of a topic's retention; None: it is unlimited, or not known."""
    settings = topic.settings
    if "delete" not in settings.get("cleanup.policy", "delete"):
        return None
    try:
        retention_ms = int(settings.get("retention.ms", "-1"))
    except ValueError:
        return None
    return max(1, retention_ms // 2) if retention_ms > 0 else None
