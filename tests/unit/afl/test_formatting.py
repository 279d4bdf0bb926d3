"""The formatter: one layout, the same program, every comment."""

import sys

import pytest

from afl.emitter import emit_dict
from afl.formatting import FormatRefused, format_text
from afl.parser import parse
from afl.syntax.comments import PieceKind, pieces


def test_a_long_list_has_one_item_on_a_line() -> None:
    text = "event facet Quote(article_id: String, customer_group: String, net_amount: Double, d: String) => (x: Int)"
    text = text.replace("article_id", "the_whole_number_of_the_article")

    assert format_text(text) == (
        "event facet Quote(\n    the_whole_number_of_the_article: String,\n    customer_group: String,\n"
        "    net_amount: Double,\n    d: String,\n) => (x: Int)\n"
    )


def test_separators_become_lines_and_declarations_with_a_body_stand_apart() -> None:
    text = (
        "namespace a{use b;;facet F(x:Int=-1)\nworkflow W()andThen{s=F( x = 1+2*3 );yield W()}facet G()}namespace b{}"
    )

    assert (
        format_text(text)
        == """\
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
    )


def test_comments_stay_with_what_they_are_about() -> None:
    text = "// head\n\nnamespace a { // spaces\n/** What F is. */ facet F(x: Int, // first\ny: Int)\n// last\n}"

    assert (
        format_text(text)
        == """\
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
    )


def test_a_separator_stays_where_it_keeps_a_doc_comment_from_a_declaration() -> None:
    assert format_text("facet F() /** no one's */ ; facet G()") == "facet F()\n/** no one's */ ;\nfacet G()\n"
    assert format_text("facet F() /** no one's */ ; /** G's */ facet G()") == (
        "facet F()\n/** no one's */\n/** G's */\nfacet G()\n"
    )


def test_an_empty_text_stays_empty() -> None:
    assert format_text("") == ""
    assert format_text(" ;\n") == ""


def test_what_the_formatter_does_not_know_is_refused_with_its_line() -> None:
    with pytest.raises(FormatRefused, match=r"did not expect `\?` here \(line 2\)"):
        format_text("namespace a {\n ? }")


def test_a_script_in_braces_moves_as_a_whole() -> None:
    text = 'facet F(x: Int) script python {\n  if "}" in x:\n    y = 1\n\n  # }\n}'

    assert format_text(text) == ('facet F(x: Int) script python {\n    if "}" in x:\n      y = 1\n\n    # }\n}\n')


def test_code_beside_the_brace_of_a_script_gets_a_line_of_its_own() -> None:
    text = "facet F() andThen script { a = 1\n      if a:\n        b = 2\n}"

    assert format_text(text) == ("facet F() andThen script {\n    a = 1\n    if a:\n      b = 2\n}\n")


@pytest.mark.parametrize(
    "script",
    [
        "\"result['a']  =  1\n  # as it is\"",
        '{ text = """\n      kept\n   kept"""\n  x = {"}": 1}\n   \n  \n}',
        "{\n\tif x:\n\t\ty = '{' # }\n    \n}",
        "{x = 1  }",
        "{\r\n    x = 1\r\n}",
    ],
)
def test_the_code_of_a_script_is_never_changed(script: str) -> None:
    text = f"namespace a {{ facet F(x: Int) script python {script} andThen script {script} }}"
    once = format_text(text)

    assert _scripts(once) == _scripts(text)
    assert format_text(once) == once


def _scripts(text: str) -> object:
    (facet,) = parse(text).namespaces[0].facets
    return emit_dict(facet, include_locations=False)


def test_mixins_that_do_not_fit_stand_below_each_other_and_the_body_begins_a_line() -> None:
    text = (
        "event facet Pull(url: String) => (rows: Json) with Retry(times = 5) as retry with Timeout(minutes = 2, "
        "seconds = 30) catch { p = Pull(url = $.url, whole = true) with Retry(times = 50) as retry with "
        "Timeout(minutes = 2) andThen { x = Y() yield Z() } }"
    )

    assert (
        format_text(text)
        == """\
event facet Pull(url: String) => (rows: Json)
    with Retry(times = 5) as retry
    with Timeout(minutes = 2, seconds = 30)
catch {
    p = Pull(url = $.url, whole = true)
        with Retry(times = 50) as retry
        with Timeout(minutes = 2)
    andThen {
        x = Y()
        yield Z()
    }
}
"""
    )


