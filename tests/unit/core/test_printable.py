"""Text from outside cannot steer what shows it."""

from __future__ import annotations

import json

import pytest

from afl.core.text.printable import bounded, printable, printable_json, printable_lines


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


def test_lines_that_were_laid_out_here_stay_lines_and_steer_nothing_else() -> None:
    assert printable_lines("a\tb\n\x1b[2Jc\r\u202e") == "a\tb\n\\x1b[2Jc\\r\\u202e"
    assert printable_lines("x" * 5_000, 10) == "xxxxxxxxxx... (5000 characters)"


@pytest.mark.parametrize(
    "text", ["\x9b0m", "\u202eright", "line\u2028", "\U000e0001tag", "half \ud800", "plain", "café"]
)
def test_a_json_document_says_the_same_to_a_program_and_steers_no_terminal(text: str) -> None:
    shown = printable_json(json.dumps({text: [text]}, ensure_ascii=False))

    assert shown.isprintable()
    assert json.loads(shown) == {text: [text]}


@pytest.mark.parametrize("text", ["x" * 100, "\ud800" * 100, "é" * 100])
def test_what_is_kept_of_a_text_fits_can_be_encoded_and_is_bounded_once(text: str) -> None:
    kept = bounded(text, 50)

    assert len(kept) <= 50
    assert kept.endswith("... (100 characters)")
    assert kept.encode()
    assert bounded(kept, 50) == kept
    assert bounded(text[:5], 50).encode("utf-8", "surrogatepass")
