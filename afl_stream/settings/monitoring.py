"""The sections of the settings about seeing a deployment: metrics and health, and the presence of its processes."""

from __future__ import annotations

from dataclasses import dataclass

from afl_stream.settings.sections import address, flag, number, text


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """Metrics and health of a process: served for Prometheus and probes, and sent by OTLP."""

    port: int | None = number(
        None,
        0,
        "port of `/metrics`, `/health/live` and `/health/ready`; 0: a free one. The processes of `--processes` count "
        "on from it; none: nothing is served",
    )
    host: str = text("127.0.0.1", "address to listen on; 0.0.0.0 for all of this machine")
    otlp: bool = flag(False, "whether the metrics are sent to an OpenTelemetry collector too, with the extra `otel`")
    otlp_endpoint: str | None = address(
        None, "the collector: `http://localhost:4318`; by default as OpenTelemetry's variables say"
    )
    otlp_interval_s: int = number(60, 1, "how often they are sent")
    stuck_after_s: int = number(180, 1, "how long a loop may not turn before the process counts as stuck, and not live")

    @property
    def are_on(self) -> bool:
        """Return whether anything is measured."""
        return self.port is not None or self.otlp


@dataclass(frozen=True, slots=True, kw_only=True)
class PresenceSettings:
    """What a process announces of itself for `afl-stream servers`."""

    interval_s: int = number(
        10, 0, "how often a process announces itself on the topic `presence`, if there is one; 0: never"
    )
