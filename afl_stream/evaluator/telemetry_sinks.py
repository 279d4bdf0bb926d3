"""The telemetry of a service, as the settings say: off, lines of JSON, or OpenTelemetry."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext

from afl.telemetry.logging_sink import LOGGER_NAME, JsonLinesFormatter, LoggingSink, line_of
from afl.telemetry.telemetry import Telemetry, TelemetryEvent, TelemetrySink
from afl_stream.errors import ConfigError
from afl_stream.settings.sections import TelemetrySettings

#: What a service calls itself in OpenTelemetry, unless OTELSERVICE_NAME says otherwise.
SERVICE_NAME = "afl-stream-evaluator"


def open_telemetry(settings: TelemetrySettings) -> Telemetry | None:
    """Return the telemetry of the runs, which its owner closes; None if it is off: then the engine calls nothing.

    Raises ConfigError for a file that cannot be written, and if the extra `otel` is not installed.
    """
    if settings.sink == "logging":
        return Telemetry(sink=_LinesOfJson(settings))
    if settings.sink == "opentelemetry":
        return Telemetry(sink=_open_telemetry_sink(settings.endpoint))
    return None


class _LinesOfJson(LoggingSink):
    """Lines of JSON on a handler of their own: a service's other log lines are not JSON, and stay where they are."""

    def __init__(self, settings: TelemetrySettings) -> None:
        try:
            self._handler = (
                logging.StreamHandler()
                if settings.file is None
                else logging.FileHandler(settings.file, encoding="utf-8", delay=False)
            )
        except OSError as error:
            expected = f"a file that can be appended to ({error.strerror or error})"
            raise ConfigError("telemetry", "file", settings.file, expected) from error
        self._handler.setFormatter(JsonLinesFormatter())
        # Not one of the process's loggers: two services in one process must not write to each other's files.
        logger = logging.Logger("afl.telemetry", logging.INFO)
        logger.addHandler(self._handler)
        super().__init__(logger, values=settings.values, states=settings.detail == "states")

    def emit_all(self, events: Sequence[TelemetryEvent]) -> None:
        """Write the lines of one commit together: the same lines as one by one, in the form of `JsonLinesFormatter`."""
        lines = []
        for event in events:
            level = self.level_of(event)
            if level:
                fields = self.fields_of(event)
                fields["level"], fields["logger"] = logging.getLevelName(level), LOGGER_NAME
                lines.append(f"{line_of(fields)}\n")
        stream = self._handler.stream
        if lines and stream is not None:
            with self._handler.lock or nullcontext():
                stream.write("".join(lines))
                stream.flush()

    def close(self) -> None:
        self._handler.close()


def _open_telemetry_sink(endpoint: str | None) -> TelemetrySink:
    try:
        from afl.telemetry.otel_sink import OpenTelemetrySink
    except ModuleNotFoundError as error:
        expected = "an installed extra: pip install afl-stream[otel]"
        raise ConfigError("telemetry", "sink", f"opentelemetry without {error.name}", expected) from error
    return OpenTelemetrySink.exporting(SERVICE_NAME, endpoint)
