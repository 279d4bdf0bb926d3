"""Messages about texts that the grammar does not accept."""

import json
import random
from traceback import format_exception

import pytest

from afl.diagnostics import Diagnostic
from afl.emitter import emit_json
from afl.errors import ParseError
from afl.parser import parse
from afl.syntax.foreign_words import (
    AFTER_WORD_HELP,
    BLOCK_WORD_HELP,
    CASES_HELP,
    NUMBER_HELP,
    PREFIXED_STRING_HELP,
    TYPED_STEP_HELP,
    WORD_HELP,
)
from afl.syntax.help import SYNTAX_HELP
from afl.syntax.tree_builder import MAX_BLOCK_DEPTH, MAX_EXPRESSION_DEPTH
from tests.unit.afl.checking import check_texts

from .programs import EVERYTHING, WHOLE_LANGUAGE


def refusal(text: str) -> Diagnostic:
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert caught.value.diagnostic is not None
    # What Python itself shows of it ends with the line that names it.
    assert format_exception(caught.value)[-1].rstrip("\n").splitlines()[-1].startswith("afl.errors.ParseError: ")
    return caught.value.diagnostic


@pytest.mark.parametrize(("help_text", "program"), [(text, program) for text, all_ in SYNTAX_HELP for program in all_])
def test_syntax_help(help_text: str, program: str) -> None:
    found = refusal(program)

    assert (found.code, found.hint) == ("PARSE_ERROR", help_text)


@pytest.mark.parametrize("text", ["facet F() andThen { } else { }", "facet F() andThen when { else => { } }"])
def test_a_word_of_other_languages_gets_an_answer(text: str) -> None:
    assert refusal(text).hint == "the case for everything else is written: case _ => { ... }"


@pytest.mark.parametrize("word", AFTER_WORD_HELP)
def test_a_word_of_other_languages_in_front_of_a_statement_gets_an_answer(word: str) -> None:
    assert refusal(f"facet F() andThen {{ {word} x {{ }} }}").hint == AFTER_WORD_HELP[word]


@pytest.mark.parametrize("word", AFTER_WORD_HELP)
def test_a_word_of_other_languages_may_name_a_step_all_the_same(word: str) -> None:
    parse(f"facet F() andThen {{ {word} = G() t = G(x = {word}.y) }}")


@pytest.mark.parametrize("word", ["and", "or", "is"])
def test_an_operator_of_other_languages_gets_an_answer(word: str) -> None:
    assert refusal(f"facet F(x: Boolean = true {word} false)").hint == WORD_HELP[word]


@pytest.mark.parametrize(
    "word", ["import", "def", "fn", "func", "function", "class", "task", "enum", "type", "struct", "package", "using"]
)
def test_a_declaration_of_other_languages_gets_an_answer(word: str) -> None:
    assert refusal(f"{word} F()").hint == WORD_HELP[word]


@pytest.mark.parametrize("word", BLOCK_WORD_HELP)
def test_a_word_of_other_languages_in_the_place_of_a_block_gets_an_answer(word: str) -> None:
    assert refusal(f"facet F() {word} x {{ }}").hint == BLOCK_WORD_HELP[word]


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ('f"hi {$.s}"', PREFIXED_STRING_HELP),
        ('b"hi"', PREFIXED_STRING_HELP),
        ("1_000", NUMBER_HELP),
        ("0x1F", NUMBER_HELP),
        ("1e3", NUMBER_HELP),
        ("2.5f", NUMBER_HELP),
        ("'hi'", 'strings are written "..."'),
        ("`hi`", 'strings are written "..."; values are joined with ++: "hello " ++ $.name'),
        ('{"k": 1}', "a map is written #{key: value}"),
        ("1 if $.b else 2", "there is no else and no if: " + CASES_HELP),
        ("await G()", "every step waits by itself for the steps that it refers to: s = Pay()"),
        ("2 ^ 3", "there is no power; multiply, or compute it in a script"),
    ],
)
def test_a_value_written_as_in_another_language_gets_an_answer(value: str, hint: str) -> None:
    assert refusal(f"facet F() andThen {{ a = G(x = {value}) }}").hint == hint


@pytest.mark.parametrize("written", ["Map<String, Int>", "map<String, Int>", "Dict[String]", "Record<Int>"])
def test_a_map_type_gets_another_answer_than_a_list_type(written: str) -> None:
    assert "a map is a Json" in str(refusal(f"facet F(x: {written})").hint)


def test_an_optional_type_is_a_default() -> None:
    assert "note: String = null" in str(refusal("facet F(x: Optional[Int])").hint)


@pytest.mark.parametrize("word", ["Int", "String", "int", "list"])
def test_a_type_in_front_of_a_step_gets_an_answer(word: str) -> None:
    assert refusal(f"facet F() andThen {{ {word} a = G() }}").hint == TYPED_STEP_HELP
    parse(f"facet F() andThen {{ {word} = G() }}")


