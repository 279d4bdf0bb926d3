"""A run over its means stops only itself: others go on beside it, and no evaluator dies of it, now or at its start."""

import logging
from pathlib import Path

import pytest

from afl.engine import limits
from afl.engine.model.store import CANCELLED, COMPLETED, ERROR, Batch
from afl.stores.sqlite.store import SqliteStore
from afl.telemetry.telemetry import Telemetry
from afl_stream.settings.config import EvaluatorSettings
from afl_stream.wire.messages import CancelWorkflow, StepContinue
from tests.worlds.chain import CHAIN, start_chain
from tests.worlds.deployment import Deployment
from tests.worlds.parties import Evaluator
from tests.worlds.stores import OneStore, Stores
from tests.worlds.world import embedded

SOURCE = """
namespace n {
    event facet Ask(v: Json) => (r: Json)
    facet V(v: Json)
    facet F() andThen { a = F() b = F() }
    facet T(n: Long) => (c: Long) andThen when {
        case $.n > 0 => { a = T(n = $.n - 1) b = T(n = $.n - 1) yield T(c = a.c + b.c + 1) }
        case _ => { yield T(c = 1) }
    }
    facet D(v: Json) andThen { d = D(v = [$.v, $.v]) }
    workflow Runaway() andThen { f = F() }
    workflow Tree(n: Long) => (c: Long) andThen { t = T(n = $.n) yield Tree(c = t.c) }
    workflow Doubles() andThen { d = D(v = ["ten letters"]) }
    workflow Asks(v: Json) => (r: Json) andThen { a = Ask(v = $.v) yield Asks(r = a.r) }
    workflow Small() => (r: Long) andThen { a = V(v = 1) yield Small(r = a.v + 1) }
}
"""
#: One iteration of a large run in each batch.
ONE_ITERATION = EvaluatorSettings(workflow_budget_steps=500)
#: What a step that runs makes at most, in these programs: the two calls of a case, or its block.
MADE_BY_A_STEP = 2


def deployed(
    settings: EvaluatorSettings = ONE_ITERATION, directory: Path | None = None, stores: Stores | None = None
) -> tuple[Deployment, Evaluator]:
    deployment = embedded(directory, SOURCE, stores=stores, evaluator=settings)
    evaluator = deployment.evaluator()
    deployment.settle()
    return deployment, evaluator


def steps_of(deployment: Deployment, workflow_id: str) -> int:
    row = deployment.store.load_workflow(workflow_id)
    return 0 if row is None else row.steps


def turns_until(deployment: Deployment, evaluator: Evaluator, workflow_id: str, beside: str) -> tuple[int, int]:
    """Return turns that a run takes to complete, and the most steps that the one beside it has made in one of them."""
    most = 0
    for turn in range(1, 20):
        before = steps_of(deployment, beside)
        evaluator.turn()
        most = max(most, steps_of(deployment, beside) - before)
        row = deployment.store.load_workflow(workflow_id)
        if row is not None and row.status == COMPLETED:
            return turn, most
    raise AssertionError(f"{workflow_id} is held up")


# --- inside an iteration -------------------------------------------------------------------------------------------


def test_a_small_run_beside_a_tree_waits_for_no_more_than_one_cut_of_it() -> None:
    deployment, evaluator = deployed()
    deployment.client.start("n.Tree", {"n": 10}, workflow_id="tree")
    evaluator.turn()
    for number in range(4):
        deployment.client.start("n.Small", {}, workflow_id=f"small-{number}")
        turns, most = turns_until(deployment, evaluator, f"small-{number}", "tree")
        assert turns <= 2
        assert most <= limits.ITERATION_STEPS * MADE_BY_A_STEP
        assert deployment.workflow("tree").runnable

    deployment.settle()
    assert deployment.workflow("tree").outputs == {"c": 2**11 - 1}


