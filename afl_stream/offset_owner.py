"""The topic that a committed offset belongs to: its id is in the commit's metadata, before the reader's own notes.

A topic that is deleted and recreated has the same name and other records. A commit names only the name, so a commit for
the old topic would count for the new one, and the next reader would skip its first records.
"""

from __future__ import annotations

import re
from typing import Final

#: Logged when a topic is recreated while a member of the group reads it: group, topic.
TOPIC_RECREATED: Final = (
    "group %s: %s was deleted and recreated while it was read; the earlier topic's unhandled records are gone, and "
    "the new one is read from its beginning"
)

_FORM: Final = re.compile(r"topic=(\S{1,64})(?: (.*))?\Z", re.DOTALL)


def with_topic(topic_id: str, metadata: str) -> str:
    """Return the metadata to commit for a topic of this id; "": the broker tells no id."""
    if not topic_id:
        return metadata
    return f"topic={topic_id} {metadata}" if metadata else f"topic={topic_id}"


def without_topic(text: str) -> tuple[str, str]:
    """Return the topic's id in committed metadata, "" if it has none, and the rest of the metadata."""
    match = _FORM.match(text)
    return ("", text) if match is None else (match[1], match[2] or "")
