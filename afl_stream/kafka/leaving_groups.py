"""What a member does before its client is closed, so that the closing calls no callback."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

from confluent_kafka import Consumer as Client
from confluent_kafka import KafkaException

#: How many records may stand before the last callback at a time, and how long all of them may take.
_RECORDS: Final = 1_000
_LONGEST_S: Final = 5.0


def hear_rest(client: Client, *, is_static: bool) -> None:
    """Have the callbacks called that wait in a client. A member that is not static leaves: it has none after that.

    librdkafka may wait for ever for what a callback says to an assignment while the client is closed: an answer that it
    reads after the end of the membership is dropped, and its sender is not told (confluentinc/librdkafka#4884).
    A static member that unsubscribed would leave its group, which is to keep the partitions for its return.
    """
    deadline_s = time.monotonic() + _LONGEST_S
    # A client that has failed for good is closed as it is.
    with suppress(KafkaException):
        if not is_static:
            client.unsubscribe()
        while client.consume(_RECORDS, 0) and time.monotonic() < deadline_s:
            """Nobody takes these records."""
