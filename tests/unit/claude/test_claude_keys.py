"""The key of Claude's API: taken without what a file left around it, checked, and shown nowhere."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
from anthropic import Anthropic

from afl.evaluation.evaluator import ExecutionResult
from afl.runtime import ClaudeAgentRunner
from afl.runtime import errors as runtime_errors
from afl.runtime.agent import ClaudeKeyUnusable, ClaudeNotInstalled, async_claude_client, claude_client
from tests.unit.claude.helpdesk import Helpdesk
from tests.worlds.messages_api import messages_api

KEY = "sk-ant-c4nary"


def ended(client: object) -> ExecutionResult:
    desk = Helpdesk()
    runner = ClaudeAgentRunner(desk.evaluator, desk.store, anthropic_client=client)  # type: ignore[arg-type]  # alike
    return runner.run("support.Sort", {"ticket": "t"}, desk.program)


@pytest.mark.parametrize("around", ["{}\n", " {}", "{}\r\n", "\t{} "])
def test_blanks_and_line_breaks_around_a_key_are_taken_off(around: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", around.format(KEY))

    with claude_client() as of_environment, claude_client(api_key=around.format(KEY)) as given:
        assert of_environment.api_key == given.api_key == KEY


@pytest.mark.parametrize("key", [f"{KEY}\nx", f"{KEY} x", f"{KEY}é", f"{KEY}\x00"])
def test_a_key_with_a_character_that_no_key_has_is_refused_without_showing_it(key: str) -> None:
    for make in (claude_client, async_claude_client):
        with pytest.raises(ClaudeKeyUnusable, match=f"at place {len(KEY) + 1} of {len(key)}") as refused:
            make(api_key=key)
        assert KEY not in str(refused.value)


def test_a_failure_does_not_quote_the_key_that_a_client_could_not_send(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    # Not made by claude_client, so its key has not been checked.
    with messages_api() as api, Anthropic(api_key=f"{KEY}\n", base_url=api.url, max_retries=0) as client:
        result = ended(client)

    assert result.status == "ERROR"
    assert "ClaudeUnavailable" in str(result.error)
    assert "Illegal header value" in str(result.error)
    assert KEY not in str(result.error)
    ours = [record for record in caplog.records if record.name.startswith("afl")]
    assert not [record for record in ours if KEY in record.getMessage() + str(record.exc_text)]


def test_the_cause_of_a_failure_is_left_out_of_tracebacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", f"{KEY}-token")

    def create(**request: object) -> object:
        raise ValueError(f"refused: {KEY}-token at https://kim:{KEY}/x@proxy")

    error = str(ended(SimpleNamespace(messages=SimpleNamespace(create=create))).error)

    assert "ValueError: refused: ********" in error
    assert KEY not in error


def test_errors_of_the_client_are_errors_of_the_runtime_as_before() -> None:
    assert issubclass(ClaudeKeyUnusable, runtime_errors.RuntimeError)
    assert issubclass(ClaudeNotInstalled, runtime_errors.RuntimeError)
