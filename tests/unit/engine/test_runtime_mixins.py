"""What a plan says of the library: which steps the runtime answers, and which further attempts an event has."""

from typing import Any

import pytest

from afl.compiled.program import CompiledProgram, ProgramError
from afl.emitter import emit_dict
from afl.engine.model.plan import FacetPlan, StatementPlan, WorkflowPlan
from afl.engine.model.waiting import LibraryFacet, RetryPlan
from afl.engine.planning.planner import plan_workflow
from afl.parser import parse
from tests.unit.engine.running import Engine

#: What `Retry()` means.
DEFAULT = RetryPlan(3, 1_000, 2.0, 60_000, frozenset())


def planned(text: str) -> WorkflowPlan:
    """Plan `n.W` of a namespace without the checks of the compiler, as for a program of another one."""
    return plan_workflow(CompiledProgram(emit_dict(parse(f"namespace n {{ {text} }}"))), "n.W")


def step(text: str) -> StatementPlan:
    (block,) = planned(text).facet.blocks
    return block.statements[0]


def facet(plan: WorkflowPlan, name: str) -> FacetPlan:
    return next(item for item in plan.facets if item.name == name)


def retry_of(mixin: str, signature: str = "") -> RetryPlan | None:
    return step(f"event facet Ask() {signature} workflow W() andThen {{ s = Ask() {mixin} }}").retry


@pytest.mark.parametrize("library", LibraryFacet)
def test_steps_of_the_library_are_the_runtimes(library: LibraryFacet) -> None:
    plan = planned(f"event facet Ask() workflow W() andThen {{ s = {library.value}() a = Ask() }}")

    assert facet(plan, library.value).library is library
    assert facet(plan, library.value).is_event
    assert facet(plan, "n.Ask").library is None


def test_a_facet_of_that_name_without_the_mark_is_an_agents() -> None:
    own: dict[str, Any] = {"type": "EventFacetDecl", "name": "Sleep"}
    tree = emit_dict(parse("namespace n { workflow W() andThen { s = afl.Sleep() } }"))
    tree["declarations"][1]["declarations"] = [own]

    assert facet(plan_workflow(CompiledProgram(tree), "n.W"), "afl.Sleep").library is None


def test_a_facet_that_only_a_later_release_answers_is_refused_by_name() -> None:
    tree = emit_dict(parse("namespace n { workflow W() andThen { s = afl.Sleep() } }"))
    (marked,) = tree["declarations"][1]["declarations"]
    marked["name"], tree["declarations"][0]["declarations"][0]["body"]["steps"][0]["call"]["target"] = "Nap", "afl.Nap"

    with pytest.raises(ProgramError, match=r"afl\.Nap: this release of the runtime answers no such facet"):
        plan_workflow(CompiledProgram(tree), "n.W")


@pytest.mark.parametrize(
    ("mixin", "policy"),
    [
        ("", None),
        ("with Retry()", DEFAULT),
        ("with afl.Retry()", DEFAULT),
        ("with Retry(times = 0)", DEFAULT._replace(times=0)),
        ("with Retry(delay_ms = 250, factor = 1)", DEFAULT._replace(delay_ms=250, factor=1.0)),
        # Without a limit of its own, the first pause is as long as it says.
        ("with Retry(delay_ms = 90000)", DEFAULT._replace(delay_ms=90_000, max_delay_ms=90_000)),
        ("with Retry(delay_ms = 90000, max_delay_ms = 5)", DEFAULT._replace(delay_ms=90_000, max_delay_ms=5)),
        ("with Retry(max_delay_ms = null)", DEFAULT._replace(max_delay_ms=None)),
        ('with Retry(errors = ["Busy", "Away"])', DEFAULT._replace(errors=frozenset({"Busy", "Away"}))),
    ],
)
def test_a_call_has_the_further_attempts_that_its_retry_says(mixin: str, policy: RetryPlan | None) -> None:
    assert retry_of(mixin) == policy


def test_a_retry_of_the_call_replaces_that_of_the_signature() -> None:
    assert retry_of("", "with Retry(times = 9)") == DEFAULT._replace(times=9)
    assert retry_of("with Retry(delay_ms = 5)", "with Retry(times = 9)") == DEFAULT._replace(delay_ms=5)


def test_a_facet_of_the_programs_own_is_no_policy_under_the_short_name() -> None:
    own = "facet Retry(times: Int) event facet Ask(times: Int) workflow W() andThen { s = Ask() with %s }"

    assert step(own % "Retry(times = 2)").retry is None
    assert [name for name, _ in step(own % "Retry(times = 2)").args] == ["times"]
    assert step(own % "afl.Retry(times = 2)").retry == DEFAULT._replace(times=2)
    assert [name for name, _ in step(own % "afl.Retry(times = 2)").args] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("times = -1", "times of Retry is a whole number from 0 to 2147483647, found -1"),
        ("times = $.n", "times of Retry is a whole number from 0 to 2147483647, found no literal"),
        ("times = true", "times of Retry is a whole number"),
        ("delay_ms = 3153600000001", "delay_ms of Retry is a whole number of milliseconds from 0 to 3153600000000"),
        ("max_delay_ms = -1", "max_delay_ms of Retry is a whole number of milliseconds"),
        ("factor = 0.99", "factor of Retry is a number from 1 to 1000000, found 0.99"),
        ('errors = "Busy"', "errors of Retry is a list of texts"),
        ("errors = [1]", "errors of Retry is a list of texts"),
    ],
)
def test_a_value_that_a_retry_cannot_have_refuses_the_program_by_the_step_and_name(arguments: str, said: str) -> None:
    with pytest.raises(ProgramError, match=rf"n\.W\.s: {said}"):
        step(f"event facet Ask() workflow W(n: Int) andThen {{ s = Ask() with Retry({arguments}) }}")


def test_neither_attempts_nor_a_time_apply_to_what_the_runtime_answers() -> None:
    plan = step("workflow W() andThen { s = afl.Sleep(ms = 5) with Retry() with Timeout(hours = 1) }")

    assert (plan.retry, plan.timeout_ms) == (None, None)
    # The hours are not those of the sleep.
    assert [name for name, _ in plan.args] == ["ms"]


@pytest.mark.parametrize(
    ("mixin", "payload"),
    [
        ("with Timeout(minutes = 2)", {"cents": 5, "minutes": 2}),
        ("with afl.Timeout(minutes = 2)", {"cents": 5}),
        ("with Retry(times = 2)", {"cents": 5}),
        ("with afl.Retry(times = 2)", {"cents": 5}),
    ],
)
@pytest.mark.parametrize("is_signature", [False, True])
def test_agents_get_no_arguments_that_are_the_runtimes(mixin: str, payload: dict[str, int], is_signature: bool) -> None:
    on_signature, on_call = (mixin, "") if is_signature else ("", mixin)
    engine = Engine(
        f"event facet Ask(cents: Int) {on_signature} workflow W() andThen {{ s = Ask(cents = 5) {on_call} }}"
    )
    engine.start()

    assert engine.step("s").document.params == payload


def test_a_time_limit_of_the_library_is_a_deadline_as_the_short_one_is() -> None:
    timed = step("event facet Ask() workflow W() andThen { s = Ask() with afl.Timeout(minutes = 2) }")

    assert timed.timeout_ms == 120_000
