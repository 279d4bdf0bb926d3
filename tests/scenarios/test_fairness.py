"""A workflow that has much to do yields its turn, and whoever owns it goes on with it, whatever happens meanwhile."""

from afl.runtime.persistence import PAUSED, RUNNING
from afl.runtime.states import StepState
from afl_stream.config import EvaluatorSettings
from afl_stream.messages import CancelWorkflow, StartWorkflow, StepContinue
from tests.scenarios.desk import DESK, FIRST, REPORT, THIRD
from tests.scenarios.loop_harness import Deployment, Evaluator
from tests.scenarios.test_orphaned_outbox import run_until_it_crashes, two_evaluators
from tests.scenarios.turns import CHAIN, LINKS, start_chain


def small_budget() -> Deployment:
    return Deployment(None, CHAIN, DESK, evaluator=EvaluatorSettings(workflow_budget_steps=1))


def asked(deployment: Deployment) -> int:
    return len({event.id for event in deployment.events("chain.Ask")})


def turn_until_runnable(evaluator: Evaluator, workflow_id: str) -> None:
    while workflow_id not in evaluator.store.runnable_workflows():
        evaluator.turn()


def first_step(deployment: Deployment, workflow_id: str) -> str:
    return next(s.id for s in deployment.steps(workflow_id) if s.params.get("question") == FIRST)


def test_a_long_workflow_yields_and_one_started_after_it_is_answered_in_between() -> None:
    deployment = small_budget()
    evaluator = deployment.evaluator()
    start_chain(deployment, "long")
    turn_until_runnable(evaluator, "long")
    assert deployment.workflow("long").status == RUNNING
    deployment.client.start(REPORT, {"subject": FIRST}, workflow_id="short")
    for _ in range(5):
        evaluator.turn()

    deployment.send(StepContinue(step_id=first_step(deployment, "short"), result={"answer": THIRD}))
    evaluator.turn()

    (answered,) = [s for s in deployment.steps("short") if s.params.get("question") == FIRST]
    assert answered.returns == {"answer": THIRD}
    assert deployment.workflow("long").runnable
    deployment.settle()
    assert deployment.workflow("long").status == PAUSED
    assert asked(deployment) == LINKS


def test_what_was_runnable_is_gone_on_with_after_a_restart() -> None:
    deployment = small_budget()
    first = deployment.evaluator()
    start_chain(deployment, "long")
    turn_until_runnable(first, "long")
    deployment.remove(first, killed=True)

    deployment.evaluator()
    deployment.settle()

    assert asked(deployment) == LINKS
    assert deployment.store.runnable_workflows() == []


def test_a_runnable_workflow_whose_evaluator_has_died_in_another_partition_is_gone_on_with_by_its_owner() -> None:
    deployment = small_budget()
    owner, stranger = two_evaluators(deployment)
    workflow_id = deployment.id_in_partition(0)
    command = StartWorkflow(workflow_id=workflow_id, workflow="chain.Chain", inputs={"n": 0})
    deployment.send(command, partition=1)
    turn_until_runnable(stranger, workflow_id)
    deployment.remove(stranger, killed=True)
    deployment.settle()
    assert owner.partitions() == {0, 1}
    # Its partition was the owner's all the time, so that taking over the other one does not show it.
    deployment.clock.advance(11_000)

    deployment.settle()

    assert asked(deployment) == LINKS


def test_a_duplicate_answer_to_a_runnable_workflow_evaluates_it_to_the_fixed_point() -> None:
    deployment = Deployment(None, CHAIN, evaluator=EvaluatorSettings(workflow_budget_steps=1), control_partitions=1)
    first = deployment.evaluator()
    start_chain(deployment, "long")
    while not deployment.events("chain.Ask"):
        first.turn()
    (event,) = deployment.events("chain.Ask")
    answer = StepContinue(step_id=event.step_id, result={"n": 1})
    deployment.send(answer)
    first.turn()
    deployment.send(answer)
    first.faults.fail_at("control.committed")
    run_until_it_crashes(first)
    deployment.remove(first, killed=True)

    deployment.evaluator()
    deployment.settle()

    assert deployment.outcomes().get("duplicate", 0) <= 1
    assert asked(deployment) == LINKS


def test_a_flood_of_duplicates_gives_a_workflow_no_more_than_its_turn() -> None:
    deployment = small_budget()
    evaluator = deployment.evaluator()
    start_chain(deployment, "long")
    while not deployment.events("chain.Ask"):
        evaluator.turn()
    (event,) = deployment.events("chain.Ask")
    before = deployment.workflow("long").iterations
    for _ in range(50):
        deployment.send(StepContinue(step_id=event.step_id, result={"n": 1}))

    evaluator.turn()

    assert deployment.outcomes() == {"applied": 2, "duplicate": 49}
    assert deployment.workflow("long").iterations == before + 1


def test_a_runnable_workflow_can_be_cancelled() -> None:
    deployment = small_budget()
    evaluator = deployment.evaluator()
    start_chain(deployment, "long")
    turn_until_runnable(evaluator, "long")

    deployment.send(CancelWorkflow(workflow_id="long"))
    deployment.settle()

    assert not deployment.workflow("long").runnable
    assert asked(deployment) < LINKS


def test_a_crash_while_a_workflow_yields_changes_nothing_of_its_result() -> None:
    deployment = small_budget()
    start_chain(deployment, "long")
    for passes in range(LINKS):
        evaluator = deployment.evaluator()
        evaluator.faults.fail_at("control.applied", passes=passes % 3)
        run_until_it_crashes(evaluator, 20)
        deployment.remove(evaluator, killed=True)
        if asked(deployment) == LINKS:
            break
    deployment.evaluator()
    deployment.settle()

    assert asked(deployment) == LINKS
    steps = deployment.steps("long")
    assert len({(s.block_id, s.container_id, s.statement_id) for s in steps}) == len(steps)
    assert sum(s.state == StepState.EVENT_TRANSMIT for s in steps) == LINKS
