"""Expressions: shapes, references, source text, and the evaluator for single ones."""

from collections.abc import Mapping

import pytest

from afl.engine.errors import EvaluationError, ReferenceError
from afl.engine.expressions.compiler import _COMPILERS
from afl.engine.expressions.expression import (
    EvaluationContext,
    ExpressionEvaluator,
    compile_default,
    compile_expression,
    evaluate_args,
    expression_text,
    references_in,
)
from afl.engine.expressions.nodes import CHILDREN
from afl.engine.limits import MAX_EXPRESSION_DEPTH
from afl.engine.types import Value
from tests.unit.engine.expression_frames import FrameReferences, binary, evaluate, given, literal, step

#: Every node of the compiled JSON that has operands, each operand a reference of its own.
OPERANDS: list[tuple[Mapping[str, object], list[str]]] = [
    (binary(step("a", "x"), "+", step("b", "x")), ["a", "b"]),
    (binary(step("a", "x"), "&&", step("b", "x")), ["a", "b"]),
    (binary(step("a", "x"), "not in", step("b", "x")), ["a", "b"]),
    ({"type": "UnaryExpr", "operator": "-", "operand": step("a", "x")}, ["a"]),
    ({"type": "UnaryExpr", "operator": "!", "operand": step("a", "x")}, ["a"]),
    ({"type": "ConcatExpr", "operands": [step("a", "x"), literal("-"), step("b", "x")]}, ["a", "b"]),
    ({"type": "ArrayLiteral", "elements": [step("a", "x"), step("b", "x")]}, ["a", "b"]),
    (
        {
            "type": "MapLiteral",
            "entries": [{"key": "k", "value": step("a", "x")}, {"key": "l", "value": step("b", "x")}],
        },
        ["a", "b"],
    ),
    ({"type": "IndexExpr", "target": step("a", "x"), "index": step("b", "x")}, ["a", "b"]),
    ({"type": "ChainExpr", "operators": ["+"], "operands": [step("a", "x"), step("b", "x")]}, ["a", "b"]),
]
LEAVES: list[Mapping[str, object]] = [literal(value) for value in ("a", 1, 1.5, True, None)]


@pytest.mark.parametrize(("node", "steps"), OPERANDS)
def test_references_are_found_in_every_operand(node: Mapping[str, object], steps: list[str]) -> None:
    assert [(kind, path[0]) for kind, path in references_in(node)] == [("step", name) for name in steps]


def test_the_nodes_above_are_all_that_expressions_have() -> None:
    references: list[Mapping[str, object]] = [given("x"), step("a", "x")]
    listed = {str(node["type"]) for node in (*LEAVES, *references, *(node for node, _ in OPERANDS))}

    assert listed == set(CHILDREN) == set(_COMPILERS)


def test_references_come_in_source_order_and_through_bare_lists() -> None:
    node = [1, binary(given("a", "b"), "+", literal(1)), [step("s", "x"), "text"]]

    assert list(references_in(node)) == [("input", ("a", "b")), ("step", ("s", "x"))]


