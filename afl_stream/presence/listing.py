"""Who is there, by the topic of presence."""

from __future__ import annotations

from contextlib import closing

from afl_stream.presence.records import Presence, decode
from afl_stream.reading.topic_log import TopicLog
from afl_stream.transport import Transport


def read_presence(transport: Transport, topic: str) -> list[Presence]:
    """Return the latest record of each process that has not signed off, also of those that are gone.

    None at all where the topic does not exist. Raises SchemaUnavailable when the broker does not answer.
    """
    if topic not in transport.admin().topic_names():
        return []
    latest: dict[bytes, Presence] = {}
    with closing(TopicLog(transport, topic)) as log:
        for key, value in log.read_to_end():
            if key is None:
                continue
            found = decode(key, value)
            if found is not None:
                latest[key] = found
            elif value is None:
                latest.pop(key, None)
    return sorted(latest.values(), key=lambda found: (found.kind, found.name, found.id))
