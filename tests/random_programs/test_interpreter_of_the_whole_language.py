"""The judge judged on conditions, catch, mixins, implicits, scripts and steps as values: outputs worked out by hand."""

import pytest

from afl.compiler import compile_text
from tests.random_programs.expressions import Failure, Undecided, Value, failure
from tests.random_programs.interpreter import Answer, Interpreter


def _no_agent(facet: str, payload: object) -> dict[str, Value]:
    raise AssertionError(f"{facet} was called with {payload}")


def _broken(facet: str, payload: object) -> dict[str, Value]:
    raise failure("Broken", facet)


def _run(text: str, inputs: dict[str, Value] | None = None, answer: Answer = _no_agent) -> dict[str, Value]:
    program = compile_text(f"namespace n {{ {text} }}", include_locations=False).program_json
    return Interpreter(program, answer).run("n.W", inputs or {})


_ROUTES = """workflow W(x: Int) => (routes: [String]) andThen when {
        case $.x > 1 => { yield W(routes = ["big"]) }
        case $.x % 2 == 0 => { yield W(routes = ["even"]) }
        case [$.x][$.x] == 0 => { yield W(routes = ["never"]) }
        case _ => { yield W(routes = ["other"]) }
    }"""


@pytest.mark.parametrize(
    ("x", "routes"), [(4, ["big", "even"]), (3, ["big"]), (-2, ["even"]), (1, ["other"]), (-5, ["other"])]
)
def test_every_true_case_runs_and_the_default_if_none_does(x: int, routes: list[Value]) -> None:
    assert _run(_ROUTES, {"x": x}) == {"routes": routes}


def test_a_when_of_a_declaration_sees_the_steps_of_blocks_before_it() -> None:
    outputs = _run(
        """facet V(v: Int)
        workflow W() => (out: Int) andThen { a = V(v = 7) } andThen when {
            case a.v == 7 => { b = V(v = a.v + 1) yield W(out = b.v) }
            case _ => { }
        }"""
    )

    assert outputs == {"out": 8}


def test_the_catch_of_a_step_sees_its_error_and_lets_the_step_complete() -> None:
    outputs = _run(
        """event facet E() => (r: String)
        workflow W() => (type: String, r: String) andThen {
            e = E() catch { yield E(r = "instead") yield W(type = e.error_type) }
            yield W(r = e.r)
        }""",
        answer=_broken,
    )

    assert outputs == {"type": "Broken", "r": "instead"}


def test_the_catch_of_a_statement_comes_instead_of_the_declarations() -> None:
    outputs = _run(
        """facet F() => (r: String) andThen { sys.assert(false) } catch { yield F(r = "own") }
        workflow W() => (a: String, b: String) andThen {
            a = F()
            b = F() catch when {
                case b.error_type == "AssertionError" => { yield F(r = "statement") }
                case _ => { }
            }
            yield W(a = a.r, b = b.r)
        }"""
    )

    assert outputs == {"a": "own", "b": "statement"}


def test_blocks_that_completed_count_before_the_catch() -> None:
    outputs = _run(
        """workflow W() => (list: [Int]) andThen { yield W(list = [1]) } andThen { sys.assert(1 > 2) }
        catch { yield W(list = [3]) }"""
    )

    assert outputs == {"list": [1, 3]}


def test_a_catch_that_fails_is_the_failure() -> None:
    with pytest.raises(Failure) as failed:
        _run("workflow W() andThen { sys.assert(false) } catch { sys.assert(1 / 0 > 0) }")

    assert failed.value.types == {"EvaluationError"}


def test_a_failure_names_the_innermost_step() -> None:
    with pytest.raises(Failure) as failed:
        _run(
            """facet V(v: Int) facet F() andThen { inner = V(v = [1][5]) }
            workflow W() andThen { outer = F() }"""
        )

    assert failed.value.causes == {("EvaluationError", "inner")}


def test_params_come_from_call_mixin_of_the_call_mixin_of_the_signature_implicit_default_in_this_order() -> None:
    outputs = _run(
        """facet M(a: Int = 0, b: Int = 0, c: Int = 0)
        facet F(a: Int = 5, b: Int = 5, c: Int = 5, d: Int = 5, e: Int = 5) with M(a = 3, b = 3, c = 3)
        implicit i = F(a = 4, b = 4, c = 4, d = 4)
        workflow W() => (all: [Int]) andThen {
            f = F(a = 1) with M(a = 2, b = 2)
            yield W(all = [f.a, f.b, f.c, f.d, f.e])
        }"""
    )

    assert outputs == {"all": [1, 2, 3, 4, 5]}


