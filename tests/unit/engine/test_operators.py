"""Results of AFL's operators, whether these stand in the program or come from a run."""

import pytest

from afl.engine.errors import EvaluationError
from afl.engine.types import Value
from tests.unit.engine.expression_frames import binary, evaluate, given, literal, step

X, Y = given("x"), step("s", "y")


def apply(left: Value, operator: str, right: Value) -> Value:
    """Evaluate with values that come from a run, which is the way with the short cuts."""
    return evaluate(binary(X, operator, Y), {"$": {"x": left}, "s": {"y": right}})


RESULTS: list[tuple[Value, str, Value, Value]] = [
    (1, "+", 2, 3),
    (2**63, "+", 1, 9223372036854775809),
    (1, "+", 0.5, 1.5),
    (1.0, "+", 1, 2.0),
    (1, "-", 2, -1),
    (3, "*", 4, 12),
    (2, "*", 0.25, 0.5),
    (6, "/", 2, 3.0),
    (7, "/", 2, 3.5),
    (-7, "%", 3, 2),
    (7, "%", -3, -2),
    (7.5, "%", 2, 1.5),
    (1, "<", 2, True),
    (2, "<=", 2.0, True),
    (1.5, ">", 1, True),
    (1, ">=", 2, False),
    ("Z", "<", "a", True),
    ("a", "<", "é", True),
    (1, "==", 1.0, True),
    (True, "==", 1, False),
    (False, "==", 0, False),
    (True, "==", True, True),
    (None, "==", None, True),
    (None, "==", False, False),
    ("1", "==", 1, False),
    ([1, {"a": 2}], "==", [1.0, {"a": 2.0}], True),
    ([True], "==", [1], False),
    ({"a": [1]}, "==", {"a": [True]}, False),
    ([1, 2], "==", [1], False),
    ({"a": 1}, "==", {"b": 1}, False),
    ({"a": 1, "b": 2}, "==", {"b": 2, "a": 1}, True),
    ([], "==", {}, False),
    (1, "!=", 1.0, False),
    (True, "!=", 1, True),
    ([1], "!=", [True], True),
    (1.0, "in", [1], True),
    (True, "in", [1], False),
    ([2], "in", [[1], [2]], True),
    ("a", "in", {"a": 1}, True),
    (1, "in", {"a": 1}, False),
    ("ell", "in", "hello", True),
    ("x", "not in", "hello", True),
    (1, "not in", [1], False),
    ([1, None], "contains", None, True),
    ({"a": 1}, "contains", "b", False),
    ("hello", "contains", "lo", True),
    ("hello", "startsWith", "he", True),
    ("hello", "endsWith", "he", False),
    (True, "&&", True, True),
    (True, "&&", False, False),
    (False, "||", True, True),
    (False, "||", False, False),
]


@pytest.mark.parametrize(("left", "operator", "right", "result"), RESULTS)
def test_an_operator_gives_this_result(left: Value, operator: str, right: Value, result: Value) -> None:
    found = apply(left, operator, right)

    assert found == result
    assert type(found) is type(result)


@pytest.mark.parametrize(
    ("left", "operator", "right", "result"),
    [row for row in RESULTS if not isinstance(row[0], list | dict) and not isinstance(row[2], list | dict)],
)
def test_an_operator_on_literals_gives_the_same_result(left: Value, operator: str, right: Value, result: Value) -> None:
    both = evaluate(binary(literal(left), operator, literal(right)))
    right_only = evaluate(binary(X, operator, literal(right)), {"$": {"x": left}})

    assert both == right_only == result
    assert type(both) is type(right_only) is type(result)


