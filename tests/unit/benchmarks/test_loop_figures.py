"""The loop's benchmark: its program is the work it says, its floor does that work, and its figures are right."""

import io
import threading
from collections.abc import Mapping
from pathlib import Path

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl_stream.evaluator.control_loop import ControlStats
from afl_stream.evaluator.outcomes import Outcome
from benchmarks.loop import LoopFigures, Pair, ratios
from benchmarks.loop_floor import FloorEvaluator, decoded, encoded
from benchmarks.loop_processes import WARM, Stopwatch
from benchmarks.loop_program import FACET, source
from tests.random_programs.expressions import Value
from tests.random_programs.interpreter import Interpreter


class Worker:
    """Counts up, as the benchmark's handler does."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, facet: str, payload: Mapping[str, Value]) -> Mapping[str, Value]:
        self.asked.append(facet)
        count = payload["count"]
        assert isinstance(count, int)
        return {**payload, "count": count + 1}


def test_the_program_asks_once_a_step_and_each_step_gets_the_answer_of_the_one_before() -> None:
    worker = Worker()
    program = compile_text(source(4)).program_json

    outputs = Interpreter(program, worker).run("benchmark.Chain", {"count": 0, "text": "t", "share": 0.5})

    assert worker.asked == [FACET] * 4
    assert outputs == {"count": 4, "text": "t", "share": 0.5}


def test_the_program_has_one_event_facet() -> None:
    program = CompiledProgram(compile_text(source(2)).program_json)

    assert [facet.qualified_name for facet in program.event_facets()] == [FACET]


def test_the_floor_reads_what_it_writes() -> None:
    event: dict[str, object] = {
        "id": "1",
        "step_id": "2",
        "workflow_id": "3",
        "event_type": "floor.Work",
        "state": "Created",
        "payload": {"count": 4, "text": "t", "share": 0.5},
        "created_at": 5,
    }

    assert decoded(encoded(event)) == event


def test_the_floor_begins_with_an_event_for_each_workflow(tmp_path: Path) -> None:
    evaluator = FloorEvaluator(tmp_path / "floor.sqlite3", workflows=3, steps=2)

    events = [decoded(value) for _, value in evaluator.begin()]

    evaluator.close()
    assert len({event["workflow_id"] for event in events}) == 3
    assert len({event["step_id"] for event in events}) == 3
    assert [event["payload"]["count"] for event in events] == [1, 1, 1]


def figures(round_trips_per_s: float, evaluator_cpu_us: float) -> LoopFigures:
    return LoopFigures(round_trips_per_s=round_trips_per_s, evaluator_cpu_us=evaluator_cpu_us, agent_cpu_us=1, p50_ms=1)


def test_the_ratios_are_medians_of_the_pairs_own_ratios() -> None:
    pairs = [
        Pair(ours=figures(5, 90), floor=figures(10, 30), single_p50_ms=4, echo_p50_ms=2),
        Pair(ours=figures(1, 100), floor=figures(10, 50), single_p50_ms=3, echo_p50_ms=1),
        Pair(ours=figures(8, 20), floor=figures(10, 2), single_p50_ms=9, echo_p50_ms=9),
    ]

    assert ratios(pairs) == {"round_trips_ratio": 0.5, "cpu_ratio": 3.0, "p50_ratio": 2.0}


def stats(applied: int, runnable: int = 0) -> ControlStats:
    return ControlStats(
        outcomes={Outcome.APPLIED: applied},
        batches=0,
        conflicts=0,
        positions_lost=0,
        published=0,
        unacknowledged=0,
        runnable=runnable,
        scripts=0,
        undeliverable={},
        doubled=frozenset(),
        owned=(),
        paused={},
    )


def test_the_stopwatch_waits_when_the_first_workflow_is_complete_and_stops_when_all_are() -> None:
    stop, out = threading.Event(), io.StringIO()
    # Two workflows of three steps after the first one: records 1 to 4 are the first one's, 12 is the last.
    stopwatch = Stopwatch(2, 3, stop, out, io.StringIO("go\n"))

    for applied in (1, 3):
        stopwatch.on_batch(stats(applied))
    assert out.getvalue() == ""

    for applied in (4, 6, 11):
        stopwatch.on_batch(stats(applied))
    assert out.getvalue() == f"{WARM}\n"
    assert not stop.is_set()

    stopwatch.on_batch(stats(12))
    assert stop.is_set()
    measured = stopwatch.figures()
    assert measured.round_trips == 6
    assert measured.batches == 2


def test_the_stopwatch_does_not_stop_while_a_workflow_has_more_to_do_than_its_answers_say() -> None:
    stop = threading.Event()
    stopwatch = Stopwatch(2, 3, stop, io.StringIO(), io.StringIO("go\n"))

    # All records are applied, and a workflow has used its budget of the batch up: its end comes in a later batch.
    for applied, runnable in ((4, 0), (11, 0), (12, 1)):
        stopwatch.on_batch(stats(applied, runnable))
    assert not stop.is_set()

    stopwatch.on_batch(stats(12))
    assert stop.is_set()
