"""Whatever the line ends, blanks and comments of a program are: the formatter keeps program and comments, and rests."""

import re
from pathlib import Path
from random import Random

import pytest

from afl.emitter import emit_dict
from afl.formatting import format_text
from afl.parser import parse
from afl.syntax.comments import COMMENT_KINDS, PieceKind, pieces
from tests.random_programs.generator import generate

from . import programs

_ROOT = Path(__file__).parents[3]
#: A program with every construct of the language in it, in an unusual layout.
_EVERY_CONSTRUCT = Path(__file__).parent / "unformatted.afl"
_BLOCK = re.compile(r"^```afl\n(.*?)^```", re.MULTILINE | re.DOTALL)
_GAPS = ("", " ", " ", "\t", "\n", "\n\n\n", "\r\n  ", "\f")
_COMMENTS = (
    "// line {n}\n",
    "/* block {n} */",
    "\n/* own\n   lines {n} */\n",
    "/** doc {n} */",
    "\n// own {n}\n",
    "/**/",
)
#: Pieces of these kinds need something between them, or would become another piece.
_WORDS = (PieceKind.WORD, PieceKind.NUMBER, PieceKind.MARK)


def _programs() -> list[tuple[str, str]]:
    """Return programs with their names: those of the documents, the examples and the tests."""
    found = [(name, text) for name, text in vars(programs).items() if name.isupper() and isinstance(text, str)]
    found.append(("unformatted.afl", _EVERY_CONSTRUCT.read_text(encoding="utf-8")))
    for page in [_ROOT / "README.md", *sorted((_ROOT / "docs").rglob("*.md"))]:
        blocks = _BLOCK.findall(page.read_text(encoding="utf-8"))
        found += [(f"{page.name}-{number}", block) for number, block in enumerate(blocks)]
    found += [(path.name, path.read_text(encoding="utf-8")) for path in sorted((_ROOT / "examples").rglob("*.afl"))]
    return found + [(f"random-{seed}", generate(seed).text) for seed in range(2)]


PROGRAMS = _programs()
_TEXTS = [pytest.param(text, id=name) for name, text in PROGRAMS]


def _disturbed(text: str, random: Random, comments: float) -> str:
    """Return the same program with other line ends and blanks, and with comments between some of its tokens."""
    parts: list[str] = []
    before = PieceKind.END
    for n, piece in enumerate(pieces(text)):
        gap = random.choice(_GAPS)
        if random.random() < comments:
            gap += " " + random.choice(_COMMENTS).format(n=n) + random.choice(["", " ", "\n"])
        if before in _WORDS and piece.kind in _WORDS and not gap:
            gap = " "
        parts += [gap, piece.text]
        before = piece.kind
        if piece.kind is PieceKind.LINE_COMMENT:
            parts.append("\n")
    return "".join(parts)


def _comments(text: str) -> list[str]:
    return [" ".join(piece.text.split()) for piece in pieces(text) if piece.kind in COMMENT_KINDS]


def _compiled(text: str) -> object:
    return emit_dict(parse(text), include_locations=False)


def _assert_well_formatted(text: str) -> None:
    once = format_text(text)

    assert _compiled(once) == _compiled(text)
    assert _comments(once) == _comments(text)
    assert format_text(once) == once


@pytest.mark.parametrize("text", _TEXTS)
def test_formatting_keeps_the_program_and_its_comments_and_rests(text: str) -> None:
    _assert_well_formatted(text)


@pytest.mark.parametrize("text", _TEXTS)
def test_white_space_carries_no_meaning(text: str) -> None:
    disturbed = _disturbed(text, Random(1), comments=0)

    assert _compiled(disturbed) == _compiled(text)
    _assert_well_formatted(disturbed)


@pytest.mark.parametrize("text", _TEXTS)
def test_comments_may_stand_between_any_two_tokens(text: str) -> None:
    _assert_well_formatted(_disturbed(text, Random(2), comments=0.2))


@pytest.mark.parametrize("text", [param for param in _TEXTS if not str(param.id).startswith("random")])
def test_the_layout_depends_on_nothing_but_the_tokens_where_the_author_has_no_say(text: str) -> None:
    """Commas behind the last item, empty lines and the line ends behind braces are the author's; the rest is not."""
    plain = [piece.text for piece in pieces(text) if not piece.is_comment]

    assert format_text(" ".join(plain)) == format_text("\t".join(plain))
