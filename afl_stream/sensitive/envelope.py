"""The form of an encrypted value: a text, so that it fits wherever a value stands, in any format and any language.

`afl-sealed:1:<id of the data key>:<base64url of nonce, ciphertext and tag>`: AES-256-GCM with a nonce of 12 bytes;
what is encrypted is the value as JSON, and the associated data is the value's place.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_START: Final = "afl-sealed:"
_CURRENT: Final = "afl-sealed:1:"
#: What stands for a value whose key was dropped.
ERASED: Final = "afl-sealed:erased"
NONCE_BYTES: Final = 12


class Place(NamedTuple):
    """The place of a value: a ciphertext is good nowhere else.

    `kind` is `param`, `return`, `input`, `output`, `element` or `event`.
    """

    workflow_id: str
    step_id: str
    kind: str
    name: str

    def associated_data(self) -> bytes:
        """Return the place as bytes, which no other place has."""
        return json.dumps(["afl-sealed", 1, *self], separators=(",", ":")).encode()


class Envelope(NamedTuple):
    """An encrypted value, taken apart."""

    key_id: str
    nonce: bytes
    content: bytes


def is_sealed(value: object) -> bool:
    """Return whether a value is the text of an encrypted or an erased one, or looks like one."""
    return type(value) is str and value.startswith(_START)


def sealed_text(key_id: str, nonce: bytes, content: bytes) -> str:
    """Return the text of an encrypted value."""
    return f"{_CURRENT}{key_id}:{base64.urlsafe_b64encode(nonce + content).decode()}"


def read_envelope(text: str) -> Envelope:
    """Take the text of an encrypted value apart. Raises ValueError for anything else."""
    if not text.startswith(_CURRENT):
        raise ValueError("the text of an encrypted value has another version, or none")
    key_id, mark, coded = text[len(_CURRENT) :].partition(":")
    try:
        content = base64.b64decode(coded.encode("ascii"), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError):
        content = b""
    if base64.urlsafe_b64encode(content).decode() != coded:
        # The last character has bits that stand for nothing.
        content = b""
    if not mark or len(content) <= NONCE_BYTES:
        raise ValueError("the text of an encrypted value is damaged")
    return Envelope(key_id, content[:NONCE_BYTES], content[NONCE_BYTES:])


def value_bytes(value: object) -> bytes:
    """Return a value as the JSON that is encrypted."""
    return json.dumps(value, separators=(",", ":"), default=_plain).encode()


def value_of(content: bytes) -> Any:
    """Return the value that `value_bytes` wrote."""
    return json.loads(content)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a value of type {type(value).__name__} cannot be encrypted")
