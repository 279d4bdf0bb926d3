"""Steps as values: what a parameter of a facet's type holds, what is read through it, and that it can be stored."""

from collections.abc import Mapping

import pytest

from afl.engine.errors import ReferenceError
from afl.engine.types import Value
from tests.unit.engine.restarts import MakeEngine, make_engine
from tests.unit.engine.running import Engine, failure_of, outputs_of

__all__ = ["make_engine"]

LAND = """
    event facet Survey(plot: String) => (area: Double)
    event facet Ask(of: Survey) => (answer: Json)
    facet Tax(of: Survey, rate: Double = 0.2) => (due: Double) andThen { yield Tax(due = $.of.area * $.rate) }
    facet Plot(of: Survey, where: Json = $.of.plot) => (area: Json = $.of.area)
"""


def surveyed(facet: str, payload: Mapping[str, Value]) -> dict[str, Value]:
    return {"area": 50.0} if facet == "n.Survey" else {"answer": payload["of"]}


def test_a_return_is_read_through_a_reference_to_a_step() -> None:
    text = (
        LAND
        + """
        workflow W(plot: String) => (due: Double) andThen {
            s = Survey(plot = $.plot)
            t = Tax(of = s)
            yield W(due = t.due)
        }"""
    )

    assert outputs_of(text, {"plot": "p"}, surveyed) == {"due": 10.0}


def test_defaults_of_params_and_returns_read_through_a_reference() -> None:
    text = (
        LAND
        + """
        workflow W() => (r: Json) andThen {
            s = Survey(plot = "north")
            p = Plot(of = s)
            q = Plot(of = s, where = "south")
            yield W(r = [p.area, q.area])
        }"""
    )
    engine = Engine(text)
    assert engine.run(agents=surveyed).outputs == {"r": [50.0, 50.0]}

    assert engine.step("p").document.params["where"] == "north"


def test_a_step_that_is_only_bound_can_be_referred_to(make_engine: MakeEngine) -> None:
    engine = make_engine(
        """
        event facet E() => (r: Json)
        facet Money(amount: Double, currency: String = "EUR")
        facet Show(of: Money) => (text: String) andThen {
            e = E()
            yield Show(text = $.of.amount ++ " " ++ $.of.currency)
        }
        workflow W() => (r: String) andThen {
            m = Money(amount = 2.5)
            s = Show(of = m)
            yield W(r = s.text)
        }"""
    )
    engine.start()

    assert engine.answer("s.e").outputs == {"r": "2.5 EUR"}


def test_an_agent_gets_a_map_that_names_the_step(make_engine: MakeEngine) -> None:
    engine = make_engine(
        LAND
        + """
        workflow W() => (r: Json) andThen {
            s = Survey(plot = "p")
            a = Ask(of = s)
            yield W(r = a.answer)
        }"""
    )
    engine.start()
    engine.answer("s", {"area": 1.0})
    expected = {"_facet_ref": True, "step_id": engine.step("s").id, "workflow_id": "run", "facet_name": "n.Survey"}

    assert engine.step("a").document.params == {"of": expected}
    (task,) = [t for t in engine.store.get_pending_tasks("default") if t.step_id == engine.step("a").id]
    assert task.data == {"of": expected}


def test_a_reference_survives_a_pause_and_can_be_passed_on(make_engine: MakeEngine) -> None:
    engine = make_engine(
        LAND
        + """
        facet Outer(of: Survey) => (due: Double, answer: Json) andThen {
            a = Ask(of = $.of)
            t = Tax(of = $.of, rate = a.answer)
            yield Outer(due = t.due)
        }
        workflow W() => (due: Double) andThen {
            s = Survey(plot = "p")
            o = Outer(of = s)
            yield W(due = o.due)
        }"""
    )
    engine.start()
    engine.answer("s", {"area": 10.0})

    assert engine.answer("o.a", {"answer": 0.5}).outputs == {"due": 5.0}


def test_a_reference_that_an_agent_hands_back_is_still_one(make_engine: MakeEngine) -> None:
    engine = make_engine(
        LAND
        + """
        event facet Choose(of: Survey) => (chosen: Survey)
        workflow W() => (r: Json) andThen {
            s = Survey(plot = "p")
            c = Choose(of = s)
            t = Tax(of = c.chosen)
            yield W(r = [t.due, c.chosen.plot])
        }"""
    )
    engine.start()
    engine.answer("s", {"area": 10.0})

    assert engine.answer("c", {"chosen": engine.step("c").document.params["of"]}).outputs == {"r": [2.0, "p"]}


def test_references_in_an_array_are_read_element_by_element(make_engine: MakeEngine) -> None:
    engine = make_engine(
        LAND
        + """
        event facet E() => (r: Json)
        facet All(of: [Survey]) => (areas: Json) andThen foreach s in $.of {
            e = E()
            yield All(areas = [$.s.area])
        }
        workflow W() => (r: Json) andThen {
            a = Survey(plot = "a")
            b = Survey(plot = "b")
            x = Both(left = a, right = b)
            yield W(r = x.areas)
        }
        facet Both(left: Survey, right: Survey) => (areas: Json) andThen {
            all = All(of = [$.left, $.right])
            yield Both(areas = all.areas)
        }"""
    )
    engine.start()
    engine.answer("b", {"area": 2.0})
    engine.answer("a", {"area": 1.0})
    engine.answer("x.all[1].e")

    assert engine.answer("x.all[0].e").outputs == {"r": [1.0, 2.0]}


