"""A store check finds nothing in stores that were only written to by evaluators, whatever happened to those."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from afl.compiler import compile_text
from afl.evaluation.evaluator import Evaluator, ExecutionStatus
from afl.stores.memory.store import MemoryStore
from afl.stores.public.persistence import EngineStore
from afl.stores.sqlite.store import SqliteStore
from tests.random_programs.answers import Answers
from tests.random_programs.expressions import Failure
from tests.random_programs.generator import generate
from tests.random_programs.operating import Operated
from tests.random_programs.trusted_scripts import TrustingRunner
from tests.random_programs.whole_generator import generate_whole
from tests.scenarios.test_random_programs_through_the_loop import Turmoil
from tests.scenarios.working_stores import check_while_others_work, findings_of

_AT_ONCE = 10
#: The first seeds of some batches: the first one always, the others where there is time.
_BATCHES = [0, *(pytest.param(first, marks=pytest.mark.long) for first in range(_AT_ONCE, 12 * _AT_ONCE, _AT_ONCE))]


def run_and_check(store: EngineStore, seed: int) -> list[str]:
    """Run a random program, and check the store at each rest on the way; what was found."""
    case = generate_whole(seed)
    program = compile_text(case.text, include_locations=False).program_json
    answers, random = Answers(program), Random(seed)
    evaluator = Evaluator(store, scripts=TrustingRunner(), max_open_events=2 if seed % 2 else 1_000)
    result = evaluator.execute(case.workflow, case.inputs, program_ast=program)
    found = findings_of(store)
    while result.status == ExecutionStatus.PAUSED:
        events = list(result.pending_events)
        for event in random.sample(events, random.randint(1, len(events))):
            try:
                answer = answers(event.event_type, event.payload)
            except Failure as failure:
                evaluator.fail_step(event.step_id, str(failure), *failure.types)
            else:
                evaluator.continue_step(event.step_id, answer)
            # It can go on now, and has not yet.
            found += findings_of(store)
        result = evaluator.resume(result.workflow_id)
        found += findings_of(store)
    return [f"seed {seed}: {finding}" for finding in found]


@pytest.mark.parametrize("first", _BATCHES)
def test_random_programs_leave_a_clean_store_at_every_rest(first: int) -> None:
    assert [found for seed in range(first, first + _AT_ONCE) for found in run_and_check(MemoryStore(), seed)] == []


def test_random_programs_leave_a_clean_file(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")

    assert [found for seed in range(4) for found in run_and_check(store, seed)] == []
    store.close()


@pytest.mark.parametrize("first", _BATCHES)
def test_evaluators_that_crash_leave_a_clean_store(first: int) -> None:
    turmoil = Turmoil(first)
    for seed in range(first, first + _AT_ONCE):
        case = generate(seed)
        turmoil.run(case, compile_text(case.text, include_locations=False).program_json)

        assert findings_of(turmoil.deployment.store) == []
    assert turmoil.crashes > 0


@pytest.mark.parametrize("first", _BATCHES)
def test_operators_who_run_things_again_and_cancel_leave_a_clean_store(first: int) -> None:
    found = []
    for seed in range(first, first + _AT_ONCE):
        run = Operated(generate_whole(seed), 0.3, "clean")
        run.play(_rerun_now_and_then)
        for _ in range(2):
            run.evaluator.rerun(run.any_step())
            found += findings_of(run.store)
            run.resume()
            run.play()
            found += findings_of(run.store)
        run.evaluator.rerun(run.any_step())
        run.evaluator.cancel(run.result.workflow_id)
        found += findings_of(run.store)

    assert found == []


def _rerun_now_and_then(run: Operated, _step_id: str) -> bool:
    if run.random.random() < 0.95:
        return False
    run.evaluator.rerun(run.any_step())
    assert findings_of(run.store) == []
    return True


def test_a_check_beside_evaluators_and_a_purge_gives_no_false_alarm(tmp_path: Path) -> None:
    assert check_while_others_work(lambda: SqliteStore(tmp_path / "store.db"), programs=6) == []
