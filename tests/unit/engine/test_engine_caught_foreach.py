"""Failed iterations of a foreach whose step recovers by catch: the others keep what they yielded (language reference,
4.3, 4.7), in the order of the elements, and the catch comes last.
"""

from itertools import combinations

import pytest

from afl.engine import limits
from tests.unit.engine.restarts import MakeEngine, make_engine
from tests.unit.engine.running import Engine, failure_of

__all__ = ["make_engine"]

DECLARATIONS = """
    event facet E(x: Json) => (r: Json)
    facet V(v: Json)
    facet S(a: Json) => (out: [Json], last: Json)
"""

EACH = """
    {{
        e = E(x = $.x)
        yield {target}(out = [e.r], last = e.r)
    }} catch {{ yield {target}(out = ["caught"], last = "caught") }}
"""

#: The catch of the statement, of the workflow, and of a called facet.
STEP = f"""
    workflow W() => (out: [Json], last: Json) andThen {{
        s = S(a = [0, 1, 2]) andThen foreach x in $.a {EACH.format(target="S")}
        yield W(out = s.out, last = s.last)
    }}"""
WORKFLOW = f"""
    workflow W(a: [Json] = [0, 1, 2]) => (out: [Json], last: Json) andThen foreach x in $.a {EACH.format(target="W")}"""
FACET = f"""
    facet F(a: [Json]) => (out: [Json], last: Json) andThen foreach x in $.a {EACH.format(target="F")}
    workflow W() => (out: [Json], last: Json) andThen {{
        f = F(a = [0, 1, 2])
        yield W(out = f.out, last = f.last)
    }}"""

FAILED = [{*failed} for count in range(1, 4) for failed in combinations(range(3), count)]


@pytest.mark.parametrize("failed", FAILED, ids=str)
@pytest.mark.parametrize("workflow", [STEP, WORKFLOW, FACET], ids=["step", "workflow", "facet"])
def test_iterations_that_completed_keep_their_yields(make_engine: MakeEngine, workflow: str, failed: set[int]) -> None:
    engine = make_engine(DECLARATIONS + workflow)
    result = engine.start()

    # The last element is answered first: the order of answers is not the order of the yields.
    for path in reversed(engine.waiting()):
        number = int(path[path.index("[") + 1])
        result = engine.fail(path) if number in failed else engine.answer(path, {"r": number})

    kept = [number for number in range(3) if number not in failed]
    assert (result.status, result.outputs) == ("COMPLETED", {"out": [*kept, "caught"], "last": "caught"})


def test_a_catch_that_yields_nothing_leaves_what_the_iterations_gave(make_engine: MakeEngine) -> None:
    engine = make_engine(
        DECLARATIONS
        + """
        workflow W(a: [Json] = [0, 1, 2]) => (out: [Json], last: Json) andThen foreach x in $.a {
            e = E(x = $.x)
            yield W(out = [e.r], last = e.r)
        } catch { }"""
    )
    engine.start()
    engine.answer("[0].e", {"r": "a"})
    engine.fail("[2].e")

    assert engine.answer("[1].e", {"r": "b"}).outputs == {"out": ["a", "b"], "last": "b"}


def test_yields_stand_where_their_block_stands_and_the_catch_behind_all_blocks(make_engine: MakeEngine) -> None:
    engine = make_engine(
        DECLARATIONS
        + """
        workflow W(a: [Json] = [0, 1]) => (out: [Json]) andThen { yield W(out = ["before"]) } andThen foreach x in $.a {
            e = E(x = $.x)
            yield W(out = [e.r])
        } andThen {
            f = E(x = "failing")
            yield W(out = ["of a failed block"])
        } andThen { yield W(out = ["behind"]) } catch when {
            case $.error == "broken" => { yield W(out = ["case"]) }
            case _ => { yield W(out = ["default"]) }
        }"""
    )
    engine.start()
    engine.fail("f")
    engine.fail("[0].e")

    assert engine.answer("[1].e", {"r": 1}).outputs == {"out": ["before", 1, "behind", "case"]}


def test_an_iteration_that_recovers_by_its_own_catch_has_completed(make_engine: MakeEngine) -> None:
    engine = make_engine(
        DECLARATIONS
        + """
        workflow W(a: [Json] = [0, 1, 2]) => (out: [Json]) andThen foreach x in $.a {
            e = E(x = $.x) catch when {
                case $.x == 2 => { sys.assert(false) }
                case _ => { yield E(r = "recovered") }
            }
            yield W(out = [e.r])
        } catch { yield W(out = [$.error_type]) }"""
    )
    engine.start()
    engine.fail("[0].e")
    engine.fail("[2].e")

    assert engine.answer("[1].e", {"r": 1}).outputs == {"out": ["recovered", 1, "AssertionError"]}