@pytest.mark.parametrize("node", [{"type": "Lambda"}, {"value": 1}, {"type": None}])
def test_a_node_of_unknown_type_is_an_error_to_the_walk_and_to_the_compiler(node: object) -> None:
    nested = binary(literal(1), "+", node)

    with pytest.raises(EvaluationError, match="expression node"):
        list(references_in(nested))
    with pytest.raises(EvaluationError, match="expression node"):
        compile_expression(nested, FrameReferences())


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"type": "BinaryExpr", "operator": "+", "left": 1}, "without its 'right'"),
        ({"type": "Int"}, "without its 'value'"),
        ({"type": "ConcatExpr", "operands": 5}, "whose 'operands' is not a list"),
        ({"type": "MapLiteral", "entries": ["k"]}, "is not an object with key and value"),
        (binary(1, "^", 2), r"unknown operator: \^ in 1 \^ 2"),
        ({"type": "UnaryExpr", "operator": "~", "operand": 1}, "unknown operator: ~ in ~1"),
        ({"type": "Int", "value": 1.5}, "a Double is not a literal of type Int in 1.5"),
        ({"type": "Int", "value": "one"}, "a String is not a literal of type Int in 'one'"),
        ({"type": "Boolean", "value": "false"}, "a String is not a literal of type Boolean"),
    ],
)
def test_a_malformed_node_is_refused_when_it_is_compiled(node: object, message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        compile_expression(node, FrameReferences())


def test_nesting_is_bounded() -> None:
    def nested(levels: int) -> object:
        node: object = given("x")
        for _ in range(levels - 1):
            node = binary(literal(1), "+", node)
        return node

    assert evaluate(nested(MAX_EXPRESSION_DEPTH), {"$": {"x": 1}}) == MAX_EXPRESSION_DEPTH
    with pytest.raises(EvaluationError, match=f"deeper than {MAX_EXPRESSION_DEPTH} levels"):
        evaluate(nested(MAX_EXPRESSION_DEPTH + 1), {"$": {"x": 1}})
    assert len(list(references_in(nested(5_000)))) == 1


@pytest.mark.parametrize("value", [None, True, 5, 1.5, "text", [1, [2, "x"]]])
def test_a_literal_value_stands_for_itself(value: Value) -> None:
    assert evaluate(value) == value


def test_a_bare_list_may_hold_nodes() -> None:
    assert evaluate([1, given("x")], {"$": {"x": 2}}) == [1, 2]


def test_a_literal_s_value_takes_the_kind_of_its_type() -> None:
    value = evaluate({"type": "Double", "value": 2})

    assert (value, type(value)) == (2.0, float)
    assert evaluate({"type": "Int", "value": "7"}) == 7
    assert evaluate({"type": "Int", "value": 7.0}) == 7


def test_arrays_and_maps_of_literals_are_new_each_time() -> None:
    for node in (
        {"type": "ArrayLiteral", "elements": [literal(1)]},
        {"type": "ArrayLiteral", "elements": [{"type": "ArrayLiteral", "elements": []}]},
        {"type": "MapLiteral", "entries": [{"key": "k", "value": literal(1)}]},
    ):
        run = compile_expression(node, FrameReferences())
        first, second = run({}), run({})
        assert first == second
        assert first is not second

    nested = compile_expression([[1]], FrameReferences())
    first, second = nested({}), nested({})
    assert isinstance(first, list)
    assert isinstance(second, list)
    assert first[0] is not second[0]


def test_the_last_of_repeated_map_keys_wins() -> None:
    entries = [{"key": "k", "value": literal(1)}, {"key": "k", "value": given("x")}]

    assert evaluate({"type": "MapLiteral", "entries": entries}, {"$": {"x": 2}}) == {"k": 2}


def test_an_operation_on_literals_that_must_fail_fails_when_it_is_run() -> None:
    run = compile_expression(binary(literal(1), "/", literal(0)), FrameReferences())

    with pytest.raises(EvaluationError, match="division by zero in 1 / 0"):
        run({})


def test_a_default_may_be_a_bare_map() -> None:
    assert compile_default({"a": 1, "b": [2]}, FrameReferences())({}) == {"a": 1, "b": [2]}
    assert compile_default(literal(3), FrameReferences())({}) == 3
    assert compile_default(None, FrameReferences())({}) is None


def test_members_are_found_in_maps() -> None:
    assert evaluate(given("a", "b", "c"), {"$": {"a": {"b": {"c": None}}}}) is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "member 'b' not found"),
        (None, "cannot access 'b' of null"),
        ([1], "cannot access 'b': Array has no members"),
        ("text", "cannot access 'b': String has no members"),
        (5, "cannot access 'b': Long has no members"),
        (True, "cannot access 'b': Boolean has no members"),
    ],
)
def test_other_values_have_no_members(value: Value, message: str) -> None:
    with pytest.raises(ReferenceError) as caught:
        evaluate(step("s", "a", "b"), {"s": {"a": value}})

    assert (caught.value.message, caught.value.reference) == (message, "s.a.b")


