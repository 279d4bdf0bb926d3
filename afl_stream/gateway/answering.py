"""Answers of workers: checked, produced to the control topic, and acknowledged by the broker before anything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from afl.core.handlers.returned import plain_result, plain_update
from afl.core.probes import Probe, no_probe
from afl_stream.agent.records import AgentRecords
from afl_stream.agent.work import Outgoing
from afl_stream.errors import StreamError
from afl_stream.gateway.lease_ids import LeasedEvent
from afl_stream.gateway.leases import HeldEvent
from afl_stream.registry.deployment_codec import DeploymentCodec
from afl_stream.sensitive.deployment import deployment_sealer
from afl_stream.settings.config import StreamConfig
from afl_stream.topics.declared import Topology
from afl_stream.transport import Transport, produce_acknowledged

#: How long the broker may take to acknowledge an answer.
ACKNOWLEDGED_S: Final = 10.0


class ResultRefused(StreamError):
    """A result does not have the returns that its facet declares. The lease goes on."""


class Answers:
    """Sends the answers of workers. Any thread may use it."""

    def __init__(self, config: StreamConfig, transport: Transport, name: str, *, probe: Probe = no_probe) -> None:
        topology = Topology(config)
        sealer = deployment_sealer(config)
        self._config = config
        self._schemas = DeploymentCodec(config, transport, topology, sealer)
        self._records = AgentRecords(topology, self._schemas.codec, name, sealer=sealer)
        self._producer = transport.producer()
        self._probe = probe

    def complete(self, event: LeasedEvent, result: Mapping[str, Any], held: HeldEvent | None) -> None:
        """Send a result. Raises ResultRefused, BadResult, ValueRefused, EventTooLarge and BrokerUnavailable."""
        plain = plain_result(dict(result))
        returns = None if held is None else held.context.returns
        # A missing return may have been an update of this worker or another: the evaluator knows.
        if returns is not None and returns.has_unknown(plain):
            mismatch = returns.mismatch(event.facet, plain)
            if mismatch is not None:
                raise ResultRefused(mismatch)
        answer = self._records.continued(event.event(), plain, self._group(event), event.wire_headers())
        self._send(self._records.with_tries(answer, event.tries))

    def fail(self, event: LeasedEvent, error_type: str, message: str) -> None:
        """Send a failure. Raises BrokerUnavailable."""
        answer = self._records.failed(event.event(), error_type, message, self._group(event), event.wire_headers())
        self._send(self._records.with_tries(answer, event.tries))

    def update(self, event: LeasedEvent, partial: Mapping[str, Any]) -> None:
        """Send what is known so far. Raises as `complete`."""
        plain = plain_update(dict(partial))
        self._send(self._records.updated(event.event(), plain, self._group(event), event.wire_headers()), probed=False)

    def _group(self, event: LeasedEvent) -> str:
        return self._config.agent_group(event.facet)

    def _send(self, answer: Outgoing, *, probed: bool = True) -> None:
        assert answer.key is not None
        assert answer.value is not None
        produce_acknowledged(
            self._producer,
            answer.topic,
            answer.value,
            key=answer.key,
            headers=answer.headers,
            timeout_s=ACKNOWLEDGED_S,
        )
        if probed:
            self._probe("gateway.answered")

    def close(self) -> None:
        """Close what it sends with."""
        try:
            self._producer.close()
        finally:
            self._schemas.close()
