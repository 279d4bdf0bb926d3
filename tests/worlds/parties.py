"""The parties of a deployment that run in the test's process: evaluators and agents, each with its own transport."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from afl_stream.agent.agent import Agent, AgentConfig, HandlerContext
from afl_stream.embedded.transport import EmbeddedConsumer, EmbeddedTransport, Faults
from afl_stream.evaluator.control_loop import ControlStats
from afl_stream.evaluator.service import EvaluatorService

if TYPE_CHECKING:
    from tests.worlds.deployment import Deployment

Handler = Callable[[dict[str, Any], HandlerContext], dict[str, Any]]


class Interruptions(Faults):
    """Faults, and things that happen elsewhere while a party stands between two of its steps."""

    def __init__(self) -> None:
        super().__init__()
        self._meanwhile: dict[str, tuple[int, Callable[[], None]]] = {}

    def happens_at(self, point: str, action: Callable[[], None], passes: int = 0) -> None:
        """Run the action the next time that the point is reached, after `passes` without."""
        self._meanwhile[point] = (passes, action)

    def probe(self, point: str) -> None:
        passes, action = self._meanwhile.get(point, (1, None))
        if action is not None:
            if passes:
                self._meanwhile[point] = (passes - 1, action)
            else:
                del self._meanwhile[point]
                action()
        super().probe(point)


class Evaluator:
    """One evaluator process: its transport, its store connection and its service."""

    def __init__(self, deployment: Deployment, faults: Faults) -> None:
        self.faults = faults
        self.transport = deployment.cluster.transport(faults)
        self.store = deployment.open_store(faults)
        self._poll_s = deployment.cluster.poll_s
        self.service = EvaluatorService(
            deployment.config,
            self.transport,
            self.store,
            clock=deployment.clock,
            telemetry=deployment.telemetry,
            probe=faults.probe,
            scripts=deployment.scripts,
            tracer=deployment.tracer,
        )

    def turn(self) -> int:
        return self.service.loop.run_once(self._poll_s)

    @property
    def stats(self) -> ControlStats:
        return self.service.loop.stats()

    @property
    def is_idle(self) -> bool:
        return self.service.loop.is_idle()

    def consumer(self) -> EmbeddedConsumer:
        """Its membership of the evaluators' group, on the embedded broker."""
        assert isinstance(self.transport, EmbeddedTransport)
        (found,) = [c for c in self.transport._consumers if c.group is not None and not c._closed]
        return found

    def partitions(self) -> set[int]:
        """Return the control partitions that it owns."""
        return {place.partition for place in self.stats.owned if place.topic.endswith("control")}

    def stop(self) -> None:
        self.service.close()
        self.transport.close()

    def kill(self) -> None:
        self.transport.abandon()


class Worker:
    """One agent process with handlers for some facets."""

    def __init__(self, deployment: Deployment, handlers: Mapping[str, Handler], faults: Faults) -> None:
        self.faults = faults
        self.facets = tuple(handlers)
        self.transport = deployment.cluster.transport(faults)
        self._poll_s = deployment.cluster.poll_s
        config = AgentConfig(
            stream=deployment.config,
            name="worker",
            group=deployment.agent_group,
            commit_interval_s=0.0,
            poll_timeout_s=0.0,
        )
        self.agent = Agent(config, self.transport, probe=faults.probe, tracer=deployment.tracer)
        for facet, handler in handlers.items():
            self.agent.register(facet, handler)

    def join(self) -> None:
        self.agent.start()

    def turn(self) -> int:
        return self.agent.run_once(self._poll_s)

    def stop(self) -> None:
        self.agent.close()
        self.transport.close()

    def kill(self) -> None:
        self.agent.abandon(KeyboardInterrupt())
        self.transport.abandon()
