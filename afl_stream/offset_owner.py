"""Which topic a committed offset is of: its id travels in the commit's metadata, in front of what the reader notes.

A topic that is deleted and made again has the same name and other records. A commit names no more than the name, so one
that was on its way is taken for the new topic, and whoever reads that next would skip its first records.
"""

from __future__ import annotations

import re
from typing import Final

#: Told when a topic is seen to be another one while a member of the group reads it: group, topic.
MADE_ANEW: Final = (
    "group %s: %s was deleted and made again while it was read; what was not handled of the earlier one is gone, and "
    "the new one is read from its beginning"
)

_FORM: Final = re.compile(r"topic=(\S{1,64})(?: (.*))?\Z", re.DOTALL)


def with_topic(topic_id: str, metadata: str) -> str:
    """The metadata to commit for a topic of this id; "": the broker tells none."""
    if not topic_id:
        return metadata
    return f"topic={topic_id} {metadata}" if metadata else f"topic={topic_id}"


def without_topic(text: str) -> tuple[str, str]:
    """The topic's id that committed metadata names, "" where it names none, and the rest of it."""
    match = _FORM.match(text)
    return ("", text) if match is None else (match[1], match[2] or "")
