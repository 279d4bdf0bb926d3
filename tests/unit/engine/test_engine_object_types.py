"""Every kind of step goes from Created to Complete by its own table: those that programs make, and the others."""

from collections import defaultdict
from itertools import pairwise

import pytest

from afl.engine.execution.machine import STATE_MACHINES
from afl.engine.states import (
    BLOCK_TRANSITIONS,
    SCHEMA_TRANSITIONS,
    STEP_TRANSITIONS,
    YIELD_TRANSITIONS,
    StepState,
    select_transitions,
)
from afl.engine.types import ObjectType
from afl.runtime.changers import STATE_CHANGERS
from afl.telemetry.telemetry import Telemetry
from tests.unit.engine.running import Engine

#: One of everything that a program can make a step of.
PROGRAM = """
    schema S { x: Long }
    facet Retry(times: Long)
    event facet E(x: Long) => (r: Long) with Retry(times = 2) as retry
    facet V(v: Long)
    facet Each(xs: [Long]) => (r: [Long]) andThen foreach x in $.xs {
        e = E(x = $.x) andThen { v = V(v = e.r) }
        yield Each(r = [e.r])
    }
    facet Choose(n: Long) => (r: String = "none") andThen when {
        case $.n > 1 => { yield Choose(r = "many") }
        case _ => { yield Choose(r = "few") }
    }
    workflow W() => (r: [Long], text: String) andThen {
        sys.log(n = 1)
        sys.assert(1 < 2)
        s = S(x = 1)
        o = Each(xs = [s.x, 2])
        c = Choose(n = o.r[0])
        yield W(r = o.r, text = c.r)
    }
"""
KINDS = {value for name, value in vars(ObjectType).items() if name.isupper() and isinstance(value, str)}
#: What the specification's tables say of each kind.
TABLES = {
    ObjectType.VARIABLE_ASSIGNMENT: STEP_TRANSITIONS,
    ObjectType.WORKFLOW: STEP_TRANSITIONS,
    ObjectType.FACET: STEP_TRANSITIONS,
    ObjectType.BEFORE: STEP_TRANSITIONS,
    ObjectType.AFTER: STEP_TRANSITIONS,
    ObjectType.YIELD_ASSIGNMENT: YIELD_TRANSITIONS,
    ObjectType.SCHEMA_INSTANTIATION: SCHEMA_TRANSITIONS,
    ObjectType.SYS_LOG: SCHEMA_TRANSITIONS,
    ObjectType.SYS_ASSERT: SCHEMA_TRANSITIONS,
    ObjectType.AND_THEN: BLOCK_TRANSITIONS,
    ObjectType.AND_MAP: BLOCK_TRANSITIONS,
    ObjectType.AND_MATCH: BLOCK_TRANSITIONS,
    ObjectType.BLOCK: BLOCK_TRANSITIONS,
}
#: Kinds that no program of the language makes a step of: names of the public interface.
NEVER_MADE = {ObjectType.AND_MAP, ObjectType.BLOCK, ObjectType.BEFORE, ObjectType.AFTER}


def walked_by_kind() -> dict[str, list[list[str]]]:
    """Return the states of each step as telemetry saw them, by the step's kind."""
    telemetry = Telemetry()
    engine = Engine(PROGRAM, telemetry=telemetry)
    result = engine.run(agents=lambda facet, payload: {"r": 3})
    assert result.outputs == {"r": [3, 3], "text": "many"}
    walks: dict[str | None, list[str]] = {}
    for event in telemetry.events:
        if event.event_type == "state.transition":
            states = walks.setdefault(event.step_id, [str(event.details["fromState"])])
            assert states[-1] == event.details["fromState"]
            states.append(str(event.details["toState"]))
    found = defaultdict(list)
    for step in engine.steps():
        found[step.document.object_type].append(walks[step.id])
    return found


def test_programs_make_every_kind_of_step_but_four() -> None:
    assert set(walked_by_kind()) == KINDS - NEVER_MADE


def test_every_kind_has_a_table_and_a_changer() -> None:
    assert set(TABLES) == set(STATE_CHANGERS) == set(STATE_MACHINES) == KINDS


@pytest.mark.parametrize("kind", sorted(KINDS - NEVER_MADE))
def test_steps_of_a_kind_walk_their_table_from_end_to_end(kind: str) -> None:
    walks = walked_by_kind()[kind]

    assert walks
    for states in walks:
        assert (states[0], states[-1]) == (StepState.CREATED, StepState.STATEMENT_COMPLETE)
        assert all(TABLES[kind][here] == there for here, there in pairwise(states))
        assert len(states) == len(TABLES[kind]) + 1


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_machine_of_a_kind_knows_the_way_to_the_end(kind: str) -> None:
    assert select_transitions(kind) is TABLES[kind]
    state: str | None = StepState.CREATED
    passed = []
    while state is not None:
        passed.append(state)
        state = STATE_MACHINES[kind].next_state(state)

    assert passed[-1] == StepState.STATEMENT_COMPLETE
    assert len(passed) == len(TABLES[kind]) + 1
