"""Chains of operators of any length at run time: one after the other from the left, without recursion."""

import random
from collections.abc import Callable, Sequence
from functools import reduce

import pytest

from afl.compiled.chains import hung
from afl.compiler import compile_text
from afl.engine.errors import EvaluationError
from afl.engine.expressions.expression import compile_expression, expression_text, references_in
from afl.engine.limits import MAX_EXPRESSION_DEPTH
from afl.engine.types import Value
from tests.unit.engine.expression_frames import evaluate, given, literal
from tests.unit.engine.restarts import MakeEngine, make_engine

__all__ = ["make_engine"]

#: Beyond what may be nested, in calls and in JSON.
LONG = [400, 10_000]


def flat(operators: Sequence[str], operands: Sequence[object]) -> dict[str, object]:
    """Return a chain as long ones are compiled."""
    return {"type": "ChainExpr", "operators": list(operators), "operands": list(operands)}


def repeated(operator: str, operand: object, operands: int) -> dict[str, object]:
    return flat([operator] * (operands - 1), [operand] * operands)


class Reads:
    """References that note in which order they are read."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def input_reference(self, path: tuple[str, ...]) -> Callable[[dict[str, Value]], Value]:
        def read(frame: dict[str, Value]) -> Value:
            self.read.append(path[0])
            return frame[path[0]]

        return read

    step_reference = input_reference


@pytest.mark.parametrize("operands", LONG)
@pytest.mark.parametrize(
    ("operator", "value", "expected"),
    [
        ("+", 3, lambda count: 3 * count),
        ("-", 3, lambda count: 3 - 3 * (count - 1)),
        ("*", -1, lambda count: (-1) ** count),
        ("/", 1, lambda count: 1.0),
        ("%", 7, lambda count: 0),
        ("&&", True, lambda count: True),
        ("||", False, lambda count: False),
    ],
)
def test_a_long_chain_gives_what_its_operators_give_one_after_the_other(
    operator: str, value: Value, expected: Callable[[int], Value], operands: int
) -> None:
    node = repeated(operator, given("x"), operands)

    found = evaluate(node, {"$": {"x": value}})

    assert (found, type(found)) == (expected(operands), type(expected(operands)))
    assert evaluate(hung(node["operators"], node["operands"]), {"$": {"x": value}}) == found  # type: ignore[arg-type]
    assert len(list(references_in(node))) == operands


def test_sums_of_doubles_are_added_from_the_left() -> None:
    numbers = [random.Random(6).uniform(-1e6, 1e6) for _ in range(1_000)]

    assert evaluate(flat(["+"] * 999, list(map(literal, numbers)))) == reduce(lambda one, other: one + other, numbers)
    mixed = flat(["+"] * 999, [given("x"), *map(literal, numbers[1:])])
    assert evaluate(mixed, {"$": {"x": numbers[0]}}) == reduce(lambda one, other: one + other, numbers)


@pytest.mark.parametrize("length", [3, MAX_EXPRESSION_DEPTH - 1, MAX_EXPRESSION_DEPTH, MAX_EXPRESSION_DEPTH + 1, 1_000])
def test_operators_of_all_levels_mix_in_chains_of_any_length(length: int) -> None:
    chance = random.Random(length)
    steps: dict[str, Callable[[int], int]] = {
        "+": lambda x: x + 3,
        "-": lambda x: x - 3,
        "*": lambda x: x * 3 % 1_000,
        "%": lambda x: x % 3,
    }
    operators, operands, value = [], [given("x")], 1
    for _ in range(length):
        operator = chance.choice(list(steps))
        # Kept small, since integers have a limit of their own.
        operators += [operator, "%"] if operator == "*" else [operator]
        operands += [literal(3), literal(1_000)] if operator == "*" else [literal(3)]
        value = steps[operator](value)

    assert evaluate(flat(operators, list(operands)), {"$": {"x": 1}}) == value


@pytest.mark.parametrize("links", [3, 400])
def test_an_index_is_a_link_like_any_other(links: int) -> None:
    sums = [literal(2)] * links
    node = flat(["[]", *["+"] * links, "=="], [given("list"), literal(1), *sums, literal(5 + 2 * links)])
    letters = flat(["[]"] * links, [given("s"), *[literal(0)] * links])

    assert evaluate(node, {"$": {"list": [4, 5]}}) is True
    assert evaluate(letters, {"$": {"s": "xyz"}}) == "x"


@pytest.mark.parametrize("length", [10, 1_000])
@pytest.mark.parametrize(("operator", "deciding"), [("&&", False), ("||", True)])
def test_what_is_decided_reads_no_further(operator: str, deciding: bool, length: int) -> None:
    references = Reads()
    names = [f"x{number}" for number in range(length)]
    run = compile_expression(flat([operator] * (length - 1), [given(name) for name in names]), references)
    frame: dict[str, Value] = dict.fromkeys(names, not deciding)

    assert run({**frame, names[length // 2]: deciding}) is deciding
    assert references.read == names[: length // 2 + 1]
    references.read.clear()
    assert run(frame) is not deciding
    assert references.read == names


@pytest.mark.parametrize("length", [5, 1_000])
def test_an_error_names_the_chain_as_far_as_it_came(length: int) -> None:
    operands = [given("x")] * length + [literal("text")] + [given("x")] * length

    with pytest.raises(EvaluationError) as failed:
        evaluate(flat(["+"] * (2 * length), operands), {"$": {"x": 1}})

    assert failed.value.expression == expression_text(flat(["+"] * length, operands[: length + 1]))
    assert failed.value.expression.startswith("$.x + $.x + $.x")


def test_a_condition_that_is_no_boolean_is_named_in_a_long_chain() -> None:
    operands = [given("ok")] * 300 + [given("n")] + [given("ok")] * 300

    with pytest.raises(EvaluationError, match="&& needs a Boolean, found Long in"):
        evaluate(flat(["&&"] * 600, operands), {"$": {"ok": True, "n": 1}})


def test_a_chain_reads_as_source_with_the_brackets_that_it_needs() -> None:
    node = flat(["+", "*", "[]", "==", "&&"], [given(name) for name in "abcdef"])

    assert expression_text(node) == "(($.a + $.b) * $.c)[$.d] == $.e && $.f"


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (flat(["+"], [1]), "a chain of 1 operators has 1 operands"),
        (flat([], []), "a chain of 0 operators has 0 operands"),
        (flat(["~"], [given("a"), given("b")]), "unknown operator: ~"),
        (flat(["~"] * 400, [given("a")] * 401), "unknown operator: ~"),
        ({"type": "ChainExpr", "operators": "+", "operands": [1, 2]}, "'operators' is not a list"),
    ],
)
def test_a_malformed_chain_is_refused_when_it_is_compiled(node: object, message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        compile_expression(node, Reads())


def test_chains_inside_of_brackets_inside_of_chains_stay_far_from_the_end_of_the_stack() -> None:
    text = "$.n"
    for _ in range(60):
        text = "$.n + " * 150 + "(" + text + ")"
    program = compile_text(f"facet F(n: Int, x: Int = {text})").program_json

    assert evaluate(program["declarations"][0]["params"][1]["default"], {"$": {"n": 1}}) == 150 * 60 + 1


EVERYWHERE = """
    event facet E(x: Json) => (r: Int)
    facet F(x: Int = {sum_of_ones}) => (r: Int) with M(x = {sum_of_ones}) as m andThen {{
        yield F(r = {sum_of_m})
    }}
    facet M(x: Int)
    schema P {{ x: Int }}
    implicit given = G(x = {sum_of_ones})
    facet G(x: Int)
    workflow W(n: Int = 1, ok: Boolean = true) => (r: [Json], s: String) andThen {{
        e = E(x = {sum}) catch when {{
            case {all_ok} => {{ yield E(r = {sum}) }}
            case _ => {{ }}
        }}
        f = F()
        g = G()
        p = P(x = {sum})
        sys.assert({all_ok})
        sys.log(sum = {sum})
        yield W(r = [e.r, f.r, g.x, p.x, {sum}], s = {text})
    }} andThen when {{
        case {all_ok} => {{ yield W(r = ["case"]) }}
        case _ => {{ }}
    }}"""


@pytest.mark.parametrize("operands", [400, pytest.param(1_200, marks=pytest.mark.long)])
def test_a_long_chain_runs_in_every_position_and_after_a_restart(make_engine: MakeEngine, operands: int) -> None:
    engine = make_engine(
        EVERYWHERE.format(
            sum_of_ones=" + ".join(["1"] * operands),
            sum_of_m=" + ".join(["$.m.x - $.m.x"] * operands),
            sum=" + ".join(["$.n"] * operands),
            all_ok=" && ".join(["$.ok"] * operands),
            text=" ++ ".join(["$.n"] * operands),
        )
    )
    engine.start()
    assert engine.step("e").document.params == {"x": operands}

    # The first $.m.x of the sum stays, all others are taken away again.
    result = engine.fail("e")
    assert result.outputs == {"r": [operands, 0, operands, operands, operands, "case"], "s": "1" * operands}
