"""The judge judged: programs whose outputs were worked out by hand."""

import pytest

from afl.compiler import compile_text
from tests.random_programs.expressions import Failure, Value
from tests.random_programs.interpreter import Answer, Interpreter


def _no_agent(facet: str, payload: object) -> dict[str, Value]:
    raise AssertionError(f"{facet} was called with {payload}")


def _run(
    text: str, inputs: dict[str, Value] | None = None, *, workflow: str = "W", answer: Answer = _no_agent
) -> dict[str, Value]:
    program = compile_text(f"namespace n {{ {text} }}", include_locations=False).program_json
    return Interpreter(program, answer).run(f"n.{workflow}", inputs or {})


def _types_of_failure(text: str, answer: Answer = _no_agent) -> frozenset[str]:
    with pytest.raises(Failure) as failure:
        _run(text, answer=answer)
    return failure.value.types


def test_a_chain_adds_one_three_times() -> None:
    outputs = _run(
        """facet Value(input: Long, output: Long)
        workflow W(input: Long = 1) => (output: Long) andThen {
            s1 = Value(input = $.input + 1)
            s2 = Value(input = s1.input + 1)
            yield W(output = s2.input + 1)
        }"""
    )

    assert outputs == {"output": 4}


_FAN_IN = """facet Value(input: Long, output: Long)
    workflow W(input: Long = 1) => (output: Long) andThen {
        a = Value(input = $.input + 1)
        b = Value(input = $.input + 10)
        c = Value(input = a.input + b.input)
        yield W(output = c.input)
    }"""


@pytest.mark.parametrize(("inputs", "output"), [({}, 13), ({"input": 0}, 11), ({"input": -4}, 3)])
def test_a_fan_in_adds_both_sides_of_its_input_or_default(inputs: dict[str, Value], output: int) -> None:
    assert _run(_FAN_IN, inputs) == {"output": output}


def test_each_block_has_its_own_steps_and_fills_its_own_output() -> None:
    outputs = _run(
        """facet Value(input: Long)
        workflow W(input: Long = 1) => (x: Long, y: Long, z: Long) andThen {
            a = Value(input = $.input + 1)
            yield W(x = a.input)
        } andThen {
            a = Value(input = $.input * 10)
            yield W(y = a.input)
        }"""
    )

    assert outputs == {"x": 2, "y": 10}


def test_the_foreach_of_a_called_facet_collects_in_element_order() -> None:
    outputs = _run(
        """event facet Twice(x: Int) => (y: Int)
        facet All(xs: [Int]) => (ys: [Int], last: Int) andThen foreach x in $.xs {
            t = Twice(x = $.x)
            yield All(ys = [t.y], last = x)
        }
        workflow W() => (ys: [Int], last: Int) andThen {
            a = All(xs = [3, 1, 2])
            yield W(ys = a.ys, last = a.last)
        }""",
        answer=lambda facet, payload: {"y": 2 * int(str(payload["x"]))},
    )

    assert outputs == {"ys": [6, 2, 4], "last": 2}


def test_yields_of_a_statement_body_come_before_those_of_its_block() -> None:
    outputs = _run(
        """facet F(p: Int) => (q: Int) andThen { yield F(q = 1000) }
        workflow W() => (list: [String], q: Int) andThen {
            a = F(p = 5)
            b = F(p = a.q + 1) andThen {
                c = F(p = 7)
                yield F(q = $.p + $.p)
                yield W(list = ["inner " ++ c.q])
            }
            yield W(list = ["outer"], q = b.q)
        } andThen {
            yield W(list = ["second"])
        }"""
    )

    # b's own block takes the place of F's: q is 1001 + 1001.
    assert outputs == {"list": ["inner 1000", "outer", "second"], "q": 2002}


def test_a_body_reads_its_event_and_the_dollar_of_the_outside_where_the_step_has_no_such_name() -> None:
    outputs = _run(
        """event facet E(a: Int) => (b: Int)
        workflow W(a: Int = 1, z: Int = 100) => (sum: Int) andThen {
            e = E(a = 10) andThen { yield W(sum = $.a + $.b + $.z + e.b) }
        }""",
        answer=lambda facet, payload: {"b": 2},
    )

    assert outputs == {"sum": 10 + 2 + 100 + 2}


