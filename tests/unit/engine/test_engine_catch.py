"""`catch` and `catch when`: what they cover, what they see, and what becomes of the step."""

import pytest

from afl.scripts.pool import ScriptPool
from tests.unit.engine.restarts import MakeEngine, make_engine
from tests.unit.engine.running import Engine, failure_of, outputs_of

__all__ = ["make_engine"]

DECLARATIONS = """
    event facet E(x: Json) => (r: Json, out: Json)
    facet V(v: Json)
    facet S(a: Json) => (out: [Json])
"""


def test_an_event_that_failed_is_caught_and_the_run_continues() -> None:
    engine = Engine(
        DECLARATIONS
        + """
        workflow W() => (r: Json, state: Json) andThen {
            e = E(x = 1) catch { yield E(r = e.error_type ++ ": " ++ e.error) }
            v = V(v = e.r)
            yield W(r = v.v)
        }"""
    )
    engine.start()

    assert engine.fail("e", "card refused", "PaymentError").outputs == {"r": "PaymentError: card refused"}
    assert engine.step("e").is_complete
    assert engine.step("e").document.returns == {"r": "PaymentError: card refused"}


def test_a_step_that_does_not_fail_runs_no_catch() -> None:
    engine = Engine(
        DECLARATIONS
        + """
        workflow W() => (r: Json) andThen {
            e = E(x = 1) catch { yield E(r = "caught") }
            yield W(r = e.r)
        }"""
    )
    engine.start()

    assert engine.answer("e", {"r": "fine"}).outputs == {"r": "fine"}
    assert "e#catch" not in engine.paths()


@pytest.mark.parametrize(
    ("step", "error_type"),
    [
        ("S(a = 1 / 0)", "EvaluationError"),
        ('S(a = #{"k": 1}) andThen { v = V(v = $.a.missing) }', "ReferenceError"),
        ("S(a = 1) andThen { sys.assert(1 == 2) }", "AssertionError"),
        ("S(a = 1) andThen foreach x in $.a { }", "EvaluationError"),
        ("S(a = 1) andThen { t = S(a = 1) andThen { v = V(v = 1 / 0) } }", "EvaluationError"),
        ("S(a = 1) andThen { yield S(out = [1 / 0]) }", "EvaluationError"),
        ("S(a = 1) andThen when { case true => { v = V(v = 1 / 0) } case _ => { } }", "EvaluationError"),
        ("D(a = 1)", "EvaluationError"),
        ("R(a = 1)", "EvaluationError"),
    ],
)
def test_a_catch_covers_everything_of_its_step(step: str, error_type: str) -> None:
    outputs = outputs_of(
        DECLARATIONS
        + f"""
        facet D(a: Json, b: Json = 1 / 0)
        facet R(a: Json) => (b: Json = $.a / 0)
        workflow W() => (r: Json) andThen {{
            s = {step} catch {{ yield W(r = s.error_type) }}
        }}"""
    )

    assert outputs == {"r": error_type}


def test_a_schema_instantiation_may_be_caught_too() -> None:
    outputs = outputs_of(
        """
        schema P { x: Long, y: Long }
        workflow W() => (r: Json) andThen {
            p = P(x = 1 / 0) catch { yield W(r = p.error_type) }
        }"""
    )

    assert outputs == {"r": "EvaluationError"}


def test_the_catch_of_the_statement_goes_before_that_of_the_declaration() -> None:
    outputs = outputs_of(
        """
        facet F(a: Json) => (out: Json) andThen {
            v = G(v = 1 / 0)
        } catch { yield F(out = "declaration: " ++ $.error_type ++ " for " ++ $.a) }
        facet G(v: Json)
        workflow W() => (r: Json) andThen {
            one = F(a = 1) catch { yield F(out = "statement") }
            two = F(a = 2)
            yield W(r = [one.out, two.out])
        }"""
    )

    assert outputs == {"r": ["statement", "declaration: EvaluationError for 2"]}


def test_a_nested_step_is_first_offered_its_own_catch() -> None:
    outputs = outputs_of(
        DECLARATIONS
        + """
        workflow W() => (r: Json) andThen {
            s = S(a = 1) andThen {
                t = S(a = 1 / 0) catch { yield S(out = ["inner"]) }
                yield W(r = t.out)
            } catch { yield W(r = "outer") }
        }"""
    )

    assert outputs == {"r": ["inner"]}


