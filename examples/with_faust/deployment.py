"""Where the deployment is: the settings that its other services have in their environment too."""

import os
from typing import Final

BOOTSTRAP: Final = os.environ.get("AFL_KAFKA_BOOTSTRAP", "localhost:9092")
PREFIX: Final = os.environ.get("AFL_PREFIX", "afl.")
#: How many partitions the topics have: a table of Faust has as many as the topic that fills it.
EVENT_PARTITIONS: Final = int(os.environ.get("AFL_TOPICS_EVENT_PARTITIONS", "12"))
CONTROL_PARTITIONS: Final = int(os.environ.get("AFL_TOPICS_CONTROL_PARTITIONS", "6"))

CONTROL: Final = f"{PREFIX}control"
SCHEMAS: Final = f"{PREFIX}schemas"


def events_of(facet: str) -> str:
    """Return the topic of a facet's events."""
    return f"{PREFIX}events.{facet}"


def topic_of(workflow: str, topic: str) -> str:
    """Return where a topic of an event-driven workflow is."""
    return f"{PREFIX}pubsub.{workflow}.{topic}"


def broker() -> str:
    """Return the brokers as Faust names them."""
    return ";".join(f"kafka://{address}" for address in BOOTSTRAP.split(","))
