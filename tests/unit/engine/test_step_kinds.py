"""The kinds of steps, and the slots of a record that each uses: the table holds for random programs."""

from collections import defaultdict

from afl.compiled.program import CompiledProgram
from afl.engine.execution.execution import Execution
from afl.engine.model.records import KIND_SLOTS, StepKind, StepRecord
from afl.engine.types import ObjectType
from tests.unit.engine.driven import WAYS, DrivenRun
from tests.unit.engine.mixed_programs import mixed_program
from tests.unit.engine.nested_programs import branching_program, nested_program
from tests.unit.engine.running import compiled
from tests.worlds.compiled import interpreted_only

#: A workflow with a catch of its own, which the random ones have not.
CAUGHT = """
    event facet E(x: Long) => (r: Json)
    workflow W() => (r: Json) andThen { e = E(x = 1)  yield W(r = 1 / 0) } catch { yield W(r = 2) }
"""

#: Slots that not all kinds use.
OF_SOME = frozenset[str]().union(*KIND_SLOTS.values())

#: An agent's consumer group, which is not told here; and time-outs and retries, which these programs do not set.
UNSEEN = frozenset({"answered_by", "deadline_ms", "retry"})


def slots_in_use(step: StepRecord) -> set[str]:
    """Return the slots whose value is another than that of a new record."""
    new = StepRecord(step.id, step.number, step.object_type, step.created_at_ms)
    return {name for name in StepRecord.__slots__ if getattr(step, name) != getattr(new, name)}


def kind_by_type(step: StepRecord) -> StepKind:
    """Return the kind of a step by what is stored of it."""
    if step.object_type == ObjectType.WORKFLOW:
        return StepKind.ROOT
    if ObjectType.is_block(step.object_type):
        return StepKind.BLOCK
    return StepKind.MIXIN if step.object_type == ObjectType.FACET else StepKind.STATEMENT


@interpreted_only
def test_each_kind_of_step_uses_the_slots_of_its_kind() -> None:
    used: dict[StepKind, set[str]] = defaultdict(set)

    def look(execution: Execution) -> None:
        for step in execution.steps.values():
            assert step.kind is kind_by_type(step)
            used[step.kind] |= slots_in_use(step)

    for seed in range(60):
        write = (nested_program, branching_program, mixed_program)[seed % 3]
        program = CompiledProgram(write(seed)) if seed else compiled(CAUGHT)
        run = DrivenRun(program, WAYS[seed % 2 * 2], look, iteration_steps=20)
        while (waiting := run.waiting()) and not run.execution.is_ended:
            step = waiting[seed % len(waiting)]
            run.answer(step, None if (step.number + seed) % 7 == 0 else {"r": [step.number]})

    assert {kind: slots & OF_SOME for kind, slots in used.items()} == {
        kind: slots - UNSEEN for kind, slots in KIND_SLOTS.items()
    }


@interpreted_only
def test_a_slot_that_every_kind_uses_is_in_no_kinds_list() -> None:
    for name in OF_SOME:
        assert any(name not in slots for slots in KIND_SLOTS.values()), name
        assert name in StepRecord.__slots__