def test_the_error_is_the_innermost_one() -> None:
    outputs = outputs_of(
        DECLARATIONS
        + """
        workflow W() => (r: Json) andThen {
            s = S(a = 1) andThen {
                t = V(v = 1) andThen { sys.assert(t.v == 2) }
            }
        } catch { yield W(r = $.error_type ++ ": " ++ $.error) }"""
    )

    assert outputs == {"r": "AssertionError: sys.assert failed: t.v == 2"}


def test_a_catch_sees_the_steps_above_and_what_the_body_sees() -> None:
    outputs = outputs_of(
        DECLARATIONS
        + """
        workflow W(xs: [Long], p: Json) => (r: [Json]) andThen foreach x in $.xs {
            before = V(v = $.x * 10)
            s = V(v = "own") andThen { inner = V(v = 1 / 0) } catch {
                t = S(a = $.p) andThen { yield W(r = [before.v, x, $.x, s.v, $.a, s.error_type]) }
                yield W(r = [$.v])
            }
        }""",
        {"xs": [1], "p": "input"},
    )

    assert outputs == {"r": [10, 1, 1, "own", "input", "EvaluationError", "own"]}


def test_what_completed_and_the_catch_are_merged_the_catch_last_and_failed_blocks_give_nothing() -> None:
    engine = Engine(
        DECLARATIONS
        + """
        workflow W() => (r: [Json], last: Json) andThen {
            s = S(a = 1) andThen { yield W(r = ["of a failed block"]) }
            e = E(x = 1)
            yield W(r = ["of a failed block"])
        } andThen {
            f = E(x = 2)
            yield W(r = [f.r], last = f.r)
        } catch { yield W(r = ["catch"], last = "catch") }"""
    )
    engine.start()
    # The other block finishes first.
    assert engine.fail("e").status == "PAUSED"

    assert engine.answer("f", {"r": 2}).outputs == {"r": [2, "catch"], "last": "catch"}


def test_error_and_error_type_are_not_among_the_outputs() -> None:
    engine = Engine(
        """
        facet F(a: Json) => (out: Json) andThen { v = G(v = 1 / 0) } catch { }
        facet G(v: Json)
        workflow W() => (r: Json) andThen { f = F(a = 1) } catch { yield W(r = 1) }"""
    )

    assert engine.run().outputs == {}
    document = engine.step("f").document
    assert (document.params, document.returns, document.error) == ({"a": 1}, {}, None)


def test_a_return_that_nobody_set_stays_unset_and_reading_it_fails() -> None:
    engine = Engine(
        DECLARATIONS
        + """
        workflow W() => (r: Json) andThen {
            e = E(x = 1) catch { }
            yield W(r = e.r)
        }"""
    )
    engine.start()

    assert failure_of(engine.fail("e")).error_type == "ReferenceError"


def test_return_defaults_fill_what_a_catch_leaves_open() -> None:
    outputs = outputs_of(
        """
        facet F(a: Json) => (out: Json = 7) andThen { v = G(v = 1 / 0) }
        facet G(v: Json)
        workflow W() => (r: Json) andThen {
            f = F(a = 1) catch { }
            yield W(r = f.out)
        }"""
    )

    assert outputs == {"r": 7}


def test_a_failing_catch_makes_the_step_fail_with_its_own_error() -> None:
    engine = Engine(
        DECLARATIONS
        + """
        workflow W() => (r: Json) andThen {
            e = E(x = 1) catch { a = E(x = e.error) }
        }"""
    )
    engine.start()
    engine.fail("e", "first")

    error = failure_of(engine.fail("e.catch.a", "second", "Second"))
    assert (error.error_type, error.message, error.step_path) == ("Second", "second", "n.W.e.catch.a")
    assert not engine.step("e").is_complete


def test_a_failing_catch_is_for_the_next_one_outside() -> None:
    outputs = outputs_of(
        DECLARATIONS
        + """
        workflow W() => (r: Json) andThen {
            s = S(a = 1 / 0) catch { sys.assert(1 == 2) }
        } catch { yield W(r = $.error_type) }"""
    )

    assert outputs == {"r": "AssertionError"}


