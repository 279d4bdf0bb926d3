"""The benchmark of evaluator processes: workflows are spread evenly, answers are those asked for, figures are right."""

from collections import Counter

from afl.compiler import compile_text
from afl_stream.partitioner import partition_for
from benchmarks.loop_program import source
from benchmarks.processes import Figures, answers, ratios, workflow_ids


def test_each_partition_has_as_many_workflows() -> None:
    ids = workflow_ids(40)

    assert len(set(ids)) == 40
    assert set(Counter(partition_for(one.encode(), 4) for one in ids).values()) == {10}


def test_the_answers_are_to_the_steps_of_the_workflow_one_after_the_other() -> None:
    given = list(answers(compile_text(source(3)).program_json, "run-1"))

    assert [answer.result["count"] for answer in given] == [1, 2, 3]
    assert {answer.workflow_id for answer in given} == {"run-1"}
    assert len({answer.step_id for answer in given}) == 3
    assert all(answer.step_id.startswith("run-1:") for answer in given)


def test_ratios_are_to_one_process_in_the_same_round_and_the_median_of_the_rounds() -> None:
    def figures(cpu_us: float, rate: float) -> Figures:
        return Figures(cpu_us=cpu_us, round_trips_per_s=rate)

    rounds = [
        {1: figures(100, 1_000), 2: figures(105, 1_800), 4: figures(120, 2_000)},
        {1: figures(200, 500), 2: figures(200, 1_000), 4: figures(220, 1_500)},
        {1: figures(50, 2_000), 2: figures(60, 3_000), 4: figures(50, 6_000)},
    ]

    assert ratios(rounds) == {"cpu_ratio_2": 1.05, "cpu_ratio_4": 1.1, "speedup_2": 1.8, "speedup_4": 3.0}
