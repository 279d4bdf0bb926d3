"""The metrics of a runner: tasks done, by name and result."""

from prometheus_client.parser import text_string_to_metric_families

from afl.core.monitoring.prometheus import PrometheusPage
from afl.engine.model.entities import HandledCount
from afl.workers.service.metrics import POLLER_METRICS, PollerMetrics


def test_a_runner_tells_what_it_has_done() -> None:
    source = PollerMetrics(lambda: [HandledCount("shop.Pay", 12, 3)], lambda: 2, lambda: 1.5)

    families = text_string_to_metric_families(PrometheusPage([source]).page().body.decode())

    found = {(s.name, *sorted(s.labels.items())): s.value for family in families for s in family.samples}
    assert found["afl_poller_tasks_total", ("result", "completed"), ("task", "shop.Pay")] == 12
    assert found["afl_poller_tasks_total", ("result", "failed"), ("task", "shop.Pay")] == 3
    assert found["afl_poller_in_flight",] == 2
    assert found["afl_poller_silent_seconds",] == 1.5
    assert {metric.name for metric in POLLER_METRICS} <= {name for name, *_ in found}
