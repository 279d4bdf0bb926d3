"""The TextMate grammar of the editors, on programs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from afl.syntax.comments import PieceKind, pieces
from tests.unit.afl.programs import EVERYTHING, WHOLE_LANGUAGE
from tests.unit.editors.textmate import Engine, Token

ROOT = Path(__file__).parents[3]
EDITORS = ROOT / "editors"
KEYWORDS = re.findall(r'^[A-Z]+: "([A-Za-z]+)"$', (ROOT / "afl" / "grammar.lark").read_text(), re.MULTILINE)

#: Every keyword, where it is one.
ALL_KEYWORDS = """\
namespace all { use one uses two
    schema S { a: Int }
    event facet E(a: Int) prompt { template "{a}" }
    implicit i = E(a = 1)
    workflow W(a: Int) with M(x = null) as m script "pass" andThen foreach x in $.a {
        s = E(a = 1) catch when { case true => { } case _ => { } }
        sys.log(a = 1 in [2], b = 1 not in [2], c = "a" contains "b", d = "a" startsWith "b", e = "a" endsWith "b")
        sys.assert(false)
        yield W(a = 1)
    }
}
"""
_KEYWORD_SCOPES = ("keyword.", "storage.", "constant.language.", "support.")


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(json.loads((EDITORS / "afl.tmLanguage.json").read_text()))


def scoped(engine: Engine, text: str) -> list[tuple[str, str]]:
    """Return the tokens with their innermost scopes."""
    return [(token.text.strip(), token.scopes[-1] if token.scopes else "") for token in engine.tokens(text)]


def keywords(tokens: list[Token]) -> Iterator[str]:
    for token in tokens:
        if token.scopes and token.scopes[-1].startswith(_KEYWORD_SCOPES):
            yield token.text.strip()


def _tight(texts: Iterable[str]) -> str:
    return re.sub(r"\s", "", "".join(texts))


def test_every_keyword_of_the_language_is_one_where_it_is_meant_as_one(engine: Engine) -> None:
    assert len(KEYWORDS) > 25
    assert set(KEYWORDS) <= set(keywords(engine.tokens(ALL_KEYWORDS)))


@pytest.mark.parametrize("word", KEYWORDS)
def test_a_keyword_that_is_used_as_a_name_looks_like_a_name(engine: Engine, word: str) -> None:
    text = f"facet F({word}: Long) => ({word}: Long) andThen {{\n    s = F({word} = $.{word} + s.{word})\n}}\n"

    # Once for the keyword that the text needs, if it is that.
    meant = int(word in ("facet", "andThen"))
    assert list(keywords(engine.tokens(text))).count(word) == meant
    assert [token.text.strip() for token in engine.tokens(text)].count(word) == 5 + meant


def test_nothing_of_a_program_is_without_a_scope(engine: Engine) -> None:
    for text in (EVERYTHING, WHOLE_LANGUAGE, ALL_KEYWORDS):
        assert [token for token in engine.tokens(text) if not token.scopes] == []


@pytest.mark.parametrize("text", [EVERYTHING, WHOLE_LANGUAGE])
def test_comments_strings_and_scripts_are_where_the_compiler_sees_them(engine: Engine, text: str) -> None:
    tokens = engine.tokens(text)

    def coloured(beginning: str, *, python: bool = False) -> str:
        """Return, without blanks, what has a scope; scripts are looked into or left out."""
        found = [token for token in tokens if ("source.python" in token.scopes) is python]
        return _tight(token.text for token in found if any(scope.startswith(beginning) for scope in token.scopes))

    def seen(kind: PieceKind) -> list[str]:
        return [piece.text for piece in pieces(text) if piece.kind is kind]

    assert coloured("string.") == _tight(seen(PieceKind.STRING))
    assert coloured("comment.block.documentation.") == _tight(seen(PieceKind.DOC_COMMENT))
    # The braces around a script are not Python's.
    assert coloured("source.python", python=True) == _tight(body[1:-1] for body in seen(PieceKind.RAW_BODY))


def test_declarations_show_what_is_named_and_typed(engine: Engine) -> None:
    found = scoped(
        engine, "event facet Pay(sum: Double = -1.5, by: [shop.Card]) => (ok: Boolean) with Retry(n = 3) as r"
    )

    assert [item for item in found if not item[1].startswith("punctuation.")] == [
        ("event", "storage.type.event.afl"),
        ("facet", "storage.type.facet.afl"),
        ("Pay", "entity.name.function.definition.afl"),
        ("sum", "variable.parameter.afl"),
        ("Double", "support.type.builtin.afl"),
        ("=", "keyword.operator.assignment.afl"),
        ("-", "keyword.operator.arithmetic.afl"),
        ("1.5", "constant.numeric.double.afl"),
        ("by", "variable.parameter.afl"),
        ("shop.Card", "entity.name.type.afl"),
        ("=>", "keyword.operator.arrow.afl"),
        ("ok", "variable.parameter.afl"),
        ("Boolean", "support.type.builtin.afl"),
        ("with", "keyword.other.with.afl"),
        ("Retry", "entity.name.function.call.afl"),
        ("n", "variable.parameter.argument.afl"),
        ("=", "keyword.operator.assignment.afl"),
        ("3", "constant.numeric.integer.afl"),
        ("as", "keyword.other.as.afl"),
        ("r", "variable.other.alias.afl"),
    ]


def test_a_statement_shows_its_step_what_it_calls_and_what_it_refers_to(engine: Engine) -> None:
    found = scoped(engine, 's = shop.Pay(sum = t.total ++ "\\n", ok = !$.open && true)')

    assert [item for item in found if not item[1].startswith("punctuation.")] == [
        ("s", "variable.other.step.definition.afl"),
        ("=", "keyword.operator.assignment.afl"),
        ("shop.", "entity.name.namespace.afl"),
        ("Pay", "entity.name.function.call.afl"),
        ("sum", "variable.parameter.argument.afl"),
        ("=", "keyword.operator.assignment.afl"),
        ("t", "variable.other.step.afl"),
        ("total", "variable.other.property.afl"),
        ("++", "keyword.operator.concatenation.afl"),
        ("\\n", "constant.character.escape.afl"),
        ("ok", "variable.parameter.argument.afl"),
        ("=", "keyword.operator.assignment.afl"),
        ("!", "keyword.operator.logical.afl"),
        ("$", "variable.language.scope.afl"),
        ("open", "variable.parameter.afl"),
        ("&&", "keyword.operator.logical.afl"),
        ("true", "constant.language.afl"),
    ]


def test_placeholders_stand_out_in_prompts_and_doubled_braces_do_not(engine: Engine) -> None:
    found = scoped(engine, 'event facet A(q: String) prompt { template "{q} {{q}}" }')

    assert [text for text, scope in found if scope == "variable.parameter.placeholder.afl"] == ["q"]


def test_tags_stand_out_in_doc_comments_only(engine: Engine) -> None:
    found = scoped(engine, "/** @param a what\n * @return b what */\n/* @param c */ // @param d\n")

    assert [text for text, scope in found if scope == "variable.other.doc.afl"] == ["a", "b"]


def test_braces_in_strings_and_comments_do_not_end_a_script(engine: Engine) -> None:
    text = 'facet A() script {\n    a = "}" + \'}\' # }\n    b = {1: {2: 3}}\n    c = """\n}\n"""\n}\nfacet B()\n'

    assert ("B", "entity.name.function.definition.afl") in scoped(engine, text)


def test_the_extension_names_the_grammar_and_starts_the_language_server() -> None:
    package = json.loads((EDITORS / "package.json").read_text())
    contributed = package["contributes"]
    (language,) = contributed["languages"]
    (grammar,) = contributed["grammars"]

    assert language["extensions"] == [".afl", ".ffl"]
    assert json.loads((EDITORS / language["configuration"]).read_text())["comments"]["lineComment"] == "//"
    named = json.loads((EDITORS / grammar["path"]).read_text())
    assert named["scopeName"] == grammar["scopeName"]
    assert list(grammar["embeddedLanguages"]) == ["meta.embedded.block.python"]
    assert '"lsp"' in (EDITORS / package["main"]).read_text()
