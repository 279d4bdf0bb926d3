"""AES-GCM of the `cryptography` package, which only this module imports."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Final

from afl_stream.errors import StreamError
from afl_stream.sensitive.envelope import NONCE_BYTES
from afl_stream.sensitive.keys import KeysMissing

#: AES-256.
KEY_BYTES: Final = 32


class NotAuthentic(StreamError):
    """Bytes that this key and this associated data did not encrypt."""


def new_key() -> bytes:
    """Draw a key."""
    return os.urandom(KEY_BYTES)


def encrypt(key: bytes, plain: bytes, associated: bytes) -> tuple[bytes, bytes]:
    """Return a new nonce, and the ciphertext with its tag."""
    nonce = os.urandom(NONCE_BYTES)
    return nonce, _cipher(key).encrypt(nonce, plain, associated)


def decrypt(key: bytes, nonce: bytes, content: bytes, associated: bytes) -> bytes:
    """Return what was encrypted. Raises NotAuthentic."""
    from cryptography.exceptions import InvalidTag

    try:
        plain: bytes = _cipher(key).decrypt(nonce, content, associated)
    except InvalidTag:
        raise NotAuthentic from None
    return plain


def require_cipher() -> None:
    """Raise KeysMissing where the library is not installed."""
    try:
        import cryptography.hazmat.primitives.ciphers.aead  # noqa: F401
    except ImportError as error:
        raise KeysMissing(
            "sensitive values are encrypted in this deployment, and the library for it is not installed; install the "
            "extra: afl-stream[encryption]"
        ) from error


@lru_cache(maxsize=4_096)
def _cipher(key: bytes):  # type: ignore[no-untyped-def]
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)
