"""Results against the returns that their facet declares: names as well as types."""

import pytest

from afl.engine.types import Value
from tests.unit.engine.restarts import MakeEngine, make_engine
from tests.unit.engine.running import Engine, failure_of

__all__ = ["make_engine"]

PRICE = """
    event facet Price(item: String) => (price: Double, note: String = "none", more: Json)
    workflow W() => (price: Double, note: String) andThen {
        p = Price(item = "a")
        yield W(price = p.price, note = p.note)
    }
"""
MISSING = "the result of n.Price lacks price; it has to hold price, and it may hold note, more"
UNKNOWN = (
    "the result of n.Price has prise, which n.Price does not declare; it has to hold price, and it may hold note, more"
)


def started(program: str) -> Engine:
    engine = Engine(program)
    engine.start()
    return engine


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({}, MISSING),
        ({"note": "x"}, MISSING),
        ({"price": 1.0, "prise": 1.0}, UNKNOWN),
        ({"price": "dear"}, "n.Price returned price: a Double was expected, found the String 'dear'"),
        ({"note": 1}, f"n.Price returned note: a String was expected, found the integer 1; {MISSING}"),
    ],
    ids=str,
)
def test_a_result_that_does_not_fit_fails_its_own_step_and_says_why(result: dict[str, Value], said: str) -> None:
    error = failure_of(started(PRICE).answer("p", result))

    assert (error.error_type, error.message, error.step_path) == ("ResultMismatch", said, "n.W.p")


def test_returns_with_a_default_and_json_may_be_left_out_and_null_is_a_value() -> None:
    assert started(PRICE).answer("p", {"price": 1.5}).outputs == {"price": 1.5, "note": "none"}
    assert started(PRICE).answer("p", {"price": None}).outputs == {"price": None, "note": "none"}


def test_a_facet_that_declares_no_returns_takes_any_result() -> None:
    engine = started("event facet Tell(text: String) workflow W() andThen { t = Tell(text = 1 ++ 2) }")

    assert engine.answer("t", {"told": [1, 2]}).status == "COMPLETED"
    assert engine.step("t").document.returns == {"told": [1, 2]}


@pytest.mark.parametrize(
    "text",
    [
        # By the body of the call, of the facet, by a case, by a body inside of that.
        "event facet P() => (a: Long, b: Long) workflow W() => (r: Long) andThen {"
        " p = P() andThen { yield P(b = p.a + 1) } yield W(r = p.b) }",
        "event facet P() => (a: Long, b: Long) andThen { s = S(x = 2) yield P(b = s.x) } facet S(x: Long)"
        " workflow W() => (r: Long) andThen { p = P() yield W(r = p.b) }",
        "event facet P() => (a: Long, b: Long) workflow W() => (r: Long) andThen {"
        " p = P() andThen when { case p.a > 0 => { yield P(b = 2) } case _ => { yield P(b = 3) } } yield W(r = p.b) }",
        "event facet P() => (a: Long, b: Long) workflow W() => (r: Long) andThen {"
        " p = P() andThen { s = S(x = 1) andThen { yield P(b = s.x + 1) } } yield W(r = p.b) } facet S(x: Long)",
    ],
)
def test_a_return_that_a_yield_gives_may_be_left_out(text: str) -> None:
    assert started(text).answer("p", {"a": 1}).outputs == {"r": 2}


def test_a_catch_gives_nothing_where_nothing_fails() -> None:
    engine = started(
        "event facet P() => (a: Long) workflow W() => (r: Long) andThen {"
        " p = P() catch { yield P(a = 0) } yield W(r = p.a) }"
    )

    # Its own failure is what is caught.
    assert engine.answer("p", {"b": 1}).outputs == {"r": 0}


def test_a_catch_sees_the_mismatch_by_name() -> None:
    engine = started(
        "event facet P() => (a: Long) workflow W() => (r: String) andThen {"
        ' p = P() catch when { case p.error_type == "ResultMismatch" => { yield W(r = p.error) } case _ => { } } }'
    )

    assert engine.answer("p", {}).outputs == {"r": "the result of n.P lacks a; it has to hold a"}


def test_partial_results_may_lack_returns_and_hold_news_and_count_in_the_end() -> None:
    engine = started(PRICE)
    step = engine.step("p").id

    engine.evaluator.update_step(step, {"progress": 0.5, "price": 2.0})

    assert engine.answer("p", {"note": "told"}).outputs == {"price": 2.0, "note": "told"}


def test_without_a_result_or_by_a_plain_call_a_step_continues_with_what_it_has() -> None:
    engine = started("event facet P() => (a: Long) workflow W() andThen { p = P() }")
    assert engine.answer("p").status == "COMPLETED"

    engine = started("event facet P() => (a: Long) workflow W() andThen { p = P() }")
    engine.evaluator.continue_step(engine.step("p").id, {"b": 1})
    assert engine.resume().status == "COMPLETED"


def test_a_mixin_that_is_an_event_is_checked_too() -> None:
    engine = started(
        "event facet M() => (y: Long) facet F() => (r: Long) with M() as m andThen { yield F(r = $.m.y) }"
        " workflow W() => (r: Long) andThen { f = F() yield W(r = f.r) }"
    )

    assert failure_of(engine.answer("f.m", {"z": 1})).message == (
        "the result of n.M lacks y and has z, which n.M does not declare; it has to hold y"
    )


def test_a_retry_asks_the_mended_handler_again_and_the_bad_answer_is_gone(make_engine: MakeEngine) -> None:
    engine = make_engine("event facet P() => (a: Long) workflow W() => (r: Long) andThen { p = P() yield W(r = p.a) }")
    engine.start()
    assert failure_of(engine.answer("p", {"b": 1})).error_type == "ResultMismatch"

    engine.evaluator.retry(engine.step("p").id)
    engine.resume()
    document = engine.step("p").document
    assert (document.attempt, document.returns) == (2, {})

    assert engine.answer("p", {"a": 7}).outputs == {"r": 7}
