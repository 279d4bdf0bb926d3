"""The page about nodes that ask a language model holds: what it shows runs, and its tables are the code's."""

import ast
import asyncio
import inspect
import re
from typing import Any

import pytest

from afl_stream.pubsub import InvokeContext
from afl_stream.pubsub.llm import AnthropicModel, ModelFailed
from afl_stream.pubsub.llm.functions import MAX_RESULT_CHARS
from afl_stream.pubsub.llm.llm_command import MAX_REPLIES
from afl_stream.pubsub.tracing.tracing import MAX_ATTRIBUTE_CHARS
from tests.architecture.page_tables import ROOT
from tests.architecture.walkthroughs import blocks
from tests.worlds.messages_api import API_KEY, messages_api, says, text, use

_PAGE = (ROOT / "docs" / "guide" / "llm-nodes.md").read_text()


def _table(column: str) -> dict[str, str]:
    """Return the first two columns of the table whose first column is headed so."""
    _, _, rows = _PAGE.partition(f"| {column} |")
    return dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", rows.partition("\n\n")[0], re.MULTILINE))


def test_the_workflow_with_a_model_of_anthropic_answers_as_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    block = next(body for language, body in blocks(_PAGE) if language == "python" and "= AnthropicModel(" in body)
    shown: dict[str, Any] = {}

    async def ask() -> list[Any]:
        exec(compile(ast.parse(block), "llm-nodes.md", "exec"), shown)
        invoked = shown["workflow"].invoke(InvokeContext(assistant_request_id="r1"), "What do 40 bolts cost?")
        answers = [event.data async for event in invoked]
        await shown["model"].close()
        return answers

    with messages_api(says(use("price", "t1", item="bolt", pieces=40)), says(text("8.00"))) as api:
        monkeypatch.setenv("ANTHROPIC_API_KEY", API_KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
        (answer,) = asyncio.run(ask())

    assert answer["text"] == "8.00"
    assert api.last_message(1)[0]["content"] == "8.0"


def test_the_page_lists_the_arguments_of_the_model_with_their_defaults() -> None:
    parameters = inspect.signature(AnthropicModel).parameters
    listed = _table("argument of `AnthropicModel`")

    assert list(listed) == list(parameters)
    for name in ("max_tokens", "cache_prompt"):
        assert listed[name] == str(parameters[name].default)


def test_the_page_names_every_failure() -> None:
    assert set(_table("error")) == {kind.__name__ for kind in ModelFailed.__subclasses__()}


def test_the_page_names_the_limits() -> None:
    assert f"`max_replies` ({MAX_REPLIES} replies" in _PAGE
    assert f"`max_attribute_chars` ({MAX_ATTRIBUTE_CHARS:,})" in _PAGE
    assert f"{MAX_RESULT_CHARS:,} characters" in _PAGE
