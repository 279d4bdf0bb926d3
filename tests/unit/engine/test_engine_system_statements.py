"""sys.log and sys.assert: what they wait for, their effects, and what they hold back."""

import logging

import pytest

from afl.engine.model.entities import NoteType
from tests.unit.engine.restarts import MakeEngine, make_engine
from tests.unit.engine.running import Engine, failure_of, outputs_of

__all__ = ["make_engine"]

DECLARATIONS = """
    event facet E(x: Json) => (r: Json)
    facet V(v: Json)
"""


def test_a_log_writes_a_record_and_an_entry_of_the_step_log(caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine(
        DECLARATIONS
        + """
        workflow W(n: Long) => (r: Json) andThen {
            v = V(v = $.n + 1)
            sys.log(n = $.n, list = [v.v])
        }"""
    )
    with caplog.at_level(logging.INFO, logger="afl.workflow"):
        engine.run({"n": 1})

    (record,) = (record for record in caplog.records if record.name == "afl.workflow")
    assert record.levelno == logging.INFO
    fields = vars(record)
    assert fields["event"] == {"n": 1, "list": [2]}
    assert (fields["workflow"], fields["facet"]) == ("run", "n.W")
    (entry,) = engine.store.get_logs_by_runner("run")
    assert (entry.note_type, entry.details["event"]) == (NoteType.INFO, {"n": 1, "list": [2]})
    assert entry.step_id == fields["step"]
    assert entry.line == fields["position"]


def test_a_log_without_pairs_is_a_log() -> None:
    engine = Engine("workflow W() => (r: Json) andThen { sys.log() }")

    assert engine.run().status == "COMPLETED"
    assert len(engine.store.get_logs_by_runner("run")) == 1


def test_an_assertion_that_holds_changes_nothing() -> None:
    assert outputs_of("workflow W() => (r: Json) andThen { sys.assert(1 < 2) yield W(r = 1) }") == {"r": 1}


def test_an_assertion_that_does_not_hold_fails_its_block() -> None:
    error = failure_of(Engine("workflow W(n: Long) => (r: Json) andThen { sys.assert($.n > 2) }").start({"n": 1}))

    assert (error.error_type, error.message) == ("AssertionError", "sys.assert failed: $.n > 2")


@pytest.mark.parametrize(
    ("condition", "error_type"),
    [("$.n", "EvaluationError"), ("1 / 0 == 1", "EvaluationError"), ("$.n.m", "ReferenceError")],
)
def test_a_condition_without_a_boolean_fails_the_block_as_what_it_is(condition: str, error_type: str) -> None:
    text = f"workflow W(n: Json) => (r: Json) andThen {{ sys.assert({condition}) }}"

    assert failure_of(Engine(text).start({"n": 1})).error_type == error_type


def test_a_log_that_cannot_be_evaluated_fails_the_block() -> None:
    text = "workflow W() => (r: Json) andThen { sys.log(x = 1 / 0) }"

    assert failure_of(Engine(text).start()).error_type == "EvaluationError"


def test_they_wait_for_the_steps_that_they_refer_to_and_hold_back_nothing_else() -> None:
    engine = Engine(
        DECLARATIONS
        + """
        workflow W() => (r: Json) andThen {
            a = E(x = 1)
            b = E(x = 2)
            sys.log(a = a.r)
            sys.assert(a.r == 1 && b.r == 2)
            c = E(x = 3)
            d = V(v = c.r)
            yield W(r = d.v)
        }"""
    )
    engine.start()
    assert engine.waiting() == ["a", "b", "c"]
    engine.answer("c", {"r": 3})
    assert engine.step("d").is_complete
    assert "sys.log" not in engine.paths()
    engine.answer("a", {"r": 1})
    assert engine.step("sys.log").is_complete
    assert "sys.assert" not in engine.paths()

    # The block, and so its yield, has waited for them.
    assert engine.answer("b", {"r": 2}).outputs == {"r": 3}


def test_running_steps_finish_after_a_failed_assertion_and_no_yield_runs() -> None:
    engine = Engine(
        DECLARATIONS
        + """
        workflow W() => (r: Json) andThen {
            a = E(x = 1)
            b = E(x = 2)
            sys.assert(a.r == 0)
            c = E(x = b.r)
            yield W(r = 1)
        }"""
    )
    engine.start()
    assert engine.answer("a", {"r": 1}).status == "PAUSED"

    assert failure_of(engine.answer("b", {"r": 2})).error_type == "AssertionError"
    assert "c" not in engine.paths()
    assert "yield" not in engine.paths()


def test_a_log_is_written_once_whatever_pauses_follow(make_engine: MakeEngine) -> None:
    engine = make_engine(
        DECLARATIONS
        + """
        workflow W(xs: [Long]) => (r: [Json]) andThen foreach x in $.xs {
            a = E(x = $.x)
            sys.log(x = x, r = a.r)
            b = E(x = a.r)
            sys.assert(b.r == 1)
            yield W(r = [b.r])
        }"""
    )
    engine.start({"xs": [1, 2]})
    engine.answer("[0].a", {"r": 0})
    engine.answer("[1].a", {"r": 0})
    engine.answer("[0].b", {"r": 1})

    assert engine.answer("[1].b", {"r": 1}).outputs == {"r": [1, 1]}
    logged = [entry.details["event"] for entry in engine.store.get_logs_by_runner("run")]
    assert logged == [{"x": 1, "r": 0}, {"x": 2, "r": 0}]
