"""Answer tokens: proof that an answer comes from one who was asked. Off unless a secret is configured."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256


class AnswerTokens:
    """HMAC-SHA256 over event id and attempt, with the id of the key in front so that keys can be rotated."""

    def __init__(self, key_id: str, keys: Mapping[str, str]) -> None:
        """`keys` holds the secrets by id: the current one, and older ones whose answers are still welcome."""
        self._key_id = key_id
        self._keys = {name: secret.encode() for name, secret in keys.items()}

    def token_for(self, event_id: str, attempt: int) -> str:
        """The token that the event carries and its answer must repeat."""
        return f"{self._key_id}.{self._digest(self._key_id, event_id, attempt)}"

    def accepts(self, token: str | None, event_id: str, attempt: int) -> bool:
        """Whether an answer's token is the one that its event carried."""
        key_id, separator, digest = (token or "").partition(".")
        if not separator or key_id not in self._keys:
            return False
        return hmac.compare_digest(digest.encode(), self._digest(key_id, event_id, attempt).encode())

    def _digest(self, key_id: str, event_id: str, attempt: int) -> str:
        return hmac.new(self._keys[key_id], f"{event_id}\n{attempt}".encode(), sha256).hexdigest()