NESTED = (
    DECLARATIONS
    + """
    workflow W(a: [Json] = [0, 1]) => (out: [Json]) andThen foreach x in $.a {
        s = S(a = ["p", "q"]) andThen foreach y in $.a {
            e = E(x = [$.x, $.y])
            yield S(out = [e.r])
            yield W(out = [e.r])
        } INNER
        yield W(out = s.out)
    } catch { yield W(out = ["outer"]) }"""
)


def test_of_nested_foreachs_the_inner_one_keeps_what_its_step_recovered(make_engine: MakeEngine) -> None:
    engine = make_engine(NESTED.replace("INNER", 'catch { yield S(out = ["inner"]) }'))
    engine.start()
    engine.fail("[0].s[0].e")
    engine.answer("[0].s[1].e", {"r": "0q"})
    engine.answer("[1].s[0].e", {"r": "1p"})

    # What is nested comes before the block's own yield, within each element.
    outputs = engine.answer("[1].s[1].e", {"r": "1q"}).outputs
    assert outputs == {"out": ["0q", "0q", "inner", "1p", "1q", "1p", "1q"]}


def test_of_nested_foreachs_nothing_of_a_failed_outer_iteration_is_kept(make_engine: MakeEngine) -> None:
    engine = make_engine(NESTED.replace("INNER", ""))
    engine.start()
    engine.fail("[0].s[0].e")
    engine.answer("[0].s[1].e", {"r": "0q"})
    engine.answer("[1].s[0].e", {"r": "1p"})

    # One of its blocks failed, so that the first element's iteration is none that completed.
    assert engine.answer("[1].s[1].e", {"r": "1q"}).outputs == {"out": ["1p", "1q", "1p", "1q", "outer"]}


def test_a_case_that_completed_keeps_its_yields_too(make_engine: MakeEngine) -> None:
    engine = make_engine(
        DECLARATIONS
        + """
        workflow W() => (out: [Json]) andThen when {
            case true => {
                e = E(x = 0)
                yield W(out = [e.r])
            }
            case 1 == 1 => {
                e = E(x = 1)
                yield W(out = [e.r])
            }
            case _ => { }
        } catch { yield W(out = ["caught"]) }"""
    )
    engine.start()
    engine.fail("case[0].e")

    assert engine.answer("case[1].e", {"r": 1}).outputs == {"out": [1, "caught"]}


def test_without_a_catch_nothing_is_kept_and_the_run_fails(make_engine: MakeEngine) -> None:
    engine = make_engine(DECLARATIONS + WORKFLOW.partition("catch")[0])
    engine.start()
    engine.answer("[0].e", {"r": 0})
    engine.fail("[1].e")
    result = engine.answer("[2].e", {"r": 2})

    assert (failure_of(result).step_path, dict(engine.row().outputs or {})) == ("n.W[1].e", {})


def test_a_catch_that_fails_gives_nothing_and_a_retry_keeps_what_was_there(make_engine: MakeEngine) -> None:
    engine = make_engine(
        DECLARATIONS
        + """
        workflow W(a: [Json] = [0, 1]) => (out: [Json]) andThen foreach x in $.a {
            e = E(x = $.x)
            yield W(out = [e.r])
        } catch {
            c = E(x = $.error)
            yield W(out = [c.r])
        }"""
    )
    engine.start()
    engine.answer("[1].e", {"r": 1})
    engine.fail("[0].e")
    assert failure_of(engine.fail("catch.c")).step_path == "n.W.catch.c"

    engine.evaluator.retry("run")
    engine.resume()
    assert engine.waiting() == ["catch.c"]

    assert engine.answer("catch.c", {"r": "again"}).outputs == {"out": [1, "again"]}


def test_the_elements_of_a_large_foreach_are_kept_as_well() -> None:
    count = limits.FOREACH_WHOLE + 1
    engine = Engine(
        """
        facet Half(n: Long) => (of: Json) andThen { yield Half(of = [0][$.n % 2]) }
        workflow W(xs: [Long]) => (out: [Long]) andThen foreach x in $.xs {
            h = Half(n = $.x)
            yield W(out = [$.x])
        } catch { yield W(out = [-1]) }"""
    )
    result = engine.run({"xs": list(range(count))})

    # The index of an odd element's half is out of range.
    assert result.outputs == {"out": [*range(0, count, 2), -1]}