@pytest.mark.parametrize(
    ("text", "keyword"),
    [
        ("workflow W() andthen { }", "andThen"),
        ("workflow W() AndThen { }", "andThen"),
        ("Workflow W()", "workflow"),
        ("worklfow W()", "workflow"),
        ("namspace a { }", "namespace"),
        ("facet F() andThen foreech x in $.a { }", "foreach"),
        ("facet F() andThen { s = G() cathc { } }", "catch"),
    ],
)
def test_a_misspelt_keyword_gets_its_spelling(text: str, keyword: str) -> None:
    assert refusal(text).hint == f"did you mean {keyword}?"


def test_a_comment_of_another_language_gets_an_answer() -> None:
    assert "// ..." in str(refusal("# a comment\nfacet F()").hint)
    assert "// ..." in str(refusal("facet F() andThen { s = G() # a comment\n }").hint)


@pytest.mark.parametrize("text", ["namespace a;\nfacet F();", "namespace a { facet F() andThen { s = G(); t = G() } }"])
def test_semicolons_may_stand_or_not(text: str) -> None:
    parse(text)
    parse(text.replace(";", ""))


def test_a_question_mark_behind_a_type_gets_an_answer() -> None:
    assert refusal("facet F(x: String?)").hint == (
        "a parameter that may be left out has a default: note: String = null"
    )


def test_a_keyword_used_as_a_name_gets_no_help_meant_for_the_keyword() -> None:
    assert refusal("facet F() andThen { foo { } }").hint is None
    assert refusal("facet F() andThen { when { } }").hint == (
        "when stands behind andThen or catch: andThen when { case ... }"
    )


@pytest.mark.parametrize("text", ["facet contains in()", "facet F(x catch: Int)", "catch", "facet F(x: Int = 1 not 2)"])
def test_a_stray_keyword_is_a_mistake(text: str) -> None:
    assert refusal(text).code == "PARSE_ERROR"


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ("facet F(\n  x Int)", "syntax: found `Int`, wanted `:`", 2, 5),
        ("facet F(x: Int = )", "syntax: found `)`, wanted a value", 1, 18),
        ("facet F(x: Int = $.a == )", "syntax: found `)`, wanted a value", 1, 25),
        ("facet F(x: Int = [1}", "syntax: found `}`, wanted an operator, `,`, `[` or `]`", 1, 20),
        ("facet F(x: Int = [1 < 2}", "syntax: found `}`, wanted an operator, `,`, `[` or `]`", 1, 24),
        ("facet F(x: Int = $.a not $.b)", "syntax: found `$`, wanted `in`", 1, 26),
        ("facet F(x: Int = $.a & $.b)", "syntax: found `&` (U+0026), which is not part of the language", 1, 22),
        ("facet F() andThen {", "syntax: found the end of the text, wanted `}`, `yield` or a name", 1, 20),
        ('facet F(x: String = "a\n', "syntax: this string is never closed", 1, 21),
        ("facet F() script\n{ a", "syntax: this script is never closed", 2, 1),
        ('facet F() prompt { user "a" }', "syntax: found `user`, wanted `system`, `template`, `model` or `}`", 1, 20),
        ('facet F() prompt { system "\\x4" }', "syntax: \\x wants 2 hexadecimal digits", 1, 28),
        ('facet F() script "\\u12"', "syntax: \\u wants 4 hexadecimal digits", 1, 19),
        ("facet F() prompt {", "syntax: found the end of the text, wanted `}` or a name", 1, 19),
        ("facet F() script 5", "syntax: found `5`, wanted a name, a string or a body in braces", 1, 18),
        ("facet F() catch", "syntax: found the end of the text, wanted `{` or `when`", 1, 16),
        ("facet F() andThen when { s }", "syntax: found `s`, wanted `}` or `case`", 1, 26),
        ("facet F() andThen { sys.a() }", "syntax: found `a`, wanted `assert` or `log`", 1, 25),
        ("facet F() /* a\n", "syntax: this comment is never closed", 1, 11),
        ("facet Fé()", "syntax: found `é` (U+00E9), which is not part of the language", 1, 8),
        ("facet F(x: String = 'a')", "syntax: found `'`, wanted a string in double quotes", 1, 21),
        ('facet F(x: String = "ab\\x4")', "syntax: \\x wants 2 hexadecimal digits", 1, 24),
        ('facet F(x: String = "\n \\u12G4")', "syntax: \\u wants 4 hexadecimal digits", 2, 2),
        ('facet F(x: String = "\\U00110000")', "syntax: \\U00110000 is beyond the last character, \\U0010FFFF", 1, 22),
        ('facet F(x: String = "\\ud83c!")', "syntax: the string has half of a surrogate pair", 1, 21),
        ('facet F(x: String = "\ud800")', "syntax: the string has half of a surrogate pair", 1, 21),
        ("facet F(x: Double = 1.5e999)", "syntax: the number is too large for a Double", 1, 21),
        (f"facet F(x: Int = {'9' * 5000})", "syntax: an integer of 5000 digits is too long", 1, 18),
    ],
)
def test_a_refusal_says_what_was_found_and_where(text: str, message: str, line: int, column: int) -> None:
    found = refusal(text)

    assert (found.line, found.column) == (line, column)
    assert found.message == message


