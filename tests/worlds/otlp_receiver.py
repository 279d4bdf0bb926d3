"""A collector of a test: it takes spans by OTLP over HTTP, and reads them with OpenTelemetry's own classes."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class OtlpReceiver:
    """What was received. `statuses` are the answers to the next requests; 200 follows."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.statuses: list[int] = []
        self.url = ""

    def spans(self) -> list[tuple[str, Span]]:
        """Return each span with the name of the service that sent it."""
        found = []
        for request in self.requests.copy():
            for of_resource in request.resource_spans:
                named = {a.key: a.value.string_value for a in of_resource.resource.attributes}
                found += [(named["service.name"], span) for scope in of_resource.scope_spans for span in scope.spans]
        return found


@contextmanager
def receiving() -> Iterator[OtlpReceiver]:
    """Yield a receiver that listens on a free port of this machine."""
    receiver = OtlpReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            status = receiver.statuses.pop(0) if receiver.statuses else 200
            if status == 200:
                if self.headers["Content-Encoding"] == "gzip":
                    content = gzip.decompress(content)
                assert self.path == "/v1/traces"
                receiver.headers.append(dict(self.headers))
                receiver.requests.append(ExportTraceServiceRequest.FromString(content))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
