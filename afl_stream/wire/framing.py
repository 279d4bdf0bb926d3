"""Framing: how a record's value names the schema that wrote it. Single-object encoding is the framing defined here."""

from __future__ import annotations

from typing import Final, Protocol

from afl_stream.errors import Reason, Unreadable

_SINGLE_OBJECT_MAGIC: Final = b"\xc3\x01"


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
