"""Failures: what one stops, what it lets finish, and how it is reported."""

import pytest

from afl.compiled.program import CompiledProgram
from afl.engine.errors import IterationLimitReached, NoProgress, StepFailure
from tests.unit.engine.running import Engine, compiled, failure_of

EVENTS = """
    event facet E(x: Long) => (r: Long)
    facet V(v: Double)
"""

TWO_AND_TWO = (
    EVENTS
    + """
    workflow W() => (r: Double) andThen {
        a = E(x = 1)
        b = E(x = 2)
        c = V(v = a.r)
        d = V(v = b.r)
        yield W(r = c.v + d.v)
    }
"""
)


def test_siblings_that_run_finish_after_a_failure() -> None:
    engine = Engine(TWO_AND_TWO)
    engine.start()

    result = engine.fail("a")

    assert result.status == "PAUSED"
    assert engine.waiting() == ["b"]
    assert engine.answer("b", {"r": 2}).status == "ERROR"
    assert engine.step("b").is_complete


def test_nothing_more_of_a_block_starts_after_a_failure() -> None:
    engine = Engine(TWO_AND_TWO)
    engine.start()
    engine.fail("a")

    engine.answer("b", {"r": 2})

    assert sorted(engine.paths()) == ["", "#0", "a", "b"]


def test_yields_do_not_run_after_a_failure() -> None:
    engine = Engine(
        EVENTS
        + """
        workflow W() => (r: Long) andThen {
            a = E(x = 1)
            b = V(v = 1 / 0)
            yield W(r = a.r)
        }"""
    )
    engine.start()

    result = engine.answer("a", {"r": 1})

    assert failure_of(result).message.startswith("division by zero")
    assert "yield" not in engine.paths()
    assert engine.row().outputs is None


def test_other_blocks_of_a_failing_step_finish_first() -> None:
    engine = Engine(
        EVENTS
        + """
        workflow W() => (r: Double) andThen {
            a = V(v = 1 / 0)
        } andThen {
            b = E(x = 1)
            c = V(v = b.r)
            yield W(r = c.v)
        }"""
    )

    assert engine.start().status == "PAUSED"
    assert engine.answer("b", {"r": 2}).status == "ERROR"
    assert engine.step("c").is_complete
    assert engine.step("yield").is_complete


def test_the_first_cause_names_path_facet_line_type_and_message() -> None:
    engine = Engine(
        """
        event facet E(x: Long) => (r: Long)
        facet Outer() => (r: Long) andThen {
            inner = E(x = 1)
            yield Outer(r = inner.r)
        }
        workflow W(xs: [Long]) => (r: [Long]) andThen foreach x in $.xs {
            call = Outer()
            yield W(r = [call.r])
        }"""
    )
    engine.start({"xs": [1, 2]})
    engine.answer("[0].call.inner", {"r": 1})

    error = failure_of(engine.fail("[1].call.inner", "disk full", "OSError"))

    assert (error.step_path, error.facet, error.line) == ("n.W[1].call.inner", "n.E", 5)
    assert (error.error_type, error.message) == ("OSError", "disk full")
    assert str(error) == "n.W[1].call.inner (n.E, line 5) failed: OSError: disk full"


def test_every_step_around_a_failed_one_holds_the_first_cause() -> None:
    engine = Engine(
        EVENTS
        + """
        facet Outer() andThen { inner = E(x = 1) }
        workflow W() andThen { call = Outer() }"""
    )
    engine.start()
    engine.fail("call.inner", "lost")

    for path in ("", "#0", "call", "call#0", "call.inner"):
        error = engine.step(path).document.error
        assert error is not None
        assert (error.path, error.message) == ("n.W.call.inner", "lost")


@pytest.mark.parametrize("restarts", [False, True])
def test_what_failed_first_is_the_cause_whatever_fails_later(restarts: bool) -> None:
    engine = Engine(TWO_AND_TWO)
    engine.start()
    engine.fail("b", "first")
    if restarts:
        engine.restart()

    assert failure_of(engine.fail("a", "second")).message == "first"


