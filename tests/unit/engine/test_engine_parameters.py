"""The sources of a step's parameters: the call, its mixins, the signature's mixins, implicits, defaults."""

from collections.abc import Mapping

import pytest

from afl.compiled.program import CompiledProgram, Node, ProgramError
from afl.compiler import compile_text
from afl.engine.errors import ReferenceError, UnknownInput
from afl.engine.planning.planner import plan_workflow
from afl.engine.types import Value
from tests.unit.engine.running import Engine, failure_of, outputs_of


def payload_of(text: str, inputs: Mapping[str, Value] | None = None) -> dict[str, Value]:
    """Return what the agent of `e` is asked."""
    engine = Engine(text)
    assert engine.start(inputs).status == "PAUSED"
    return dict(engine.step("e").document.params)


SOURCES = """
    facet M(x: Int)
    facet N(x: Int)
    event facet E(x: Int = 5) => (r: Json) {signature}
    {implicit}
    workflow W() => (r: Json) andThen {{ e = E({argument}) {call} }}
"""


@pytest.mark.parametrize(
    ("argument", "call", "signature", "implicit", "expected"),
    [
        ("x = 1", "with M(x = 2)", "with M(x = 3)", "implicit i = E(x = 4)", 1),
        ("", "with M(x = 2)", "with M(x = 3)", "implicit i = E(x = 4)", 2),
        ("", "with M(x = 2) with N(x = 20)", "", "", 2),
        ("", "", "with M(x = 3)", "implicit i = E(x = 4)", 3),
        ("", "", "with M(x = 3) with N(x = 30)", "", 3),
        ("", "", "", "implicit i = E(x = 4)", 4),
        ("", "", "", "", 5),
        ("x = null", "with M(x = 2)", "with M(x = 3)", "implicit i = E(x = 4)", None),
    ],
)
def test_the_first_source_that_gives_a_parameter_wins(
    argument: str, call: str, signature: str, implicit: str, expected: Value
) -> None:
    text = SOURCES.format(argument=argument, call=call, signature=signature, implicit=implicit)

    assert payload_of(text) == {"x": expected}


def test_a_mixins_own_defaults_and_body_are_not_used_without_an_alias() -> None:
    text = """
    facet M(x: Int = 7, y: Int = 8) => (z: Int) andThen { yield M(z = 1) }
    event facet E(x: Int = 1, y: Int = 2) => (r: Json) with M(x = 3)
    workflow W() => (r: Json) andThen { e = E() }
    """

    assert payload_of(text) == {"x": 3, "y": 2}


def test_an_argument_that_the_callee_does_not_declare_is_a_param_all_the_same() -> None:
    text = """
    facet M(colour: String)
    facet N(size: Int)
    event facet E(x: Int) => (r: Json) with N(size = $.x * 2)
    workflow W() => (r: Json) andThen { e = E(x = 1) with M(colour = "red") }
    """

    assert payload_of(text) == {"x": 1, "colour": "red", "size": 2}


def test_arguments_of_a_signatures_mixin_are_read_in_the_scope_of_its_declaration() -> None:
    text = """
    facet M(y: Json)
    event facet E(x: String = "callee", y: Json = 0) => (r: Json) with M(y = $.x)
    workflow W(x: String) => (r: Json) andThen { e = E() }
    """

    assert payload_of(text, {"x": "caller"}) == {"x": "callee", "y": "callee"}


def test_a_default_reads_what_a_mixin_has_given_and_a_mixin_what_a_default_has() -> None:
    text = """
    facet M(a: Int, c: Int)
    event facet E(a: Int, b: Int = $.a + 1, c: Int) => (r: Json) with M(a = 1, c = $.b + 1)
    workflow W() => (r: Json) andThen { e = E() }
    """

    assert payload_of(text) == {"a": 1, "b": 2, "c": 3}


def test_a_mixin_whose_argument_reads_itself_in_a_circle_fails_the_step() -> None:
    text = """
    facet M(a: Int, b: Int)
    event facet E(a: Int, b: Int) => (r: Json) with M(a = $.b, b = $.a)
    workflow W() => (r: Json) andThen { e = E() }
    """

    assert failure_of(Engine(text).start()).error_type == ReferenceError.__name__


def test_arguments_of_a_calls_mixin_are_read_where_the_call_stands_and_are_waited_for() -> None:
    engine = Engine(
        """
        facet M(x: Json)
        event facet First() => (r: Int)
        event facet E(x: Json = 0) => (r: Json)
        workflow W(n: Int) => (r: Json) andThen {
            first = First()
            e = E() with M(x = first.r + $.n)
        }"""
    )
    engine.start({"n": 10})
    assert engine.waiting() == ["first"]

    engine.answer("first", {"r": 5})

    assert engine.step("e").document.params == {"x": 15}