def test_the_error_carries_message_and_place_and_says_them() -> None:
    with pytest.raises(ParseError) as caught:
        parse("facet F(x Int)")

    assert (caught.value.line, caught.value.column) == (1, 11)
    assert str(caught.value) == "syntax: found `Int`, wanted `:` at line 1, column 11"


@pytest.mark.parametrize(
    "value",
    [
        "(" * 10_000 + "1" + ")" * 10_000,
        "[" * 10_000 + "]" * 10_000,
        "-" * 10_000 + "1",
        "!" * 10_000 + "true",
        "(1 == " * 10_000 + "1" + ")" * 10_000,
        "+ " * 10_000 + "1",
        "1" + " - (1" * 10_000 + ")" * 10_000,
        "#{a: " * 10_000 + "1" + "}" * 10_000,
        "$.a[" * 10_000 + "0" + "]" * 10_000,
        "(" * 10_000 + "1" + " - 1)" * 10_000,
    ],
)
def test_nesting_too_deep_is_a_diagnostic(value: str) -> None:
    assert "nested too deeply" in refusal(f"facet F(x: Json = {value})").message


def test_deep_blocks_and_types_are_diagnostics() -> None:
    blocks = "andThen { s = G() " * 5_000 + "}" * 5_000
    assert "nested too deeply" in refusal(f"facet F() {blocks}").message
    assert "nested too deeply" in refusal(f"facet F(x: {'[' * 5_000}Int{']' * 5_000})").message


def test_unclosed_nesting_is_a_diagnostic() -> None:
    assert refusal("facet F(x: Json = " + "(" * 100_000).message.startswith("syntax: found the end of the text")


def test_what_is_just_not_too_deep_compiles_to_json() -> None:
    depth = MAX_EXPRESSION_DEPTH - 2
    for value in ("[" * depth + "]" * depth, "1" + " + 1" * depth, "#{a: " * depth + "1" + "}" * depth):
        checked = check_texts([(f"namespace a {{ facet F(x: Json = {value}) }}", None)])
        assert checked.diagnostics == ()


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("s = H(x = $.x) andThen {", "}"),
        ("s = H(x = $.x) andThen when { case $.x == 1 => { } case _ => {", "} }"),
        ("s = H(x = $.x) catch when { case $.x == 1 => { } case _ => {", "} }"),
    ],
)
def test_blocks_just_not_too_deep_compile_to_json(opening: str, closing: str) -> None:
    depth = MAX_EXPRESSION_DEPTH - 2
    inner = f"s = H(x = {'[' * depth + ']' * depth})"
    blocks = opening * (MAX_BLOCK_DEPTH - 1) + inner + closing * (MAX_BLOCK_DEPTH - 1)
    checked = check_texts([(f"namespace a {{ facet H(x: Json) facet F(x: Json) andThen {{ {blocks} }} }}", None)])

    assert not checked.has_errors
    assert json.loads(emit_json(checked.program))["type"] == "Program"


def test_a_long_chain_of_concatenations_is_not_deep() -> None:
    assert check_texts([('facet F(x: String = "a"' + ' ++ "a"' * 5_000 + ")", None)]).diagnostics == ()


@pytest.mark.parametrize("program", [EVERYTHING, WHOLE_LANGUAGE], ids=["values", "blocks"])
def test_no_mutation_of_a_program_is_more_than_a_diagnostic(program: str) -> None:
    chance = random.Random(20240601)
    original = program.encode()
    alphabet = b"{}()[]$.=+-*/%\"\\';:,#_ \n\tax1\xc3\xa9\xff\x00<>!&|"
    for _ in range(1_000):
        mutant = bytearray(original)
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(mutant))
            how = chance.randrange(3)
            if how == 0:
                mutant[place] = chance.choice(alphabet)
            elif how == 1:
                del mutant[place : place + chance.randint(1, 30)]
            else:
                other = chance.randrange(len(original))
                mutant[place:place] = original[other : other + chance.randint(1, 30)]
        checked = check_texts([(mutant.decode(errors="replace"), None)])
        assert all(found.message for found in checked.diagnostics)
        if not checked.has_errors:
            assert json.loads(emit_json(checked.program))["type"] == "Program"