@pytest.mark.parametrize("restarts", [False, True])
def test_a_failed_element_lets_the_others_finish_and_then_fails_the_foreach(restarts: bool) -> None:
    engine = Engine(
        EVENTS
        + """
        workflow W(xs: [Long]) => (r: [Long]) andThen foreach x in $.xs {
            e = E(x = $.x)
            yield W(r = [e.r])
        }"""
    )
    engine.start({"xs": [1, 2, 3]})

    assert engine.fail("[1].e").status == "PAUSED"
    if restarts:
        engine.restart()
    assert engine.waiting() == ["[0].e", "[2].e"]
    engine.answer("[2].e", {"r": 1})
    assert failure_of(engine.answer("[0].e", {"r": 1})).step_path == "n.W[1].e"
    assert engine.step("[0].yield").is_complete
    assert engine.step("[2].yield").is_complete


def test_elements_that_have_no_step_yet_still_get_theirs_after_one_has_failed() -> None:
    engine = Engine(
        EVENTS
        + """
        workflow W(xs: [Long]) andThen foreach x in $.xs {
            v = V(v = 1 / $.x)
        }"""
    )

    result = engine.start({"xs": [0, *range(1, 6_000)]})

    assert failure_of(result).step_path == "n.W[0].v"
    assert engine.step("[5999].v").is_complete


def test_a_body_that_waits_for_an_outer_step_fails_with_it() -> None:
    engine = Engine(
        EVENTS
        + """
        workflow W() andThen {
            a = E(x = 1)
            b = E(x = 2) andThen { c = V(v = a.r) }
        }"""
    )
    engine.start()
    engine.answer("b", {"r": 1})

    result = engine.fail("a", "gone")

    assert failure_of(result).message == "gone"
    assert engine.step("b").state == "state.statement.Error"


def test_a_body_that_waits_for_the_second_step_to_fail_fails_too() -> None:
    engine = Engine(
        EVENTS
        + """
        workflow W() andThen {
            a = E(x = 1)
            b = E(x = 2)
            c = E(x = 3) andThen { d = V(v = b.r) }
        }"""
    )
    engine.start()
    engine.answer("c", {"r": 1})
    engine.fail("a", "first")

    result = engine.fail("b", "second")

    assert failure_of(result).message == "first"
    error = engine.step("c").document.error
    assert error is not None
    assert error.message == "second"


@pytest.mark.parametrize("restarts", [False, True])
def test_bodies_at_every_depth_fail_when_what_they_wait_for_can_no_longer_run(restarts: bool) -> None:
    engine = Engine(
        EVENTS
        + """
        workflow W() andThen {
            a = E(x = 1)
            b = E(x = 2) andThen {
                later = V(v = a.r)
                c = E(x = 3) andThen { d = V(v = later.v) }
            }
        }"""
    )
    engine.start()
    engine.answer("b", {"r": 1})
    engine.answer("b.c", {"r": 1})
    if restarts:
        engine.restart()

    result = engine.fail("a", "gone")

    assert failure_of(result).message == "gone"
    assert not [step.path for step in engine.steps() if not step.is_complete and step.document.error is None]


def test_a_foreach_source_that_fails_fails_the_block() -> None:
    engine = Engine(
        """
        event facet L() => (xs: [Long])
        event facet E() => (r: Long)
        facet V(v: Long)
        workflow W() andThen {
            list = L()
            each = E() andThen foreach x in list.xs { v = V(v = $.x) }
        }"""
    )
    engine.start()
    engine.answer("each", {"r": 1})

    assert failure_of(engine.fail("list", "no list")).message == "no list"


def test_a_circle_of_dependencies_is_an_error_that_names_its_steps() -> None:
    def step(name: str, needs: str) -> dict[str, object]:
        arg = {"name": "v", "value": {"type": "StepRef", "path": [needs, "v"]}}
        return {"type": "StepStmt", "name": name, "call": {"target": "V", "args": [arg]}}

    engine = Engine(
        {
            "declarations": [
                {"type": "FacetDecl", "name": "V", "params": [{"name": "v", "type": "Long"}]},
                {"type": "WorkflowDecl", "name": "W", "body": {"steps": [step("a", "b"), step("b", "a")]}},
            ]
        }
    )

    error = failure_of(engine.start())

    assert error.error_type == NoProgress.__name__
    assert "W.a, W.b" in error.message


