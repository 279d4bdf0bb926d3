"""Chains of operators of any length: no nesting for parser, rules, emitter, formatter and pictures."""

import json
from typing import Any

import pytest

from afl import ast
from afl.compiler import compile_text
from afl.errors import ParseError
from afl.formatting.text import format_text
from afl.output.tree_json import tree_json
from afl.parser import parse
from tests.fuzzing.checks import check_valid
from tests.unit.afl.checking import check_texts

#: Operators of one level, what they join, and the type that comes of it.
CHAINS = {
    "and": (["&&"], "$.ok", "Boolean"),
    "or": (["||"], "$.ok", "Boolean"),
    "sum": (["+"], "$.n", "Int"),
    "product": (["*"], "$.n", "Int"),
    "quotient": (["/"], "$.n", "Double"),
    "text": (["++"], "$.n", "String"),
    "sums and differences": (["+", "-"], "$.n", "Int"),
    "products and quotients": (["*", "/", "%"], "$.n", "Double"),
    "or of ands": (["||"], "$.ok && $.n == 1 && !$.ok", "Boolean"),
    "sum of products": (["+", "-"], "$.n * 2 * $.list[0]", "Int"),
}


def chain(operators: list[str], operand: str, operands: int) -> str:
    """Return a chain of so many operands, its operators taken in turn."""
    joined = (f" {operators[number % len(operators)]} {operand}" for number in range(operands - 1))
    return operand + "".join(joined)


def program(expression: str, kind: str = "Json") -> str:
    """Return the expression as an argument, a condition, a default and a yield, and in a literal."""
    return f"""
    namespace n {{
        facet F(n: Int, ok: Boolean, list: [Int], x: {kind} = {expression})
        workflow W(n: Int = 1, ok: Boolean = true, list: [Int] = [1]) => (r: {kind}, all: Json) andThen {{
            f = F(n = 1, ok = true, list = [1], x = {expression})
            sys.log(x = {expression})
            sys.assert({expression} == f.x)
            yield W(r = {expression}, all = [#{{in: {expression}}}])
        }} andThen when {{
            case {expression} == 1 => {{ }}
            case _ => {{ }}
        }}
    }}"""


def default_of(expression: str) -> Any:
    """Return an expression as the compiled program has it."""
    text = f"facet F(ok: Boolean, n: Int, s: String, list: [Json], x: Json = {expression})"
    return compile_text(text).program_json["declarations"][0]["params"][-1]["default"]


def depth_of(value: object) -> int:
    """How deep lists and objects nest in a JSON value."""
    deepest, pending = 0, [(value, 0)]
    while pending:
        found, around = pending.pop()
        inside = found.values() if isinstance(found, dict) else found if isinstance(found, list) else None
        if inside is not None:
            deepest = max(deepest, around + 1)
            pending += [(each, around + 1) for each in inside]
    return deepest


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if " of " in name else name for name in CHAINS]
)
def test_a_chain_of_400_operands_is_valid_everywhere(name: str) -> None:
    operators, operand, kind = CHAINS[name]
    check_valid(program(f"({chain(operators, operand, 400)})", kind))


@pytest.mark.long
@pytest.mark.parametrize("operators", [["&&"], ["+", "-"]], ids=["and", "sums and differences"])
def test_a_chain_of_10_000_operands_is_valid(operators: list[str]) -> None:
    operand = "true" if operators == ["&&"] else "1"
    check_valid(f"namespace n {{ facet F(x: Json = {chain(operators, operand, 10_000)}) }}")


def test_indexes_behind_one_another_are_a_chain() -> None:
    check_valid(program("$.list[0] + [1]" + "[0]" * 400))


def test_a_chain_of_128_operators_is_written_one_inside_the_other() -> None:
    node = default_of(chain(["+", "-"], "$.n", 129))

    for number in reversed(range(128)):
        assert (node["type"], node["operator"]) == ("BinaryExpr", "+-"[number % 2])
        assert node["right"] == {"type": "InputRef", "path": ["n"]}
        node = node["left"]
    assert node == {"type": "InputRef", "path": ["n"]}


def test_a_longer_chain_is_written_flat() -> None:
    references = [{"type": "InputRef", "path": ["n"]}] * 130

    assert default_of(chain(["+", "-"], "$.n", 130)) == {
        "type": "ChainExpr", "operators": [*["+", "-"] * 64, "+"], "operands": references,
    }  # fmt: skip


def test_operators_of_several_levels_and_indexes_are_links_of_one_flat_chain() -> None:
    node = default_of("$.list[0] * $.n" + " - $.n * 2" * 200)

    assert node["operators"] == ["[]", "*", *["-"] * 200]
    assert [operand["type"] for operand in node["operands"]] == ["InputRef", "Int", "InputRef", *["BinaryExpr"] * 200]