def test_a_mixin_with_an_alias_is_a_step_whose_attributes_the_body_reads() -> None:
    outputs = _run(
        """facet Retry(times: Int = 3) => (policy: String) andThen { yield Retry(policy = "r" ++ $.times) }
        facet F(n: Int) => (text: String) with Retry(times = $.n + 1) as retry andThen {
            yield F(text = $.retry.policy ++ $.retry.times)
        }
        workflow W() => (text: String) andThen { f = F(n = 1) yield W(text = f.text) }"""
    )

    assert outputs == {"text": "r22"}


def test_a_yield_to_an_alias_is_seen_by_those_who_get_the_step_as_a_value() -> None:
    outputs = _run(
        """facet M() => (r: [Int]) andThen { yield M(r = [1]) }
        facet F() => (r: [Int]) with M() as m andThen { yield F(r = $.m.r) with m(r = [2]) }
        facet Reader(of: F) => (r: [Int], m: [Int]) andThen { yield Reader(r = $.of.r, m = $.of.m.r) }
        workflow W() => (r: [Int], m: [Int]) andThen {
            f = F() t = Reader(of = f) yield W(r = t.r, m = t.m)
        }"""
    )

    assert outputs == {"r": [1], "m": [2]}


def test_a_script_gives_params_and_returns_that_nothing_else_gives() -> None:
    outputs = _run(
        """facet F(p: Int) => (a: Int, b: Int = 9, c: Int = 9) script {
            result["p"] = params["p"] + 1
            result["a"] = 5
            result["b"] = 6
        } andThen { yield F(a = $.p) }
        workflow W() => (a: Int, b: Int, c: Int, p: Int) andThen {
            f = F(p = 1) yield W(a = f.a, b = f.b, c = f.c)
        }"""
    )

    assert outputs == {"a": 2, "b": 6, "c": 9}


def test_a_script_as_a_block_yields_in_its_place() -> None:
    outputs = _run(
        """workflow W(x: Int) => (list: [Int]) andThen { yield W(list = [1]) }
        andThen script { result["list"] = [params["x"]] } andThen { yield W(list = [3]) }""",
        {"x": 2},
    )

    assert outputs == {"list": [1, 2, 3]}


def test_a_script_that_raises_fails_with_the_name_of_its_exception() -> None:
    with pytest.raises(Failure) as failed:
        _run('workflow W() script { raise ValueError("no") }')

    assert failed.value.types == {"ValueError"}


@pytest.mark.parametrize(("source", "keys"), [("#{b: 1, a: 2}", ["b", "a"]), ("null", []), ("[]", [])])
def test_a_foreach_goes_through_keys_and_does_nothing_for_null(source: str, keys: list[Value]) -> None:
    outputs = _run(
        f"""facet V(v: Json)
        workflow W() => (keys: [String] = []) andThen {{
            a = V(v = {source}) andThen foreach k in a.v {{ yield W(keys = [k]) }}
        }}"""
    )

    assert outputs == {"keys": keys}


def test_iterations_and_cases_that_completed_count_where_others_failed_and_were_caught() -> None:
    outputs = _run(
        """facet V(v: Int)
        workflow W(xs: [Int] = [1, 2, 3]) => (list: [Int]) andThen {
            a = V(v = 0) andThen foreach x in $.xs { sys.assert($.x != 2) yield W(list = [$.x]) } catch { }
            b = V(v = 0) andThen when {
                case a.v == 0 => { yield W(list = [10]) }
                case a.v != 1 => { sys.assert(false) }
                case _ => { }
            } catch { yield W(list = [11]) }
        }"""
    )

    assert outputs == {"list": [1, 3, 10, 11]}


def test_what_a_failed_block_has_given_to_somebody_further_out_is_left_to_the_engine() -> None:
    with pytest.raises(Undecided):
        _run(
            """facet V()
            workflow W() => (list: [Int]) andThen {
                a = V() andThen { yield W(list = [1]) }
                sys.assert(false)
            } catch { yield W(list = [2]) }"""
        )
