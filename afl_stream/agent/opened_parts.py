"""The parts of an agent that are open while it runs: made when it starts, and closed at its end."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from afl_stream.registry.deployment_codec import DeploymentCodec
from afl_stream.sensitive.deployment import deployment_sealer
from afl_stream.settings.config import StreamConfig
from afl_stream.topics.declared import Topology
from afl_stream.tracing.opening import agent_tracing, open_tracer
from afl_stream.transport import Producer, Transport
from afl_stream.wire.codec import Codec

if TYPE_CHECKING:
    from afl_stream.sensitive.sealing import Sealer
    from afl_stream.tracing.agents import AgentTracing
    from afl_stream.tracing.tracer import Tracer

#: How long leaving waits for answers that are on their way, when the grace period is over.
LAST_FLUSH_S: Final = 1.0
#: What an agent calls itself in traces, unless OTEL_SERVICE_NAME says otherwise.
SERVICE_NAME: Final = "afl-stream-agent"


class Closable(Protocol):
    """What is closed in the end."""

    def close(self) -> None: ...


C = TypeVar("C", bound=Closable)


class OpenedParts:
    """Closes what was opened, the last first, and each part also when another one fails to close."""

    def __init__(
        self, config: StreamConfig, transport: Transport, topology: Topology, codec: Codec | None, tracer: Tracer | None
    ) -> None:
        """Take what the caller has made, and closes itself: codec and tracer, or neither."""
        self._config, self._transport, self._topology = config, transport, topology
        self._given_codec, self._given_tracer = codec, tracer
        self._opened = ExitStack()
        self._tracer: Tracer | None = None

    def also(self, part: C) -> C:
        """Return a part, which is closed in the end."""
        self._opened.callback(part.close)
        return part

    def codec(self) -> tuple[Codec, Sealer | None]:
        """Return the codec, and what encrypts for it. Raises ConfigError."""
        if self._given_codec is not None:
            return self._given_codec, None
        sealer = deployment_sealer(self._config)
        return self.also(DeploymentCodec(self._config, self._transport, self._topology, sealer)).codec, sealer

    def producer(self) -> Producer:
        """Return a producer, which is flushed before it is closed."""
        producer = self.also(self._transport.producer())
        self._opened.callback(producer.flush, LAST_FLUSH_S)
        return producer

    def tracing(self) -> AgentTracing | None:
        """Return what makes the agent's spans; None: tracing is off."""
        if self._given_tracer is None and self._tracer is None:
            self._tracer = open_tracer(self._config.tracing, SERVICE_NAME)
        return agent_tracing(self._given_tracer or self._tracer, self._topology.control())

    def close(self, *, is_dead: bool) -> None:
        """Close all; `is_dead`: as a killed process does, nothing but the tracer. Others may be opened after that."""
        opened, tracer = self._opened.pop_all(), self._tracer
        self._tracer = None
        try:
            if not is_dead:
                opened.close()
        finally:
            if tracer is not None:
                tracer.close()
