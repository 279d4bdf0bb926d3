"""The value and headers of what is published: JSON, one of our records, or bytes."""

from __future__ import annotations

import json
import uuid
from typing import Final, get_args

from afl.core.clock import epoch_ms
from afl.core.text.exception_text import exception_line
from afl_stream.pubsub.errors import DataRefused, SubscriptionInvalid
from afl_stream.transport import Headers
from afl_stream.wire.codec import CONTENT_TYPE_HEADER, Codec
from afl_stream.wire.headers import SPEC_VERSION, headers_for, rfc3339
from afl_stream.wire.messages import Message

#: The classes of our own records.
_RECORDS: Final = get_args(Message)
_JSON: Final = (CONTENT_TYPE_HEADER, b"application/json")


class Encoder:
    """Encodes what one publisher publishes. What it makes itself has CloudEvents headers; bytes have those given."""

    def __init__(self, source: str, codec: Codec | None) -> None:
        self._source = source
        self._source_header = ("ce_source", source.encode())
        self._codec = codec
        self._id = uuid.uuid4().hex
        self._number = 0
        self._types: dict[str, tuple[str, bytes]] = {}

    def is_ready_for(self, topic: str, data: object) -> bool:
        """Return whether `encode` would ask no one; else call `announce` before, on a thread that may wait."""
        codec = self._codec
        return codec is None or not isinstance(data, _RECORDS) or codec.has_announced(data, topic)

    def announce(self, topic: str, data: object) -> None:
        """Announce the schema of one of our records. Raises SchemaUnavailable."""
        if self._codec is not None and isinstance(data, _RECORDS):
            self._codec.announce(data, topic)

    def encode(self, topic: str, data: object, headers: Headers) -> tuple[bytes | None, Headers]:
        """Return the record's value and headers; a header that is given replaces the one of that name.

        Raises DataRefused for data without a JSON form.
        """
        if data is None or isinstance(data, bytes):
            return data, headers
        if isinstance(data, _RECORDS):
            return self._record(topic, data, headers)
        try:
            value = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise DataRefused(topic, exception_line(error)) from error
        return value, _replaced((*self._cloud_event(topic), _JSON), headers)

    def _record(self, topic: str, data: Message, headers: Headers) -> tuple[bytes, Headers]:
        if self._codec is None:
            raise SubscriptionInvalid("publisher", f"a {type(data).__name__} needs a codec: Publisher(..., codec=...)")
        made = headers_for(data, source=self._source, at_ms=epoch_ms(), form=self._codec.header_form)
        return self._codec.encode(data, topic), _replaced(made, headers)

    def _cloud_event(self, topic: str) -> Headers:
        self._number += 1
        kind = self._types.get(topic)
        if kind is None:
            kind = self._types[topic] = ("ce_type", topic.encode())
        return (
            ("ce_specversion", SPEC_VERSION),
            ("ce_id", b"%s-%d" % (self._id.encode(), self._number)),
            kind,
            self._source_header,
            ("ce_time", rfc3339(epoch_ms()).encode()),
        )


def _replaced(made: Headers, given: Headers) -> Headers:
    if not given:
        return made
    names = {name for name, _ in given}
    return (*(pair for pair in made if pair[0] not in names), *given)
