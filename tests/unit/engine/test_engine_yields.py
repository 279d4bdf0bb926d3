"""Yields: whom they address, when they run, and how their values are merged; and the defaults that fill the rest."""

import pytest

from tests.unit.engine.running import Engine, outputs_of

DECLARATIONS = """
    event facet E(x: Long) => (r: Json)
    facet V(v: Json)
    facet S(a: Long) => (out: Json)
"""


def test_arrays_are_joined_and_anything_else_is_replaced_in_textual_order() -> None:
    outputs = outputs_of(
        DECLARATIONS
        + """
        workflow W() => (list: Json, last: Json, map: Json, mixed: Json) andThen {
            yield W(list = [1], last = 1, map = #{"a": 1}, mixed = [1])
        } andThen {
            yield W(list = [2, 3], last = 2, map = #{"b": 2}, mixed = 2)
        } andThen {
            yield W(list = [4], mixed = [3])
        }"""
    )

    assert outputs == {"list": [1, 2, 3, 4], "last": 2, "map": {"b": 2}, "mixed": [3]}


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "b", "a"), ("b", "c", "a")])
def test_the_merge_order_is_the_programs_whatever_completes_first(order: tuple[str, ...]) -> None:
    engine = Engine(
        DECLARATIONS
        + """
        workflow W() => (r: [Json], last: Json) andThen {
            a = E(x = 1) andThen { yield W(r = [a.r], last = a.r) }
            b = E(x = 2) andThen { yield W(r = [b.r], last = b.r) }
            yield W(r = ["own"])
        } andThen {
            c = E(x = 3)
            yield W(r = [c.r], last = c.r)
        }"""
    )
    engine.start()

    for path in order:
        result = engine.answer(path, {"r": path})

    # Block by block; in a block the bodies of its statements first, then its own yields.
    assert result.outputs == {"r": ["a", "b", "own", "c"], "last": "c"}


def test_elements_of_a_foreach_merge_by_index_whatever_completes_first() -> None:
    engine = Engine(
        DECLARATIONS
        + """
        workflow W(xs: [Long]) => (r: [Json]) andThen foreach x in $.xs {
            e = E(x = $.x) andThen { yield W(r = ["body of " ++ $.x]) }
            yield W(r = [e.r])
        }"""
    )
    engine.start({"xs": [1, 2, 3]})

    for index in (2, 0, 1):
        result = engine.answer(f"[{index}].e", {"r": index})

    assert result.outputs == {"r": ["body of 1", 0, "body of 2", 1, "body of 3", 2]}


def test_a_yield_goes_to_the_innermost_step_of_that_name_and_to_no_other() -> None:
    engine = Engine(
        DECLARATIONS
        + """
        facet S2(a: Long) => (out: Json) andThen {
            inner = S2b(a = $.a) andThen { yield S2b(out = "inner") }
            yield S2(out = inner.out)
        }
        facet S2b(a: Long) => (out: Json)
        workflow W() => (out: Json) andThen {
            outer = S(a = 1) andThen {
                inner = S(a = 2) andThen { yield S(out = "inner") }
                both = V(v = inner.out)
                yield W(out = both.v)
            }
            second = S2(a = 1)
        }"""
    )

    assert engine.run().outputs == {"out": "inner"}
    assert engine.step("outer.inner").document.returns == {"out": "inner"}
    assert engine.step("outer").document.returns == {}
    assert engine.step("second").document.returns == {"out": "inner"}


def test_a_yield_runs_when_every_other_statement_of_its_block_is_complete() -> None:
    engine = Engine(
        DECLARATIONS
        + """
        workflow W() => (r: Long) andThen {
            quick = V(v = 1)
            slow = E(x = 1)
            yield W(r = quick.v)
        }"""
    )
    engine.start()

    assert "yield" not in engine.paths()
    assert engine.answer("slow", {"r": 1}).outputs == {"r": 1}


def test_nobody_sees_a_yield_before_the_step_has_captured_it() -> None:
    engine = Engine(
        DECLARATIONS
        + """
        workflow W() => (r: Long) andThen {
            yield W(r = 1)
        } andThen {
            slow = E(x = 1)
        }"""
    )
    engine.start()

    assert engine.step("yield").is_complete
    assert engine.step("").document.returns == {}
    assert engine.answer("slow", {}).outputs == {"r": 1}


