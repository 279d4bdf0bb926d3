"""Records as confluent-kafka returns them, whatever bytes a broker holds in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import KafkaError, Message

from afl.core.row_maker import row_maker
from afl_stream.transport import Headers, Record, UnreadableHeaders

_new_record = row_maker(Record, "topic", "partition", "offset", "key", "value", "headers", "timestamp_ms")


def records_of(
    messages: Iterable[Message[Any, Any]], take_error: Callable[[KafkaError, Message[Any, Any]], None]
) -> list[Record]:
    """Return the records among these messages; every other message goes to `take_error`."""
    good: list[Message[Any, Any]] = []
    for message in messages:
        error = message.error()
        if error is not None:
            take_error(error, message)
        else:
            good.append(message)
    # Not `message.headers()`: for a name that is not UTF-8 the client library returns a broken list together with a
    # pending error, and a directly called method would raise that error later, at an unrelated place. A map looks at
    # the result of each call. And once: a second call returns the incomplete result of the first.
    next_headers = map(Message.headers, good).__next__
    new, records = _new_record, list[Record]()
    for message in good:
        try:
            found = next_headers()
        except (SystemError, UnicodeDecodeError):
            headers: Headers = UnreadableHeaders()
        else:
            headers = tuple(found) if found else ()  # type: ignore[arg-type]  # pairs of a text and bytes, as they were read
        records.append(
            new((
                message.topic(),
                message.partition(),
                message.offset(),
                message.key(),
                message.value(),
                headers,
                message.timestamp()[1],
            ))
        )  # fmt: skip
    return records
