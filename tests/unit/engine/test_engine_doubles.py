"""A Double takes the integers that it holds exactly, wherever they come from, and refuses the others by name."""

from __future__ import annotations

import json

import pytest

from afl.core.values import ValueRefused
from afl.engine.errors import InputTypeMismatch, StepFailure
from afl.engine.execution.task_dispatch import TaskDispatch
from afl.engine.types import Value
from afl.evaluation.evaluator import Evaluator
from afl.scripts.pool import ScriptPool
from afl.stores.memory.store import MemoryStore
from afl_stream.errors import ValueRefused as RefusedByStream
from afl_stream.wire.avro.afl_types import TypeScope
from afl_stream.wire.codec import single_object_codec
from afl_stream.wire.messages import Event
from afl_stream.wire.schema_source import InMemorySchemaLog
from tests.unit.engine.running import compiled, failure_of

#: By arithmetic: up to 2**53 each, then every second one, then every fourth.
EXACT = (0, -3, 2**53, -(2**53), 2**53 + 2, 2**54 + 4, 2**62)
INEXACT = (2**53 + 1, -(2**53) - 1, 2**54 + 2, 2**63 - 1)
SAID = "a Double was expected, found the integer"

#: Where an integer goes into a Double; `$.n` is that integer, and the type Json leaves it open.
PLACES = {
    "argument": "facet F(d: Double) workflow W(n: Json) => (r: Double) andThen { f = F(d = $.n) yield W(r = f.d) }",
    "computed": "facet F(d: Double) workflow W(n: Json) => (r: Double) andThen { f = F(d = $.n + 0) yield W(r = f.d) }",
    "two arguments": "facet F(d: Double, e: Json) workflow W(n: Json) => (r: Double) andThen {"
    " f = F(d = $.n, e = 1) yield W(r = f.d) }",
    "yield": "workflow W(n: Json) => (r: Double) andThen { yield W(r = $.n) }",
    "default": "facet F(n: Json, d: Double = $.n) workflow W(n: Json) => (r: Double) andThen {"
    " f = F(n = $.n) yield W(r = f.d) }",
    "return default": "facet F(n: Json) => (d: Double = $.n) workflow W(n: Json) => (r: Double) andThen {"
    " f = F(n = $.n) yield W(r = f.d) }",
    "field": "schema S { d: Double } workflow W(n: Json) => (r: Double) andThen { s = S(d = $.n) yield W(r = s.d) }",
    "mixin": "facet M(d: Double) facet F(n: Json) => (d: Double) with M(d = $.n) as m andThen { yield F(d = $.m.d) }"
    " workflow W(n: Json) => (r: Double) andThen { f = F(n = $.n) yield W(r = f.d) }",
}


#: Where it goes into one inside of an array or a schema, and the path that the refusal names.
PLACES_INSIDE = {
    "yielded array": ("workflow W(x: Json) => (r: [Double]) andThen { yield W(r = [0, $.x]) }", "r[1]"),
    "array argument": (
        "facet F(l: [Double]) workflow W(x: Json) => (r: [Double]) andThen { f = F(l = [$.x]) yield W(r = f.l) }",
        "l[0]",
    ),
    "array of arrays": (
        "facet F(l: [[Double]]) workflow W(x: Json) => (r: Json)"
        " andThen { f = F(l = [[], [1, $.x]]) yield W(r = f.l) }",
        "l[1][1]",
    ),
    "schema from a map": (
        "schema S { d: Double, n: Long } facet F(s: S) workflow W(x: Json) => (r: S) andThen {"
        ' f = F(s = #{"d": $.x, "n": $.x}) yield W(r = f.s) }',
        "s.d",
    ),
    "schema in itself": (
        "schema S { next: S, ds: [Double] } workflow W(x: Json) => (r: S) andThen {"
        ' yield W(r = #{"next": #{"next": null, "ds": [$.x]}}) }',
        "r.next.ds[0]",
    ),
    "default": (
        "facet F(x: Json, l: [Double] = [$.x]) workflow W(x: Json) => (r: [Double]) andThen {"
        " f = F(x = $.x) yield W(r = f.l) }",
        "l[0]",
    ),
    "return default": (
        "facet F(x: Json) => (l: [Double] = [$.x]) workflow W(x: Json) => (r: [Double]) andThen {"
        " f = F(x = $.x) yield W(r = f.l) }",
        "l[0]",
    ),
    "field": (
        "schema S { l: [Double] } workflow W(x: Json) => (r: Json) andThen { s = S(l = [$.x]) yield W(r = s.l) }",
        "l[0]",
    ),
    "event": ("event facet E(l: [Double]) workflow W(x: Json) => (r: Json) andThen { e = E(l = [$.x]) }", "l[0]"),
}


