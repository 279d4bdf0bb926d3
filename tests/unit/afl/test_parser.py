"""The parser's trees of texts."""

from typing import Any

import pytest

from afl import ast
from afl.errors import ParseError
from afl.parser import AFLParser, parse
from afl.source import CompilerInput, FileOrigin, SourceEntry

from .programs import BILLING, EVERYTHING

KEYWORDS = [
    "namespace",
    "use",
    "uses",
    "facet",
    "event",
    "workflow",
    "schema",
    "implicit",
    "with",
    "as",
    "andThen",
    "foreach",
    "in",
    "yield",
    "prompt",
    "script",
    "true",
    "false",
    "null",
    "when",
    "case",
    "catch",
    "not",
    "contains",
    "startsWith",
    "endsWith",
    "sys",
    "log",
    "assert",
    "_",
]
NO_STEP_NAMES = ["with", "as", "andThen", "catch", "yield", "true", "false", "null", "_"]
NO_REFERENCE_HEADS = ["true", "false", "null", "yield", "_"]


def expression(text: str) -> ast.Expression:
    default = parse(f"facet F(x: Json = {text})").facets[0].sig.params[0].default
    assert default is not None
    return default


def steps_of(clause: ast.AndThenBlock) -> list[ast.StepStmt]:
    return [statement for statement in clause.block.steps if isinstance(statement, ast.StepStmt)]


def number(value: int) -> ast.Literal:
    return ast.Literal(value, "integer")


def test_an_empty_text_is_a_program_without_declarations() -> None:
    assert parse("") == parse(" \t\f\r\n ;; // nothing\n/* at all */ /**/") == ast.Program()


def test_a_program_of_declarations_steps_and_values_is_parsed() -> None:
    program = parse(EVERYTHING)

    assert [namespace.name for namespace in program.namespaces] == ["shop.prices", "shop.orders"]
    assert [use.name for use in program.namespaces[1].uses] == ["shop.prices", "shop.orders"]
    assert [schema.name for schema in program.namespaces[0].schemas] == ["Money", "Empty"]
    assert [facet.sig.name for facet in program.facets] == ["Plain"]
    order = program.namespaces[1].workflows[0]
    assert isinstance(order.body, list)
    assert order.body[1].foreach == ast.ForeachClause("sku", ast.Reference(["skus"], True))
    assert [step.name for step in steps_of(order.body[0])] == ["m", "q", "r"]
    assert len(ast.clauses(steps_of(order.body[0])[2].body)) == 2


def test_a_namespace_without_braces_holds_for_its_whole_file() -> None:
    program = parse(BILLING + "; use other\nnamespace other { facet F() }")

    assert [namespace.name for namespace in program.namespaces] == ["billing", "other"]
    assert [item.sig.name for item in program.namespaces[0].workflows] == ["Checkout"]
    assert [use.name for use in program.namespaces[0].uses] == ["other"]


def test_line_ends_and_semicolons_carry_no_meaning() -> None:
    spread = "facet\nF(\nx\n:\nInt\n=\n1\n+\n2\n)\n=>\n(\n)\nandThen\n{\n;s\n=\na\n.\nG\n(\n)\n;\n;}\n;"

    assert parse(spread) == parse("facet F(x: Int = 1 + 2) => () andThen { s = a.G() }")


def test_steps_on_one_line_need_no_separator() -> None:
    body = parse("facet F() andThen { a = G() b = G(x = a.y) yield F() }").facets[0].body

    assert [step.name for clause in ast.clauses(body) for step in steps_of(clause)] == ["a", "b"]


def test_comments_may_stand_between_any_two_tokens() -> None:
    text = "facet/**/F/* a\n b */(x:Int// c\n=/** d */1)"

    assert parse(text) == parse("facet F(x: Int = 1)")


def test_an_empty_doc_comment_hides_nothing() -> None:
    assert [facet.sig.name for facet in parse("/**/ facet A() /* */ facet B()").facets] == ["A", "B"]


