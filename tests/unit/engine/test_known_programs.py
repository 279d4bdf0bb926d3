"""Programs that are given as mappings again and again: read once, and never taken for what they were before."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from typing import Any

import pytest

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.engine.errors import ProgramMismatch
from afl.engine.planning.known_programs import KnownPrograms
from afl.evaluation.evaluator import Evaluator
from afl.stores.memory.store import MemoryStore

SOURCE = """
namespace pay {
  event facet Charge(amount: Long, rate: Double = 0.0, twice: Boolean = true) => (receipt: String)
  workflow Sell(amount: Long) => (receipt: String) andThen {
    c = Charge(amount = $.amount + 1)
    yield Sell(receipt = c.receipt)
  }
}
"""


def tree() -> dict[str, Any]:
    return compile_text(SOURCE).program_json


def workflow_in(program: dict[str, Any]) -> Any:
    return program["declarations"][0]["declarations"][1]


def one_in(program: dict[str, Any]) -> Any:
    """Return the literal 1 of the program."""
    return workflow_in(program)["body"]["steps"][0]["call"]["args"][0]["value"]["right"]


def defaults_in(program: dict[str, Any]) -> Any:
    return program["declarations"][0]["declarations"][0]["params"]


def test_a_mapping_that_is_given_again_is_the_same_program() -> None:
    known, given = KnownPrograms(), tree()
    known.of(given)

    assert known.of(given) is known.of(given)
    assert known.of(given).fingerprint == CompiledProgram(tree()).fingerprint


def test_an_equal_mapping_is_a_program_of_its_own() -> None:
    known, given = KnownPrograms(), tree()

    assert known.of(given).tree is given
    assert known.of(copy.deepcopy(given)).tree is not given


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a value": lambda program: one_in(program).update(value=2),
    "an integer to a double": lambda program: one_in(program).update(value=1.0),
    "an integer to a Boolean": lambda program: one_in(program).update(value=True),
    "a Boolean to an integer": lambda program: defaults_in(program)[2]["default"].update(value=1),
    "the sign of zero": lambda program: defaults_in(program)[1]["default"].update(value=-0.0),
    "one node more": lambda program: workflow_in(program)["params"].append({"name": "more", "type": "Long"}),
    "one node less": lambda program: workflow_in(program)["params"].pop(),
    "a key": lambda program: workflow_in(program).pop("body"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_mapping_that_was_changed_is_read_anew(change: Callable[[dict[str, Any]], object], times: int) -> None:
    known, given = KnownPrograms(), tree()
    for _ in range(times):
        before = known.of(given).fingerprint

    change(given)

    assert known.of(given).fingerprint == CompiledProgram(copy.deepcopy(given)).fingerprint != before
    assert known.of(given).fingerprint != before


def test_a_change_that_is_taken_back_gives_the_first_program_again() -> None:
    known, given = KnownPrograms(), tree()
    first, *_ = (known.of(given).fingerprint for _ in range(3))
    one_in(given)["value"] = 2
    changed = [known.of(given).fingerprint for _ in range(3)]
    one_in(given)["value"] = 1

    assert first not in changed
    assert [known.of(given).fingerprint for _ in range(3)] == [first] * 3


def test_other_lines_are_another_layout_of_the_same_program() -> None:
    known, given = KnownPrograms(), tree()
    before = [known.of(given) for _ in range(3)][-1]
    workflow_in(given)["location"]["line"] = 77

    assert known.of(given).fingerprint == before.fingerprint
    assert known.of(given).workflow("Sell").line == 77


def test_what_is_no_json_is_read_each_time() -> None:
    class Text(str):
        __slots__ = ()

    known, given = KnownPrograms(), tree()
    given["note"] = Text("a")
    programs = [known.of(given) for _ in range(4)]

    assert len({program.fingerprint for program in programs}) == 1


def test_few_programs_are_held_and_none_is_taken_for_one_that_is_gone() -> None:
    known = KnownPrograms(most=3)
    for amount in range(50):
        given = tree()
        one_in(given)["value"] = amount
        for _ in range(3):
            assert known.of(given).fingerprint == CompiledProgram(copy.deepcopy(given)).fingerprint
        del given
        gc.collect(0)

    assert len(known) == 3


# --- what callers see -----------------------------------------------------------------------------------------------


def paused(evaluator: Evaluator, program: dict[str, Any], workflow_id: str) -> None:
    result = evaluator.execute(workflow_in(program), {"amount": 1}, program, workflow_id=workflow_id)
    assert [event.payload["amount"] for event in result.pending_events] == [1 + one_in(program)["value"]]


def test_a_program_that_was_changed_after_it_ran_runs_as_it_is_now() -> None:
    evaluator, program = Evaluator(MemoryStore()), tree()
    for number in range(3):
        paused(evaluator, program, f"before-{number}")

    one_in(program)["value"] = 10

    for number in range(3):
        paused(evaluator, program, f"after-{number}")


def test_a_program_that_was_changed_is_not_taken_for_that_of_a_run() -> None:
    evaluator, program = Evaluator(MemoryStore()), tree()
    paused(evaluator, program, "w")
    for _ in range(3):
        assert evaluator.resume("w", workflow_in(program), program_ast=program).error is None

    one_in(program)["value"] = 10

    for _ in range(3):
        assert isinstance(evaluator.resume("w", workflow_in(program), program_ast=program).error, ProgramMismatch)


@pytest.mark.parametrize("given", ["alone", "beside"])
def test_a_workflow_that_is_given_apart_runs_as_it_is_now(given: str) -> None:
    """Alone, or beside a program that does not declare it: then it is added to that."""
    evaluator, program = Evaluator(MemoryStore()), tree()
    declarations = program["declarations"][0]["declarations"]
    workflow = declarations.pop()
    whole: dict[str, Any] | None = {"type": "Program", "declarations": declarations}
    if given == "alone":
        whole = None
        del workflow["body"]["steps"], workflow["body"]["yield"]
    runs = [evaluator.execute(workflow, {"amount": 1}, whole) for _ in range(3)]
    assert [run.error for run in runs] == [None] * 3

    workflow["params"].append({"name": "more", "type": "Long"})

    assert "more" in str(evaluator.execute(workflow, {"amount": 1}, whole).error)


def test_a_context_is_of_the_program_that_was_read_before() -> None:
    evaluator, program = Evaluator(MemoryStore()), tree()
    paused(evaluator, program, "w")

    first, second = evaluator.context("w"), evaluator.context("w")

    assert first.program_ast is second.program_ast
    assert first.program_ast == program
    assert first.program_ast is not program


# --- places ---------------------------------------------------------------------------------------------------------

FAILING = "namespace a {\n  workflow W(n: Long) => (m: Long) andThen {\n    yield W(m = 1 / $.n)\n  }\n}\n"


@pytest.mark.parametrize("hot_steps", [0, 1_000])
def test_an_error_names_the_line_of_the_layout_that_was_started_last(hot_steps: int) -> None:
    store = MemoryStore()
    evaluator = Evaluator(store, hot_steps=hot_steps)
    for lines in (0, 5, 2):
        program = compile_text("\n" * lines + FAILING).program_json
        evaluator.execute("a.W", {"n": 0}, program, workflow_id=f"w{lines}")
        row = store.load_workflow(f"w{lines}")
        assert row is not None
        assert row.error is not None
        assert row.error.line == 3 + lines

    again = Evaluator(store)
    again.retry("w0")
    again.resume("w0")
    row = store.load_workflow("w0")
    assert row is not None
    assert row.error is not None
    assert row.error.line == 5
