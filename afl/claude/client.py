"""The anthropic client: the only module that imports its library, and the default model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from afl.claude.client_errors import ClaudeKeyUnusable, ClaudeNotInstalled

if TYPE_CHECKING:
    from anthropic import Anthropic, AsyncAnthropic

#: The default model, when neither `AFL_CLAUDE_MODEL` nor a config nor a prompt block names one.
DEFAULT_MODEL: Final = "claude-sonnet-5-5"
#: The environment variable that names another model.
MODEL_VARIABLE: Final = "AFL_CLAUDE_MODEL"
#: The environment variable that holds the key of the Messages API.
KEY_VARIABLE: Final = "ANTHROPIC_API_KEY"
#: The time limit of one request: more than a reply of a few thousand tokens needs, and still bounded.
REQUEST_TIMEOUT_S: Final = 120.0
#: Tries after the first for temporary failures: rate limits, overload, server errors, lost connections. The waits
#: double, or are those that the server asks for.
REQUEST_RETRIES: Final = 4


def default_model() -> str:
    """Return the model to use when none is named."""
    return os.environ.get(MODEL_VARIABLE) or DEFAULT_MODEL


def usable_key(api_key: str | None) -> str | None:
    """Return the given key, else that of the environment, without blanks and line breaks around it.

    None without a key. Raises ClaudeKeyUnusable, which names the place of the fault and does not show the key.
    """
    key = (os.environ.get(KEY_VARIABLE, "") if api_key is None else api_key).strip()
    for at, char in enumerate(key):
        if not "!" <= char <= "~":
            raise ClaudeKeyUnusable(at + 1, len(key))
    return key or None


def claude_client(
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    timeout_s: float = REQUEST_TIMEOUT_S,
    max_retries: int = REQUEST_RETRIES,
) -> Anthropic:
    """Return a client of the Messages API, for `ClaudeAgentRunner` and `LLMHandler`.

    Without `api_key` and `base_url` the environment's are used: `ANTHROPIC_API_KEY`, `ANTHROPIC_BASE_URL`. Blanks and
    line breaks around the key are removed. Raises ClaudeNotInstalled without the extra `claude`, and ClaudeKeyUnusable
    for a key that no request can carry.
    """
    try:
        from anthropic import Anthropic
    except ImportError as error:
        raise ClaudeNotInstalled from error
    return Anthropic(api_key=usable_key(api_key), base_url=base_url, timeout=timeout_s, max_retries=max_retries)


def async_claude_client(
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    timeout_s: float = REQUEST_TIMEOUT_S,
    max_retries: int = REQUEST_RETRIES,
) -> AsyncAnthropic:
    """Return an asynchronous client, for `LLMHandler.handle_async` and the nodes of event-driven workflows."""
    try:
        from anthropic import AsyncAnthropic
    except ImportError as error:
        raise ClaudeNotInstalled from error
    return AsyncAnthropic(api_key=usable_key(api_key), base_url=base_url, timeout=timeout_s, max_retries=max_retries)
