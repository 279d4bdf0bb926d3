"""Framing: how a record names the schema that wrote its value: in the value's first bytes, or in a header."""

from __future__ import annotations

from typing import Final, Protocol
from uuid import UUID

from afl_stream.errors import Reason, Unreadable

_SINGLE_OBJECT_MAGIC: Final = b"\xc3\x01"
_REGISTRY_MAGIC: Final = b"\x00"
_GUID_MAGIC: Final = 1

#: The header in which Confluent's newer serializers name the schema of a value, which then is the body alone.
VALUE_SCHEMA_HEADER: Final = "__value_schema_id"


class Framing(Protocol):
    """A way to put a schema id in front of a body and to find it again."""

    def claims(self, value: bytes) -> bool:
        """Return whether this value begins as this framing begins."""

    def frame(self, schema_id: int, body: bytes) -> bytes:
        """Return the value to send."""

    def unframe(self, value: bytes) -> tuple[int, int]:
        """Return the schema id and where the body starts; raise Unreadable (BAD_MAGIC, TRUNCATED)."""


class SingleObjectFraming:
    """Avro's single-object encoding: C3 01, the schema's CRC-64-AVRO fingerprint lowest byte first, the body."""

    def claims(self, value: bytes) -> bool:
        """Return whether this value begins with C3 01."""
        return value.startswith(_SINGLE_OBJECT_MAGIC)

    def frame(self, schema_id: int, body: bytes) -> bytes:
        """Return the value to send."""
        return _SINGLE_OBJECT_MAGIC + schema_id.to_bytes(8, "little") + body

    def unframe(self, value: bytes) -> tuple[int, int]:
        """Return the fingerprint and 10, where the body starts."""
        if not self.claims(value):
            raise Unreadable(Reason.BAD_MAGIC, f"the value begins with {value[:2].hex(' ')}, not with c3 01")
        if len(value) < 10:
            raise Unreadable(Reason.TRUNCATED, f"{len(value)} bytes hold no fingerprint")
        return int.from_bytes(value[2:10], "little"), 10


class RegistryFraming:
    """Confluent's framing: a zero byte, the registry's id of the schema in four bytes, highest first, the body."""

    def claims(self, value: bytes) -> bool:
        """Return whether this value begins with a zero byte."""
        return value.startswith(_REGISTRY_MAGIC)

    def frame(self, schema_id: int, body: bytes) -> bytes:
        """Return the value to send."""
        return _REGISTRY_MAGIC + schema_id.to_bytes(4, "big") + body

    def unframe(self, value: bytes) -> tuple[int, int]:
        """Return the registry's id and 5, where the body starts."""
        if not self.claims(value):
            raise Unreadable(Reason.BAD_MAGIC, f"the value begins with {value[:1].hex()}, not with 00")
        if len(value) < 5:
            raise Unreadable(Reason.TRUNCATED, f"{len(value)} bytes hold no id of a registry")
        return int.from_bytes(value[1:5], "big"), 5


def schema_of_header(content: bytes) -> int | UUID:
    """Return the schema that the header VALUE_SCHEMA_HEADER names: the registry's id, or the schema's GUID.

    Raises Unreadable (BAD_HEADERS).
    """
    if len(content) == 17 and content[0] == _GUID_MAGIC:
        return UUID(bytes=content[1:])
    if len(content) == 5 and content.startswith(_REGISTRY_MAGIC):
        return int.from_bytes(content[1:], "big")
    found = content[:20].hex(" ") or "nothing"
    wanted = "01 and the 16 bytes of a GUID, or 00 and the 4 bytes of an id"
    raise Unreadable(Reason.BAD_HEADERS, f"header {VALUE_SCHEMA_HEADER}: found {found}, expected {wanted}")
