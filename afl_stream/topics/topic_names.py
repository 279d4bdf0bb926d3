"""Names of topics: which are legal in Kafka, and which Kafka would not tell apart."""

from __future__ import annotations

import re
from typing import Final

from afl_stream.errors import TopicNameRefused
from afl_stream.limits import MAX_TOPIC_NAME_CHARS

_LEGAL: Final = re.compile(r"[A-Za-z0-9._-]+\Z")


def check_topic_name(name: str) -> str:
    """Return the name unchanged; raise TopicNameRefused when it is invalid in Kafka."""
    if len(name) > MAX_TOPIC_NAME_CHARS:
        raise TopicNameRefused(name, f"{len(name)} characters, Kafka takes {MAX_TOPIC_NAME_CHARS}")
    if name in (".", "..") or not _LEGAL.match(name):
        raise TopicNameRefused(name, "Kafka takes A-Z a-z 0-9 . _ - and neither '.' nor '..'")
    return name


def claim(claimed: dict[str, tuple[str, str]], topic: str, owner: str) -> None:
    """Note who has a topic; raise TopicNameRefused when that, or a name that Kafka mistakes for it, is another's."""
    other_topic, other = claimed.setdefault(topic.replace(".", "_"), (topic, owner))
    if other_topic != topic:
        raise TopicNameRefused(topic, f"Kafka's metrics would not tell it from {other_topic}, the topic of {other}")
    if other != owner:
        raise TopicNameRefused(topic, f"of {owner}, is already the topic of {other}; share it in topics/facet.toml")


def quoted(text: str) -> str:
    """Return a text for a regular expression of librdkafka."""
    # Only dots can be special here. re.escape would quote hyphens, which librdkafka's expressions do not take.
    return text.replace(".", "\\.")
