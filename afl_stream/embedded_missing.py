"""Topics that a member of a group is subscribed to, and that are not there: each is told of once."""

from __future__ import annotations

from collections.abc import Callable

from afl_stream.transport import UnknownTopic


class MissingTopics:
    """What was told to one member since it subscribed. Under the broker's lock."""

    def __init__(self) -> None:
        self._seen_version = -1
        self._told: set[str] = set()

    def check(self, wanted: frozenset[str], version: int, has_topic: Callable[[str], bool]) -> None:
        """Look again when topics have come or gone: `version` is another one then. Raises UnknownTopic."""
        if self._seen_version == version:
            return
        for topic in sorted(wanted):
            if has_topic(topic):
                self._told.discard(topic)
            elif topic not in self._told:
                self._told.add(topic)
                raise UnknownTopic(topic)
        self._seen_version = version
