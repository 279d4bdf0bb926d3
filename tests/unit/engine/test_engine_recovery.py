"""A run is the same for every driver: in memory or read back, one evaluator or several, with or without threads."""

import threading
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

import pytest

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.core.ids import event_id_of
from afl.engine.model.store import Batch, StepDocument, WorkflowChange, WorkflowRow
from afl.engine.types import Value
from afl.evaluation.evaluator import Evaluator
from afl.stores.memory.store import MemoryStore
from afl.stores.public.persistence import EngineStore
from afl.stores.sqlite.store import SqliteStore
from afl.telemetry.telemetry import Telemetry
from tests.random_programs.answers import Answers
from tests.random_programs.generator import RandomProgram, generate
from tests.tiers import some_now
from tests.unit.engine.running import Engine, compiled, failure_of

SEEDS = range(60)


def play(
    case: RandomProgram,
    program: dict[str, Any],
    *,
    hot_steps: int = 200_000,
    telemetry: Telemetry | None = None,
    store: EngineStore | None = None,
) -> tuple[WorkflowRow, list[StepDocument]]:
    """Run a random program, answering in an order of its seed's own; some events fail."""
    engine = Engine(program, hot_steps=hot_steps, telemetry=telemetry, max_open_events=4, store=store)
    answers, random = Answers(program), Random(case.seed)
    result = engine.start(case.inputs, case.workflow)
    while result.status == "PAUSED":
        waiting = engine.view().waiting()
        for step in random.sample(waiting, random.randint(1, len(waiting))):
            if random.random() < 0.1:
                engine.evaluator.fail_step(step.id, f"failed at {step.path}")
            else:
                document = step.document
                engine.evaluator.continue_step(step.id, answers(document.facet_name, document.params))
        result = engine.resume()
    return engine.row(), engine.store.load_steps("run")


@pytest.mark.parametrize("seeds", some_now([SEEDS[:20], SEEDS[20:]], 1))
def test_hot_and_cold_runs_store_the_very_same(seeds: range) -> None:
    for seed in seeds:
        case = generate(seed)
        program = compile_text(case.text).program_json

        assert play(case, program, hot_steps=0) == play(case, program), f"seed {seed}\n{case.text}"


