"""The benchmark of workflows in process: a small one runs whole, and memory does not grow with events."""

import io
import json

import pytest

from benchmarks.pubsub_in_process import checked, main, peak_kib, run_queues, run_workflow


def test_both_ways_deliver_every_event_to_every_subscriber() -> None:
    checked(run_queues(100), 100)
    checked(run_workflow(100, keeps=True, max_events=None), 100)
    checked(run_workflow(100, keeps=False, max_events=1), 100)


def test_what_is_not_delivered_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="the subscribers added up 5, expected 4"):
        checked(5, 2)


def test_a_small_measurement_ends_with_one_object_of_json() -> None:
    out = io.StringIO()

    main(["--events", "50", "--pairs", "1", "--memory-events", "20"], out)

    last = json.loads(out.getvalue().splitlines()[-1])
    assert last.keys() == {
        "ratio",
        "ratio_nothing_kept",
        "alone_ratio",
        "alone_ratio_nothing_kept",
        "cpu_us",
        "floor_cpu_us",
        "grown_kib",
    }


@pytest.mark.long
def test_two_hundred_thousand_events_take_no_more_memory_than_ten_thousand() -> None:
    assert peak_kib(200_000) < peak_kib(10_000) + 64
