"""Steps that only bind are told in a few words, and read as if every word had been written."""

from pathlib import Path

import pytest

from afl.engine.model.step_rows import BlockIds, BoundStep
from afl.engine.model.store import Batch, StepDocument, WorkflowRow
from afl.evaluation.evaluator import Evaluator
from afl.stores.memory.steps import KeptSteps
from afl.stores.memory.store import MemoryStore
from afl.stores.public.persistence import EngineStore
from afl.stores.sqlite.store import SqliteStore
from afl.telemetry.telemetry import Telemetry
from tests.unit.engine.running import Engine, compiled

CHAIN = """
    facet V(x: Long) => (y: Long = $.x + 1)
    workflow W() => (r: Long) andThen {
        a = V(x = 1)
        b = V(x = a.y + 1)
        c = V(x = b.y + 1)
        yield W(r = c.y)
    }
"""

#: A link that fails, one that two links wait for, one that waits for two, an event on the way, and a nested body.
LINKS = {
    "chain": CHAIN,
    "a link fails": CHAIN.replace("b.y + 1", "b.y / 0"),
    "a link fails and is caught": CHAIN.replace("b.y + 1)", "b.y / 0) catch { yield V(y = 7) }"),
    "links meet": CHAIN.replace("c = V(x = b.y + 1)", "d = V(x = a.y) c = V(x = b.y + d.y)"),
    "a body waits for a link": CHAIN.replace("c = V(x", "o = V(x = a.y) andThen { i = V(x = b.y) } c = V(x"),
    "a link and a yield outside": CHAIN.replace("c = V(x = b.y + 1)", "c = V(x = b.y) andThen { yield V(y = a.y) }"),
}


class Recording(MemoryStore):
    """Keeps each row of a workflow as it was committed."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[WorkflowRow] = []
        self.read: list[WorkflowRow | None] = []

    def commit_batch(self, batch: Batch) -> int:
        first = super().commit_batch(batch)
        self.rows += [change.workflow for change in batch.changes]
        self.read += [self.load_workflow(change.workflow_id) for change in batch.changes]
        return first


def bound_step(number: int = 3, revision: int = 2) -> BoundStep:
    engine = Engine(CHAIN)
    plan = engine.evaluator._workflows.plan(engine.program, "n.W").facet.blocks[0]
    block_ids = BlockIds("run", "run:root", "run:owner", "run:block", len(plan.statements))
    return BoundStep(block_ids, plan.statements[0], number, revision, {"x": 1}, {"y": 2}, 1_000)


@pytest.mark.parametrize("program", LINKS.values(), ids=LINKS.keys())
def test_a_chain_gives_the_same_steps_watched_or_not(program: str) -> None:
    plain, watched = Engine(program), Engine(program, telemetry=Telemetry())

    results = [engine.start() for engine in (plain, watched)]

    assert [result.status for result in results] == [results[0].status] * 2
    assert results[0].outputs == results[1].outputs
    assert plain.steps() == watched.steps()
    assert plain.row() == watched.row()


@pytest.mark.parametrize("program", LINKS.values(), ids=LINKS.keys())
def test_a_chain_gives_the_same_steps_in_memory_and_on_disk(program: str, tmp_path: Path) -> None:
    with_file = Engine(program, store=SqliteStore(tmp_path / "store.db"))
    in_memory = Engine(program)

    for engine in (with_file, in_memory):
        engine.start()

    assert with_file.steps() == in_memory.steps()
    assert with_file.row() == in_memory.row()


def test_a_chain_that_is_stopped_at_each_iteration_continues_to_the_same_steps() -> None:
    whole, stopped = Engine(CHAIN, iterations_per_commit=1), Engine(CHAIN, max_iterations=1)
    whole.start()

    result = stopped.start()
    for _ in range(20):
        if result.status != "TIMEOUT":
            break
        stopped.restart()
        result = stopped.resume()

    # 1 + 1, and for each of the two that follow the link's own 1 and the 1 of the argument.
    assert result.outputs == {"r": 6}
    assert stopped.steps() == whole.steps()


def test_each_commit_of_a_chain_has_a_row_of_its_own_that_reads_as_it_was_committed() -> None:
    store = Recording()
    evaluator = Evaluator(store, iterations_per_commit=1)
    evaluator.execute("n.W", program_ast=compiled(CHAIN), workflow_id="run")

    assert store.read == store.rows
    assert [row.revision for row in store.rows] == list(range(1, len(store.rows) + 1))
    assert [row.iterations for row in store.rows] == list(range(1, len(store.rows) + 1))
    assert {row.status for row in store.rows[:-1]} == {"RUNNING"}
    assert (store.rows[-1].status, store.rows[-1].outputs) == ("COMPLETED", {"r": 6})


def test_a_chain_over_its_limit_of_steps_ends() -> None:
    store: EngineStore = MemoryStore()
    result = Evaluator(store, max_steps=4).execute("n.W", program_ast=compiled(CHAIN), workflow_id="run")

    assert result.status == "ERROR"
    assert "StepLimitReached" in str(result.error)


def test_a_settled_step_is_read_as_a_complete_one() -> None:
    step = bound_step()

    document = step.document()

    assert document.id == step.id
    assert document.id.startswith("run:")
    assert document == StepDocument(
        id=step.id,
        workflow_id="run",
        number=3,
        revision=2,
        object_type="VariableAssignment",
        state="state.statement.Complete",
        statement_id=step.statement.id,
        facet_name="n.V",
        container_id="run:owner",
        container_type=None,
        block_id="run:block",
        root_id="run:root",
        params={"x": 1},
        returns={"y": 2},
        created_at_ms=1_000,
    )


def test_the_id_of_a_step_does_not_depend_on_how_many_others_its_block_has() -> None:
    ids = {BlockIds("run", "run:root", "run:owner", "run:block", count).step_id(b"s") for count in (1, 7, 8, 100_000)}

    assert len(ids) == 1


def test_what_was_written_of_a_step_after_it_had_settled_is_what_counts() -> None:
    steps, step = KeptSteps(), bound_step(revision=2)
    later = step.document()._replace(revision=3, returns={"y": 5})

    steps.write([step])
    steps.write([later])

    assert steps.by_id() == {step.id: later}
    assert len(steps) == 1