def test_the_json_of_an_expression_is_never_deeper_than_maps_can_make_it() -> None:
    deepest_before = depth_of(default_of("#{a: " * 128 + "1" + "}" * 128))
    to_the_left = "(" * 120 + "$.n" + (" + $.n" * 100 + ")") * 120
    to_the_right = "($.n + " * 63 + chain(["+"], "$.n", 500) + ")" * 63
    in_maps = "#{a: $.n == " * 30 + "#{a: " * 60 + chain(["+"], "$.n", 500) + "}" * 90

    for expression in (to_the_left, to_the_right, in_maps):
        assert depth_of(default_of(expression)) <= deepest_before


def test_what_is_beside_a_chain_is_as_deep_as_before() -> None:
    # A chain inside of brackets, and brackets inside of a chain, down to the limit; one more is refused.
    allowed = "(" * 127 + chain(["+"], "$.n", 500) + ")" * 127
    assert default_of(allowed)["type"] == "ChainExpr"
    with pytest.raises(ParseError, match="expressions are nested too deeply"):
        parse(f"facet F(n: Int, x: Json = ({allowed}))")


def test_brackets_that_nest_too_deep_are_named_with_their_place() -> None:
    links = chain(["&&"], "$.ok", 300)
    text = f"facet F(ok: Boolean, x: Boolean =\n  {links} && {'(' * 129}$.ok{')' * 129})"

    with pytest.raises(ParseError) as refused:
        parse(text)

    # Each bracket is counted where it closes: the outermost one is one too many.
    assert (refused.value.line, refused.value.column) == (2, 3 + len(links) + 4)
    assert refused.value.diagnostic is not None
    assert "at most 128 levels" in str(refused.value.diagnostic.hint)


def test_findings_in_a_long_chain_are_at_their_places() -> None:
    links = chain(["&&"], "$.ok", 500)
    block = f"{{ v = V(x = $.n && {links} && $.n && $.no) }}"
    text = f"namespace n {{ facet V(x: Json) facet W(ok: Boolean, n: Int) andThen {block} }}"

    found = [(finding.code, finding.column) for finding in check_texts([(text, None)]).diagnostics]

    assert found == [
        ("TYPE_BOOLEAN_OPERAND_REQUIRED", text.index("$.n &&") + 1),
        ("TYPE_BOOLEAN_OPERAND_REQUIRED", text.rindex("$.n &&") + 1),
        ("REF_INVALID_INPUT", text.index("$.no)") + 1),
    ]


def test_trees_with_long_chains_can_be_compared_and_shown() -> None:
    text = f"facet F(n: Int, x: Json = {chain(['+', '-'], '$.n', 5_000)})"
    one, another = parse(text), parse(text)

    assert one == another
    assert one != parse(text.replace("$.n)", "$.m)"))
    assert repr(one) == repr(another)
    assert repr(one).count("BinaryExpr(operator=") == 4_999
    assert json.dumps(tree_json(one)).count('"ChainExpr"') == 1


def test_a_node_is_shown_as_it_would_be_made() -> None:
    node = ast.BinaryExpr("+", ast.Literal("a, b", "string"), ast.ConcatExpr([ast.Literal(1, "integer")]))

    shown = "BinaryExpr(operator='+', left=Literal(value='a, b', kind='string'), right=ConcatExpr(operands=[Literal("
    assert repr(node) == shown + "value=1, kind='integer')]))"
    assert eval(repr(node), vars(ast)) == node
    assert node != ast.BinaryExpr("+", ast.Literal("a, b", "string"), ast.ConcatExpr([]))
    assert ast.Literal(1, "integer") != 1


def test_the_formatter_lays_a_long_chain_out_one_operand_a_line() -> None:
    formatted = format_text(f"facet F(ok: Boolean, x: Boolean = {chain(['&&'], '$.ok', 400)})")

    assert formatted.count("\n") > 400
    assert format_text(formatted) == formatted


@pytest.mark.parametrize(
    "flat",
    [
        "facet F(x: Json = [" + ", ".join(["1"] * 3_000) + "])",
        "facet F(x: Json = #{" + ", ".join(f"k{number}: 1" for number in range(2_000)) + "})",
        "facet V(x: Json) workflow F(j: Json) andThen { v = V(x = $.j" + ".member" * 5_000 + ") }",
        "facet F(" + ", ".join(f"p{number}: Int" for number in range(1_000)) + ")",
        "facet M() facet F() " + " ".join(f"with M() as m{number}" for number in range(1_000)),
        "facet V() workflow F() " + " ".join(["andThen { v = V() }"] * 500),
        "facet V() workflow F() andThen { " + " ".join(f"v{number} = V()" for number in range(1_000)) + " }",
        "facet V() workflow F(n: Int) andThen when { "
        + " ".join(f"case $.n == {number} => {{ }}" for number in range(500))
        + " case _ => { } }",
    ],
    ids=["list", "map", "path", "parameters", "mixins", "clauses", "statements", "cases"],
)
def test_whatever_else_is_long_and_flat_is_valid(flat: str) -> None:
    check_valid(f"namespace n {{ {flat} }}")
