"""Metrics to an OpenTelemetry collector, by OTLP over HTTP: the same that Prometheus reads. Needs the extra `otel`."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    HistogramDataPoint,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Histogram as HistogramPoints
from opentelemetry.sdk.metrics.export import Metric as OtlpMetric
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from afl.core.clock import epoch_ns
from afl.core.monitoring.metrics import Distribution, Family, MetricKind, MetricSource
from afl.core.text.exception_text import exception_line
from afl.core.versions import RUNTIME_VERSION

_log = logging.getLogger(__name__)

_SCOPE: Final = InstrumentationScope("afl.monitoring", RUNTIME_VERSION)
#: How long a collector may take, at the end of the process too.
_TIMEOUT_S: Final = 5.0


class OtlpExport:
    """Sends the metrics of these sources regularly, from a thread of its own, and once more at the end.

    A collector that is away is told of in the log; the next time has all counts, because they are cumulative.
    """

    def __init__(
        self,
        service_name: str,
        sources: Sequence[MetricSource],
        interval_s: float,
        *,
        endpoint: str | None = None,
        exporter: MetricExporter | None = None,
    ) -> None:
        """Send to `endpoint`, like `http://localhost:4318`, or where OpenTelemetry's variables say."""
        self._sources = sources
        self._interval_s = interval_s
        url = None if endpoint is None else f"{endpoint.rstrip('/')}/v1/metrics"
        self._exporter = exporter or OTLPMetricExporter(endpoint=url, timeout=_TIMEOUT_S)
        attributes = {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": service_name}
        self._resource = Resource.create(attributes)
        self._began_ns = epoch_ns()
        self._is_away = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="afl-otlp-metrics", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def close(self) -> None:
        """Send once more, and end. A collector that is away is waited for some seconds."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(2 * _TIMEOUT_S)
        self._exporter.shutdown()

    def send(self) -> bool:
        """Send the values of now; return whether the collector has taken them."""
        now_ns = epoch_ns()
        metrics = [
            _converted(family, self._began_ns, now_ns) for source in self._sources for family in source.collect()
        ]
        scope = ScopeMetrics(scope=_SCOPE, metrics=metrics, schema_url="")
        resource = ResourceMetrics(resource=self._resource, scope_metrics=[scope], schema_url="")
        try:
            found = self._exporter.export(MetricsData(resource_metrics=[resource]))
        except Exception as error:  # noqa: BLE001 - whatever its library raises must not end the thread
            return self._failed(exception_line(error))
        if found is not MetricExportResult.SUCCESS:
            return self._failed("the collector has not taken them")
        self._is_away = False
        return True

    def _failed(self, why: str) -> bool:
        if not self._is_away:
            _log.warning("metrics cannot be sent by OTLP, and are sent again later: %s", why)
        self._is_away = True
        return False

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            self.send()
        self.send()


def _converted(family: Family, began_ns: int, now_ns: int) -> OtlpMetric:
    metric, values = family
    named = [(dict(zip(metric.labels, labels, strict=True)), value) for labels, value in values.items()]
    unit = "s" if metric.name.endswith("_seconds") else "1"
    if metric.kind is MetricKind.HISTOGRAM:
        observed = [
            HistogramDataPoint(
                attributes=attributes,
                start_time_unix_nano=began_ns,
                time_unix_nano=now_ns,
                count=sum(value.counts),
                sum=value.total,
                bucket_counts=value.counts,
                explicit_bounds=value.bounds,
                min=0.0,
                max=float("inf"),
            )
            for attributes, value in named
            if isinstance(value, Distribution)
        ]
        points = HistogramPoints(data_points=observed, aggregation_temporality=AggregationTemporality.CUMULATIVE)
        return OtlpMetric(name=metric.name, description=metric.meaning, unit=unit, data=points)
    numbers = [
        NumberDataPoint(attributes=attributes, start_time_unix_nano=began_ns, time_unix_nano=now_ns, value=float(value))
        for attributes, value in named
        if not isinstance(value, Distribution)
    ]
    data: Sum | Gauge = Gauge(data_points=numbers)
    if metric.kind is MetricKind.COUNTER:
        data = Sum(data_points=numbers, aggregation_temporality=AggregationTemporality.CUMULATIVE, is_monotonic=True)
    return OtlpMetric(name=metric.name, description=metric.meaning, unit=unit, data=data)