def test_python_s_own_attributes_are_out_of_reach() -> None:
    with pytest.raises(ReferenceError, match="has no members"):
        evaluate(given("text", "__class__"), {"$": {"text": "a"}})


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (binary(binary(1, "+", 2), "*", given("x")), "(1 + 2) * $.x"),
        (binary(1, "+", binary(2, "*", given("x"))), "1 + 2 * $.x"),
        (binary(1, "-", binary(2, "-", 3)), "1 - (2 - 3)"),
        (binary(binary(1, "-", 2), "-", 3), "1 - 2 - 3"),
        (binary(binary(1, "<", 2), "==", True), "(1 < 2) == true"),
        (binary(binary(True, "||", False), "&&", True), "(true || false) && true"),
        (binary(given("a"), "not in", [1, "b", None]), '$.a not in [1, "b", null]'),
        ({"type": "UnaryExpr", "operator": "!", "operand": binary(1, "==", 2)}, "!(1 == 2)"),
        ({"type": "IndexExpr", "target": step("s", "a"), "index": -1}, "s.a[-1]"),
        ({"type": "IndexExpr", "target": -1, "index": 0}, "(-1)[0]"),
        ({"type": "ConcatExpr", "operands": ["n=", binary(1, "+", 2), binary(1, "<", 2)]}, '"n=" ++ 1 + 2 ++ (1 < 2)'),
        ({"type": "MapLiteral", "entries": [{"key": "k", "value": literal(0.5)}]}, '#{"k": 0.5}'),
        ({"type": "Null"}, "null"),
        (step("s"), "s"),
    ],
)
def test_an_expression_reads_as_it_was_written(node: object, text: str) -> None:
    assert expression_text(node) == text


def test_a_long_expression_is_cut() -> None:
    assert expression_text("x" * 1_000) == '"' + "x" * 299 + "..."


def no_steps(step_name: str, attribute: str) -> object:
    raise KeyError(f"{step_name}.{attribute}")


class TestExpressionEvaluator:
    """The evaluator for single expressions."""

    def test_inputs_and_step_results_are_read_from_the_context(self) -> None:
        outputs = {("s", "out"): {"deep": 4}}
        context = EvaluationContext({"a": {"b": 3}}, lambda name, attribute: outputs[name, attribute])
        node = binary(given("a", "b"), "+", step("s", "out", "deep"))

        assert ExpressionEvaluator().evaluate(node, context) == 7

    def test_the_loop_variable_hides_an_input_of_its_name(self) -> None:
        context = EvaluationContext({"r": 1}, no_steps, foreach_var="r", foreach_value={"n": 2})

        assert ExpressionEvaluator().evaluate(given("r", "n"), context) == 2
        assert ExpressionEvaluator().evaluate(step("r"), context) == {"n": 2}

    @pytest.mark.parametrize(
        ("node", "message"),
        [
            (given(), "Empty input reference"),
            (given("b"), "Input 'b' not found"),
            (step("s"), "at least step.attribute"),
            (step("s", "out"), "No value: 's.out'"),
            (given("none", "x"), "Cannot access 'x' of null"),
            (given("text", "x"), "Cannot access 'x'"),
        ],
    )
    def test_a_reference_that_leads_nowhere_names_the_step_that_asked(self, node: object, message: str) -> None:
        context = EvaluationContext({"none": None, "text": "a"}, no_steps, step_id="s9")

        with pytest.raises(ReferenceError, match=message) as caught:
            ExpressionEvaluator().evaluate(node, context)

        assert caught.value.step_id == "s9"

    def test_messages_begin_with_a_capital(self) -> None:
        with pytest.raises(EvaluationError, match=r"^Division by zero"):
            ExpressionEvaluator().evaluate(binary(1, "/", 0), EvaluationContext({}, no_steps))

    def test_arguments_are_evaluated_by_name(self) -> None:
        args: list[dict[str, object]] = [{"name": "a", "value": literal(1)}, {"name": "b", "value": given("x")}]

        assert evaluate_args(args, EvaluationContext({"x": None}, no_steps)) == {"a": 1, "b": None}