@pytest.mark.parametrize("place", PLACES_INSIDE)
def test_arrays_and_schemas_that_hold_doubles_are_looked_into(place: str) -> None:
    text, path = PLACES_INSIDE[place]

    for number in EXACT:
        assert Evaluator(MemoryStore()).execute("n.W", {"x": number}, compiled(text)).error is None
    for number in INEXACT:
        cause = failure_of(Evaluator(MemoryStore()).execute("n.W", {"x": number}, compiled(text)))
        assert cause.error_type == "ValueRefused"
        assert f"{path}: {SAID} {number}, which no Double holds exactly" in cause.message


def test_what_holds_no_double_takes_any_integer() -> None:
    number = 2**53 + 1
    program = compiled(
        "schema S { n: Long, l: [Json], o: [S] } facet F(s: S, l: [Long])"
        " workflow W(x: Json) => (r: S, l: [Long]) andThen {"
        ' f = F(s = #{"n": $.x, "l": [$.x], "o": [#{"n": $.x}]}, l = [$.x]) yield W(r = f.s, l = f.l) }'
    )

    outputs = Evaluator(MemoryStore()).execute("n.W", {"x": number}, program).outputs

    assert outputs == {"r": {"n": number, "l": [number], "o": [{"n": number}]}, "l": [number]}


@pytest.mark.parametrize("number", EXACT)
@pytest.mark.parametrize("place", PLACES)
def test_an_integer_that_a_double_holds_is_taken(place: str, number: int) -> None:
    result = Evaluator(MemoryStore()).execute("n.W", {"n": number}, compiled(PLACES[place]))

    assert result.error is None
    assert result.outputs["r"] == number


@pytest.mark.parametrize("number", INEXACT)
@pytest.mark.parametrize("place", PLACES)
def test_an_integer_that_no_double_holds_fails_the_step_it_is_given_to(place: str, number: int) -> None:
    cause = failure_of(Evaluator(MemoryStore()).execute("n.W", {"n": number}, compiled(PLACES[place])))

    assert cause.error_type == "ValueRefused"
    assert f"{SAID} {number}, which no Double holds exactly" in cause.message


def test_an_integer_beyond_all_doubles_is_no_overflow() -> None:
    power = "$.n" + " * $.n" * 24
    text = f"facet F(d: Double) workflow W(n: Json) andThen {{ f = F(d = {power}) }}"

    cause = failure_of(Evaluator(MemoryStore()).execute("n.W", {"n": 10**18 + 1}, compiled(text)))

    assert cause.error_type == "ValueRefused"
    assert f"{SAID} of " in cause.message


@pytest.mark.parametrize("number", INEXACT)
def test_inputs_and_defaults_of_a_workflow_are_held_to_it(number: int) -> None:
    evaluator, program = (
        Evaluator(MemoryStore()),
        compiled("workflow W(n: Json = 0, d: Double = $.n, s: [Double] = [])"),
    )

    given: list[dict[str, Value]] = [{"d": number}, {"s": [0, number]}]
    for inputs in given:
        error = evaluator.execute("n.W", inputs, program, workflow_id="w").error
        assert isinstance(error, InputTypeMismatch)
        assert "which no Double holds exactly" in str(error)
    assert isinstance(evaluator.execute("n.W", {"n": number}, program, workflow_id="w").error, ValueRefused)
    assert evaluator.persistence.load_workflow("w") is None


@pytest.mark.parametrize("number", INEXACT)
def test_an_answer_is_held_to_it(number: int) -> None:
    program = compiled(
        "event facet E() => (d: Double) workflow W() => (r: Double) andThen { e = E() yield W(r = e.d) }"
    )
    evaluator = Evaluator(MemoryStore())
    (event,) = evaluator.execute("n.W", {}, program, workflow_id="w").pending_events

    with pytest.raises(ValueRefused, match=rf"^result\.d: {SAID}"):
        evaluator.continue_step(event.step_id, {"d": number})
    with pytest.raises(ValueRefused, match=rf"^partial\.d: {SAID}"):
        evaluator.update_step(event.step_id, {"d": number})
    evaluator.continue_step(event.step_id, {"d": number}, is_checked=True)

    cause = failure_of(evaluator.resume("w"))
    assert cause.error_type == "ResultMismatch"
    assert f"n.E returned d: {SAID} {number}" in cause.message


