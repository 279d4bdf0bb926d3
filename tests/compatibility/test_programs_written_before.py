"""Programs that an earlier release compiled: read, run, and compiled again to the byte."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from typing import Any, Final

import pytest

from afl.compiled.program import CompiledProgram
from afl.engine.types import Value
from afl.runtime import Evaluator, ExecutionStatus, MemoryStore
from tests.compatibility.generations import GENERATION_1, text_of
from tests.compatibility.story import CLAIM, PEOPLE, result_for
from tests.compatibility.world import TrustingRunner, program_of
from tests.compatibility.write import emitted

NAMES: Final = sorted(path.stem for path in (GENERATION_1 / "programs").glob("*.afl"))

#: What the texts declare, by program.
DECLARED: Final = {
    "claims": {
        *("claims.types.Line", "claims.types.Claim"),
        *("claims.tools.Retry", "claims.tools.Limit", "claims.tools.Sum"),
        *("claims.work.Assess", "claims.work.Approve", "claims.work.Ask", "claims.work.AssessAll"),
        "claims.work.Settle",
    },
    "desk": {"desk.Ask", "desk.Sign", "desk.Report", "desk.Careful", "desk.Contract", "desk.Greeting", "desk.Survey"},
    "scripted": {"scripted.Shout", "scripted.Call"},
    "expressions": {
        *("shop.prices.Money", "shop.prices.Empty", "shop.prices.Rate", "shop.prices.Quote"),
        *("shop.orders.Order", "Plain"),
    },
    "whole_language": {
        *("desk.tools.Retry", "desk.tools.Limit", "desk.tools.Note"),
        *("desk.work.Ask", "desk.work.Shout", "desk.work.Count", "desk.work.Settle"),
    },
}

#: Fingerprints as they are known everywhere: in stores, on topics, in people's notes.
FINGERPRINTS: Final = {
    "claims": "e062ec4edb5a0634cfad63a37b2dd062ef28872033f296600c7f85662b3af66d",
    "desk": "59f6cf7e457acca0876b2b15da1d32831f0c36e6eb12b07e58e631ea3c799b7c",
    "desk_later": "4de3005d47596a6c4fba83e6c19fa1226b6331acfe2f5d65c4837bf035109c3f",
    "scripted": "2cbd3d55eff85c4f09f434b76d04118ef64754c40ed4259ffc1b6812712ca827",
}


def source_of(name: str) -> str:
    return text_of(f"programs/{name}.afl")


def stored(name: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(text_of(f"programs/{name}.program.json"))
    return found


def stored_program(name: str) -> CompiledProgram:
    """Return the program as a store gives it."""
    found = stored(name)
    return CompiledProgram.stored(found["fingerprint"], found["text"], base64.b64decode(found["annotations"]))


# --- written ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_text_compiles_to_the_same_bytes(name: str) -> None:
    assert emitted(source_of(name)).splitlines() == text_of(f"programs/{name}.compiled.json").splitlines()


@pytest.mark.parametrize("name", NAMES)
def test_a_program_has_the_same_text_fingerprint_and_annotations(name: str) -> None:
    program = program_of(source_of(name))
    before = stored(name)

    assert program.text.decode() == before["text"]
    assert program.fingerprint == before["fingerprint"] == hashlib.sha256(before["text"].encode()).hexdigest()
    # Unpacked: how well they are packed is zlib's own affair.
    assert zlib.decompress(program.annotations) == zlib.decompress(base64.b64decode(before["annotations"]))


@pytest.mark.parametrize("name", FINGERPRINTS)
def test_a_fingerprint_is_for_ever(name: str) -> None:
    assert program_of(source_of(name)).fingerprint == FINGERPRINTS[name]


def test_every_kind_of_declaration_statement_and_clause_is_among_the_programs() -> None:
    found: set[str] = set()
    for name in NAMES:
        _collect(json.loads(text_of(f"programs/{name}.compiled.json")), found)

    assert found >= {
        *("Namespace", "FacetDecl", "EventFacetDecl", "WorkflowDecl", "SchemaDecl", "ImplicitDecl"),
        *("AndThenBlock", "WhenBlock", "WhenCase", "CatchClause", "ScriptBlock", "PromptBlock", "ForeachClause"),
        *("StepStmt", "YieldStmt", "SysLogStmt", "SysAssertStmt", "MixinSig", "MixinCall", "CallExpr"),
        *("InputRef", "StepRef", "ArrayLiteral", "MapLiteral", "BinaryExpr", "UnaryExpr", "ConcatExpr", "IndexExpr"),
        *("String", "Int", "Double", "Boolean", "Null", "ArrayType"),
    }


def _collect(node: object, found: set[str]) -> None:
    if isinstance(node, Mapping):
        kind = node.get("type")
        if isinstance(kind, str):
            found.add(kind)
        for child in node.values():
            _collect(child, found)
    elif isinstance(node, list):
        for child in node:
            _collect(child, found)


# --- read and run ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DECLARED)
def test_a_stored_program_declares_what_its_text_did(name: str) -> None:
    assert set(stored_program(name).declarations) == DECLARED[name]


def test_a_stored_program_knows_the_lines_of_its_text() -> None:
    program = stored_program("desk")

    lines = source_of("desk").splitlines()
    for name in ("Report", "Careful", "Contract", "Survey"):
        assert lines[program.workflow(f"desk.{name}").line - 1].strip().startswith(f"workflow {name}(")


def run(name: str, workflow: str, inputs: Mapping[str, Value]) -> dict[str, Any]:
    """Run a workflow of a stored program to its end; its outputs."""
    evaluator = Evaluator(MemoryStore(), scripts=TrustingRunner())
    result = evaluator.execute(workflow, inputs, stored_program(name))
    while result.status == ExecutionStatus.PAUSED:
        for event in result.pending_events:
            answer = result_for(event.event_type, event.payload)
            evaluator.continue_step(event.step_id, answer)  # type: ignore[arg-type]  # AFL values
        result = evaluator.resume(result.workflow_id)
    assert result.status == ExecutionStatus.COMPLETED, result.error
    return dict(result.outputs)


def test_foreach_when_mixins_implicits_and_schemas_run() -> None:
    outputs = run("claims", "claims.work.Settle", {"claim": CLAIM})  # type: ignore[dict-item]  # an AFL value

    assert outputs == {"paid": 1_200, "by": "ann", "remarks": ["because: Why 1200?"]}


def test_a_parameter_that_is_given_counts_for_its_default() -> None:
    outputs = run("claims", "claims.work.Settle", {"claim": CLAIM, "limit": 1_200})  # type: ignore[dict-item]  # an AFL value

    assert outputs["remarks"] == ["small"]


def test_steps_that_wait_for_one_another_run() -> None:
    outputs = run("desk", "desk.Report", {"subject": "a"})

    # The first question has 1 letter, "second" has 6.
    assert outputs == {"answers": ["re: a", "re: second", "re: re: a"], "share": 1 / 6}


def test_a_foreach_keeps_the_order_of_its_elements() -> None:
    outputs = run("desk", "desk.Survey", {"people": list(PEOPLE)})

    assert outputs["answers"] == ["re: May we ask?", *(f"re: How are you, {person}?" for person in PEOPLE)]


def test_a_failure_is_caught_by_the_workflow() -> None:
    evaluator = Evaluator(MemoryStore())
    result = evaluator.execute("desk.Careful", {"subject": "first"}, stored_program("desk"))
    (asked,) = result.pending_events
    evaluator.fail_step(asked.step_id, "not today", "Busy")

    (again,) = evaluator.resume(result.workflow_id).pending_events
    assert again.payload["question"] == "Busy: not today"
    evaluator.continue_step(again.step_id, {"answer": "so be it", "length": 8})
    assert evaluator.resume(result.workflow_id).outputs == {"answer": "so be it"}


def test_a_script_runs() -> None:
    assert run("scripted", "scripted.Call", {"text": "quiet"}) == {"loud": "QUIET"}


def test_the_programs_in_store_and_log_are_these() -> None:
    store = text_of("store.sql")

    for name in ("claims", "desk", "desk_later", "scripted"):
        assert FINGERPRINTS[name] in store
