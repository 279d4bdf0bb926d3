"""Limits hold in the control loop, too: a run over one ends by its name, and no other workflow with it."""

from afl_stream.settings.config import EvaluatorSettings
from afl_stream.wire.messages import CancelWorkflow, StepContinue, StepUpdate
from tests.worlds.deployment import Deployment
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED

#: What a run may take does not depend on the broker.
WORLDS = EMBEDDED

SOURCE = """
namespace shop {
    event facet Pay(v: Json) => (r: Json)
    facet V(v: Long)
    workflow Each(xs: [Long]) andThen foreach x in $.xs { v = V(v = $.x) }
    workflow Ask(v: Json) => (r: Json) andThen {
        pay = Pay(v = $.v)
        yield Ask(r = pay.r)
    }
}
"""


def deployed(world: World, settings: EvaluatorSettings) -> Deployment:
    deployment = world.deployment(SOURCE, evaluator=settings)
    deployment.evaluator()
    deployment.settle()
    return deployment


def test_a_run_with_too_many_steps_ends_by_name_and_subscribers_learn_why(world: World) -> None:
    deployment = deployed(world, EvaluatorSettings(max_workflow_steps=50))
    deployment.client.start("shop.Each", {"xs": list(range(40))}, workflow_id="large")
    deployment.client.start("shop.Each", {"xs": list(range(10))}, workflow_id="small")
    deployment.settle()

    assert deployment.workflow("small").status == "COMPLETED"
    row = deployment.workflow("large")
    assert (row.status, row.runnable) == ("ERROR", False)
    assert row.error is not None
    assert row.error.type == "StepLimitReached"
    reported = [milestone for milestone in deployment.milestones("large") if milestone.kind == "workflow.error"]
    assert [milestone.error.type for milestone in reported if milestone.error is not None] == ["StepLimitReached"]


def test_a_payload_over_the_limit_fails_its_step_before_the_record_is_made(world: World) -> None:
    deployment = deployed(world, EvaluatorSettings(max_payload_bytes=1_000))
    deployment.client.start("shop.Ask", {"v": "x" * 2_000}, workflow_id="wf")
    deployment.settle()

    error = deployment.workflow("wf").error
    assert error is not None
    assert (error.type, error.path) == ("PayloadTooLarge", "shop.Ask.pay")
    assert deployment.events("shop.Pay") == []


def test_an_answer_over_the_limit_fails_its_step_and_is_no_dead_letter(world: World) -> None:
    deployment = deployed(world, EvaluatorSettings(max_payload_bytes=1_000))
    deployment.client.start("shop.Ask", {"v": 1}, workflow_id="wf")
    deployment.settle()
    step_id = deployment.step("wf", "shop.Pay").id
    deployment.send(StepUpdate(step_id=step_id, partial={"note": "x" * 600}))
    deployment.send(StepContinue(step_id=step_id, result={"r": "x" * 600}))
    deployment.settle()

    error = deployment.workflow("wf").error
    assert error is not None
    assert (error.type, error.path) == ("PayloadTooLarge", "shop.Ask.pay")
    assert deployment.dead_letters(deployment.topology.control()) == []


def test_a_run_over_a_limit_that_was_lowered_can_be_cancelled(world: World) -> None:
    deployment = deployed(world, EvaluatorSettings())
    deployment.client.start("shop.Ask", {"v": 1}, workflow_id="wf")
    deployment.settle()
    deployment.remove(deployment.evaluators[0], killed=False)
    deployment.config = deployment.config.__class__(
        embedded=deployment.config.embedded,
        topics=deployment.config.topics,
        evaluator=EvaluatorSettings(max_workflow_steps=1),
        agent=deployment.config.agent,
    )
    deployment.evaluator()
    deployment.send(CancelWorkflow(workflow_id="wf", reason="too large"))
    deployment.settle()

    assert deployment.workflow("wf").status == "CANCELLED"
