"""Text from outside cannot steer what shows it."""

from __future__ import annotations

import pytest

from afl.core.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("café 結果", "café 結果"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("two\nlines\r\n", "two\\nlines\\r\\n"),
        ("left\u202eright\u2066", "left\\u202eright\\u2066"),
        ("half \ud800", "half \\ud800"),
        ("\x9b0m", "\\x9b0m"),
    ],
)
def test_what_cannot_be_shown_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(text).isprintable()


def test_a_long_text_is_cut_and_says_how_long_it_was() -> None:
    assert printable("x" * 5_000, 10) == "xxxxxxxxxx... (5000 characters)"
    assert printable("x" * 10, 10) == "x" * 10
