"""Metrics in the form that Prometheus reads. Needs the extra `metrics`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from afl.core.monitoring.metrics import Distribution, Family, MetricKind, MetricSource
from afl.core.monitoring.status_server import Page


class PrometheusPage:
    """The page of these sources' metrics, and of the process itself: its memory, CPU time, files and collector."""

    def __init__(self, sources: Sequence[MetricSource]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Sources(sources))
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def page(self) -> Page:
        """Return the metrics of now."""
        return Page(CONTENT_TYPE_PLAIN_0_0_4, generate_latest(self._registry))


class _Sources(Collector):
    def __init__(self, sources: Sequence[MetricSource]) -> None:
        self._sources = sources

    def describe(self) -> Iterable[Metric]:
        # Without it the registry would collect once at the start, before there is anything.
        return ()

    def collect(self) -> Iterable[Metric]:
        for source in self._sources:
            for family in source.collect():
                yield _converted(family)


def _converted(family: Family) -> Metric:
    metric, values = family
    if metric.kind is MetricKind.HISTOGRAM:
        made = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
        for labels, value in values.items():
            assert isinstance(value, Distribution)
            below = itertools.accumulate(value.counts)
            bounds = [*map(str, map(float, value.bounds)), "+Inf"]
            made.add_metric(labels, [*zip(bounds, map(float, below), strict=True)], value.total)
        return made
    is_counter = metric.kind is MetricKind.COUNTER
    make = CounterMetricFamily if is_counter else GaugeMetricFamily
    plain: CounterMetricFamily | GaugeMetricFamily = make(metric.name, metric.meaning, labels=metric.labels)
    for labels, value in values.items():
        assert not isinstance(value, Distribution)
        plain.add_metric(labels, value)
    return plain
