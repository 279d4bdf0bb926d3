"""Reasons of failed requests to the Messages API, for people, without keys."""

from __future__ import annotations

import logging
import os
import traceback

from afl.claude.client import KEY_VARIABLE
from afl.core.text.exception_text import exception_line, exception_text
from afl.core.text.masking import Secrets

_log = logging.getLogger(__name__)


def request_failure(client: object, purpose: str, error: Exception) -> str:
    """Return why a request failed; `purpose` says in the log what it was for.

    An error with this text must be raised without its cause: the library quotes a key that it cannot send, and a
    traceback shows what causes say.
    """
    reason = exception_line(error)
    if isinstance(error, TypeError) and "authentication" in reason:
        # The library's own message names neither.
        reason = "there is no API key: set ANTHROPIC_API_KEY, or give api_key to claude_client()"
    elif isinstance(error.__cause__, Exception):
        # The library only says that there was no connection; its cause says why.
        reason += f" ({exception_text(error.__cause__)})"
    _log.debug("the request for %s failed at %s", purpose, _raised_at(error))
    return _keys_of(client).masked(reason)


def _keys_of(client: object) -> Secrets:
    """Return the keys that a client was made with, and those of the environment."""
    given = [getattr(client, name, None) for name in ("api_key", "auth_token")]
    given += [os.environ.get(name) for name in (KEY_VARIABLE, "ANTHROPIC_AUTH_TOKEN")]
    return Secrets(key for key in given if isinstance(key, str))


def _raised_at(error: BaseException) -> str:
    """Return the innermost place of a traceback, without the text of the exception."""
    places = traceback.extract_tb(error.__traceback__)
    return f"{places[-1].filename}:{places[-1].lineno}" if places else "an unknown place"