def test_returns_that_nobody_gave_take_their_defaults_and_declared_parameters_theirs() -> None:
    outputs = _run(
        """facet F(p: Int, q: Int = $.p * 2) => (r: Int, s: [Int] = [1]) andThen { yield F(r = $.q) }
        workflow W() => (r: Int, s: [Int], t: String = "none") andThen {
            f = F(p = 4)
            yield W(r = f.r, s = f.s)
        }"""
    )

    assert outputs == {"r": 8, "s": [1], "t": "none"}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("6 / 2", 3.0),
        ("-7 % 3", 2),
        ("2 + 3 * 4 - -1", 15),
        ("1.5 + 1", 2.5),
        ('"n=" ++ 1 + 2', "n=3"),
        ('"" ++ 2.0 ++ true ++ null ++ [1, "a"] ++ #{k: 0.5}', '2.0true[1,"a"]{"k":0.5}'),
        ("[10, 20, 30][-1]", 30),
        ('#{a: [1, #{b: "deep"}]}["a"]', [1, {"b": "deep"}]),
        ('"abc"[1]', "b"),
        ("1 == 1.0", True),
        ("true == 1", False),
        ("[1, #{a: null}] == [1.0, #{a: null}]", True),
        ("[true] != [1]", True),
        ('"10" == 10', False),
        ("2 <= 2.0", True),
        ("2 < 2.0", False),
        ("3 >= 4", False),
        ('"Z" < "a"', True),
        ('"b" > "a"', True),
        ("1.0 in [0, 1]", True),
        ("2 not in [0, 1]", True),
        ('"k" in #{k: null}', True),
        ('"" in ""', True),
        ('"bc" in "abcd"', True),
        ('"abcd" contains "db"', False),
        ('["a"] contains "a"', True),
        ('"abc" startsWith "ab"', True),
        ('"abc" endsWith ""', True),
        ('"bc" endsWith "abc"', False),
        ("!(1 == 2) && true", True),
        ("false && 1 / 0 == 1", False),
        ("true || 1 / 0 == 1", True),
        ("false || true && false", False),
    ],
)
def test_an_expression_is_worth(expression: str, value: Value) -> None:
    outputs = _run(f"workflow W() => (x: Json) andThen {{ yield W(x = {expression}) }}")

    assert outputs == {"x": value}
    assert type(outputs["x"]) is type(value)


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("1 / 0", "EvaluationError"),
        ("1.0 % 0", "EvaluationError"),
        ("[1][1]", "EvaluationError"),
        ('#{a: 1}["b"]', "EvaluationError"),
        ('"a" < 1', "EvaluationError"),
        ("null >= 1", "EvaluationError"),
        ("[1] < [2]", "EvaluationError"),
        ("1 in null", "EvaluationError"),
        ('1 in "1"', "EvaluationError"),
        ("$.map && true", "EvaluationError"),
        ("false || $.map", "EvaluationError"),
        ("!$.map", "EvaluationError"),
        ('$.map startsWith "a"', "EvaluationError"),
        ("true && $.missing == 1", "ReferenceError"),
        ("$.missing + 1", "ReferenceError"),
        ("$.map.b", "ReferenceError"),
    ],
)
def test_a_bad_expression_fails_the_run(expression: str, error: str) -> None:
    text = f"workflow W(missing: Int, map: Json = #{{a: 1}}) => (x: Json) andThen {{ yield W(x = {expression}) }}"

    assert _types_of_failure(text) == {error}


def test_a_step_that_reads_a_failed_one_fails_in_the_same_way() -> None:
    types = _types_of_failure(
        """facet F(p: Int)
        workflow W() => (x: Int) andThen {
            a = F(p = 1 % 0)
            b = F(p = a.p)
            yield W(x = b.p)
        }"""
    )

    assert types == {"EvaluationError"}


def test_failures_side_by_side_are_all_told() -> None:
    types = _types_of_failure(
        """facet F(p: Int)
        workflow W(missing: Int) => (x: Int) andThen {
            a = F(p = 1 % 0)
            yield W(x = a.p)
        } andThen {
            b = F(p = $.missing)
            yield W(x = b.p)
        }"""
    )

    assert types == {"EvaluationError", "ReferenceError"}


def test_a_schema_step_has_its_arguments_as_fields_and_a_workflow_may_be_a_step() -> None:
    outputs = _run(
        """schema Point { x: Int, y: Int }
        workflow Part(n: Int) => (m: Int) andThen { yield Part(m = $.n + 1) }
        workflow W() => (p: Int) andThen {
            p = Point(x = 3, y = 4)
            w = Part(n = p.x * p.y)
            yield W(p = w.m)
        }"""
    )

    assert outputs == {"p": 13}
