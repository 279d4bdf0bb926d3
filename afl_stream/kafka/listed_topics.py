"""Topics as a broker lists them: there, missing, or there with an error that passes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ClusterMetadata, TopicMetadata  # type: ignore[attr-defined]  # documented, not exported

from afl_stream.kafka.error_codes import Decision, codes_of

#: The errors of a listed topic that does not exist for this user. With any other one it exists.
_NOT_THERE: Final = codes_of(Decision.UNKNOWN_TOPIC, Decision.NOT_ALLOWED)


def names_in(listed: ClusterMetadata) -> frozenset[str]:
    """Return the names of the topics that exist, also of those that cannot be read right now."""
    return frozenset(name for name, topic in listed.topics.items() if _exists(topic))


def topics_in(listed: ClusterMetadata, names: Collection[str] | None) -> Mapping[str, TopicMetadata]:
    """Return the topics of these names that exist, or all that exist.

    Raises KafkaException for one of which the broker says only that something is wrong, such as that it has no leader
    yet: its partitions are not known.
    """
    found = {
        name: topic for name in names_in(listed) if names is None or name in names for topic in [listed.topics[name]]
    }
    for name, topic in sorted(found.items()):
        if topic.error is not None:
            raise KafkaException(KafkaError(topic.error.code(), f"topic {name}: {topic.error.str()}"))
    return found


def _exists(topic: TopicMetadata) -> bool:
    return topic.error is None or topic.error.code() not in _NOT_THERE