def test_of_parameters_and_returns_the_longer_list_is_broken_first() -> None:
    few, many = "a: Int", ", ".join(f"number_{n}: [Double]" for n in range(5))
    broken = "".join(f"    {slot},\n" for slot in many.split(", "))

    assert format_text(f"facet F({few}) => ({many})") == f"facet F({few}) => (\n{broken})\n"
    assert format_text(f"facet F({many}) => ({few})") == f"facet F(\n{broken}) => ({few})\n"


def test_lines_have_a_hundred_columns() -> None:
    fits = f'facet F(x: String = "{"x" * 77}")\n'

    assert len(fits) == 101
    assert format_text(fits) == fits
    assert format_text(fits.replace("F", "FF")).startswith("facet FF(\n")


def test_cases_and_clauses_are_laid_out_like_blocks() -> None:
    text = (
        "workflow W() andThen when { case $.a>1&&!$.b => { yield W(x=1) } case _ => {} } andThen foreach r in $.rows "
        '{ s=F(r=r) catch when { case s.error=="" => { sys.log(text=s.error) } case _ => {} } } catch { yield W() }'
    )

    assert (
        format_text(text)
        == """\
workflow W() andThen when {
    case $.a > 1 && !$.b => { yield W(x = 1) }
    case _ => { }
} andThen foreach r in $.rows {
    s = F(r = r) catch when {
        case s.error == "" => { sys.log(text = s.error) }
        case _ => { }
    }
} catch { yield W() }
"""
    )


def test_a_broken_assertion_gets_no_comma_which_it_may_not_have() -> None:
    text = f"workflow W() andThen {{ sys.assert({' && '.join(['$.number_of_rows > 0'] * 5)}) }}"
    formatted = format_text(text)

    assert "sys.assert(\n        $.number_of_rows > 0\n            && $" in formatted
    assert "> 0\n    )" in formatted


def test_signs_in_a_row_are_not_joined_to_another_operator() -> None:
    assert format_text("facet F(x: Int = 1 - - + + - 2)") == "facet F(x: Int = 1 - -+ +-2)\n"


def test_schema_fields_get_commas() -> None:
    assert format_text("schema S { a: Int b: Int; c: Int }") == "schema S { a: Int, b: Int, c: Int }\n"
    assert format_text("schema S {\na: Int b: Int }") == "schema S {\n    a: Int,\n    b: Int,\n}\n"


def test_a_header_namespace_stands_over_declarations_that_are_not_indented() -> None:
    text = "namespace a . b use c implicit i = F(x=1) facet F(x:Int)"

    assert format_text(text) == "namespace a.b\n\nuse c\n\nimplicit i = F(x = 1)\nfacet F(x: Int)\n"


def test_a_text_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(FormatRefused, match="nested too deeply"):
        format_text(f"facet F(x: Int = {'(' * 5000}1{')' * 5000})")


def test_a_long_text_takes_time_in_proportion() -> None:
    def calls(times: int) -> int:
        """Count the function calls, which no other process disturbs."""
        count = 0

        def count_call(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += event == "call"

        text = "facet F(x: Int = (1 + 2) * 3 /* c */, y: [[Int]]) // d\n" * times
        sys.setprofile(count_call)
        try:
            format_text(text)
        finally:
            sys.setprofile(None)
        return count

    assert calls(160) / calls(40) < 4.4


def test_a_comment_of_marks_alone_is_no_doc_comment() -> None:
    assert [piece.kind for piece in pieces("/**/ /***/")] == [
        PieceKind.BLOCK_COMMENT, PieceKind.DOC_COMMENT, PieceKind.END,
    ]  # fmt: skip