def test_trailing_commas_are_allowed_in_every_list() -> None:
    assert parse("facet F(x: Json = [1,], y: Json = #{a: 1,},) => (z: Int,) andThen { s = G(a = 1,) }") == parse(
        "facet F(x: Json = [1], y: Json = #{a: 1}) => (z: Int) andThen { s = G(a = 1) }"
    )


@pytest.mark.parametrize("word", KEYWORDS)
def test_a_keyword_names_declarations_parameters_fields_and_everything_but_steps(word: str) -> None:
    program = parse(
        f"namespace a.{word}.b {{ use {word} schema {word} {{ {word}: {word} }}"
        f" facet {word}({word}: {word} = #{{{word}: 1}}) => ({word}: [x.{word}])"
        f" andThen foreach {word} in $.{word}.{word} {{ s = {word}.{word}({word} = $.{word} ++ t.{word})"
        f" yield {word}({word} = 1) }} }}"
    )

    assert program.namespaces[0].name == f"a.{word}.b"
    assert program.namespaces[0].facets[0].sig.name == word


@pytest.mark.parametrize("word", KEYWORDS)
def test_a_keyword_names_mixins_aliases_implicits_loops_and_values(word: str) -> None:
    program = parse(
        f"facet F() with {word}.{word}({word} = 1) as {word} andThen foreach {word} in $.{word} {{ sys.log({word} = 1)"
        f" s = {word}() with {word}() as {word} }} implicit {word} = {word}({word} = 1) with {word}()"
    )

    (facet,), (implicit,) = program.facets, program.implicits
    assert facet.sig.mixins == [ast.MixinSig(f"{word}.{word}", [ast.NamedArg(word, ast.Literal(1, "integer"))], word)]
    (clause,) = ast.clauses(facet.body)
    assert clause.foreach == ast.ForeachClause(word, ast.Reference([word], True))
    assert clause.block.steps[0] == ast.SysLogStmt([ast.NamedArg(word, ast.Literal(1, "integer"))])
    assert (implicit.name, implicit.call.mixins) == (word, [ast.MixinCall(word)])


@pytest.mark.parametrize("word", [word for word in KEYWORDS if word not in NO_STEP_NAMES])
def test_most_keywords_name_steps(word: str) -> None:
    body = parse(f"facet F() andThen {{ a = G() {word} = G() }}").facets[0].body

    assert [step.name for clause in ast.clauses(body) for step in steps_of(clause)] == ["a", word]


@pytest.mark.parametrize("word", NO_STEP_NAMES)
def test_some_keywords_name_no_steps(word: str) -> None:
    for text in (f"facet F() andThen {{ {word} = G() }}", f"facet F() andThen {{ a = G() {word} = G() }}"):
        with pytest.raises(Exception, match=r"syntax|available"):
            parse(text)


@pytest.mark.parametrize("word", [word for word in KEYWORDS if word not in NO_REFERENCE_HEADS])
def test_most_keywords_begin_a_reference(word: str) -> None:
    assert expression(f"{word}.a") == ast.Reference([word, "a"], False)


@pytest.mark.parametrize("name", ["nullable", "Stringy", "Integer", "catchment", "trueish", "in_", "_x"])
def test_a_name_may_begin_like_a_keyword(name: str) -> None:
    assert expression(f"{name}.a") == ast.Reference([name, "a"], False)
    assert parse(f"facet F(x: {name})").facets[0].sig.params[0].type == ast.TypeRef(name)


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("0042", 42, "integer"),
        ("123456789012345678901234567890", 123456789012345678901234567890, "integer"),
        ("1.50", 1.5, "double"),
        ("2.5e-3", 0.0025, "double"),
        ("1.0E+2", 100.0, "double"),
        ("true", True, "boolean"),
        ("false", False, "boolean"),
        ("null", None, "null"),
        ('""', "", "string"),
        ('"日本語 🎉 é"', "日本語 🎉 é", "string"),
        (r'"\"\\\/\'\n\r\t\b\f\a\v\0"', "\"\\/'\n\r\t\b\f\a\v\0", "string"),
        (r'"\x41\u65e5\U0001F389\ud83c\udf89"', "A日🎉🎉", "string"),
        (r'"\d\q\1"', r"\d\q\1", "string"),
        ('"two\nlines \\\n"', "two\nlines \\\n", "string"),
        ('"// no comment /* */"', "// no comment /* */", "string"),
    ],
)
def test_literals_mean_what_they_say(text: str, value: object, kind: str) -> None:
    literal = expression(text)

    assert isinstance(literal, ast.Literal)
    assert (literal.value, literal.kind) == (value, kind)
    assert type(literal.value) is type(value)


