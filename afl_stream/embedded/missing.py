"""Topics that a group's member is subscribed to or has read, and that do not exist: each is reported once."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from afl_stream.transport import UnknownTopic


class MissingTopics:
    """The missing topics that were reported to one member since it subscribed. Under the broker's lock."""

    def __init__(self) -> None:
        self._seen_version = -1
        self._reported: set[str] = set()
        #: Topics that a pattern has found, and that the member was given partitions of.
        self._found: set[str] = set()

    def note_found(self, topics: Iterable[str]) -> None:
        """Note that these topics exist: the member was assigned partitions of them."""
        given = set(topics)
        self._found |= given
        self._reported -= given

    def check(self, wanted: frozenset[str], version: int, has_topic: Callable[[str], bool]) -> None:
        """Check again if topics have come or gone since: `version` has changed then. Raises UnknownTopic."""
        if self._seen_version == version:
            return
        for topic in sorted(wanted | self._found):
            if has_topic(topic):
                self._reported.discard(topic)
            elif topic not in self._reported:
                self._reported.add(topic)
                raise UnknownTopic(topic)
        # A topic that a pattern has found is not wanted any more once it is gone.
        self._found -= self._reported
        self._seen_version = version
