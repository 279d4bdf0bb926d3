"""Spans to a collector by OTLP over HTTP, as OpenTelemetry's variables say. Needs no further package."""

from __future__ import annotations

import gzip
import os
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import unquote

from afl.core.text.masking import shown_url
from afl.core.versions import RUNTIME_VERSION
from afl_stream.tracing.otlp import SpanEncoder
from afl_stream.tracing.spans import SCOPE
from afl_stream.tracing.tracer import SpansNotSent

#: Where a collector listens unless a setting or a variable says otherwise.
DEFAULT_ENDPOINT: Final = "http://localhost:4318"
_PATH: Final = "/v1/traces"
_TIMEOUT_S: Final = 10.0
#: Answers of a collector after which the same request may succeed later, by OTLP's specification.
_LATER: Final = frozenset({429, 502, 503, 504})


class OtlpSender:
    """Sends the spans of one process to a collector. One thread sends; any thread may encode."""

    def __init__(self, service: str, endpoint: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        """`endpoint` is the collector's address, like `http://localhost:4318`; without one the OTEL_ variables decide.

        They also decide about headers, time-out, compression, and the resource's attributes.
        """
        variables = os.environ if environ is None else environ
        self.url = _url(endpoint, variables)
        self._headers = {"Content-Type": "application/x-protobuf", **_pairs(_of(variables, "HEADERS"))}
        self._timeout_s = _seconds(_of(variables, "TIMEOUT"))
        self._is_compressed = _of(variables, "COMPRESSION") == "gzip"
        resource = {"service.name": service, **_pairs(variables.get("OTEL_RESOURCE_ATTRIBUTES", ""))}
        if name := variables.get("OTEL_SERVICE_NAME"):
            resource["service.name"] = name
        self._encoder = SpanEncoder(resource, SCOPE, RUNTIME_VERSION)
        self.encoded = self._encoder.encoded

    def export(self, spans: Sequence[bytes]) -> None:
        """Send batches of encoded spans. Raises SpansNotSent, which says whether the collector may take them later."""
        content = self._encoder.request(spans)
        headers = self._headers
        if self._is_compressed:
            content, headers = gzip.compress(content), {**headers, "Content-Encoding": "gzip"}
        try:
            # Settings and variables of the operator name the address.
            asked = urllib.request.Request(self.url, content, headers)
            with urllib.request.urlopen(asked, timeout=self._timeout_s) as answer:
                answer.read()
        except urllib.error.HTTPError as error:
            with error:
                reason = f"{shown_url(self.url)} answers {error.code} {error.reason}"
            raise SpansNotSent(reason, may_try_again=error.code in _LATER) from error
        except (OSError, ValueError) as error:
            found = error.reason if isinstance(error, urllib.error.URLError) else error
            raise SpansNotSent(f"{shown_url(self.url)}: {found}", may_try_again=isinstance(error, OSError)) from error

    def close(self) -> None:
        """Do nothing: each request has a connection of its own."""


def _of(variables: Mapping[str, str], name: str) -> str:
    return variables.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}") or variables.get(f"OTEL_EXPORTER_OTLP_{name}") or ""


def _url(endpoint: str | None, variables: Mapping[str, str]) -> str:
    own = variables.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    if endpoint is None and own:
        return own
    base = endpoint or variables.get("OTEL_EXPORTER_OTLP_ENDPOINT") or DEFAULT_ENDPOINT
    return base.rstrip("/") + _PATH


def _pairs(text: str) -> dict[str, str]:
    """Return `key=value,key=value` as OpenTelemetry's variables write them."""
    entries = (entry.partition("=") for entry in text.split(",") if "=" in entry)
    return {key.strip(): unquote(value.strip()) for key, _, value in entries if key.strip()}


def _seconds(text: str) -> float:
    """Return a time-out: OpenTelemetry for Python writes seconds."""
    try:
        found = float(text)
    except ValueError:
        return _TIMEOUT_S
    return found if found > 0 else _TIMEOUT_S
