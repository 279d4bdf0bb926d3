"""The data of a message: JSON, a record of ours, or bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from afl.core.text.exception_text import exception_line
from afl_stream.errors import NewerFormat, Reason, SchemaUnavailable, Unreadable
from afl_stream.pubsub.subscriptions.message import Decode, Message
from afl_stream.wire.framing import VALUE_SCHEMA_HEADER
from afl_stream.wire.json_values import read_json_value

if TYPE_CHECKING:
    from afl_stream.wire.codec import Codec

#: The beginnings of our records: Avro's single-object encoding, and the framing of a schema registry.
_RECORD_MARKS: Final = (b"\xc3\x01", b"\x00")


def guarded(decode: Decode) -> Decode:
    """Return a decoder that raises Unreadable for whatever a program's own decoder raises.

    SchemaUnavailable and NewerFormat stay: such a message can be read later.
    """

    def decode_or_refuse(message: Message) -> object:
        try:
            return decode(message)
        except (Unreadable, SchemaUnavailable, NewerFormat):
            raise
        except Exception as error:
            raise Unreadable(Reason.UNDECODABLE, f"{message.where}: {exception_line(error)}") from error

    return decode_or_refuse


def as_bytes(message: Message) -> object:
    """Return the value as it is."""
    return message.value


def as_json(message: Message) -> object:
    """Return the JSON value. Raises Unreadable."""
    value = message.value
    if value is None:
        return None
    try:
        return read_json_value(value)
    except Unreadable as error:
        raise _placed(error, message) from error


def _placed(error: Unreadable, message: Message) -> Unreadable:
    return Unreadable(error.reason, f"{message.where}: {error.detail}")


def json_or_record(codec: Codec | None) -> Decode:
    """Return a decoder of JSON and, with a codec, of our own Avro records, told by their first bytes."""

    def decode(message: Message) -> object:
        value = message.value
        if value is None:
            return None
        if not value.startswith(_RECORD_MARKS) and not any(name == VALUE_SCHEMA_HEADER for name, _ in message.headers):
            return as_json(message)
        if codec is None:
            raise Unreadable(
                Reason.BAD_MAGIC, f"{message.where}: it is an Avro record, and the subscription has no codec to read it"
            )
        try:
            return codec.decode(value, message.headers)
        except Unreadable as error:
            raise _placed(error, message) from error

    return decode
