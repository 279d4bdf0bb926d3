"""Claude as an agent, and handlers by facet name: the names under which users import them."""

from __future__ import annotations

from afl.claude.client import DEFAULT_MODEL, async_claude_client, claude_client, default_model
from afl.claude.client_errors import ClaudeKeyUnusable, ClaudeNotInstalled
from afl.claude.errors import (
    ClaudeCutOff,
    ClaudeFailed,
    ClaudeGaveNoAnswer,
    ClaudeRefused,
    ClaudeUnavailable,
)
from afl.claude.llm_handler import LLMHandler, LLMHandlerConfig
from afl.claude.replies import ClaudeUsage
from afl.claude.runner import ClaudeAgentRunner
from afl.claude.tool_definitions import ToolDefinition, tool_definitions
from afl.claude.turns import ClaudeClient
from afl.workers.tool_registry import ToolRegistry

__all__ = [
    "DEFAULT_MODEL",
    "ClaudeAgentRunner",
    "ClaudeClient",
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
