"""The formatter: one layout, the same program, every comment."""

from random import Random

import pytest

from afl.comments import COMMENT_KINDS, PieceKind, doc_comments, pieces
from afl.compiler import compile_text
from afl.formatting import FormatRefused, format_text
from tests.random_programs.generator import generate

from .programs import BILLING, EVERYTHING, ROOMS

_COMMENTS = ("// line {n}\n", "/* block {n} */", "\n/* own\n   lines {n} */\n", "/** doc {n} */", "\n// own {n}\n")


def _disturbed(text: str, random: Random) -> str:
    """The same program with other line ends and blanks, and with comments between any two tokens."""
    parts: list[str] = []
    for n, piece in enumerate(pieces(text)):
        gap = random.choice([" ", " ", "\n", "\n\n\n", "\t"])
        if random.random() < 0.15:
            gap += random.choice(_COMMENTS).format(n=n) + random.choice([" ", "\n"])
        parts += [gap, piece.text]
    return "".join(parts)


def _comments(text: str) -> list[str]:
    return [" ".join(piece.text.split()) for piece in pieces(text) if piece.kind in COMMENT_KINDS]


def _compiled(text: str) -> object:
    return compile_text(text, include_locations=False).program_json


@pytest.mark.parametrize("text", [BILLING, ROOMS, EVERYTHING, *(generate(seed).text for seed in range(30))])
def test_formatting_keeps_the_program_and_changes_nothing_the_second_time(text: str) -> None:
    once = format_text(text)

    assert _compiled(once) == _compiled(text)
    assert format_text(once) == once


@pytest.mark.parametrize("seed", range(40))
def test_comments_between_any_two_tokens_stay_in_order_and_do_not_move_again(seed: int) -> None:
    text = _disturbed(generate(seed).text, Random(seed))
    once = format_text(text)

    assert _comments(once) == _comments(text)
    assert _compiled(once) == _compiled(text)
    assert format_text(once) == once


def test_a_long_list_has_one_item_on_a_line() -> None:
    text = "event facet Quote(article_id: String, customer_group: String, net_amount: Double, d: String) => (x: Int)"
    text = text.replace("article_id", "the_whole_number_of_the_article")

    assert format_text(text) == (
        "event facet Quote(\n    the_whole_number_of_the_article: String,\n    customer_group: String,\n"
        "    net_amount: Double,\n    d: String,\n) => (x: Int)\n"
    )


def test_separators_become_lines_and_declarations_with_a_body_stand_apart() -> None:
    text = (
        "namespace a{use b;;facet F(x:Int=-1)\nworkflow W()andThen{s=F( x = 1+2*3 );"
        "yield W()}facet G()}namespace b{}"
    )

    assert format_text(text) == """\
namespace a {
    use b

    facet F(x: Int = -1)

    workflow W() andThen {
        s = F(x = 1 + 2 * 3)
        yield W()
    }

    facet G()
}

namespace b { }
"""


def test_comments_stay_with_what_they_are_about() -> None:
    text = "// head\n\nnamespace a { // spaces\n/** What F is. */ facet F(x: Int, // first\ny: Int)\n// last\n}"

    assert format_text(text) == """\
// head

namespace a { // spaces
    /** What F is. */
    facet F(
        x: Int, // first
        y: Int,
    )
    // last
}
"""


def test_an_empty_text_stays_empty() -> None:
    assert format_text("") == ""
    assert format_text(" ;\n") == ""


def test_what_the_formatter_does_not_know_is_refused_with_its_line() -> None:
    with pytest.raises(FormatRefused, match=r"did not expect `\?` here \(line 2\)"):
        format_text("namespace a {\n ? }")


def test_a_script_in_braces_moves_as_a_whole() -> None:
    text = 'facet F(x: Int) script python {\n  if "}" in x:\n    y = 1\n\n  # }\n}'

    assert format_text(text) == (
        'facet F(x: Int) script python {\n    if "}" in x:\n      y = 1\n\n    # }\n}\n'
    )


def test_a_doc_comment_belongs_to_the_declaration_behind_it() -> None:
    text = "/** first */ /** F */ /* more */ facet F() /** a */\nnamespace a { /** S */\nschema S { /** - */ x: Int } }"

    assert doc_comments(text) == {(1, 34): "/** F */", (2, 1): "/** a */", (3, 1): "/** S */"}
    assert [piece.kind for piece in pieces("/**/ /***/")] == [
        PieceKind.BLOCK_COMMENT, PieceKind.DOC_COMMENT, PieceKind.END,
    ]  # fmt: skip