def test_a_facet_that_calls_itself_without_end_fails_by_name() -> None:
    engine = Engine(
        """
        facet Again() andThen { again = Again() }
        workflow W() andThen { a = Again() }"""
    )

    error = failure_of(engine.start())

    assert error.error_type == "NestingTooDeep"
    assert len(engine.steps()) < 1_000


def test_the_iteration_limit_is_a_timeout_that_names_it_and_can_be_resumed() -> None:
    engine = Engine(
        EVENTS
        + """
        workflow W() => (r: Double) andThen {
            a = V(v = 1)
            b = V(v = a.v + 1)
            yield W(r = b.v)
        }""",
        max_iterations=2,
    )

    result = engine.start()

    assert (result.success, result.status, result.iterations) == (False, "TIMEOUT", 2)
    assert isinstance(result.error, IterationLimitReached)
    assert "2" in str(result.error)
    assert engine.row().runnable
    assert engine.resume().status == "TIMEOUT"
    assert engine.resume().outputs == {"r": 2}


def test_a_failed_run_stays_failed_with_its_cause_when_it_is_resumed() -> None:
    engine = Engine(TWO_AND_TWO)
    engine.start()
    engine.fail("a", "first")
    engine.answer("b", {"r": 1})
    engine.restart()

    assert failure_of(engine.resume()).message == "first"


def test_a_value_that_cannot_be_computed_fails_the_step_in_its_own_words() -> None:
    error = failure_of(Engine(EVENTS + "workflow W() andThen { a = V(v = [1, 2][5]) }").start())

    assert (error.step_path, error.error_type) == ("n.W.a", "EvaluationError")


def test_an_input_that_nobody_gave_and_that_is_read_is_a_reference_error() -> None:
    result = Engine(
        """
        facet V(v: Long)
        facet F(missing: Long) andThen { v = V(v = $.missing) }
        workflow W() andThen { f = F() }"""
    ).start()

    error = failure_of(result)
    assert (error.step_path, error.error_type) == ("n.W.f.v", "ReferenceError")
    assert "missing" in error.message


@pytest.mark.parametrize(
    ("inputs", "kind"),
    [({}, "MissingInput"), ({"x": "one"}, "InputTypeMismatch"), ({"x": 1, "y": 2}, "UnknownInput")],
)
def test_inputs_that_do_not_fit_are_refused_and_store_nothing(inputs: dict[str, object], kind: str) -> None:
    engine = Engine("workflow W(x: Long) andThen { }")

    result = engine.start(inputs)  # type: ignore[arg-type]  # what a caller without types may hand in

    assert (result.status, type(result.error).__name__) == ("ERROR", kind)
    assert engine.store.load_workflow("run") is None


def test_an_unknown_workflow_is_an_error_with_near_names() -> None:
    result = Engine(compiled("workflow W() andThen { }")).start(workflow="n.V")

    assert result.status == "ERROR"
    assert "n.W" in str(result.error)


def test_resuming_an_unknown_workflow_is_an_error_not_an_exception() -> None:
    result = Engine(CompiledProgram({})).resume()

    assert (result.success, result.status) == (False, "ERROR")
    assert "run not found" in str(result.error)


def test_the_cause_of_a_failure_is_an_error_of_its_own_class() -> None:
    assert isinstance(Engine(EVENTS + "workflow W() andThen { a = V(v = 1 / 0) }").start().error, StepFailure)


def test_a_failure_outside_of_any_statement_has_the_line_of_its_block_or_declaration() -> None:
    engine = Engine(
        """
        facet Each(xs: Json) => (r: Json = 0)
            andThen foreach x in $.xs.y {
                yield Each(r = 1)
            }
        workflow W(xs: Json) => (r: Json = 0) andThen {
            each = Each(xs = $.xs)
        }"""
    )

    error = failure_of(engine.start({"xs": [1]}))

    assert (error.step_path, error.error_type, error.line) == ("n.W.each", "ReferenceError", 4)