def test_a_string_of_a_megabyte_is_one_token() -> None:
    text = "日" * 500_000 + "\\n" * 250_000

    assert expression(f'"{text}"') == ast.Literal("日" * 500_000 + "\n" * 250_000, "string")


def test_operators_bind_as_the_reference_says() -> None:
    two = ast.BinaryExpr("*", number(1), number(2))
    assert expression("1 * 2 + 3 - 4") == ast.BinaryExpr("-", ast.BinaryExpr("+", two, number(3)), number(4))
    assert expression('"n=" ++ 1 + 2') == ast.ConcatExpr(
        [ast.Literal("n=", "string"), ast.BinaryExpr("+", number(1), number(2))]
    )
    assert expression("8 / 4 % 2") == ast.BinaryExpr("%", ast.BinaryExpr("/", number(8), number(4)), number(2))
    assert expression("1 - (2 - 3)") == ast.BinaryExpr("-", number(1), ast.BinaryExpr("-", number(2), number(3)))


def both(operator: str, left: ast.Expression, right: ast.Expression) -> ast.BinaryExpr:
    return ast.BinaryExpr(operator, left, right)


COMPARISONS = ["==", "!=", "<", "<=", ">", ">=", "in", "not in", "contains", "startsWith", "endsWith"]


@pytest.mark.parametrize("operator", COMPARISONS)
def test_a_comparison_binds_weaker_than_concatenation_and_stronger_than_and(operator: str) -> None:
    joined = ast.ConcatExpr([number(1), both("+", number(2), number(3))])
    compared = both(operator, joined, both("*", number(4), number(5)))

    assert expression(f"1 ++ 2 + 3 {operator} 4 * 5") == compared
    assert expression(f"1 {operator} 2 && 3 {operator} 4") == both(
        "&&", both(operator, number(1), number(2)), both(operator, number(3), number(4))
    )


@pytest.mark.parametrize("second", COMPARISONS)
def test_comparisons_do_not_chain_except_in_parentheses(second: str) -> None:
    for first in COMPARISONS:
        with pytest.raises(ParseError, match="syntax: found"):
            expression(f"1 {first} 2 {second} 3")
        assert expression(f"(1 {first} 2) {second} 3") == both(second, both(first, number(1), number(2)), number(3))


def test_and_binds_stronger_than_or_and_both_group_to_the_left() -> None:
    assert expression("1 || 2 && 3 || 4") == both(
        "||", both("||", number(1), both("&&", number(2), number(3))), number(4)
    )
    assert expression("1 && 2 && 3") == both("&&", both("&&", number(1), number(2)), number(3))
    assert expression("1 && (2 || 3)") == both("&&", number(1), both("||", number(2), number(3)))


def test_not_is_unary_and_binds_stronger_than_every_binary_operator() -> None:
    inverted = ast.UnaryExpr("!", ast.Reference(["a"], True))
    assert expression("!$.a == $.b") == both("==", inverted, ast.Reference(["b"], True))
    assert expression("!$.a && !!$.a") == both("&&", inverted, ast.UnaryExpr("!", inverted))
    assert expression("!$.a[0]") == ast.UnaryExpr("!", ast.IndexExpr(ast.Reference(["a"], True), number(0)))
    assert expression("-!$.a") == ast.UnaryExpr("-", inverted)


def test_the_longest_operator_wins() -> None:
    assert expression("1<=2") == both("<=", number(1), number(2))
    assert expression("1!=-2") == both("!=", number(1), ast.UnaryExpr("-", number(2)))
    assert parse("facet F(x: Boolean=!true)") == parse("facet F(x: Boolean = !true)")
    assert parse("facet F()=>(x: Boolean=1==1)") == parse("facet F() => (x: Boolean = 1 == 1)")


