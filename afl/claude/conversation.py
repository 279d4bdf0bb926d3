"""One conversation with Claude about one event: what is asked, turn by turn, until there is an answer."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from afl.claude.answer_checks import answer_problem
from afl.claude.errors import ClaudeCutOff, ClaudeGaveNoAnswer, ClaudeRefused
from afl.claude.tool_definitions import ToolDefinition

#: Why a reply ended, in the words of the Messages API.
_TOOL_USE: Final = "tool_use"
_PAUSE_TURN: Final = "pause_turn"
_MAX_TOKENS: Final = "max_tokens"
_CONTEXT_FULL: Final = "model_context_window_exceeded"
_REFUSAL: Final = "refusal"

#: Told to Claude when nobody gave a system prompt.
DEFAULT_SYSTEM_PROMPT: Final = (
    "You do one step of a workflow. Answer by using the tool that is named after the step's event facet, with the "
    "step's results as its input. Other tools may help you on the way."
)
MAX_TOKENS: Final = 4096
MAX_TURNS: Final = 10
MAX_RETRIES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """What one conversation is about.

    `tools` are those that Claude may use; `helpers` names the ones that somebody here runs, while any other's input is
    the answer. `answer` is the tool that the answer is expected from, where that is known. `max_retries` is how often
    Claude is reminded after it ended without an answer, `max_turns` how many replies each time may take.
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
    #: Whether the API is asked to keep the tools for a while: cheaper for many events of a facet, dearer for one.
    cache_tools: bool = False

    def request(self, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """What `messages.create` is called with."""
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
        """The tool that Claude means by a name."""
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
class ToolUse:
    """A tool that Claude wants to use."""

    id: str
    name: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """To be sent to Claude; the reply goes back into the conversation."""

    request: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class UseTool:
    """To be run; a `ToolOutcome` goes back into the conversation."""

    facet: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What came of running a tool, as text for Claude."""

    text: str
    is_error: bool = False


@dataclass(slots=True)
class ClaudeUsage:
    """Requests made and tokens used."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def add(self, other: ClaudeUsage) -> None:
        """Count another one in."""
        self.requests += other.requests
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.cache_read_tokens += other.cache_read_tokens
        self.cache_write_tokens += other.cache_write_tokens


@dataclass(frozen=True, slots=True)
class Reply:
    """What Claude said, whatever kind of object the client gives."""

    content: Sequence[object]
    stop_reason: str
    uses: Sequence[ToolUse] = ()
    refusal: str = ""
    usage: ClaudeUsage = field(default_factory=ClaudeUsage)


Conversation: TypeAlias = Generator[Ask | UseTool, Any, dict[str, Any]]


def read_reply(response: object) -> Reply:
    """Read a response of the Messages API: an object of the anthropic client, a dict, or one that looks like them."""
    content = list(_part(response, "content") or ())
    uses = [
        ToolUse(str(_part(block, "id")), str(_part(block, "name")), dict(_part(block, "input") or {}))
        for block in content
        if _part(block, "type") == _TOOL_USE
    ]
    stop_reason = str(_part(response, "stop_reason") or "")
    explanation = _part(_part(response, "stop_details"), "explanation") if stop_reason == _REFUSAL else None
    usage = _part(response, "usage")
    return Reply(
        content,
        stop_reason,
        uses,
        explanation if isinstance(explanation, str) else "",
        ClaudeUsage(
            1,
            _count(usage, "input_tokens"),
            _count(usage, "output_tokens"),
            _count(usage, "cache_read_input_tokens"),
            _count(usage, "cache_creation_input_tokens"),
        ),
    )


def converse(brief: Brief) -> Conversation:
    """Talk until there is an answer, and return it.

    Yields what is to be done, and is sent what came of it: a `Reply` for an `Ask`, a `ToolOutcome` for a `UseTool`. An
    answer that does not fit its tool's schema is given back with what is wrong. Raises ClaudeRefused, ClaudeCutOff, and
    ClaudeGaveNoAnswer when a declared return is missing at the end; where nothing is declared, that is `{}`.
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
            if reply.stop_reason not in (_TOOL_USE, _PAUSE_TURN):
                break
    return _nothing(brief, problem)


def _check_end(brief: Brief, reply: Reply) -> None:
    if reply.stop_reason == _REFUSAL:
        raise ClaudeRefused(brief.facet, f"it refused{': ' if reply.refusal else ''}{reply.refusal}")
    if reply.stop_reason == _MAX_TOKENS:
        raise ClaudeCutOff(brief.facet, f"the reply is longer than {brief.max_tokens} tokens; raise max_tokens")
    if reply.stop_reason == _CONTEXT_FULL:
        raise ClaudeCutOff(brief.facet, f"the conversation is longer than {brief.model} can hold")


def _problem(brief: Brief, answer: ToolUse) -> str | None:
    tool = brief.answer or brief.tool(answer.name)
    return None if tool is None else answer_problem(answer.input, tool.input_schema)


def _tool_result(brief: Brief, use: ToolUse, problem: str | None) -> Generator[UseTool, Any, dict[str, Any]]:
    """The block that answers a use of a tool: every one must have its answer in the next message."""
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
    """Add a message from our side: roles take turns, so it joins the last one where that is ours too."""
    last = messages[-1]
    if last["role"] != "user":
        messages.append({"role": "user", "content": text})
    elif isinstance(last["content"], str):
        messages[-1] = {"role": "user", "content": f"{last['content']}\n\n{text}"}
    else:
        messages[-1] = {"role": "user", "content": [*last["content"], {"type": "text", "text": text}]}


def _nothing(brief: Brief, problem: str | None) -> dict[str, Any]:
    """What it comes to when there is no answer: nothing, if that is enough."""
    if problem is None:
        problem = answer_problem({}, brief.answer.input_schema) if brief.answer is not None else None
        if problem is None:
            return {}
    raise ClaudeGaveNoAnswer(brief.facet, f"{problem} (asked {brief.max_retries + 1} times)")


def result_text(result: object) -> str:
    """A tool's result as text for Claude."""
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)


def _part(thing: object, name: str) -> Any:
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def _count(usage: object, name: str) -> int:
    found = _part(usage, name)
    return found if isinstance(found, int) else 0