def test_a_mixin_fills_in_what_a_workflow_is_started_without() -> None:
    text = """
    facet M(x: Int)
    workflow W(x: Int, y: Int = $.x + 1) => (r: [Int]) with M(x = 3) andThen { yield W(r = [$.x, $.y]) }
    """

    assert outputs_of(text) == {"r": [3, 4]}
    assert outputs_of(text, {"x": 1}) == {"r": [1, 2]}


def test_a_default_is_read_in_the_callees_scope_never_the_callers() -> None:
    text = """
    event facet E(a: Int = 1, b: Int = $.a * 10) => (r: Json)
    workflow W(a: Int) => (r: Json) andThen { e = E() }
    """

    assert payload_of(text, {"a": 7}) == {"a": 1, "b": 10}


# --- implicits -------------------------------------------------------------------------------------------------------


def test_an_implicit_gives_what_a_call_leaves_out() -> None:
    text = """
    event facet Send(to: String, host: String, port: Int = 1) => (id: String)
    implicit relay = Send(host = "mx.local", port = 25)
    workflow W(to: String) => (r: Json) andThen { e = Send(to = $.to) }
    """

    assert payload_of(text, {"to": "me"}) == {"to": "me", "host": "mx.local", "port": 25}


def implicits(**written: str) -> CompiledProgram:
    """Return a workflow of namespace `n` that calls `lib.E`, and implicits with these values in these places."""
    given = {place: f"implicit i = lib.E(x = {value})" for place, value in written.items()}
    text = f"""
    namespace other {{ {given.get("other", "")} }}
    namespace used {{ {given.get("used", "")} }}
    namespace lib {{ event facet E(x: Int = 0) => (r: Json) {given.get("callee", "")} }}
    namespace n {{
        use used
        use lib
        workflow W() => (r: Json) andThen {{ e = lib.E() }}
        {given.get("caller", "")}
    }}
    {given.get("top", "")}
    """
    return CompiledProgram(compile_text(text).program_json)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"other": "5", "top": "4", "used": "3", "callee": "2", "caller": "1"}, 1),
        ({"other": "5", "top": "4", "used": "3", "callee": "2"}, 2),
        ({"other": "5", "top": "4", "used": "3"}, 3),
        ({"other": "5", "top": "4"}, 4),
        ({"other": "5"}, 5),
        ({}, 0),
    ],
)
def test_the_closest_implicit_is_used(written: dict[str, str], expected: int) -> None:
    engine = Engine(implicits(**written))
    engine.start()

    assert engine.step("e").document.params == {"x": expected}


def test_one_implicit_is_used_whole_and_never_merged_with_another() -> None:
    text = """
    event facet E(x: Int = 0, y: Int = 0) => (r: Json)
    implicit first = E(x = 1)
    implicit second = E(x = 2, y = 2)
    workflow W() => (r: Json) andThen { e = E() }
    """

    assert payload_of(text) == {"x": 1, "y": 0}


def test_an_implicit_for_a_namesake_of_the_callee_is_none_for_the_callee() -> None:
    text = """
    namespace a { event facet E(x: Int = 0) => (r: Json) }
    namespace b { event facet E(x: Int = 0) => (r: Json) implicit i = E(x = 1) }
    namespace n { workflow W() => (r: Json) andThen { e = a.E() f = b.E() } }
    """
    engine = Engine(CompiledProgram(compile_text(text).program_json))
    engine.start()

    assert engine.step("e").document.params == {"x": 0}
    assert engine.step("f").document.params == {"x": 1}


def test_implicits_of_the_older_shape_are_read() -> None:
    facet = {"name": "E", "params": [{"name": "x", "type": "Int"}], "returns": []}
    implicit = {"name": "i", "call": {"target": "E", "args": [{"name": "x", "value": {"type": "Int", "value": 3}}]}}
    workflow = {"name": "W", "body": {"steps": [{"name": "e", "call": {"target": "E"}}]}}
    engine = Engine({"eventFacets": [facet], "workflows": [workflow], "implicits": [implicit]})
    engine.start()

    assert engine.step("e").document.params == {"x": 3}


def test_an_implicit_that_reads_something_is_refused_when_the_program_is_loaded() -> None:
    read: Node = {"type": "InputRef", "path": ["a"]}
    implicit = {"name": "i", "call": {"target": "E", "args": [{"name": "x", "value": read}]}}
    workflow = {"name": "W", "body": {"steps": [{"name": "e", "call": {"target": "E"}}]}}
    program = CompiledProgram({"facets": [{"name": "E"}], "workflows": [workflow], "implicits": [implicit]})

    with pytest.raises(ProgramError, match="implicit i: an implicit gives constants"):
        plan_workflow(program, "W")


