"""Metrics by OTLP, read by a local collector with OpenTelemetry's own messages."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric as ReceivedMetric

from afl.core.monitoring.otlp import OtlpExport
from tests.unit.core.monitoring.test_monitoring_server import Work


@contextmanager
def collector() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """Yield a collector's address, and what it receives: path and body of each request."""
    received: list[tuple[str, bytes]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_collector_receives_sums_gauges_and_histograms_at_the_end_at_the_latest() -> None:
    with collector() as (address, received):
        export = OtlpExport("afl-stream-desk", [Work()], 3_600, endpoint=address)
        export.start()
        export.close()

    path, body = received[-1]
    request = ExportMetricsServiceRequest.FromString(body)
    (resource,) = request.resource_metrics
    named = {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}
    found: dict[str, ReceivedMetric] = {m.name: m for scope in resource.scope_metrics for m in scope.metrics}
    assert path == "/v1/metrics"
    assert named["service.name"] == "afl-stream-desk"
    assert found["afl_done_total"].sum.is_monotonic
    assert found["afl_done_total"].sum.data_points[0].as_double == 3
    assert found["afl_lag"].gauge.data_points[0].attributes[0].value.string_value == "t1"
    (took,) = found["afl_took_seconds"].histogram.data_points
    assert (list(took.bucket_counts), took.count, took.sum) == ([1, 0, 1], 2, 5.05)
    assert list(took.explicit_bounds) == [0.1, 1.0]
    assert found["afl_took_seconds"].unit == "s"


def test_a_collector_that_is_away_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    class Away:
        def export(self, *_args: object, **_options: object) -> object:
            raise ConnectionError("nobody listens")

    export = OtlpExport("afl-stream-desk", [Work()], 3_600, exporter=Away())  # type: ignore[arg-type]  # all that is asked of one

    assert [export.send(), export.send()] == [False, False]
    assert len([record for record in caplog.records if "by OTLP" in record.getMessage()]) == 1
