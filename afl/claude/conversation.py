"""One conversation with Claude about one event: the messages, turn by turn, until there is an answer."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from afl.claude.answer_checks import answer_problem
from afl.claude.errors import ClaudeCutOff, ClaudeGaveNoAnswer, ClaudeRefused
from afl.claude.replies import CONTEXT_FULL, MAX_TOKENS_REACHED, PAUSE_TURN, REFUSAL, TOOL_USE, Reply, ToolUse
from afl.claude.tool_definitions import ToolDefinition

#: The system prompt when none is given.
DEFAULT_SYSTEM_PROMPT: Final = (
    "You do one step of a workflow. Answer by using the tool that is named after the step's event facet, with the "
    "step's results as its input. Other tools may help you on the way."
)
MAX_TOKENS: Final = 4096
MAX_TURNS: Final = 10
MAX_RETRIES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """The parameters of one conversation.

    `tools` are the tools that Claude may use. `helpers` names those that run in this process; the input of any other
    tool is the answer. `answer` is the tool whose input is expected as the answer, where it is known. `max_retries` is
    how often Claude is reminded after it ended without an answer, `max_turns` how many replies each attempt may take.
    """

    facet: str
    model: str
    system: str
    text: str
    tools: Sequence[ToolDefinition]
    answer: ToolDefinition | None
    helpers: frozenset[str] = frozenset()
    max_tokens: int = MAX_TOKENS
    max_turns: int = MAX_TURNS
    max_retries: int = MAX_RETRIES
    #: Whether the API should cache the tools: cheaper for many events of a facet, dearer for one.
    cache_tools: bool = False

    def request(self, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the arguments of `messages.create`."""
        tools: list[dict[str, Any]] = [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.param_schema if self._is_run_here(tool) else tool.input_schema,
            }
            for tool in self.tools
        ]
        if self.cache_tools and tools:
            tools[-1]["cache_control"] = {"type": "ephemeral"}
        return {
            "model": self.model,
            "max_tokens": self.max_tokens,
            "system": self.system,
            "messages": list(messages),
            "tools": tools,
        }

    def tool(self, name: str) -> ToolDefinition | None:
        """Return the tool that Claude names."""
        return next((tool for tool in self.tools if tool.is_named(name)), None)

    def is_answer(self, use: ToolUse) -> bool:
        """Say whether a use of a tool is the answer."""
        if self.answer is not None:
            return self.answer.is_named(use.name)
        tool = self.tool(use.name)
        return use.name not in self.helpers if tool is None else not self._is_run_here(tool)

    def _is_run_here(self, tool: ToolDefinition) -> bool:
        return tool.name in self.helpers and tool is not self.answer


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to Claude; the reply goes back into the conversation."""

    request: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class UseTool:
    """A tool to run; a `ToolOutcome` goes back into the conversation."""

    facet: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The outcome of running a tool, as text for Claude."""

    text: str
    is_error: bool = False


Conversation: TypeAlias = Generator[Ask | UseTool, Any, dict[str, Any]]


def converse(brief: Brief) -> Conversation:
    """Hold the conversation until there is an answer, and return it.

    Yields each action, and is sent its outcome: a `Reply` for an `Ask`, a `ToolOutcome` for a `UseTool`. An answer that
    does not fit its tool's schema goes back to Claude with the mismatch. Raises ClaudeRefused, ClaudeCutOff, and
    ClaudeGaveNoAnswer when a declared return is missing at the end; a facet without declared returns gets `{}`.
    """
    messages: list[dict[str, Any]] = [{"role": "user", "content": brief.text}]
    problem: str | None = None
    for round_number in range(brief.max_retries + 1):
        if round_number:
            _say(messages, _reminder(brief, problem))
        for _ in range(brief.max_turns):
            reply: Reply = yield Ask(brief.request(messages))
            _check_end(brief, reply)
            answer = next((use for use in reply.uses if brief.is_answer(use)), None)
            if answer is not None:
                problem = _problem(brief, answer)
                if problem is None:
                    return dict(answer.input)
            if reply.content:
                messages.append({"role": "assistant", "content": list(reply.content)})
            if reply.uses:
                results = []
                for use in reply.uses:
                    results.append((yield from _tool_result(brief, use, problem)))
                messages.append({"role": "user", "content": results})
            if reply.stop_reason not in (TOOL_USE, PAUSE_TURN):
                break
    return _nothing(brief, problem)


def _check_end(brief: Brief, reply: Reply) -> None:
    if reply.stop_reason == REFUSAL:
        raise ClaudeRefused(brief.facet, f"it refused{': ' if reply.refusal else ''}{reply.refusal}")
    if reply.stop_reason == MAX_TOKENS_REACHED:
        raise ClaudeCutOff(brief.facet, f"the reply is longer than {brief.max_tokens} tokens; raise max_tokens")
    if reply.stop_reason == CONTEXT_FULL:
        raise ClaudeCutOff(brief.facet, f"the conversation is longer than {brief.model} can hold")


def _problem(brief: Brief, answer: ToolUse) -> str | None:
    tool = brief.answer or brief.tool(answer.name)
    return None if tool is None else answer_problem(answer.input, tool.input_schema)


def _tool_result(brief: Brief, use: ToolUse, problem: str | None) -> Generator[UseTool, Any, dict[str, Any]]:
    """Return the block that answers a use of a tool: the next message must answer every use."""
    if brief.is_answer(use):
        outcome = ToolOutcome(f"This does not fit: {problem}. Use {use.name} again with what does.", is_error=True)
    else:
        tool = brief.tool(use.name)
        outcome = yield UseTool(tool.facet_name or tool.name if tool is not None else use.name, use.input)
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": use.id, "content": outcome.text}
    return {**block, "is_error": True} if outcome.is_error else block


def _reminder(brief: Brief, problem: str | None) -> str:
    name = brief.answer.name if brief.answer is not None else brief.facet
    again = f"Your answer does not fit: {problem}. " if problem is not None else ""
    return f"{again}Answer {brief.facet} now by using the tool {name} with all of its results."


def _say(messages: list[dict[str, Any]], text: str) -> None:
    """Add a message of ours: roles alternate, so it joins the last message if that is ours too."""
    last = messages[-1]
    if last["role"] != "user":
        messages.append({"role": "user", "content": text})
    elif isinstance(last["content"], str):
        messages[-1] = {"role": "user", "content": f"{last['content']}\n\n{text}"}
    else:
        messages[-1] = {"role": "user", "content": [*last["content"], {"type": "text", "text": text}]}


def _nothing(brief: Brief, problem: str | None) -> dict[str, Any]:
    """Return the empty result when there is no answer, if that is enough."""
    if problem is None:
        problem = answer_problem({}, brief.answer.input_schema) if brief.answer is not None else None
        if problem is None:
            return {}
    raise ClaudeGaveNoAnswer(brief.facet, f"{problem} (asked {brief.max_retries + 1} times)")


def result_text(result: object) -> str:
    """Return a tool's result as text for Claude."""
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)
