"""Mixins, implicits and steps as values through the control loop: the same steps as with one commit an iteration, and
events that carry them.
"""

from collections.abc import Mapping
from random import Random

import pytest

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.core.clock import ManualClock
from afl.engine.model.store import StepDocument, WorkflowRow
from afl.engine.types import Value
from afl.evaluation.evaluator import Evaluator
from afl.stores.memory.store import MemoryStore
from afl.telemetry.telemetry import Telemetry
from afl_stream.settings.config import EvaluatorSettings
from afl_stream.wire.messages import StepContinue
from tests.scenarios import test_branching_through_the_loop as branching
from tests.unit.engine.mixed_programs import mixed_program
from tests.worlds.deployment import START_MS
from tests.worlds.world import World
from tests.worlds.worlds import EMBEDDED

#: What a program does, does not depend on the broker.
WORLDS = EMBEDDED

PROGRAM = """
namespace land {
    event facet Look(q: Json, limit: Int = 5) => (found: Json)
    facet Retry(times: Int = 3) => (policy: String) andThen { yield Retry(policy = "retry-" ++ $.times) }
    facet Checked(q: Json) => (ok: Json) with Look(q = $.q) as look andThen {
        l = Look(q = [$.look.found])
        yield Checked(ok = l.found)
    }
    event facet Survey(plot: String, zone: Int) => (area: Double)
        with Retry(times = $.zone) as retry with Checked(q = $.plot) as checked with Timeout(seconds = 5)
    event facet Ask(of: Survey, others: [Survey]) => (answer: Json)
    implicit zones = Survey(zone = 4)
    facet Tax(of: Survey) => (due: Double) andThen {
        a = Ask(of = $.of, others = [$.of])
        yield Tax(due = $.of.area + $.of.checked.ok)
    }
    workflow W(plots: [String]) => (due: [Double]) andThen foreach p in $.plots {
        s = Survey(plot = $.p) with Timeout(minutes = 1)
        t = Tax(of = s)
        yield W(due = [t.due])
    }
}
"""
INPUTS: Mapping[str, Value] = {"plots": ["a", "b"]}


def compiled() -> CompiledProgram:
    return CompiledProgram(compile_text(PROGRAM, include_locations=False).program_json)


def answer_of(facet: str) -> dict[str, Value]:
    name, value = {"land.Look": ("found", 2), "land.Survey": ("area", 10.5), "land.Ask": ("answer", "fine")}[facet]
    return {name: value}  # type: ignore[dict-item]  # one of the three, which mypy joins to object


def play(program: CompiledProgram, seed: int) -> tuple[list[tuple[str, str]], WorkflowRow, list[StepDocument]]:
    """Run with execute and resume, the answers in an order of the seed's."""
    store, random, answers = MemoryStore(), Random(seed), list[tuple[str, str]]()
    evaluator = Evaluator(store, clock=ManualClock(START_MS))
    result = evaluator.execute("land.W", INPUTS, program_ast=program, workflow_id=f"wf-{seed}")
    while result.status == "PAUSED":
        event = random.choice(list(result.pending_events))
        answers.append((event.step_id, event.event_type))
        evaluator.continue_step(event.step_id, answer_of(event.event_type))
        if random.random() < 0.5:
            evaluator = Evaluator(store, clock=ManualClock(START_MS))
        result = evaluator.resume(f"wf-{seed}")
    assert result.outputs == {"due": [12.5, 12.5]}
    row = store.load_workflow(f"wf-{seed}")
    assert row is not None
    return answers, row, store.load_steps(f"wf-{seed}")


def documents(steps: list[StepDocument]) -> list[StepDocument]:
    """Everything that is stored of the steps but when and in which commit they were written."""
    return [step._replace(revision=0, created_at_ms=0, deadline_ms=None) for step in steps]


@pytest.mark.parametrize("batch_records", [1, 500])
def test_the_loop_and_the_evaluator_agree_on_every_step(world: World, batch_records: int) -> None:
    deployment = world.deployment(evaluator=EvaluatorSettings(batch_records=batch_records))
    deployment.evaluator()
    program = compiled()
    deployment.client.apply_topics([program])
    deployment.settle()
    deployment.client.deploy(program)
    for seed in range(8):
        workflow_id = f"wf-{seed}"
        answers, expected, steps = play(program, seed)

        deployment.client.start("land.W", INPUTS, workflow_id=workflow_id)
        deployment.settle()
        for step_id, facet in answers:
            deployment.send(StepContinue(step_id=step_id, result=answer_of(facet)))
        deployment.settle()

        row = deployment.workflow(workflow_id)
        assert (row.status, row.outputs, row.iterations) == (expected.status, expected.outputs, expected.iterations)
        assert documents(deployment.steps(workflow_id)) == documents(steps), f"seed {seed}"


def test_events_carry_attributes_of_mixins_references_to_steps_and_a_deadline(world: World) -> None:
    deployment = world.deployment()
    deployment.evaluator()
    program = compiled()
    deployment.client.apply_topics([program])
    deployment.settle()
    deployment.client.deploy(program)
    deployment.client.start("land.W", {"plots": ["a"]}, workflow_id="wf")
    deployment.settle()
    for facet in ("land.Look", "land.Look", "land.Survey"):
        event = deployment.events(facet)[-1]
        deployment.send(StepContinue(step_id=event.step_id, result=answer_of(facet)))
        deployment.settle()

    (survey,) = deployment.events("land.Survey")
    (ask,) = deployment.events("land.Ask")
    assert survey.payload == {
        "plot": "a",
        "zone": 4,
        "seconds": 5,
        "minutes": 1,
        "retry": {"times": 4, "policy": "retry-4"},
        "checked": {"q": "a", "look": {"q": "a", "limit": 5, "found": 2}, "ok": 2},
    }
    assert survey.deadline == survey.created_at + 60_000
    reference = {
        "_facet_ref": True,
        "step_id": survey.step_id,
        "workflow_id": "wf",
        "facet_name": "land.Survey",
    }
    assert ask.payload == {"of": reference, "others": [reference]}
    assert ask.deadline is None


def test_telemetry_changes_nothing_that_is_stored() -> None:
    for seed in range(20):
        tree = branching.in_namespace(mixed_program(seed))

        assert branching.play(tree, seed, Telemetry()) == branching.play(tree, seed), f"seed {seed}"


def test_random_programs_of_mixins_leave_the_same_steps_behind_in_the_loop(world: World) -> None:
    deployment = world.deployment()
    deployment.evaluator()
    deployment.settle()
    for seed in range(20):
        tree = branching.in_namespace(mixed_program(seed))
        branching.assert_the_loop_agrees(deployment, tree, seed)
