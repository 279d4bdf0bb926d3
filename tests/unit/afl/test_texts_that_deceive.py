"""Texts that are shown in another order than they are read, and texts without an end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from afl.cli import main
from afl.compiler import compile_files
from afl.errors import ParseError, SourceTooLarge, SourceUnreadable
from afl.parser import decode_source, parse, read_source
from afl.source import MAX_SOURCE_BYTES
from afl.validation.characters import check_characters
from tests.unit.afl.checking import check_texts

#: Unicode's property Bidi_Control, as PropList.txt has it.
BIDI_CONTROLS = ["\u061c", "\u200e", "\u200f", *map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A))]


def places(text: str) -> list[tuple[str, int | None, int | None]]:
    return [(item.code, item.line, item.column) for item in check_texts([(text, "file://x.afl")]).diagnostics]


@pytest.mark.parametrize("control", BIDI_CONTROLS, ids=lambda character: f"{ord(character):04X}")
def test_each_bidirectional_control_is_warned_of_by_its_number(control: str) -> None:
    (warning,) = check_texts([(f"namespace a {{ facet F() }} // {control}", None)]).diagnostics

    assert (warning.code, warning.is_error) == ("BIDI_CONTROL", False)
    assert f"U+{ord(control):04X} (" in warning.message
    assert control not in warning.message


def test_comments_strings_prompts_and_scripts_are_looked_at_alike() -> None:
    text = (
        "namespace a {\n"
        "  // \u202e in a comment\n"
        '  facet F(x: String = "a\u2066b")\n'
        "  /* \u2069\r\n"
        "  \u200f */\n"
        "  facet G() script { result['x'] = '\u202d' }\n"
        '  event facet P() => (y: String) prompt { template "\u2067" }\n'
        "}\n"
    )
    assert places(text) == [
        ("BIDI_CONTROL", 2, 6),
        ("BIDI_CONTROL", 3, 25),
        ("BIDI_CONTROL", 4, 6),
        ("BIDI_CONTROL", 5, 3),
        ("BIDI_CONTROL", 6, 37),
        ("BIDI_CONTROL", 7, 53),
    ]


def test_a_text_that_cannot_be_parsed_is_warned_of_too() -> None:
    assert places("namespace a {\n  \u202e facet F()\n}") == [("BIDI_CONTROL", 2, 3), ("PARSE_ERROR", 2, 3)]


def test_other_scripts_that_run_from_right_to_left_are_welcome() -> None:
    assert places('namespace a { facet F(x: String = "שלום عالم 日本") } // אב') == []


def test_a_text_full_of_them_has_a_bounded_number_of_warnings() -> None:
    assert len(check_characters("\u202e\n" * 100_000, None)) == 50


def test_afl_check_tells_them_and_ends_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.afl"
    path.write_text("namespace a { facet F() } // \u202e { eteled }\n")
    assert main(["check", str(path)]) == 0
    shown = capsys.readouterr()

    assert "x.afl:1:30: warning[BIDI_CONTROL]: The text has the character U+202E (RIGHT-TO-LEFT OVERRIDE)" in shown.err
    # The excerpt is not shown in another order either.
    assert "\u202e" not in shown.err

    assert main(["check", "--json", str(path)]) == 0
    (finding,) = json.loads(capsys.readouterr().out)["diagnostics"]
    assert (finding["code"], finding["line"], finding["column"], finding["endColumn"]) == ("BIDI_CONTROL", 1, 30, 31)


def test_a_source_of_the_largest_size_is_read_and_one_byte_more_is_not(tmp_path: Path) -> None:
    path = tmp_path / "x.afl"
    path.write_bytes(b" " * MAX_SOURCE_BYTES)
    assert len(read_source(path)) == MAX_SOURCE_BYTES

    path.write_bytes(b" " * (MAX_SOURCE_BYTES + 1))
    with pytest.raises(SourceTooLarge, match=r"^Larger than the 16,777,216 bytes .*x\.afl$") as refused:
        read_source(path)
    assert isinstance(refused.value, SourceUnreadable)
    with pytest.raises(SourceTooLarge):
        compile_files([path])


def test_a_file_without_an_end_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SourceTooLarge):
        read_source("/dev/zero")

    assert main(["check", "/dev/zero"]) == 1
    assert (
        "Error: Larger than the 16,777,216 bytes that a source may have; split it: /dev/zero" in capsys.readouterr().err
    )


def test_a_text_from_elsewhere_has_the_same_limit() -> None:
    with pytest.raises(SourceTooLarge):
        decode_source(b" " * (MAX_SOURCE_BYTES + 1), "flow")
    with pytest.raises(ParseError) as refused:
        parse(" " * (MAX_SOURCE_BYTES + 1))

    assert refused.value.finding().code == "SOURCE_TOO_LARGE"
