"""A deployment whose log and store the release before has written, whose fingerprints had source places in them.

`release_before` holds both files as SQL. Workflow `wf-old` waits for the answers to its first two questions.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from afl.compiled.program import CompiledProgram
from afl.engine.model.store import COMPLETED, ERROR, PAUSED
from afl.evaluation.evaluator import Evaluator
from afl.formatting import format_text
from afl.stores.maintenance.check import Inspection
from afl_stream.errors import AlreadyExists
from afl_stream.evaluator.runs import check_same_start
from afl_stream.programs.definitions import Definitions
from afl_stream.wire.messages import ProgramDefinition, StartWorkflow, StepContinue
from tests.worlds.deployment import Deployment, program_of
from tests.worlds.world import embedded

BEFORE: Final = Path(__file__).parent / "release_before"
SOURCE: Final = (BEFORE / "desk.afl").read_text(encoding="utf-8")
REPORT: Final = "desk.Report"
#: What the release before called the program of SOURCE.
OLD: Final = "a49c424d2eeefe6f4991cbc121130916817966b524a4db68c80f7dd5b9f63324"
INPUTS: Final = {"subject": "first"}
#: The line of the yield, which divides.
YIELD_LINE: Final = 13


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    for file in BEFORE.glob("*.sql"):
        with closing(sqlite3.connect(tmp_path / f"{file.stem}.sqlite3")) as restored, restored:
            restored.executescript(file.read_text(encoding="utf-8"))
        (tmp_path / f"{file.stem}.sqlite3").chmod(0o600)
    found = embedded(tmp_path)
    found.evaluator()
    found.settle()
    yield found
    found.crash()


def answered(deployment: Deployment, workflow_id: str, length: int = 4) -> None:
    """Answer all that the workflow asks, and let it come to its end."""
    deployment.settle()
    while waiting := [s for s in deployment.steps(workflow_id) if s.state == "state.EventTransmit"]:
        for step in waiting:
            result = {"answer": str(step.params["question"]), "length": length}
            deployment.send(StepContinue(step_id=step.id, result=result))
        deployment.settle()


def test_a_workflow_of_the_release_before_continues_to_its_end(deployment: Deployment) -> None:
    assert deployment.workflow("wf-old").program == OLD

    answered(deployment, "wf-old")

    run = deployment.workflow("wf-old")
    assert (run.status, run.program) == (COMPLETED, OLD)
    assert run.outputs == {"answers": ["first", "second", "first"], "share": 1.0}


def test_a_program_of_the_release_before_is_started_under_its_own_fingerprint(deployment: Deployment) -> None:
    deployment.client.start(REPORT, INPUTS, workflow_id="wf-new", program=OLD)

    answered(deployment, "wf-new", length=0)

    run = deployment.workflow("wf-new")
    assert (run.status, run.program) == (ERROR, OLD)
    assert run.error is not None
    assert run.error.line == YIELD_LINE


def laid_out(which: str) -> CompiledProgram:
    texts = {"same": SOURCE, "formatted": format_text(SOURCE), "moved": "\n// a comment\n" + SOURCE}
    return program_of(texts[which])


@pytest.mark.parametrize("layout", ["same", "formatted", "moved"])
def test_a_start_that_is_repeated_after_the_upgrade_is_the_same_start(deployment: Deployment, layout: str) -> None:
    program = laid_out(layout)
    assert program.fingerprint != OLD
    deployment.client.deploy(program)

    deployment.client.start(REPORT, INPUTS, workflow_id="wf-old")
    deployment.settle()

    assert deployment.outcomes() == {"duplicate": 1}
    assert deployment.workflow("wf-old").status == PAUSED
    check_same_start(deployment.store, "wf-old", REPORT, program, INPUTS)


def test_a_start_of_this_release_is_repeated_by_a_client_of_the_one_before(deployment: Deployment) -> None:
    deployment.client.deploy(laid_out("same"))
    deployment.client.start(REPORT, INPUTS, workflow_id="wf-new")
    deployment.settle()

    deployment.send(StartWorkflow(workflow_id="wf-new", workflow=REPORT, program=OLD, inputs=INPUTS))
    deployment.settle()

    assert deployment.outcomes() == {"applied": 1, "duplicate": 1}
    assert deployment.workflow("wf-new").program == laid_out("same").fingerprint


def test_another_program_is_refused_as_before(deployment: Deployment) -> None:
    other = program_of(SOURCE.replace('"second"', '"third"'))
    deployment.client.deploy(other)

    deployment.client.start(REPORT, INPUTS, workflow_id="wf-old")
    deployment.settle()

    assert deployment.outcomes() == {"rejected": 1}
    with pytest.raises(AlreadyExists):
        check_same_start(deployment.store, "wf-old", REPORT, other, INPUTS)


def test_a_program_that_is_given_is_known_for_that_of_the_release_before(deployment: Deployment) -> None:
    evaluator = Evaluator(deployment.store)

    assert evaluator.resume("wf-old", program_ast=laid_out("moved").tree).error is None
    other = program_of(SOURCE.replace('"second"', '"third"'))
    assert "ProgramMismatch" in repr(evaluator.resume("wf-old", program_ast=other.tree).error)


def test_the_store_of_the_release_before_is_clean(deployment: Deployment) -> None:
    assert list(Inspection(store=deployment.store).findings()) == []


def test_the_release_before_reads_what_is_deployed_and_stored(deployment: Deployment) -> None:
    """It takes a program for what its text has the SHA-256 of, and finds the statements of steps by their ids."""
    program = laid_out("same")
    deployment.client.deploy(program)
    deployment.client.start(REPORT, INPUTS, workflow_id="wf-new")
    deployment.settle()

    (definition,) = [
        message
        for message in deployment.messages(deployment.topology.definitions())
        if isinstance(message, ProgramDefinition) and message.fingerprint == program.fingerprint
    ]
    stored = deployment.store.load_program(program.fingerprint)
    for text in (definition.program_json().encode(), stored):
        assert text is not None
        assert hashlib.sha256(text).hexdigest() == program.fingerprint
        # Byte for byte what it makes of the tree: it computes the fingerprint from that.
        assert json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")).encode() == text
    workflow = CompiledProgram.from_text(stored or b"").workflow(REPORT).node
    known = {statement["id"] for statement in workflow["body"]["steps"]}
    assert known > {step.statement_id for step in deployment.steps("wf-new") if step.facet_name == "desk.Ask"}


def test_lines_come_with_the_newest_layout_that_was_deployed(deployment: Deployment) -> None:
    deployment.client.deploy(laid_out("same"))
    deployment.client.deploy(laid_out("moved"))
    deployment.client.start(REPORT, INPUTS, workflow_id="wf-new")

    answered(deployment, "wf-new", length=0)

    run = deployment.workflow("wf-new")
    assert run.error is not None
    assert run.error.line == YIELD_LINE + 2
    # One that joins later, too, has only what compaction has left of the topic.
    late = Definitions(deployment.transport, deployment.codec, deployment.topology.definitions())
    assert late.find(REPORT)[0].workflow(REPORT).line == 11