def test_a_start_is_no_call_and_neither_is_mixing_in_so_defaults_hold_and_no_implicit() -> None:
    text = """
    facet M(x: Int = 1)
    workflow W(x: Int = 2) => (r: [Int]) with M() as m andThen { yield W(r = [$.x, $.m.x]) }
    implicit i = W(x = 20)
    implicit j = M(x = 10)
    """

    assert outputs_of(text) == {"r": [2, 1]}


# --- workflows and returns -------------------------------------------------------------------------------------------


def test_a_workflow_that_a_step_calls_runs_its_body_as_a_facet_does() -> None:
    text = """
    event facet E(x: Int) => (r: Int)
    workflow Inner(a: Int, b: Int = 2) => (sum: Int) andThen {
        e = E(x = $.a + $.b)
        yield Inner(sum = e.r)
    }
    workflow W() => (r: Int) andThen { i = Inner(a = 1) yield W(r = i.sum) }
    """

    assert outputs_of(text, agents=lambda _, payload: {"r": payload["x"]}) == {"r": 3}


@pytest.mark.parametrize("answer", [{}, {"r": None}, {"r": 4}])
def test_a_return_default_is_what_an_event_did_not_return(answer: dict[str, Value]) -> None:
    text = """
    event facet E(x: Int) => (r: Int = $.x + 1)
    workflow W() => (r: Json) andThen { e = E(x = 1) yield W(r = e.r) }
    """

    assert outputs_of(text, agents=lambda *_: answer) == {"r": answer.get("r", 2)}


def test_a_workflow_without_body_has_its_return_defaults() -> None:
    assert outputs_of("workflow W(a: Int) => (b: Int = $.a * 2, c: Int)", {"a": 2}) == {"b": 4}


def test_an_input_that_the_workflow_does_not_declare_is_refused() -> None:
    result = Engine("workflow W(a: Int = 1) => (b: Int = $.a)").start({"colour": "red"})

    assert isinstance(result.error, UnknownInput)


# --- the time limit --------------------------------------------------------------------------------------------------

TIMED = """
    event facet E(x: Int) => (r: Json) {signature}
    workflow W() => (r: Json) andThen {{ e = E(x = 1) {call} }}
"""


@pytest.mark.parametrize(
    ("signature", "call", "limit_ms"),
    [
        ("", "", None),
        ("with Timeout(seconds = 5)", "", 5_000),
        ("", "with Timeout(hours = 1, minutes = 2, seconds = 3, ms = 4)", 3_723_004),
        ("with Timeout(hours = 1)", "with Timeout(ms = 10)", 10),
    ],
)
def test_an_event_has_the_deadline_that_its_time_limit_gives(signature: str, call: str, limit_ms: int | None) -> None:
    engine = Engine(TIMED.format(signature=signature, call=call))
    engine.start()

    # The clock of these tests stands at 1,000.
    assert engine.step("e").document.deadline_ms == (None if limit_ms is None else 1_000 + limit_ms)


@pytest.mark.parametrize("limit", ["Timeout()", "Timeout(seconds = $.s)", "Timeout(seconds = -5)", "Timeout(name = 5)"])
def test_a_time_limit_without_a_literal_number_is_none(limit: str) -> None:
    engine = Engine(
        f"""
        facet Timeout(seconds: Int = 0, name: Int = 0)
        event facet E(x: Int) => (r: Json)
        workflow W(s: Int = 5) => (r: Json) andThen {{ e = E(x = 1) with {limit} }}"""
    )
    engine.start()

    assert engine.step("e").document.deadline_ms is None


# --- prompts ---------------------------------------------------------------------------------------------------------


def test_a_prompt_is_for_the_agent_and_the_event_is_like_any_other() -> None:
    engine = Engine(
        """
        event facet Triage(ticket: String, tone: String = "calm") => (queue: String) prompt {
            system "Tone: {tone}"
            template "Ticket: {ticket}"
            model "small"
        }
        workflow W() => (r: Json) andThen { e = Triage(ticket = "t") yield W(r = e.queue) }"""
    )
    engine.start()
    assert engine.step("e").document.params == {"ticket": "t", "tone": "calm"}
    assert engine.answer("e", {"queue": "q"}).outputs == {"r": "q"}

    prompt = engine.program.declarations["n.Triage"].prompt
    assert prompt is not None
    assert (prompt["system"], prompt["template"], prompt["model"]) == ("Tone: {tone}", "Ticket: {ticket}", "small")
    assert engine.program.declarations["n.W"].prompt is None
