"""The anthropic client: the one place that imports its library, and the model that is asked by default."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from afl.claude.errors import ClaudeKeyUnusable, ClaudeNotInstalled

if TYPE_CHECKING:
    from anthropic import Anthropic, AsyncAnthropic

#: The model that is asked when neither `AFL_CLAUDE_MODEL` nor a config nor a prompt block names one.
DEFAULT_MODEL: Final = "claude-sonnet-5-5"
#: Names another model in the environment.
MODEL_VARIABLE: Final = "AFL_CLAUDE_MODEL"
#: Holds the key of the Messages API.
KEY_VARIABLE: Final = "ANTHROPIC_API_KEY"
#: How long one request may take: more than a reply of a few thousand tokens needs, and far less than for ever.
REQUEST_TIMEOUT_S: Final = 120.0
#: Tries after the first for what passes: rate limits, overload, server errors, lost connections. The waits double, or
#: are what the server asks for.
REQUEST_RETRIES: Final = 4


def default_model() -> str:
    """The model to ask when nobody named one."""
    return os.environ.get(MODEL_VARIABLE) or DEFAULT_MODEL


def usable_key(api_key: str | None) -> str | None:
    """Return the key that is given, else that of the environment, without what a file or a shell left around it.

    None where there is none. Raises ClaudeKeyUnusable, which tells the place of what is wrong and not the key.
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
    """A client of the Messages API, for `ClaudeAgentRunner` and `LLMHandler`.

    Without `api_key` and `base_url` those of the environment: `ANTHROPIC_API_KEY`, `ANTHROPIC_BASE_URL`. Blanks and
    line breaks around the key are taken off. Raises ClaudeNotInstalled without the extra `claude`, and
    ClaudeKeyUnusable for a key that no request can carry.
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
    """The same for `LLMHandler.handle_async`."""
    try:
        from anthropic import AsyncAnthropic
    except ImportError as error:
        raise ClaudeNotInstalled from error
    return AsyncAnthropic(api_key=usable_key(api_key), base_url=base_url, timeout=timeout_s, max_retries=max_retries)
