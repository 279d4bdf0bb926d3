"""The benchmark of subscriptions: both sides pass all events on, and its figures are medians of ratios."""

import io
import json

import pytest

from benchmarks.pubsub_subscriptions import KafkaSeconds, Seconds, embedded_cpu_s, main, queues_cpu_s


@pytest.mark.parametrize("side", [embedded_cpu_s, queues_cpu_s])
def test_both_sides_pass_all_events_on(side) -> None:  # type: ignore[no-untyped-def]  # either
    assert 0 < side(2_000) < 30


def test_a_ratio_is_the_median_of_those_of_the_pairs() -> None:
    seconds = KafkaSeconds(
        ours=[Seconds(2.0, 4.0), Seconds(3.0, 3.0), Seconds(9.0, 9.0)],
        floor=[Seconds(1.0, 1.0), Seconds(1.0, 3.0), Seconds(3.0, 3.0)],
    )

    assert seconds.ratios() == {"kafka_ratio": 3.0, "publish_ratio": 3.0, "read_ratio": 3.0}


def test_the_last_line_is_one_json_object() -> None:
    out = io.StringIO()

    main(["--only", "process", "--pairs", "1", "--events", "500"], out)

    assert json.loads(out.getvalue().splitlines()[-1]).keys() == {"process_ratio", "process_us", "process_floor_us"}