@pytest.mark.parametrize("seeds", some_now([SEEDS[:10], SEEDS[10:]], 1))
def test_runs_that_are_read_from_a_file_for_each_answer_store_the_very_same(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        case = generate(seed)
        program = compile_text(case.text).program_json
        store = SqliteStore(tmp_path / f"{seed}.db")

        assert play(case, program, hot_steps=0, store=store) == play(case, program), f"seed {seed}\n{case.text}"
        store.close()


CHAIN_OF_EVENTS = """
  event facet Ask(n: Long) => (m: Long)
  workflow W(n: Long) => (m: Long) andThen {
    a = Ask(n = $.n)
    b = Ask(n = a.m)
    c = Ask(n = b.m + a.m)
    yield W(m = c.m + a.m)
  }
"""


def test_a_second_answer_to_a_step_that_was_left_unread_does_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    engine = Engine(compiled(CHAIN_OF_EVENTS), hot_steps=0, store=store)
    engine.start({"n": 1})
    asked = []
    for number in (10, 20, 30):
        (step,) = engine.view().waiting()
        asked.append(step.id)
        for earlier in asked[:-1]:
            engine.evaluator.continue_step(earlier, {"m": 0})
        engine.evaluator.continue_step(step.id, {"m": number})
        engine.resume()

    # The first answers count: 30, and 10 of the first step.
    assert engine.row().outputs == {"m": 40}
    store.close()


def test_telemetry_changes_nothing_that_is_stored() -> None:
    for seed in SEEDS[::4]:
        case = generate(seed)
        program = compile_text(case.text).program_json

        assert play(case, program, telemetry=Telemetry()) == play(case, program), f"seed {seed}\n{case.text}"


EACH = """
    event facet E(x: Long) => (r: Long)
    facet V(v: Long)
    workflow W(xs: [Long]) => (r: [Long]) andThen foreach x in $.xs {
        e = E(x = $.x) andThen {
            v = V(v = e.r + 1)
            yield W(r = [v.v])
        }
    }
"""


def test_ids_follow_from_the_workflow_id_and_the_place() -> None:
    first, second, other = Engine(EACH), Engine(EACH), Engine(EACH, workflow_id="other")
    for engine in (first, second, other):
        engine.start({"xs": [1, 2]})

    assert [step.id for step in first.steps()] == [step.id for step in second.steps()]
    assert all(step.id.startswith("run:") for step in first.steps())
    assert {step.id for step in first.steps()}.isdisjoint(step.id for step in other.steps())


def test_a_resume_needs_nothing_but_the_id() -> None:
    engine = Engine(EACH)
    engine.start({"xs": [1]})

    stranger = Evaluator(engine.store)
    stranger.continue_step(engine.step("[0].e").id, {"r": 1})

    assert stranger.resume("run").outputs == {"r": [2]}


def test_another_program_is_refused_and_the_pinned_one_continues() -> None:
    engine = Engine(EACH)
    engine.start({"xs": [1]})
    other = compiled(EACH.replace("e.r + 1", "e.r + 2"))
    engine.evaluator.continue_step(engine.step("[0].e").id, {"r": 1})

    result = engine.evaluator.resume("run", "W", other)

    assert (result.status, type(result.error).__name__) == ("ERROR", "ProgramMismatch")
    assert engine.evaluator.resume("run", "W", engine.program).outputs == {"r": [2]}


def test_a_program_that_lacks_the_workflow_is_another_program() -> None:
    engine = Engine(EACH)
    engine.start({"xs": [1]})

    result = engine.evaluator.resume("run", None, {"declarations": []})

    assert type(result.error).__name__ == "ProgramMismatch"


def test_a_declaration_beside_its_program_may_be_handed_in_again() -> None:
    workflow = compiled("event facet E() => (r: Long) workflow W() => (r: Long) andThen { e = E() yield W(r = e.r) }")
    namespace = workflow.tree["declarations"][0]
    facet, declaration = namespace["declarations"]
    program = {"type": "Program", "declarations": [facet]}
    evaluator = Evaluator(MemoryStore())
    first = evaluator.execute(declaration, None, program)
    (event,) = first.pending_events
    evaluator.continue_step(event.step_id, {"r": 3})

    assert evaluator.resume(first.workflow_id, declaration, program).outputs == {"r": 3}


def test_a_resume_of_an_ended_run_gives_its_result_again() -> None:
    engine = Engine(EACH)
    engine.start({"xs": []})

    assert engine.resume().status == "COMPLETED"
    engine.restart()
    assert engine.resume().status == "COMPLETED"


def open_memory(path: Path) -> EngineStore:
    return MemoryStore()


def open_sqlite(path: Path) -> EngineStore:
    return SqliteStore(path / "engine.db")


@pytest.mark.parametrize("open_store", [open_memory, open_sqlite])
@pytest.mark.parametrize("evaluators", [1, 3])
def test_threads_that_answer_and_resume_at_once_make_every_step_once(
    tmp_path: Path, open_store: Callable[[Path], EngineStore], evaluators: int
) -> None:
    count, threads = 24, 8
    engine = Engine(EACH, store=open_store(tmp_path))
    engine.start({"xs": list(range(count))})
    waiting = engine.view().waiting()
    workers = cycle([engine.new_evaluator() for _ in range(evaluators)])
    failures: list[BaseException] = []

    def work(evaluator: Evaluator, index: int) -> None:
        try:
            # Every step is answered by two threads, with the same result.
            for step in waiting[index::threads] + waiting[(index + 1) % threads :: threads]:
                x = step.document.params["x"]
                evaluator.continue_step(step.id, {"r": x})
                assert evaluator.resume("run").status in ("PAUSED", "COMPLETED")
        except BaseException as error:  # noqa: BLE001 - told to the test's own thread
            failures.append(error)

    running = [threading.Thread(target=work, args=(next(workers), index)) for index in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()

    assert not failures
    assert engine.resume().outputs == {"r": list(range(1, count + 1))}
    paths = engine.paths()
    # Root and foreach; an element has its block, its step, that one's block, and in it a step and a yield.
    assert len(paths) == len(set(paths)) == 2 + 5 * count
    tasks = [engine.store.get_task(event_id_of(step.id, 1)) for step in waiting]
    assert [task and task.state for task in tasks] == ["completed"] * count
    engine.store.close()


def test_of_two_evaluators_with_the_same_hot_workflow_neither_undoes_the_other() -> None:
    engine = Engine(EACH)
    engine.start({"xs": [1, 2]})
    one, two = engine.new_evaluator(), engine.new_evaluator()
    assert one.resume("run").status == two.resume("run").status == "PAUSED"

    one.continue_step(engine.step("[0].e").id, {"r": 1})
    two.continue_step(engine.step("[0].e").id, {"r": 100})
    two.continue_step(engine.step("[1].e").id, {"r": 2})

    assert one.resume("run").outputs == {"r": [2, 3]}
    assert two.resume("run").outputs == {"r": [2, 3]}


def test_many_workflows_use_one_evaluator_beyond_what_stays_hot() -> None:
    program = compiled(EACH)
    store = MemoryStore()
    evaluator = Evaluator(store, hot_steps=20)
    engines = [Engine(program, store=store, workflow_id=f"run-{n}") for n in range(20)]
    for engine in engines:
        engine.evaluator = evaluator
        engine.start({"xs": [1, 2]})

    results: list[dict[str, Value]] = []
    for engine in engines:
        engine.answer("[1].e", {"r": 2})
    for engine in engines:
        results.append(engine.answer("[0].e", {"r": 1}).outputs)

    assert results == [{"r": [2, 3]}] * 20


class FailsOnce(MemoryStore):
    """Its disk is full at one commit."""

    commits_until_failure = -1

    def commit_batch(self, batch: Batch) -> int:
        self.commits_until_failure -= 1
        if self.commits_until_failure == 0:
            raise OSError("disk full")
        return super().commit_batch(batch)


@pytest.mark.parametrize("commit", range(1, 7))
def test_a_commit_that_fails_is_computed_again_from_the_store(commit: int) -> None:
    store = FailsOnce()
    engine = Engine(EACH, store=store)
    engine.start({"xs": [1]})
    step_id = engine.step("[0].e").id
    store.commits_until_failure = commit
    try:
        engine.evaluator.continue_step(step_id, {"r": 1})
    except OSError:
        engine.evaluator.continue_step(step_id, {"r": 1})

    result = engine.resume()
    if result.status == "ERROR":
        assert str(result.error) == "disk full"
        result = engine.resume()

    assert result.outputs == {"r": [2]}
    assert len(engine.paths()) == len(set(engine.paths())) == 7


def test_a_store_without_the_pinned_program_says_so() -> None:
    engine = Engine(EACH)
    engine.start({"xs": [1]})
    row = engine.row()._replace(revision=1)
    steps = [document._replace(revision=1) for document in engine.store.load_steps("run")]
    engine.store = MemoryStore()
    engine.store.commit_batch(Batch(changes=[WorkflowChange(workflow=row, expected_revision=0, steps=steps)]))
    engine.restart()

    result = engine.resume()

    assert (result.status, type(result.error).__name__) == ("ERROR", "StoreCorrupt")
    assert row.program in str(result.error)


def test_telemetry_of_a_failed_run_ends_with_its_cause() -> None:
    telemetry = Telemetry()
    engine = Engine(EACH, telemetry=telemetry)
    engine.start({"xs": [1]})

    failure_of(engine.fail("[0].e", "lost"))

    assert telemetry.events[-1].event_type == "workflow.error"
    assert "lost" in str(telemetry.events[-1].details["error"])


def test_a_program_read_from_its_text_is_the_same_program() -> None:
    program = compiled(EACH)

    assert CompiledProgram.from_text(program.text).fingerprint == program.fingerprint