def test_small_runs_beside_a_runaway_continue_and_it_ends_at_exactly_its_limit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    most_steps = 12_345
    deployment, evaluator = deployed(EvaluatorSettings(workflow_budget_steps=500, max_workflow_steps=most_steps))
    deployment.client.start("n.Runaway", {}, workflow_id="runaway")
    evaluator.turn()
    for number in range(3):
        deployment.client.start("n.Small", {}, workflow_id=f"small-{number}")
        turns, most = turns_until(deployment, evaluator, f"small-{number}", "runaway")
        assert turns <= 2
        assert most <= limits.ITERATION_STEPS * MADE_BY_A_STEP
    deployment.settle()

    row = deployment.workflow("runaway")
    assert (row.status, row.runnable, row.steps) == (ERROR, False, most_steps)
    assert len(deployment.steps("runaway")) == most_steps
    assert row.error is not None
    assert row.error.type == "StepLimitReached"
    said = [record.getMessage() for record in caplog.records if "max_steps = 12345" in record.getMessage()]
    assert len(said) == 1
    assert "near its limit" in said[0]


@pytest.mark.long
def test_a_tree_that_is_cut_and_crashes_in_between_comes_to_the_same_steps(tmp_path: Path) -> None:
    whole, _ = deployed()
    whole.client.start("n.Tree", {"n": 8}, workflow_id="tree")
    whole.settle()
    cut, _ = deployed(directory=tmp_path)
    cut.client.start("n.Tree", {"n": 8}, workflow_id="tree")
    crashes = 0
    while not cut.store.load_workflow("tree") or cut.workflow("tree").status != COMPLETED:
        cut.evaluators[0].turn()
        cut.crash_and_restart()
        cut.evaluator()
        crashes += 1

    assert crashes > 5
    rows = [[step._replace(revision=0, created_at_ms=0) for step in each.steps("tree")] for each in (whole, cut)]
    assert rows[0] == rows[1]
    assert cut.workflow("tree").iterations == whole.workflow("tree").iterations


# --- values --------------------------------------------------------------------------------------------------------


def test_a_run_that_doubles_a_value_ends_by_name_and_the_store_stays_small(tmp_path: Path) -> None:
    deployment, _ = deployed(EvaluatorSettings(max_value_bytes=100_000), tmp_path)
    deployment.client.start("n.Doubles", {}, workflow_id="doubles")
    deployment.client.start("n.Small", {}, workflow_id="small")
    deployment.settle()

    error = deployment.workflow("doubles").error
    assert error is not None
    assert error.type == "ValueTooLarge"
    assert deployment.workflow("small").status == COMPLETED
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 5_000_000


def test_inputs_over_the_limit_reject_the_start_by_name() -> None:
    deployment, _ = deployed(EvaluatorSettings(max_value_bytes=1_000))
    deployment.client.start("n.Asks", {"v": ["x" * 400] * 3}, workflow_id="large")
    deployment.settle()

    (reported,) = deployment.milestones("large")
    assert (reported.kind, reported.error and reported.error.type) == ("workflow.rejected", "ValueTooLarge")


# --- cancellations -------------------------------------------------------------------------------------------------


def runaway_left_runnable() -> tuple[Deployment, int]:
    """Return a runaway whose evaluator has died, and the iterations that it has made until then."""
    deployment, evaluator = deployed()
    deployment.client.start("n.Runaway", {}, workflow_id="runaway")
    while not deployment.store.runnable_workflows():
        evaluator.turn()
    deployment.remove(evaluator, killed=True)
    return deployment, deployment.workflow("runaway").iterations


def test_a_cancellation_that_waits_takes_effect_before_a_runnable_workflow_computes_on() -> None:
    deployment, iterations = runaway_left_runnable()
    deployment.send(CancelWorkflow(workflow_id="runaway"))
    deployment.evaluator()
    deployment.settle()

    assert (deployment.workflow("runaway").status, deployment.workflow("runaway").iterations) == (CANCELLED, iterations)


def test_so_does_one_behind_more_commands_than_a_batch_has() -> None:
    deployment, iterations = runaway_left_runnable()
    for number in range(30):
        deployment.client.start("n.Small", {}, workflow_id=f"small-{number}")
    deployment.send(CancelWorkflow(workflow_id="runaway"))
    deployment.config = deployment.config.__class__(
        embedded=deployment.config.embedded,
        topics=deployment.config.topics,
        evaluator=EvaluatorSettings(batch_records=2, workflow_budget_steps=500),
        agent=deployment.config.agent,
    )
    deployment.evaluator()
    deployment.settle()

    assert (deployment.workflow("runaway").status, deployment.workflow("runaway").iterations) == (CANCELLED, iterations)
    assert deployment.workflow("small-29").status == COMPLETED


