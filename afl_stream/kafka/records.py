"""Records as confluent-kafka returns them, whatever bytes a broker holds in them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, Final

from confluent_kafka import KafkaError, Message

from afl_stream.transport import Headers, Record, UnreadableHeaders

#: Not `message.headers()`: for a name that is not UTF-8 the client library returns a broken list together with a
#: pending error, and a directly called method would raise that error later, at an unrelated place.
_call_headers: Final = operator.methodcaller("headers")


def records_of(
    messages: Iterable[Message[Any, Any]], take_error: Callable[[KafkaError, Message[Any, Any]], None]
) -> list[Record]:
    """Return the records among these messages; every other message goes to `take_error`."""
    records: list[Record] = []
    for message in messages:
        error = message.error()
        if error is not None:
            take_error(error, message)
            continue
        try:
            # Once: a second call returns the incomplete result of the first.
            found = _call_headers(message)
        except (SystemError, UnicodeDecodeError):
            headers: Headers = UnreadableHeaders()
        else:
            headers = tuple(found) if found else ()
        records.append(
            Record(
                message.topic(),  # type: ignore[arg-type]
                message.partition(),  # type: ignore[arg-type]
                message.offset(),  # type: ignore[arg-type]
                message.key(),
                message.value(),
                headers,
                message.timestamp()[1],
            )
        )
    return records