def test_a_yield_takes_no_defaults() -> None:
    engine = Engine(
        DECLARATIONS
        + """
        facet D(a: Long = 1, b: Long = 2) => (out: Long) andThen { yield D(out = 3) }
        workflow W() andThen { d = D() }"""
    )
    engine.run()

    assert engine.step("d.yield").document.params == {"out": 3}
    assert engine.step("d").document.params == {"a": 1, "b": 2}


def test_the_first_yield_replaces_what_an_agent_returned_and_the_next_joins() -> None:
    engine = Engine(
        """
        event facet E() => (xs: [Long])
        workflow W() => (r: Json) andThen {
            e = E() andThen {
                yield E(xs = [2])
            } andThen {
                yield E(xs = [3])
            }
            yield W(r = e.xs)
        }"""
    )
    engine.start()

    assert engine.answer("e", {"xs": [1]}).outputs == {"r": [2, 3]}


def test_defaults_are_expressions_in_the_scope_of_the_callee() -> None:
    outputs = outputs_of(
        """
        facet D(a: Long = 2, b: Json = [$.a, -1, null], c: Json = #{"k": $.a * 10}, d: String = "a=" ++ $.a)
        workflow W(a: Long = 99) => (r: Json) andThen {
            d = D(a = 3)
            yield W(r = [d.a, d.b, d.c, d.d])
        }"""
    )

    assert outputs == {"r": [3, [3, -1, None], {"k": 30}, "a=3"]}


def test_defaults_of_a_workflow_are_evaluated_too_and_inputs_override_them() -> None:
    text = """
        workflow W(a: Long = -4, b: Json = [$.a, $.a + 1]) => (r: Json) andThen { yield W(r = [$.a, $.b]) }
    """

    assert outputs_of(text) == {"r": [-4, [-4, -3]]}
    assert outputs_of(text, {"a": 1}) == {"r": [1, [1, 2]]}
    assert outputs_of(text, {"b": None}) == {"r": [-4, None]}


def test_return_defaults_fill_what_nobody_set() -> None:
    outputs = outputs_of(
        """
        event facet E(x: Long) => (seen: Long, more: Long = $.x * 2)
        workflow W() => (r: Json, status: String = "done", list: Json = []) andThen {
            e = E(x = 4)
            yield W(r = [e.seen, e.more], list = null)
        }""",
        agents=lambda facet, payload: {"seen": 1},
    )

    assert outputs == {"r": [1, 8], "status": "done", "list": None}


def test_a_workflow_without_a_body_completes_with_its_return_defaults() -> None:
    assert outputs_of('workflow W(n: Long) => (text: String = "n=" ++ $.n)', {"n": 3}) == {"text": "n=3"}


def test_a_schema_instantiation_has_its_arguments_as_results() -> None:
    engine = Engine(
        """
        schema Limits { low: Double, high: Double }
        workflow W() => (r: Json) andThen {
            lim = Limits(low = 1, high = 2)
            yield W(r = lim.high - lim.low)
        }"""
    )

    assert engine.run().outputs == {"r": 1}
    step = engine.step("lim").document
    assert (step.object_type, step.params, step.returns) == ("SchemaInstantiation", {}, {"low": 1, "high": 2})


def test_a_workflow_may_be_called_as_a_step_and_runs_its_body() -> None:
    outputs = outputs_of(
        """
        workflow Double(n: Long) => (twice: Long) andThen { yield Double(twice = $.n * 2) }
        workflow W() => (r: Long) andThen {
            d = Double(n = 4)
            yield W(r = d.twice)
        }"""
    )

    assert outputs == {"r": 8}


def test_a_yield_with_mixins_of_the_older_shape_is_several_yields() -> None:
    def give(target: str, **values: object) -> dict[str, object]:
        return {"target": target, "args": [{"name": name, "value": value} for name, value in values.items()]}

    program = {
        "declarations": [
            {"type": "FacetDecl", "name": "F", "returns": [{"name": "f", "type": "Json"}]},
            {
                "type": "WorkflowDecl",
                "name": "W",
                "returns": [{"name": "r", "type": "Json"}, {"name": "seen", "type": "Json"}],
                "body": {
                    "steps": [
                        {
                            "name": "s",
                            "call": {"target": "F"},
                            "body": {"yield": {"id": "y", "call": {**give("W", r=1), "mixins": [give("F", f=2)]}}},
                        }
                    ],
                    "yield": {"call": give("W", seen={"type": "StepRef", "path": ["s", "f"]})},
                },
            },
        ]
    }

    assert Engine(program).run().outputs == {"r": 1, "seen": 2}
