"""Texts of errors without the sensitive values that they quote, in whatever form."""

from __future__ import annotations

from typing import Any

import pytest

from afl_stream.sensitive.error_texts import hiding


@pytest.mark.parametrize(
    ("value", "text", "shown"),
    [
        ("4111-22", "no card 4111-22 here", "no card [sensitive] here"),
        ("it's \n", "KeyError: \"it's \\n\"", 'KeyError: "[sensitive]"'),
        ("größe", 'sent {"a": "gr\\u00f6\\u00dfe"}', 'sent {"a": "[sensitive]"}'),
        (814, "pin 814 of 8141 and 5.814", "pin [sensitive] of 8141 and 5.[sensitive]"),
        (1.5, "share 1.5", "share [sensitive]"),
        ("ab", "about ab", "about [sensitive]"),
        ({"number": "4111", "tags": ["first", {"a": "second"}]}, "4111 first second", " ".join(["[sensitive]"] * 3)),
        ("a+b(c", "a+b(c", "[sensitive]"),
        ([True, None, ""], "True None", "True None"),
    ],
)  # fmt: skip
def test_a_value_is_hidden_in_each_of_its_forms(value: Any, text: str, shown: str) -> None:
    hide = hiding({"card": value, "cents": 5}, {"card", "other"})

    assert (text if hide is None else hide(text)) == shown


def test_the_longer_of_two_values_is_hidden_whole() -> None:
    hide = hiding({"a": "secret", "b": "secret-long"}, {"a", "b"})

    assert hide is not None
    assert hide("secret-long, secret") == "[sensitive], [sensitive]"


def test_what_is_not_sensitive_stays() -> None:
    assert hiding({"cents": 5}, {"card"}) is None