CHOICE = (
    DECLARATIONS
    + """
    workflow W() => (r: [Json]) andThen {
        e = E(x = 1) catch when {
            case e.error_type == "Timeout" => { yield W(r = ["slow: " ++ e.error]) }
            case e.error startsWith "b" => { yield W(r = ["b"]) }
            case e.r == 1 => { yield W(r = ["never"]) }
            case _ => { yield W(r = ["default"]) }
        }
    }"""
)


@pytest.mark.parametrize(
    ("message", "error_type", "expected"),
    [
        ("busy", "Timeout", ["slow: busy", "b"]),
        ("busy", "Broken", ["b"]),
        ("away", "Broken", ["default"]),
    ],
)
def test_a_catch_when_runs_every_case_that_holds(message: str, error_type: str, expected: list[str]) -> None:
    engine = Engine(CHOICE)
    engine.start()

    assert engine.fail("e", message, error_type).outputs == {"r": expected}
    # A condition that cannot be evaluated counts as not true.
    assert len(engine.store.get_logs_by_runner("run")) == 1


def test_a_declarations_catch_when_goes_by_the_error() -> None:
    outputs = outputs_of(
        DECLARATIONS
        + """
        workflow W() => (r: Json) andThen { v = V(v = 1 / 0) } catch when {
            case $.error_type == "EvaluationError" && $.error contains "zero" => { yield W(r = "by zero") }
            case _ => { }
        }"""
    )

    assert outputs == {"r": "by zero"}


def test_a_catch_of_a_catch_runs_and_its_error_is_its_own() -> None:
    outputs = outputs_of(
        DECLARATIONS
        + """
        workflow W() => (r: [Json]) andThen {
            s = S(a = 1 / 0) catch {
                t = V(v = s.out) catch { yield W(r = [s.error_type, t.error_type]) }
            }
        }"""
    )

    assert outputs == {"r": ["EvaluationError", "ReferenceError"]}


def test_statement_level_blocks_are_covered_by_the_declarations_catch() -> None:
    outputs = outputs_of(
        """
        facet F(a: Json) => (out: Json) andThen { yield F(out = "facet") } catch { yield F(out = "caught") }
        facet G(v: Json)
        workflow W() => (r: Json) andThen {
            f = F(a = 1) andThen { v = G(v = 1 / 0) }
            yield W(r = f.out)
        }"""
    )

    assert outputs == {"r": "caught"}


def test_what_waits_for_a_caught_step_waits_for_its_catch() -> None:
    engine = Engine(
        DECLARATIONS
        + """
        workflow W() => (r: Json) andThen {
            e = E(x = 1) catch {
                a = E(x = 2)
                yield E(r = a.r)
            }
            s = S(a = 1) andThen { v = V(v = e.r) andThen { yield W(r = v.v) } }
        }"""
    )
    engine.start()
    engine.fail("e")
    assert "s.v" not in engine.paths()

    assert engine.answer("e.catch.a", {"r": 5}).outputs == {"r": 5}


def test_a_second_answer_to_a_caught_event_changes_nothing() -> None:
    engine = Engine(
        DECLARATIONS
        + """
        workflow W() => (r: Json) andThen {
            e = E(x = 1) catch {
                a = E(x = 2)
                yield W(r = a.r)
            }
        }"""
    )
    engine.start()
    engine.fail("e")
    assert engine.answer("e", {"r": "late"}).status == "PAUSED"
    assert engine.fail("e", "again").status == "PAUSED"

    assert engine.answer("e.catch.a", {"r": 5}).outputs == {"r": 5}


def test_an_end_that_nothing_caused_inside_is_not_caught() -> None:
    engine = Engine(
        DECLARATIONS
        + """
        workflow W() => (r: Json) andThen { e = E(x = 1) } catch { yield W(r = "caught") }"""
    )
    engine.start()

    assert engine.evaluator.cancel("run", "enough")
    assert engine.row().status == "CANCELLED"


PAUSES = (
    DECLARATIONS
    + """
    facet F(a: Json) => (out: [Json]) andThen {
        e = E(x = $.a)
        f = E(x = $.a)
        yield F(out = ["not yielded"])
    } andThen {
        g = E(x = 0)
        yield F(out = [g.r])
    } catch {
        h = E(x = $.error)
        i = E(x = h.r) catch when {
            case i.error == "i" => {
                j = E(x = $.error)
                yield F(out = [$.error, i.error, j.r])
            }
            case _ => { yield F(out = ["never"]) }
        }
        yield F(out = ["catch"])
    }
    workflow W() => (r: Json) andThen {
        s = F(a = 1)
        yield W(r = s.out)
    }"""
)


