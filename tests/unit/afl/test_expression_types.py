"""Types of expressions, as the compiler finds them, and operators that it refuses for them."""

import pytest

from tests.unit.afl.checking import check_texts

DECLARATIONS = """
    schema Item { price: Double, tags: [String], inner: Inner }
    schema Inner { n: Int }
    event facet Ask(q: Json) => (yes: Boolean, n: Int, item: Item, words: [String], any: Json)
    facet Take(x: Json)
"""


def codes(value: str) -> list[str]:
    """Return what is found in an expression that may read parameters of each type and a step `s`."""
    head = "workflow W(b: Boolean, n: Int, l: Long, d: Double, t: String, j: Json, i: Item, ns: [Int], rows: [[Int]])"
    body = f"andThen {{ s = Ask(q = 1) x = Take(x = {value}) }}"
    return [item.code for item in check_texts([(f"namespace n {{ {DECLARATIONS} {head} {body} }}", None)]).diagnostics]


@pytest.mark.parametrize(
    ("boolean", "is_one"),
    [
        ("true", True),
        ("$.b", True),
        ("s.yes", True),
        ("1 == 2", True),
        ("null != null", True),
        ("$.n < $.d", True),
        ("$.b && $.j", True),
        ("!$.j", True),
        ("1 in $.ns", True),
        ("$.j not in $.j", True),
        ("$.j contains 1", True),
        ('$.t startsWith "a"', True),
        ('$.t endsWith "a"', True),
        ("($.b)", True),
        ("[true][0]", True),
        ("$.n", False),
        ("1.5", False),
        ("null", False),
        ("$.t", False),
        ("$.t ++ $.b", False),
        ("$.n + 1", False),
        ("-$.d", False),
        ("$.i", False),
        ("$.i.price", False),
        ("s.item.inner.n", False),
        ("$.ns", False),
        ("$.ns[0]", False),
        ("[1]", False),
        ("#{a: true}", False),
        ("$.t[0]", False),
    ],
)
def test_logic_wants_booleans_wherever_the_type_is_known(boolean: str, is_one: bool) -> None:
    assert codes(f"({boolean}) && $.b") == codes(f"$.j || ({boolean})")
    assert codes(f"({boolean}) && $.b") == ([] if is_one else ["TYPE_BOOLEAN_OPERAND_REQUIRED"])
    assert codes(f"!({boolean})") == ([] if is_one else ["TYPE_NOT_OPERAND_REQUIRED"])


@pytest.mark.parametrize("unknown", ["$.j", "$.j.deep", "s.any", '#{a: 1}["a"]', "$.j[0]", "[1, true][0]", "+$.j"])
def test_what_is_not_known_is_left_to_the_run(unknown: str) -> None:
    for value in (
        f"{unknown} && $.b",
        f"!{unknown}",
        f"{unknown} + $.t",
        f"-{unknown}",
        f"{unknown} < 1",
        f"1 in {unknown}",
        f"{unknown} contains 1",
        f"{unknown} startsWith $.t",
    ):
        assert codes(value) == []


def test_each_wrong_operand_of_logic_is_said() -> None:
    assert codes("$.n && $.t") == ["TYPE_BOOLEAN_OPERAND_REQUIRED"] * 2


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
def test_booleans_and_objects_have_no_order_whatever_is_on_the_other_side(operator: str) -> None:
    assert codes(f"$.b {operator} $.j") == codes(f"1 {operator} s.yes") == ["TYPE_ORDERED_COMPARISON_BOOLEAN"]
    assert codes(f"$.i {operator} $.j") == codes(f"$.n {operator} s.item") == ["TYPE_ORDERED_COMPARISON_SCHEMA"]
    assert codes(f"($.n {operator} 1) {operator} 2") == ["TYPE_ORDERED_COMPARISON_BOOLEAN"]
    assert codes(f"$.n {operator} $.d") == codes(f'$.t {operator} "a"') == codes(f"$.i.price {operator} 1") == []


@pytest.mark.parametrize("operator", ["==", "!="])
def test_equality_takes_anything(operator: str) -> None:
    operands = ["$.b", "$.n", "$.d", "$.t", "$.j", "$.i", "$.ns", "null", "[1]", "#{a: 1}"]

    assert [codes(f"{left} {operator} {right}") for left in operands for right in operands] == [[]] * len(operands) ** 2


@pytest.mark.parametrize(
    ("container", "fits"),
    [
        ("$.ns", True),
        ("[1]", True),
        ("#{a: 1}", True),
        ("$.t", True),
        ("$.i", True),
        ("$.i.tags", True),
        ("$.b", False),
        ("$.n", False),
        ("$.l", False),
        ("$.d", False),
        ("$.ns[0]", False),
        ("1 + 1", False),
    ],
)
def test_containment_looks_into_no_numbers_and_no_booleans(container: str, fits: bool) -> None:
    wanted = [] if fits else ["TYPE_CONTAINMENT_OPERAND"]

    assert codes(f"$.j in {container}") == codes(f"$.j not in {container}") == wanted
    assert codes(f"{container} contains $.j") == wanted
    assert codes(f"{container} in $.j") == []


@pytest.mark.parametrize("operator", ["startsWith", "endsWith"])
def test_matching_wants_strings_on_both_sides(operator: str) -> None:
    assert codes(f"$.n {operator} $.t") == codes(f"$.t {operator} null") == ["TYPE_STRING_MATCH_OPERAND"]
    assert codes(f"$.ns {operator} $.b") == ["TYPE_STRING_MATCH_OPERAND"]
    assert codes(f"$.t {operator} $.n ++ 1") == codes(f"$.t[0] {operator} s.words[0]") == []


def test_arithmetic_on_the_result_of_a_comparison_is_arithmetic_on_a_boolean() -> None:
    assert codes("1 + ($.n == 1)") == codes("(1 in $.ns) * 2") == codes("!$.b - 1") == ["TYPE_ARITHMETIC_BOOLEAN"]
    assert codes("-($.b && $.b)") == codes("-!$.b") == ["TYPE_NEGATE_BOOLEAN"]


def test_references_inside_every_operator_are_checked() -> None:
    assert codes("!nobody.x") == ["REF_UNDEFINED_STEP"]
    assert codes("s.nothing && $.nothing") == ["REF_INVALID_STEP_ATTRIBUTE", "REF_INVALID_INPUT"]
    assert codes("nobody.x not in [$.nothing]") == ["REF_UNDEFINED_STEP", "REF_INVALID_INPUT"]


def test_an_inverted_constant_is_no_number() -> None:
    text = "namespace n { facet F(b: Boolean = !true, c: Boolean = 1 < 2, d: Boolean = $.b && $.c) }"

    assert check_texts([(text, None)]).diagnostics == ()
