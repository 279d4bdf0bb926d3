"""Records of writers with schemas of their own, as later releases and other languages have them."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from afl_stream.wire.avro.schema import WriterSchema, parse_schema_text
from afl_stream.wire.codec import Codec
from afl_stream.wire.framing import SingleObjectFraming
from afl_stream.wire.messages import Message
from afl_stream.wire.shapes import shape_of


def schema_of_another_writer(message: Message) -> WriterSchema:
    """Return the schema of a record, with a last field that this release does not know."""
    schema: dict[str, Any] = json.loads(shape_of(type(message).__name__).schema.text)
    schema["fields"].append({"name": "unheard_of", "type": "string"})
    return parse_schema_text(json.dumps(schema))


def written_by_another(codec: Codec, message: Message) -> bytes:
    """Return the record's value by that schema. Who reads it has to look the schema up."""
    body = codec.encode(message)[10:]
    empty_string = b"\x00"
    return SingleObjectFraming().frame(schema_of_another_writer(message).fingerprint, body + empty_string)


def announcement_of(schema: WriterSchema) -> tuple[bytes, bytes]:
    """Key and value of the record that announces a schema."""
    text = schema.text.encode()
    return hashlib.sha256(text).hexdigest().encode(), text