def test_a_workflow_that_a_record_of_the_batch_cancels_computes_on_for_no_answer_before_it() -> None:
    deployment = embedded(None, CHAIN)
    evaluator = deployment.evaluator()
    start_chain(deployment, "wf")
    while not deployment.events("chain.Ask"):
        evaluator.turn()
    event = deployment.events("chain.Ask")[0]
    iterations = deployment.workflow("wf").iterations
    deployment.send(StepContinue(step_id=event.step_id, result={"n": 1}))
    deployment.send(CancelWorkflow(workflow_id="wf"))

    evaluator.turn()

    assert (deployment.workflow("wf").status, deployment.workflow("wf").iterations) == (CANCELLED, iterations)
    deployment.settle()
    assert deployment.store.runnable_workflows() == []


# --- what cannot be evaluated or stored ----------------------------------------------------------------------------


class NoMemoryForBad(Telemetry):
    """No memory is left while the events of workflows called `bad` are made."""

    def traceparent(self, workflow_id: str, event_id: str) -> str | None:
        if workflow_id.startswith("bad"):
            raise MemoryError
        return None


def check_that_only_the_bad_one_ends(deployment: Deployment, caplog: pytest.LogCaptureFixture) -> None:
    row = deployment.workflow("bad")
    assert (row.status, row.runnable) == (ERROR, False)
    assert row.error is not None
    assert "MemoryError" in row.error.message
    for number in range(3):
        assert deployment.workflow(f"good-{number}").status == "PAUSED"
    assert any(record.levelno == logging.ERROR and "bad" in record.getMessage() for record in caplog.records)
    # The next one to start meets it no more.
    deployment.remove(deployment.evaluators[0], killed=True)
    caplog.clear()
    deployment.evaluator()
    deployment.settle()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_memory_that_runs_out_for_one_workflow_ends_that_one_alone(caplog: pytest.LogCaptureFixture) -> None:
    deployment = embedded(None, SOURCE.replace("a = Ask(v = $.v)", "b = Ask(v = 0) a = Ask(v = b.r)"))
    evaluator = deployment.evaluator()
    for name in ("bad", *(f"good-{number}" for number in range(3))):
        deployment.client.start("n.Asks", {"v": name}, workflow_id=name)
    deployment.settle()
    deployment.remove(evaluator, killed=True)
    deployment.telemetry = NoMemoryForBad()
    deployment.evaluator()
    for event in deployment.events("n.Ask"):
        deployment.send(StepContinue(step_id=event.step_id, result={"r": 1}))
    deployment.settle()

    check_that_only_the_bad_one_ends(deployment, caplog)
    assert len(deployment.dead_letters(deployment.topology.control())) == 1


class NoMemoryToStore(SqliteStore):
    """Has no memory to write steps of workflows called `bad` with a large value."""

    def commit_batch(self, batch: Batch) -> int:
        for change in batch.changes:
            if change.workflow_id == "bad" and any("large" in str(getattr(row, "returns", "")) for row in change.rows):
                raise MemoryError
        return super().commit_batch(batch)


def test_a_workflow_that_cannot_be_stored_for_lack_of_memory_ends_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stores = OneStore(
        lambda config, clock: NoMemoryToStore(str(tmp_path / "store.db"), prefix=config.prefix, clock=clock)
    )
    deployment, _ = deployed(EvaluatorSettings(), stores=stores)
    for name in ("bad", *(f"good-{number}" for number in range(3))):
        deployment.client.start("n.Asks", {"v": name}, workflow_id=name)
    deployment.settle()
    deployment.send(StepContinue(step_id=deployment.step("bad", "n.Ask").id, result={"r": "large"}))
    deployment.settle()

    check_that_only_the_bad_one_ends(deployment, caplog)
