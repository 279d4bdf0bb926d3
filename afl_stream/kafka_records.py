"""Records as confluent-kafka hands them out, whatever a broker holds in them."""

from __future__ import annotations

import operator
from typing import Any, Final

from confluent_kafka import Message

from afl_stream.transport import Headers, Record, UnreadableHeaders

#: Not `message.headers()`: for a name that is no UTF-8 the client library returns a broken list together with a pending
#: error, and a method that is called directly has that error raised later, where it has nothing to do with it.
_call_headers: Final = operator.methodcaller("headers")


def record_of(message: Message[Any, Any]) -> Record:
    """Return the record of a message that is no error."""
    return Record(
        message.topic(),  # type: ignore[arg-type]
        message.partition(),  # type: ignore[arg-type]
        message.offset(),  # type: ignore[arg-type]
        message.key(),
        message.value(),
        _headers_of(message),
        message.timestamp()[1],
    )


def _headers_of(message: Message[Any, Any]) -> Headers:
    # Asked for once: a second call returns what the first has left half made.
    try:
        headers = _call_headers(message)
    except (SystemError, UnicodeDecodeError):
        return UnreadableHeaders()
    return tuple(headers) if headers else ()
