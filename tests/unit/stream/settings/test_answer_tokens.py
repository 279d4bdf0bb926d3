"""Answer tokens, whatever their keys are called."""

from __future__ import annotations

import pytest

from afl_stream.errors import ConfigError
from afl_stream.settings.answer_tokens import AnswerTokens, answer_tokens
from afl_stream.settings.config import AnswerSettings, StreamConfig

EVENT = "wf-1:0a#1"


@pytest.mark.parametrize("key_id", ["1", "2026.03", "a.b.c", ".", "team/key-1", "x" * 64])
def test_a_token_is_taken_whatever_its_key_is_called(key_id: str) -> None:
    tokens = answer_tokens(AnswerSettings(token_secret="secret", token_key_id=key_id))
    assert tokens is not None
    token = tokens.token_for(EVENT, 1)

    assert tokens.accepts(token, EVENT, 1)
    assert not tokens.accepts(token, EVENT, 2)
    assert not tokens.accepts(token[:-1], EVENT, 1)
    assert not AnswerTokens("other", {"other": "secret"}).accepts(token, EVENT, 1)


def test_a_key_with_a_dot_that_was_rotated_out_is_taken_while_it_is_listed() -> None:
    old = answer_tokens(AnswerSettings(token_secret="secret", token_key_id="2026.03"))
    listed = "2026.03=secret, a.b=x=y"
    rotated = AnswerSettings(token_secret="newer", token_key_id="2026.04", older_secrets=listed)
    new = answer_tokens(rotated)
    assert old is not None
    assert new is not None

    assert new.accepts(old.token_for(EVENT, 1), EVENT, 1)
    assert new.accepts(AnswerTokens("a.b", {"a.b": "x=y"}).token_for(EVENT, 1), EVENT, 1)
    assert not old.accepts(new.token_for(EVENT, 1), EVENT, 1)


@pytest.mark.parametrize("token", [None, "", ".", "1.", "1", ".digest", "1.ü", "1.\ud800"])
def test_what_is_no_token_is_not_taken(token: str | None) -> None:
    assert not AnswerTokens("1", {"1": "secret"}).accepts(token, EVENT, 1)


@pytest.mark.parametrize("key_id", ["", "a=b", "a,b", "a b", "a\n", "é", "x" * 65])
def test_a_key_id_that_could_not_be_listed_later_is_refused(key_id: str) -> None:
    with pytest.raises(ConfigError, match=r"answers\.token_key_id"):
        StreamConfig(answers=AnswerSettings(token_secret="secret", token_key_id=key_id))


@pytest.mark.parametrize("listed", ["k1", "k1=", "=hush", "k1=hush,k1=husher", "k2=hush", "k 1=hush"])
def test_a_list_of_older_keys_that_would_lose_one_is_refused_without_showing_it(listed: str) -> None:
    with pytest.raises(ConfigError, match=r"answers.older_secrets: found '\*+', expected ID=SECRET") as refused:
        StreamConfig(answers=AnswerSettings(token_secret="new", token_key_id="k2", older_secrets=listed))
    assert "hush" not in str(refused.value)