def test_words_that_are_operators_stay_names_where_an_operand_is_wanted() -> None:
    def path(*parts: str) -> ast.Reference:
        return ast.Reference(list(parts), False)

    assert expression("in.in in in.in") == both("in", path("in", "in"), path("in", "in"))
    assert expression("not.a not\n in not.b") == both("not in", path("not", "a"), path("not", "b"))
    assert expression("contains.contains contains contains.a") == both(
        "contains", path("contains", "contains"), path("contains", "a")
    )
    assert expression("[1] in v") == both("in", ast.ArrayLiteral([number(1)]), path("v"))


def test_the_place_of_an_operation_is_all_of_it() -> None:
    for text in ("1 not in [ 2 ]", "$.a  &&  $.b", "!  true", "1 < 2 || 3 == 4"):
        location = expression(text).location
        assert location is not None
        assert location[:4] == (1, 19, 1, 19 + len(text))


def test_minus_is_unary_where_no_operand_stands_before_it() -> None:
    negated = ast.UnaryExpr("-", number(1))
    assert expression("2 - -1") == expression("2--1") == ast.BinaryExpr("-", number(2), negated)
    assert expression("-1 * 2") == ast.BinaryExpr("*", negated, number(2))
    assert expression("--1") == ast.UnaryExpr("-", negated)


def test_unary_plus_and_parentheses_leave_no_node() -> None:
    assert expression("+(((+1)))") == number(1)


def test_a_chain_of_concatenations_is_one_node() -> None:
    assert expression("1 ++ 2 ++ 3") == ast.ConcatExpr([number(1), number(2), number(3)])
    assert expression("(1 ++ 2) ++ 3") == ast.ConcatExpr([ast.ConcatExpr([number(1), number(2)]), number(3)])


def test_indexes_bind_tightest_and_repeat() -> None:
    target = ast.IndexExpr(ast.Reference(["a", "b"], True), number(0))
    assert expression("-$.a.b[0][1]") == ast.UnaryExpr("-", ast.IndexExpr(target, number(1)))


def test_map_keys_are_names_or_strings_and_keep_their_order() -> None:
    assert expression('#{b: 1, "a b": 2, b: 3}') == ast.MapLiteral(
        [ast.MapEntry("b", number(1)), ast.MapEntry("a b", number(2)), ast.MapEntry("b", number(3))]
    )


def test_a_byte_order_mark_is_skipped_and_takes_no_column() -> None:
    facet = parse("\ufefffacet F()").facets[0]

    assert facet.location == ast.SourceLocation(1, 1, 1, 10)


def test_places_are_one_based_and_end_behind_the_last_character() -> None:
    text = 'facet F(\n\tx: String = "a\nb") andThen {\r\n  s = a.G()\n}'
    facet = AFLParser().parse(text, source_id="here").facets[0]

    assert facet.location == ast.SourceLocation(1, 1, 5, 2, "here")
    assert facet.sig.params[0].location == ast.SourceLocation(2, 2, 3, 3, "here")
    step = steps_of(ast.clauses(facet.body)[0])[0]
    assert step.location == ast.SourceLocation(4, 3, 4, 12, "here")
    assert step.call.location == ast.SourceLocation(4, 7, 4, 12, "here")


def test_several_sources_become_one_program() -> None:
    one = SourceEntry("namespace a { facet F() }", FileOrigin("a.afl"))
    two = SourceEntry("namespace b { facet F() }", FileOrigin("b.afl"), is_library=True)

    program, registry = AFLParser().parse_sources(CompilerInput([one], [two]))

    assert [namespace.name for namespace in program.namespaces] == ["a", "b"]
    assert registry.get("file://b.afl") == FileOrigin("b.afl")
    assert program.namespaces[1].location is not None
    assert program.namespaces[1].location.source_id == "file://b.afl"


@pytest.mark.parametrize("source", [b"facet F()", None, 5])
def test_a_source_that_is_no_text_is_told(source: Any) -> None:
    with pytest.raises(TypeError, match=f"a source is a text, found {type(source).__name__}"):
        parse(source)
