"""LLMHandler: Claude as the handler of an event facet, for pollers, runners and agents on Kafka alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from afl.claude.client import default_model
from afl.claude.conversation import (
    DEFAULT_SYSTEM_PROMPT,
    MAX_RETRIES,
    MAX_TOKENS,
    MAX_TURNS,
    Brief,
)
from afl.claude.prompt_text import fill_prompt
from afl.claude.replies import ClaudeUsage
from afl.claude.tool_definitions import ToolDefinition
from afl.claude.turns import ClaudeClient, ClaudeTurns, payload_text
from afl.core.handlers.calling import FACET_NAME_KEY, METADATA_KEY
from afl.workers.tool_registry import ToolRegistry, short_name


@dataclass
class LLMHandlerConfig:
    """The model and the way to ask it. `model`: that of `AFL_CLAUDE_MODEL`, or else our default."""

    model: str = field(default_factory=default_model)
    system_prompt: str = DEFAULT_SYSTEM_PROMPT
    max_tokens: int = MAX_TOKENS
    max_turns: int = MAX_TURNS
    max_retries: int = MAX_RETRIES
    cache_tools: bool = False


class LLMHandler:
    """A handler that answers events by asking Claude: register `handle`, or `handle_async`, like any other handler.

    `tool_definitions` are Claude's tools, also as plain mappings (`name`, `description`, `input_schema`). A tool with a
    handler in `tool_registry` is run when Claude uses it; the first use of any other tool is the answer. When the
    payload names its facet (as under RegistryRunner and on Kafka) and a tool has that name, that tool's use is the
    answer: the facet's prompt block asks for it, and Claude's input is checked against its schema. `prompt_template` is
    filled with the payload, and goes before a prompt block's.
    """

    def __init__(
        self,
        anthropic_client: ClaudeClient,
        config: LLMHandlerConfig | None = None,
        *,
        tool_definitions: Sequence[ToolDefinition | Mapping[str, Any]] | None = None,
        tool_registry: ToolRegistry | None = None,
        prompt_template: str | None = None,
    ) -> None:
        self._config = config or LLMHandlerConfig()
        self._tools = [ToolDefinition.of(tool) for tool in tool_definitions or ()]
        self._registry = tool_registry or ToolRegistry()
        self._prompt_template = prompt_template
        self._turns = ClaudeTurns(anthropic_client, self._registry)

    @property
    def usage(self) -> ClaudeUsage:
        """Requests and tokens of all events so far."""
        return self._turns.usage

    def handle(self, payload: Mapping[str, Any], context: object = None) -> dict[str, Any]:
        """Answer an event. Raises ClaudeFailed, whose text gives the reason, and which fails the step."""
        return self._turns.answer(self._brief(payload), context)

    async def handle_async(self, payload: Mapping[str, Any], context: object = None) -> dict[str, Any]:
        """Answer an event as a coroutine; the client may be an asynchronous one."""
        return await self._turns.answer_async(self._brief(payload), context)

    def _brief(self, payload: Mapping[str, Any]) -> Brief:
        config = self._config
        facet = str(payload.get(FACET_NAME_KEY) or "")
        params = {name: value for name, value in payload.items() if name not in (FACET_NAME_KEY, METADATA_KEY)}
        answer = self._answer_tool(facet)
        prompt = (answer.prompt_block if answer is not None else None) or {}
        system = fill_prompt(str(prompt["system"]), params) if prompt.get("system") else config.system_prompt
        template = self._prompt_template if self._prompt_template is not None else prompt.get("template")
        return Brief(
            facet=facet or (answer.facet_name or answer.name if answer is not None else "the event"),
            model=str(prompt.get("model") or config.model),
            system=system,
            text=payload_text(params) if template is None else fill_prompt(str(template), params),
            tools=self._tools,
            answer=answer,
            helpers=frozenset(
                [*self._registry.registered_names(), *(tool.name for tool in self._tools if self._is_helper(tool))]
            ),
            max_tokens=config.max_tokens,
            max_turns=config.max_turns,
            max_retries=config.max_retries,
            cache_tools=config.cache_tools,
        )

    def _answer_tool(self, facet: str) -> ToolDefinition | None:
        """Return the tool that the answer comes from: the facet's own, or else the only one without a handler here."""
        for name in (facet, short_name(facet)):
            named = [tool for tool in self._tools if name and tool.is_named(name)]
            if named:
                return named[0]
        answers = [tool for tool in self._tools if not self._is_helper(tool)]
        return answers[0] if len(answers) == 1 else None

    def _is_helper(self, tool: ToolDefinition) -> bool:
        return self._registry.has_handler(tool.facet_name or tool.name)
