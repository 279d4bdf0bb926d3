"""Stores that are checked while others work on them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from afl.compiler import compile_text
from afl.core.clock import SystemClock
from afl.evaluation.evaluator import Evaluator, ExecutionStatus
from afl.stores.maintenance.check import Inspection
from afl.stores.maintenance.purge import Purge
from afl.stores.public.persistence import EngineStore
from tests.random_programs.answers import Answers
from tests.random_programs.expressions import Failure
from tests.random_programs.trusted_scripts import TrustingRunner
from tests.random_programs.whole_generator import generate_whole


def findings_of(store: EngineStore) -> list[str]:
    return [str(finding) for finding in Inspection(store=store, pause=lambda seconds: None).findings()]


def work(store: EngineStore, seeds: range) -> None:
    """Run random programs one after the other."""
    for seed in seeds:
        run_to_its_end(store, seed)


def run_to_its_end(store: EngineStore, seed: int) -> None:
    case = generate_whole(seed)
    program = compile_text(case.text, include_locations=False).program_json
    answers = Answers(program)
    evaluator = Evaluator(store, scripts=TrustingRunner())
    result = evaluator.execute(case.workflow, case.inputs, program_ast=program)
    while result.status == ExecutionStatus.PAUSED:
        for event in list(result.pending_events):
            try:
                answer = answers(event.event_type, event.payload)
            except Failure as failure:
                evaluator.fail_step(event.step_id, str(failure), *failure.types)
            else:
                evaluator.continue_step(event.step_id, answer)
        result = evaluator.resume(result.workflow_id)


def check_while_others_work(open_store: Callable[[], EngineStore], programs: int = 12) -> list[str]:
    """Check a store again and again while two threads run that many programs each, and a third purges what they have
    finished.
    """
    stores = [open_store() for _ in range(4)]
    threads = [threading.Thread(target=work, args=(stores[n], range(n * 100, n * 100 + programs))) for n in range(2)]
    at_work = threading.Event()
    at_work.set()

    def purge() -> None:
        purging = Purge(stores[2], SystemClock(), rows_per_slice=3)
        while at_work.is_set():
            for row in purging.due(SystemClock().now_ms() + 1):
                purging.purge(row, ())

    purger = threading.Thread(target=purge)
    for thread in (*threads, purger):
        thread.start()
    found: list[str] = []
    while any(thread.is_alive() for thread in threads):
        inspection = Inspection(store=stores[3])
        found += map(str, inspection.findings())
    at_work.clear()
    purger.join()
    found += findings_of(stores[3])
    for store in stores:
        store.close()
    return found