def test_arrays_and_schemas_of_an_answer_are_held_to_it() -> None:
    number = 2**53 + 1
    program = compiled("schema S { d: Double } event facet E() => (l: [Double], s: S) workflow W() andThen { e = E() }")
    evaluator = Evaluator(MemoryStore())
    (event,) = evaluator.execute("n.W", {}, program, workflow_id="w").pending_events

    with pytest.raises(ValueRefused, match=rf"^result\.l\[1\]: {SAID}"):
        evaluator.continue_step(event.step_id, {"l": [0, number], "s": None})
    with pytest.raises(ValueRefused, match=rf"^partial\.s\.d: {SAID}"):
        evaluator.update_step(event.step_id, {"s": {"d": number}})
    evaluator.continue_step(event.step_id, {"l": [0], "s": {"d": 1}})

    assert evaluator.resume("w").error is None


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ([1.5, 2.5], [1.5, 2.5]),
        ([1, 2.5, None], [1.0, 2.5, None]),
        ([1e308, 1e308], [1e308, 1e308]),
        ([], []),
        (None, None),
    ],
)
def test_an_agent_gets_the_doubles_of_arrays_and_schemas_as_such(given: Value, sent: Value) -> None:
    text = (
        "schema S { next: S, d: Double, l: [Double] } event facet E(l: [Double], s: S, j: Json)"
        " workflow W(l: [Double], s: S, j: Json) andThen { e = E(l = $.l, s = $.s, j = $.j) }"
    )
    inputs: dict[str, Value] = {"l": given, "s": {"next": {"d": 3, "l": given}, "d": 4, "l": given}, "j": [3, {"a": 4}]}
    store = MemoryStore()
    evaluator = Evaluator(store, dispatch=TaskDispatch())

    evaluator.execute("n.W", inputs, compiled(text), workflow_id="w")

    task = store.claim_task(["n.E"])
    assert task is not None
    expected = {"l": sent, "s": {"next": {"d": 3.0, "l": sent}, "d": 4.0, "l": sent}, "j": [3, {"a": 4}]}
    assert json.dumps(task.data) == json.dumps(expected)


def test_a_script_is_held_to_it() -> None:
    number = 2**53 + 1
    with ScriptPool() as pool:
        for text in (
            f"workflow W() => (r: Double) andThen script {{ result['r'] = {number} }}",
            f"facet F() => (d: Double) script {{ result['d'] = {number} }} workflow W() andThen {{ f = F() }}",
            f"workflow W() => (r: [Double]) andThen script {{ result['r'] = [{number}] }}",
            f"schema S {{ d: Double }} facet F() => (s: S) script {{ result['s'] = {{'d': {number}}} }}"
            " workflow W() andThen { f = F() }",
        ):
            result = Evaluator(MemoryStore(), scripts=pool).execute("n.W", {}, compiled(text))

            assert isinstance(result.error, StepFailure)
            assert result.error.error_type == "ValueRefused"
            assert f"{SAID} {number}" in result.error.message


@pytest.mark.parametrize("number", [*EXACT, *INEXACT, 2**70, 10**22, 10**23, 10**400])
def test_engine_and_stream_take_the_same_integers_as_doubles(number: int) -> None:
    """A task's payload, and an event on a topic: what one carries, the other does."""
    codec = single_object_codec(InMemorySchemaLog())
    writer = codec.event_writer("n.E", [{"name": "d", "type": "Double"}], TypeScope())
    event = Event(
        id="w:1#1", workflow_id="w", execution_id="w", step_id="w:1", event_type="n.E", state="event.Created",
        payload={"d": number}, attempt=1, created_at=0,
    )  # fmt: skip
    try:
        writer.encode(event)
        is_carried = True
    except RefusedByStream:
        is_carried = False

    digits = str(number)
    program = compiled(f"event facet E(d: Double) workflow W() andThen {{ e = E(d = {digits} + 0) }}")
    result = Evaluator(MemoryStore()).execute("n.W", {}, program, workflow_id="w")

    assert (result.status == "PAUSED") == is_carried
    if is_carried:
        assert type(result.pending_events[0].payload["d"]) in (int, float)
    else:
        assert failure_of(result).error_type == "ValueRefused"