@pytest.mark.parametrize(
    ("left", "operator", "right", "message"),
    [
        (1, "/", 0, "division by zero"),
        (1, "%", 0, "division by zero"),
        (1.5, "/", 0.0, "division by zero"),
        (1.5, "%", 0, "division by zero"),
        (1e308, "*", 10, "the result is out of the range of a Double"),
        (10**400, "+", 0.5, "the result is out of the range of a Double"),
        (10**400, "/", 3, "the result is out of the range of a Double"),
        ("a", "+", "b", "type error: + needs two numbers, found String and String"),
        ("a", "*", 2, "type error: * needs two numbers, found String and Long"),
        (True, "+", 1, "type error: + needs two numbers, found Boolean and Long"),
        (1, "-", True, "type error: - needs two numbers, found Long and Boolean"),
        (None, "+", 1, "type error: + needs two numbers, found null and Long"),
        ([1], "+", [2], "type error: + needs two numbers, found Array and Array"),
        (1, "<", "2", "type error: < needs two numbers or two strings, found Long and String"),
        (True, "<", False, "type error: < needs two numbers or two strings, found Boolean and Boolean"),
        (None, ">=", 1, "type error: >= needs two numbers or two strings, found null and Long"),
        ([1], "<", [2], "type error: < needs two numbers or two strings, found Array and Array"),
        (1, "in", None, "type error: in needs an Array, Map or String to look in, found null"),
        (1, "not in", 1, "type error: not in needs an Array, Map or String to look in, found Long"),
        (1, "in", "1", "type error: in looks for strings in a String, found Long"),
        ("abc", "contains", None, "type error: contains looks for strings in a String, found null"),
        (12, "startsWith", "1", "type error: startsWith needs two strings, found Long and String"),
        ("a", "endsWith", None, "type error: endsWith needs two strings, found String and null"),
        (1, "&&", True, "type error: && needs a Boolean, found Long"),
        (True, "&&", None, "type error: && needs a Boolean, found null"),
        ("", "||", True, "type error: || needs a Boolean, found String"),
        (False, "||", 1, "type error: || needs a Boolean, found Long"),
    ],
)
def test_an_operator_refuses_what_it_is_not_defined_for(left: Value, operator: str, right: Value, message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        apply(left, operator, right)

    assert caught.value.message == message
    assert caught.value.expression == f"$.x {operator} s.y"


@pytest.mark.parametrize(("operator", "decided"), [("&&", False), ("||", True)])
def test_the_right_side_is_not_looked_at_when_the_left_one_decides(operator: str, decided: bool) -> None:
    assert evaluate(binary(X, operator, step("s", "missing")), {"$": {"x": decided}, "s": {}}) is decided


def test_minus_takes_a_number_and_not_a_boolean() -> None:
    def negative(operand: object) -> dict[str, object]:
        return {"type": "UnaryExpr", "operator": "-", "operand": operand}

    assert evaluate(negative(X), {"$": {"x": 5}}) == -5
    assert evaluate(negative(literal(2.5))) == -2.5
    for wrong, found in ((True, "Boolean"), ("1", "String"), (None, "null")):
        with pytest.raises(EvaluationError, match=f"^type error: - needs a number, found {found} in -"):
            evaluate(negative(X), {"$": {"x": wrong}})


def test_not_takes_a_boolean_and_nothing_else() -> None:
    negation = {"type": "UnaryExpr", "operator": "!", "operand": X}

    assert evaluate(negation, {"$": {"x": False}}) is True
    for wrong, found in ((0, "Long"), ("", "String"), (None, "null"), ([], "Array")):
        with pytest.raises(EvaluationError, match=f"type error: ! needs a Boolean, found {found} in !"):
            evaluate(negation, {"$": {"x": wrong}})


@pytest.mark.parametrize(
    ("target", "index", "element"),
    [([1, 2, 3], 0, 1), ([1, 2, 3], -1, 3), ({"a": None}, "a", None), ("abc", 1, "b"), ("abc", -3, "a")],
)
def test_an_index_finds_elements_entries_and_characters(target: Value, index: Value, element: Value) -> None:
    node = {"type": "IndexExpr", "target": X, "index": Y}

    assert evaluate(node, {"$": {"x": target}, "s": {"y": index}}) == element


@pytest.mark.parametrize(
    ("target", "index", "message"),
    [
        ([1], 1, "index error: 1 is out of range, the Array has 1"),
        ([1], -2, "index error: -2 is out of range, the Array has 1"),
        ("", 0, "index error: 0 is out of range, the String has 0"),
        ({"a": 1}, "b", "index error: key 'b' not found"),
        ([1], True, "index error: Array can't be indexed by Boolean"),
        ([1], "0", "index error: Array can't be indexed by String"),
        ({"1": 1}, 1, "index error: Map can't be indexed by Long"),
        (None, 0, "index error: null can't be indexed by Long"),
        (5, 0, "index error: Long can't be indexed by Long"),
    ],
)
def test_an_index_that_leads_nowhere_is_an_error(target: Value, index: Value, message: str) -> None:
    node = {"type": "IndexExpr", "target": X, "index": Y}

    with pytest.raises(EvaluationError) as caught:
        evaluate(node, {"$": {"x": target}, "s": {"y": index}})

    assert (caught.value.message, caught.value.expression) == (message, "$.x[s.y]")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as is", "as is"),
        (None, ""),
        (True, "true"),
        (False, "false"),
        (42, "42"),
        (-3, "-3"),
        (2.0, "2.0"),
        (0.1, "0.1"),
        ([1, "a", None, True], '[1,"a",null,true]'),
        ({"k": "é", "l": [2.0]}, '{"k":"é","l":[2.0]}'),
    ],
)
def test_concatenation_writes_each_kind_of_value_the_afl_way(value: Value, text: str) -> None:
    node = {"type": "ConcatExpr", "operands": [literal("<"), X, literal(">")]}

    assert evaluate(node, {"$": {"x": value}}) == f"<{text}>"


def test_concatenated_literals_read_like_values() -> None:
    operands = [literal(value) for value in ("n=", 3, None, True, 0.5)]

    assert evaluate({"type": "ConcatExpr", "operands": operands}) == "n=3true0.5"


def test_an_integer_too_long_to_write_is_an_error_of_the_expression() -> None:
    node = {"type": "ConcatExpr", "operands": [literal("n="), X]}

    with pytest.raises(EvaluationError, match=r"\+\+ can't write a Long"):
        evaluate(node, {"$": {"x": 10**5000}})


def test_values_nested_without_end_are_an_error_of_the_comparison() -> None:
    left: list[Value] = []
    right: list[Value] = []
    left.append(left)
    right.append(right)

    with pytest.raises(EvaluationError, match="nested too deeply"):
        apply(left, "==", right)
