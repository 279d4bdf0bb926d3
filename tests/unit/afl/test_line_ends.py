"""LF, CR LF and a CR alone end a line, for every reader of a text in the same way."""

import pytest
from lsprotocol import types as lsp

from afl.compiler import compile_text
from afl.diagnostics import render
from afl.formatting import format_text
from afl.language_server.texts import Text
from afl.parser import parse
from afl.syntax.comments import pieces

from .checking import findings

_LINES = [
    "// a comment",
    "namespace a { // another",
    "    /** A doc",
    "        comment */",
    "    event facet G(x: Int) => (y: Int)",
    "    facet S(x: Int) script { # no code",
    "        result['y'] = 1 }",
    "    workflow W(v: Int) => (r: Int) andThen {",
    "        s = G(x = $.v) yield W(r = s.y)",
    "    }",
    "}",
    "",
]


@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_a_program_is_the_same_whatever_ends_its_lines(end: str) -> None:
    plain, other = "\n".join(_LINES), end.join(_LINES)

    assert compile_text(other).program_json == compile_text(plain).program_json
    assert parse(other) == parse(plain)


def test_a_lone_cr_hides_no_code_behind_a_comment() -> None:
    text = "// looks harmless\rfacet F()"

    assert [facet.sig.name for facet in parse(text).facets] == ["F"]
    assert [(piece.text, piece.line) for piece in pieces(text)][:2] == [("// looks harmless", 1), ("facet", 2)]
    assert format_text(text) == "// looks harmless\nfacet F()\n"


def test_a_place_behind_a_lone_cr_is_on_the_next_line() -> None:
    text = "namespace a {\r  facet F(x: Nope)\r}"

    (found,) = findings(text)

    assert (found.line, found.column) == (2, 14)
    assert "  2 |   facet F(x: Nope)\n" in render(found, text)


def test_a_lone_cr_in_a_string_is_read_as_the_line_end_that_it_is() -> None:
    (one,), (other,) = (parse(f'facet F(x: String = "a{end}b")').facets for end in ("\r", "\n"))

    assert one.sig == other.sig


def test_an_editors_position_behind_a_lone_cr_is_on_the_next_line() -> None:
    class Units:
        def client_num_units(self, string: str) -> int:
            return len(string)

    text = Text("// a\rfacet F()\r\nfacet G()\n", Units())

    assert text.place(lsp.Position(1, 6)) == (2, 7)
    assert text.offset(lsp.Position(2, 0)) == len("// a\rfacet F()\r\n")
    assert text.line(0) == "// a"
