"""Migration: a waiting run goes on by another version of its program, or is told by name what does not fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import cache

import pytest

from afl.compiled.program import CompiledProgram, UnknownName
from afl.engine.model.store import ERROR, PAUSED
from afl.engine.operations.operation_errors import (
    AlreadyOnVersion,
    NothingToMove,
    UnknownWorkflow,
    VersionDoesNotFit,
)
from afl.engine.types import Value
from afl.scripts.pool import ScriptResult
from afl.stores.memory.store import MemoryStore
from tests.random_programs.trusted_scripts import TrustingRunner
from tests.unit.engine.operating import EVERYTHING, Operated
from tests.unit.engine.restarts import ForgetfulEngine
from tests.unit.engine.running import Engine, compiled

FACETS = """
    event facet Ask(q: String) => (a: String)
    event facet Pay(sum: Long) => (ref: String)
    facet Note(text: String) => (seen: String) andThen { n = Ask(q = $.text) yield Note(seen = n.a) }
"""
BODY = """andThen {
    first = Ask(q = $.who)
    second = Ask(q = first.a)
    yield W(said = second.a)
}"""


def shop(body: str = BODY, params: str = "who: String", facets: str = FACETS, returns: str = "said: String") -> str:
    return f"{facets}\nworkflow W({params}) => ({returns}) {body}"


def started(text: str, inputs: Mapping[str, Value] | None = None) -> Engine:
    engine = Engine(text)
    assert engine.start({"who": "me"} if inputs is None else inputs).status == PAUSED
    return engine


def move(engine: Engine, text: str) -> None:
    """Move the run, and lose the memory: it must go on from what is stored."""
    version = compiled(text)
    engine.evaluator.migrate("run", version)
    engine.program = version
    engine.restart()
    assert engine.row().program == version.fingerprint


def misfits(engine: Engine, text: str) -> dict[str, str]:
    before, steps = engine.row(), engine.store.load_steps("run")
    with pytest.raises(VersionDoesNotFit) as refused:
        engine.evaluator.migrate("run", compiled(text))
    assert engine.row() == before
    assert engine.store.load_steps("run") == steps
    return {misfit.path: misfit.reason for misfit in refused.value.misfits}


# --- what fits --------------------------------------------------------------------------------------------------------


def test_what_has_not_begun_is_done_as_the_new_version_says_and_the_event_in_flight_is_answered() -> None:
    engine = started(shop())
    asked = engine.step("first").document

    move(
        engine,
        shop("""andThen {
            first = Ask(q = "somebody else")
            check = Pay(sum = 7)
            second = Ask(q = first.a ++ check.ref)
            yield W(said = second.a ++ "!")
        }"""),
    )
    engine.resume()

    assert engine.step("first").document._replace(revision=0) == asked._replace(revision=0)
    assert engine.waiting() == ["first", "check"]
    engine.answer("first", {"a": "one "})
    engine.answer("check", {"ref": "two"})
    assert engine.step("second").document.params == {"q": "one two"}
    assert engine.answer("second", {"a": "done"}).outputs == {"said": "done!"}


def test_a_step_that_has_begun_does_not_begin_again_for_what_the_new_version_would_let_it_wait_for() -> None:
    both = """andThen {
        first = Ask(q = $.who)
        second = Ask(q = "second")
        yield W(said = first.a ++ second.a)
    }"""
    engine = started(shop(both))
    asked = engine.step("second").document

    move(engine, shop(both.replace('"second"', "first.a")))
    engine.answer("first", {"a": "one "})

    assert engine.step("second").document == asked
    assert engine.answer("second", {"a": "two"}).outputs == {"said": "one two"}


def test_a_version_may_add_inputs_with_defaults_andthen_blocks_and_catches() -> None:
    engine = started(shop())

    move(
        engine,
        shop(
            f"""{BODY} andThen {{ other = Pay(sum = $.most) yield W(paid = other.ref) }} catch {{
                yield W(said = "nobody", paid = "nothing")
            }}""",
            params="who: String, most: Long = 5 + 1",
            returns="said: String, paid: String",
        ),
    )

    assert engine.resume().status == PAUSED
    assert engine.step("other").document.params == {"sum": 6}
    engine.answer("other", {"ref": "r"})
    assert engine.fail("first").outputs == {"said": "nobody", "paid": "nothing"}


def test_what_was_given_back_by_complete_steps_is_read_by_the_steps_of_the_new_version() -> None:
    engine = started(shop())
    engine.answer("first", {"a": "one"})

    move(engine, shop(BODY.replace("yield W(said = second.a)", "n = Note(text = first.a) yield W(said = n.seen)")))
    engine.resume()

    engine.answer("n.n", {"a": "seen"})
    assert engine.answer("second", {"a": "two"}).outputs == {"said": "seen"}


def test_a_facet_with_a_body_may_get_another_name_while_its_body_runs() -> None:
    note = "andThen { n = Note(text = $.who) yield W(said = n.seen) }"
    engine = started(shop(note))
    renamed = FACETS.replace("facet Note", "facet Memo").replace("yield Note", "yield Memo")

    move(engine, shop(note.replace("Note", "Memo"), facets=renamed))

    assert engine.answer("n.n", {"a": "one"}).outputs == {"said": "one"}


@cache
def everything(version: int) -> CompiledProgram:
    return compiled(f"{EVERYTHING}\nfacet Unrelated{version}(x: Long)")


def hot() -> Operated:
    return Operated(Engine(EVERYTHING, scripts=TrustingRunner()))


def cold() -> Operated:
    return Operated(ForgetfulEngine(EVERYTHING, scripts=TrustingRunner(), store=MemoryStore()))


def play(run: Operated, is_moved: Callable[[int], bool]) -> None:
    """Answer everything; in between, move to the next version."""
    while run.result.status == PAUSED:
        if is_moved(number := len(run.answered)):
            version = everything(number)
            run.engine.evaluator.migrate("run", version)
            run.engine.program = version
        run.answer(run.waiting()[0])


@pytest.mark.parametrize("start", [hot, cold])
def test_a_run_with_every_construct_moves_anywhere_on_its_way_and_nothing_is_done_twice(
    start: Callable[[], Operated],
) -> None:
    stays = start()
    play(stays, lambda _: False)

    for at in range(len(stays.answered)):
        run = start()
        play(run, at.__eq__)
        assert (run.result.outputs, run.answered) == (stays.result.outputs, stays.answered)
    run = start()
    play(run, lambda _: True)

    assert run.result.outputs == stays.result.outputs
    ids = [[step.document.id for step in each.steps()] for each in (run, stays)]
    assert ids[0] == ids[1]


def test_a_run_of_which_something_was_run_again_moves_too() -> None:
    run = hot()
    while "after" not in run.answered:
        run.answer(run.waiting()[0])
    run.rerun("first")

    play(run, lambda number: number == 1)

    assert run.result.status == "COMPLETED"


# --- what does not fit ------------------------------------------------------------------------------------------------


EACH = "andThen foreach i in $.list { s = Ask(q = i) yield W(all = [s.a]) }"
WHEN = """andThen when {
    case $.n > 1 => { s = Pay(sum = 1) yield W(all = [s.ref]) }
    case _ => { t = Ask(q = "x") yield W(all = [t.a]) }
}"""
LISTS = "list: [String], n: Long = 2, more: [String] = []"


@pytest.mark.parametrize(
    ("version", "path", "why"),
    [
        pytest.param(
            shop(BODY.replace("first", "opening")),
            "n.W.first",
            "the new version has no step first there; its new step opening calls n.Ask too: was it renamed?",
            id="renamed",
        ),
        pytest.param(
            shop("andThen { second = Pay(sum = 1) yield W(said = second.ref) }"),
            "n.W.first",
            "the new version has no step first there",
            id="removed",
        ),
        pytest.param(
            shop(BODY.replace("first = Ask(q = $.who)", "first = Pay(sum = 1)").replace("first.a", "first.ref")),
            "n.W.first",
            "its event is in flight for n.Ask(q: String) => (a: String), and the new version calls "
            "n.Pay(sum: Long) => (ref: String)",
            id="another facet",
        ),
        pytest.param(
            shop(facets=FACETS.replace("=> (a: String)", "=> (a: String, sure: Boolean)")),
            "n.W.first",
            "its event is in flight, and the signature of its facet differs: n.Ask(q: String) => (a: String) before, "
            "n.Ask(q: String) => (a: String, sure: Boolean) now",
            id="signature",
        ),
        pytest.param(
            shop(BODY.replace("$.who", '"x"'), params='whom: String = ""'),
            "n.W.who",
            "the run has this input, and the new version does not take it",
            id="input removed",
        ),
        pytest.param(
            shop(params="who: String, most: Long"),
            "n.W.most",
            "the new version needs this input (Long), and the run was started without it",
            id="input missing",
        ),
        pytest.param(
            shop(BODY.replace("$.who", '"x"'), params="who: Long"),
            "n.W.who",
            "its value is set, and does not fit Long, which the new version declares",
            id="input's type",
        ),
    ],
)
def test_what_does_not_fit_is_told_by_name_and_nothing_changes(version: str, path: str, why: str) -> None:
    engine = started(shop())

    assert misfits(engine, version)[path] == why

    engine.answer("first", {"a": "one"})
    assert engine.answer("second", {"a": "two"}).outputs == {"said": "two"}


def test_the_list_of_a_foreach_and_the_cases_of_a_when_are_settled_once_they_have_begun() -> None:
    def version(*blocks: str) -> str:
        return shop(" ".join(blocks), params=LISTS, returns="all: [String]")

    engine = started(version(EACH, WHEN), {"list": ["a", "b"]})

    taken = "andThen foreach 1: its list was taken from $.list already, and the new version takes $.more"
    assert misfits(engine, version(EACH.replace("$.list", "$.more"), WHEN)) == {"n.W": taken}
    chosen = "andThen when 2: its cases were chosen already, and their conditions differ in the new version"
    assert misfits(engine, version(EACH, WHEN.replace("> 1", "> 0"))) == {"n.W": chosen}
    assert misfits(engine, version(WHEN, WHEN)) == {"n.W": "andThen foreach 1: it is andThen when in the new version"}
    assert misfits(engine, version(EACH)) == {"n.W": "the new version has no andThen when 2 there"}
    assert misfits(engine, version(EACH.replace("s = ", "r = ").replace("s.a", "r.a"), WHEN)) == {
        f"n.W[{index}].s": "the new version has no step s there; its new step r calls n.Ask too: was it renamed?"
        for index in (0, 1)
    }


def test_values_that_complete_steps_have_must_be_of_the_types_that_the_new_version_declares() -> None:
    engine = started(shop())
    engine.answer("first", {"a": "one"})
    as_number = FACETS.replace("Ask(q: String) => (a: String)", "Ask(q: String) => (a: Long)")

    found = misfits(engine, shop(BODY.replace("first.a", '"x"'), facets=as_number))

    assert found["n.W.first.a"] == "its value is set, and does not fit Long, which the new version declares"
    assert "signature" in found["n.W.second"]


def test_what_complete_steps_do_not_have_is_missed_only_where_the_new_version_reads_it() -> None:
    engine = started(shop(BODY.replace("second = Ask(q = first.a)", "second = Pay(sum = 1)").replace("d.a", "d.ref")))
    engine.answer("first", {"a": "one"})
    more = FACETS.replace("=> (a: String)", "=> (a: String, sure: Boolean)")
    pays = BODY.replace("second = Ask(q = first.a)", "second = Pay(sum = 1)")

    reading = shop(pays.replace("second.a", "second.ref ++ first.sure"), facets=more)
    assert misfits(engine, reading) == {"n.W.first": "it has ended without sure, which the new version reads"}

    move(engine, shop(pays.replace("second.a", "second.ref"), facets=more))
    engine.resume()
    assert engine.answer("second", {"ref": "r"}).outputs == {"said": "r"}


def test_nothing_is_added_where_it_would_come_too_late() -> None:
    text = shop(
        """andThen {
            n = Note(text = "a")
            last = Pay(sum = 1)
            yield W(said = last.ref)
        }"""
    )
    engine = started(text)
    engine.answer("n.n", {"a": "one"})
    noted = FACETS.replace("{ n = Ask(q = $.text) yield", '{ n = Ask(q = $.text) late = Ask(q = "?") yield')

    assert misfits(engine, text.replace(FACETS, noted)) == {
        "n.W.n.late": "it is new, and the block that it is in has come to its end already"
    }
    assert misfits(engine, text.replace("yield Note(seen = n.a) }", "yield Note(seen = n.a) } andThen {}")) == {
        "n.W.n": "its andThen blocks have ended, and andThen block 2 of the new version has not run"
    }


def test_parameters_that_an_argument_would_be_needed_for_are_named() -> None:
    text = shop("andThen { n = Note(text = $.who) yield W(said = n.seen) }")
    engine = started(text)
    more = FACETS.replace("Note(text: String)", 'Note(text: String, how: String = "loud")')

    assert misfits(engine, text.replace(FACETS, more)) == {
        "n.W.n": "its arguments are bound, and how, a new parameter, has no value"
    }


class NoRunner(TrustingRunner):
    """Scripts that never end: the process is told to stop first."""

    def submit(self, code: str, params: Mapping[str, object], workflow_id: str) -> Future[ScriptResult]:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("script", "path"),
    [
        ('facet Count() => (r: Long) script { result["r"] = 1 }', "n.W.c"),
        ('facet Count() => (r: Long) andThen script { result["r"] = 1 }', "n.W.c"),
    ],
)
def test_a_run_whose_script_is_running_is_not_moved(script: str, path: str) -> None:
    text = f"{script}\nworkflow W() => (r: Long) andThen {{ c = Count() yield W(r = c.r) }}"
    engine = Engine(text, scripts=NoRunner())
    with pytest.raises(KeyboardInterrupt):
        engine.start()
    engine.restart()

    found = misfits(engine, text.replace("= 1", "= 2"))

    assert list(found) == [path]
    assert "script" in found[path]
    assert found[path].endswith("is running: try again when it has ended")


def test_runs_that_have_ended_are_not_there_or_have_the_version_already_are_refused() -> None:
    engine = started(shop())

    with pytest.raises(AlreadyOnVersion, match=r"run run is on version [0-9a-f]{12} already: nothing was changed"):
        engine.evaluator.migrate("run", compiled(shop()))
    with pytest.raises(UnknownWorkflow, match="workflow other not found"):
        engine.evaluator.migrate("other", compiled(shop()))
    with pytest.raises(UnknownName, match="W"):
        engine.evaluator.migrate("run", compiled("workflow V() andThen {}"))
    engine.fail("first")
    assert engine.row().status == ERROR
    with pytest.raises(NothingToMove, match="ERROR"):
        engine.evaluator.migrate("run", compiled(shop(params="who: String, x: Long = 1")))
