"""Claude as an agent, and handlers by facet name: the names under which users import them."""

from __future__ import annotations

from afl.runtime.claude_client import DEFAULT_MODEL, async_claude_client, claude_client, default_model
from afl.runtime.claude_conversation import ClaudeUsage
from afl.runtime.claude_errors import (
    ClaudeCutOff,
    ClaudeFailed,
    ClaudeGaveNoAnswer,
    ClaudeKeyUnusable,
    ClaudeNotInstalled,
    ClaudeRefused,
    ClaudeUnavailable,
)
from afl.runtime.claude_runner import ClaudeAgentRunner
from afl.runtime.llm_handler import LLMHandler, LLMHandlerConfig
from afl.runtime.tool_definitions import ToolDefinition, tool_definitions
from afl.runtime.tool_registry import ToolRegistry

__all__ = [
    "DEFAULT_MODEL",
    "ClaudeAgentRunner",
    "ClaudeCutOff",
    "ClaudeFailed",
    "ClaudeGaveNoAnswer",
    "ClaudeKeyUnusable",
    "ClaudeNotInstalled",
    "ClaudeRefused",
    "ClaudeUnavailable",
    "ClaudeUsage",
    "LLMHandler",
    "LLMHandlerConfig",
    "ToolDefinition",
    "ToolRegistry",
    "async_claude_client",
    "claude_client",
    "default_model",
    "tool_definitions",
]