def test_pauses_inside_catches_survive(make_engine: MakeEngine) -> None:
    engine = make_engine(PAUSES)
    engine.start()
    assert engine.waiting() == ["s.e", "s.f", "s.g"]
    engine.fail("s.e", "e")
    engine.answer("s.f", {"r": 1})
    assert engine.waiting() == ["s.g"]
    engine.answer("s.g", {"r": "g"})
    assert engine.waiting() == ["s.catch.h"]
    assert engine.step("s.catch.h").document.params == {"x": "e"}
    engine.answer("s.catch.h", {"r": "h"})
    engine.fail("s.catch.i", "i")
    assert engine.waiting() == ["s.catch.i.catch.case[0].j"]

    result = engine.answer("s.catch.i.catch.case[0].j", {"r": "j"})

    assert result.outputs == {"r": ["g", "e", "i", "j", "catch"]}


def test_a_catch_that_fails_after_a_pause_fails_its_step(make_engine: MakeEngine) -> None:
    engine = make_engine(PAUSES)
    engine.start()
    engine.fail("s.e", "e")
    engine.answer("s.f", {"r": 1})
    engine.answer("s.g", {"r": "g"})

    error = failure_of(engine.fail("s.catch.h", "h"))

    assert (error.message, error.step_path) == ("h", "n.W.s.catch.h")


def test_a_return_default_that_fails_is_caught_and_nothing_is_merged_twice(make_engine: MakeEngine) -> None:
    engine = make_engine(
        DECLARATIONS
        + """
        facet F(a: Json) => (out: [Json], b: Json = 1 / 0) andThen { yield F(out = [1]) } catch {
            e = E(x = 1)
            yield F(out = [e.r], b = 3)
        }
        workflow W() => (r: Json) andThen {
            f = F(a = 1)
            yield W(r = f.out)
        }"""
    )
    engine.start()

    assert engine.answer("f.catch.e", {"r": 2}).outputs == {"r": [1, 2]}


def test_a_mixin_that_failed_is_caught_after_the_others_have_finished(make_engine: MakeEngine) -> None:
    engine = make_engine(
        DECLARATIONS
        + """
        facet M(x: Json) => (y: Json) andThen {
            e = E(x = $.x)
            yield M(y = e.r)
        }
        event facet F(a: Json) => (out: Json) with M(x = 1) as one with M(x = 2) as two
        workflow W() => (r: Json) andThen {
            f = F(a = 1) catch {
                e = E(x = f.error)
                yield F(out = e.r)
            }
            yield W(r = f.out)
        }"""
    )
    engine.start()
    engine.fail("f.one.e", "no")
    assert engine.waiting() == ["f.two.e"]
    engine.answer("f.two.e", {"r": 1})
    assert engine.waiting() == ["f.catch.e"]

    assert engine.answer("f.catch.e", {"r": "recovered from no"}).outputs == {"r": "recovered from no"}


def test_a_failed_script_is_caught_under_the_name_of_its_exception() -> None:
    with ScriptPool(workers=1) as pool:
        engine = Engine(
            """
            facet F(a: Json) => (out: Json) script { result["out"] = params["missing"] }
            workflow W() => (r: [Json]) andThen {
                f = F(a = 1) catch { yield W(r = [f.error_type]) }
                s = F(a = 1) andThen script { raise ValueError("no") } catch { yield W(r = [s.error_type]) }
            }""",
            scripts=pool,
        )

        assert engine.run().outputs == {"r": ["KeyError", "KeyError"]}


def test_a_block_in_python_that_failed_is_caught() -> None:
    with ScriptPool(workers=1) as pool:
        engine = Engine(
            """
            facet F(a: Json) => (out: Json)
            workflow W() => (r: [Json]) andThen {
                f = F(a = 1) andThen script { raise ValueError("no") } catch { yield W(r = [f.error_type]) }
            } andThen { yield W(r = ["other"]) }""",
            scripts=pool,
        )

        assert engine.run().outputs == {"r": ["ValueError", "other"]}
