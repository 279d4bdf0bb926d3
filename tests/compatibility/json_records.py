"""Answers, commands and external events as JSON, as a writer without Avro sends them."""

import dataclasses
import json
from typing import Any, Final

from afl_stream.wire.messages import FailureReason, Message

JSON_CONTENT: Final = b"application/json"


def encode_json(message: Message) -> bytes:
    """Return a record as JSON with its type; what is null by default is left out."""
    entries: dict[str, Any] = {"type": type(message).__name__}
    for field in dataclasses.fields(message):
        value = getattr(message, field.name)
        if value is None and field.default is None:
            continue
        if isinstance(value, FailureReason):
            value = {"type": value.type, "message": value.message}
        entries[field.name] = value
    return json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