def test_a_mixins_attributes_are_read_through_a_reference_by_its_alias() -> None:
    text = """
    facet Owner(name: String) => (title: String = "Dr. " ++ $.name)
    facet House(no: Int) => (tall: Boolean = true) with Owner(name = "Ada") as owner
    facet Letter(to: House) => (text: String = $.to.owner.title ++ ", no. " ++ $.to.no ++ ", " ++ $.to.tall)
    workflow W() => (r: String) andThen {
        h = House(no = 7)
        l = Letter(to = h)
        yield W(r = l.text)
    }
    """

    assert outputs_of(text) == {"r": "Dr. Ada, no. 7, true"}


def test_a_step_of_a_facet_that_mixes_the_wanted_one_in_fits() -> None:
    text = """
    facet Base(x: Int = 1)
    facet Derived(x: Int) => (y: Int = 2) with Base()
    facet Show(of: Base) => (r: Json = $.of.x)
    workflow W() => (r: Json) andThen { d = Derived(x = 5) s = Show(of = d) yield W(r = s.r) }
    """

    assert outputs_of(text) == {"r": 5}


def test_an_attribute_that_the_step_lacks_fails_the_reader() -> None:
    text = (
        LAND
        + """
        workflow W() => (due: Double) andThen {
            s = Survey(plot = "p")
            t = Tax(of = s)
            yield W(due = t.due)
        }"""
    )
    engine = Engine(text)
    engine.start()

    error = failure_of(engine.answer("s"))

    assert error.error_type == ReferenceError.__name__
    assert "area not found, the n.Survey step has plot" in error.message


def test_a_member_of_a_step_that_is_no_member_of_the_map_fails_the_reader() -> None:
    text = (
        LAND
        + """
        facet Peek(of: Json) => (r: Json = $.of.step_id)
        facet Give(of: Survey) => (r: Json) andThen { p = Peek(of = $.of) yield Give(r = p.r) }
        workflow W() => (r: Json) andThen { s = Survey(plot = "p") g = Give(of = s) yield W(r = g.r) }"""
    )

    engine = Engine(text)
    engine.start()

    assert failure_of(engine.answer("s", {"area": 1.0})).error_type == ReferenceError.__name__


@pytest.mark.parametrize("kind", ["Limits", "Json"])
def test_the_bare_name_of_a_schema_step_is_the_object_itself(kind: str, make_engine: MakeEngine) -> None:
    engine = make_engine(
        f"""
        schema Limits {{ low: Double, high: Double }}
        event facet E(limits: {kind}) => (r: Json)
        workflow W() => (r: Json) andThen {{
            lim = Limits(low = 1.5, high = 2.5)
            e = E(limits = lim)
            yield W(r = e.r)
        }}"""
    )
    engine.start()

    assert engine.step("e").document.params == {"limits": {"low": 1.5, "high": 2.5}}
    assert engine.answer("e", {"r": 1}).outputs == {"r": 1}


def test_a_body_refers_to_a_step_outside_and_waits_for_it(make_engine: MakeEngine) -> None:
    engine = make_engine(
        LAND
        + """
        event facet E() => (r: Json)
        workflow W() => (r: Json) andThen {
            s = Survey(plot = "p")
            e = E() andThen {
                t = Tax(of = s)
                yield W(r = t.due)
            }
        }"""
    )
    engine.start()
    assert engine.answer("e").status == "PAUSED"

    assert engine.answer("s", {"area": 5.0}).outputs == {"r": 1.0}


def test_a_steps_own_body_and_catch_use_the_step_as_a_value(make_engine: MakeEngine) -> None:
    engine = make_engine(
        LAND
        + """
        facet Where(of: Survey) => (plot: String = $.of.plot)
        workflow W() => (r: Json, lost: Json) andThen {
            s = Survey(plot = "p") andThen {
                t = Tax(of = s)
                yield W(r = t.due)
            }
            f = Survey(plot = "q") catch {
                w = Where(of = f)
                yield W(lost = w.plot)
            }
        }"""
    )
    engine.start()
    engine.fail("f")

    assert engine.answer("s", {"area": 5.0}).outputs == {"r": 1.0, "lost": "q"}


def test_a_case_refers_to_a_step_of_an_earlier_block(make_engine: MakeEngine) -> None:
    engine = make_engine(
        LAND
        + """
        workflow W() => (r: Json) andThen {
            s = Survey(plot = "p")
        } andThen when {
            case s.area > 1.0 => {
                t = Tax(of = s)
                yield W(r = t.due)
            }
            case _ => { }
        }"""
    )
    engine.start()

    assert engine.answer("s", {"area": 5.0}).outputs == {"r": 1.0}


def test_a_step_is_a_value_in_the_argument_of_a_calls_mixin() -> None:
    text = """
    facet Base(x: Int)
    facet M(of: Base)
    facet Show(of: Base) => (r: Json = $.of.x)
    workflow W() => (r: Json) andThen { b = Base(x = 4) s = Show() with M(of = b) yield W(r = s.r) }
    """

    assert outputs_of(text) == {"r": 4}


def test_what_a_caught_step_left_is_read_through_a_reference() -> None:
    text = """
    facet Base(x: Int) => (y: Int, z: Int) andThen { sys.assert(1 == 2) } catch { yield Base(y = 3) }
    facet Show(of: Base) => (r: Json = [$.of.x, $.of.y])
    workflow W() => (r: Json) andThen { b = Base(x = 4) s = Show(of = b) yield W(r = s.r) }
    """

    assert outputs_of(text) == {"r": [4, 3]}
