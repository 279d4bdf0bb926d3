"""Answer tokens: proof that the sender of an answer received the event. Off unless a secret is configured."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from afl.core.text.masking import MASK
from afl_stream.errors import ConfigError
from afl_stream.settings.sections import AnswerSettings

#: An id of a key. It may have dots: a digest has none. `=` and `,` are the list's own signs.
_KEY_ID: Final = re.compile(r"[A-Za-z0-9._~:/+-]{1,64}\Z")
KEY_ID_FORM: Final = "1 to 64 characters out of A-Z a-z 0-9 . _ ~ : / + -"


def is_key_id(text: str) -> bool:
    """Return whether a text may be a key's id."""
    return _KEY_ID.match(text) is not None


def older_keys(listed: str, current_id: str) -> dict[str, str] | None:
    """Read `ID=SECRET, ID=SECRET`: the earlier keys by their ids.

    Returns None for a list that does not have this form, has an id twice, or has the current key's id.
    """
    keys: dict[str, str] = {}
    for entry in filter(None, map(str.strip, listed.split(","))):
        key_id, _, secret = entry.partition("=")
        if not is_key_id(key_id) or not secret or key_id == current_id or key_id in keys:
            return None
        keys[key_id] = secret
    return keys


def check_answers(answers: AnswerSettings, source: str) -> None:
    """Raise ConfigError for keys that cannot be used; `source` is where the settings were read."""
    if not is_key_id(answers.token_key_id):
        raise ConfigError(source, "answers.token_key_id", answers.token_key_id, f"a key's id: {KEY_ID_FORM}")
    if older_keys(answers.older_secrets or "", answers.token_key_id) is None:
        wanted = "ID=SECRET, separated by commas: each id once, and none of them token_key_id"
        raise ConfigError(source, "answers.older_secrets", MASK, wanted)


class AnswerTokens:
    """HMAC-SHA256 over event id and attempt, with the id of the key in front so that keys can be rotated."""

    def __init__(self, key_id: str, keys: Mapping[str, str]) -> None:
        """Take the secrets by id (`keys`): the current one, and older ones whose answers are still accepted."""
        self._key_id = key_id
        self._keys = {name: secret.encode() for name, secret in keys.items()}

    def token_for(self, event_id: str, attempt: int) -> str:
        """Return the token that the event carries and its answer must repeat."""
        return f"{self._key_id}.{self._digest(self._key_id, event_id, attempt)}"

    def accepts(self, token: str | None, event_id: str, attempt: int) -> bool:
        """Return whether an answer's token is the one that its event carried."""
        # The last dot: a key's id may have some.
        key_id, separator, digest = (token or "").rpartition(".")
        if not separator or key_id not in self._keys:
            return False
        # Half a character is not a digest, and must not end the reader.
        given = digest.encode("utf-8", "surrogatepass")
        return hmac.compare_digest(given, self._digest(key_id, event_id, attempt).encode())

    def _digest(self, key_id: str, event_id: str, attempt: int) -> str:
        return hmac.new(self._keys[key_id], f"{event_id}\n{attempt}".encode(), sha256).hexdigest()


def answer_tokens(settings: AnswerSettings) -> AnswerTokens | None:
    """Return the deployment's answer tokens; None where they are off."""
    if not settings.token_secret:
        return None
    keys = older_keys(settings.older_secrets or "", settings.token_key_id) or {}
    return AnswerTokens(settings.token_key_id, {**keys, settings.token_key_id: settings.token_secret})
