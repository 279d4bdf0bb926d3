"""The server of metrics and health, asked over HTTP as Prometheus and probes ask it."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client.parser import text_string_to_metric_families

from afl.core.monitoring.health import ServiceHealth, Turns, judge_turn, together
from afl.core.monitoring.histograms import Histogram
from afl.core.monitoring.metrics import Family, Metric, by_label, counter, gauge, histogram, one
from afl.core.monitoring.serving import MonitoringServer, ServiceMetrics

DONE = counter("afl_done_total", "work done")
LAG = gauge("afl_lag", "lag", "topic")
TOOK = histogram("afl_took_seconds", "time", "facet")


class Work:
    metrics: tuple[Metric, ...] = (DONE, LAG, TOOK)

    def __init__(self) -> None:
        self.took = Histogram(TOOK, (0.1, 1.0))
        self.took.observe_all([(0.05, 'a"b'), (5.0, 'a"b')])

    def collect(self) -> Iterator[Family]:
        yield one(DONE, 3)
        yield by_label(LAG, {"t1": 7})
        yield self.took.family()


@contextmanager
def served(health: ServiceHealth) -> Iterator[str]:
    server = MonitoringServer([ServiceMetrics("desk", lambda: health), Work()], lambda: health)
    port = server.start("127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()


def asked(url: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_metrics_are_read_by_prometheus_own_parser() -> None:
    with served(ServiceHealth()) as url:
        status, page = asked(f"{url}/metrics")

    families = {family.name: family for family in text_string_to_metric_families(page.decode())}
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert status == 200
    assert families["afl_done"].type == "counter"
    assert samples["afl_done_total",] == 3
    assert samples["afl_lag", ("topic", "t1")] == 7
    buckets = [samples["afl_took_seconds_bucket", ("facet", 'a"b'), ("le", le)] for le in ("0.1", "1.0", "+Inf")]
    assert buckets == [1, 1, 2]
    assert samples["afl_took_seconds_sum", ("facet", 'a"b')] == 5.05
    assert samples["afl_ready", ("service", "desk")] == 1
    assert samples["process_cpu_seconds_total",] > 0


def test_a_service_without_progress_is_not_ready_and_lives() -> None:
    with served(ServiceHealth(reasons=("the store does not answer",))) as url:
        ready, live = asked(f"{url}/health/ready"), asked(f"{url}/health/live")

    assert (ready[0], json.loads(ready[1])) == (503, {"ready": False, "reasons": ["the store does not answer"]})
    assert (live[0], json.loads(live[1])) == (200, {"live": True, "reasons": []})


def test_a_stuck_service_is_neither_live_nor_ready() -> None:
    with served(judge_turn(200.0, 180)) as url:
        ready, live = asked(f"{url}/health/ready"), asked(f"{url}/health/live")

    told = ["the loop has not turned for 200 s, and counts as stuck after 180 s"]
    assert (ready[0], json.loads(ready[1])["reasons"]) == (503, told)
    assert (live[0], json.loads(live[1])["reasons"]) == (503, told)


def test_a_loop_is_judged_by_its_last_turn() -> None:
    now = [100.0]
    turns = Turns(lambda: now[0])
    turns.turned()
    seen = []
    for later in (1.0, 20.0, 200.0):
        now[0] = 100.0 + later
        health = judge_turn(turns.age_s, 180)
        seen.append((health.is_live, health.is_ready))

    assert seen == [(True, True), (True, False), (False, False)]


def test_reasons_of_all_parts_are_told() -> None:
    found = together(ServiceHealth(reasons=("a",)), ServiceHealth(), ServiceHealth(stuck=("b",), reasons=("c",)))

    assert (found.reasons, found.stuck) == (("a", "c"), ("b",))
