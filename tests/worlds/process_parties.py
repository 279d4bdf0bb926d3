"""Parties of a deployment that are processes of their own, on a real broker: started, killed, frozen, waited for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from afl.engine.model.store import ENDED_STATUSES
from tests.eventually import eventually
from tests.worlds.facets import facets_with_events
from tests.worlds.party_handlers import argument_for
from tests.worlds.processes import DEADLINE_S, Party, Processes

if TYPE_CHECKING:
    from tests.worlds.deployment import Deployment

#: What is run as a process.
_PARTY: Final = "tests.worlds.party"


class ProcessParties:
    """Starts the parties of one deployment, which has to be named with `serve` first."""

    def __init__(self, processes: Processes, environment: Mapping[str, str]) -> None:
        self._processes = processes
        self.environment = dict(environment)

    def serve(self, deployment: Deployment) -> None:
        self._deployment = deployment

    def evaluator(
        self, at: str = "", passes: int = 1, act: str = "kill", environment: Mapping[str, str] | None = None
    ) -> Party:
        """Start an evaluator, which may kill or freeze itself at a point."""
        return self._party("evaluator", [], at, passes, act, environment or {})

    def agent(
        self, at: str = "", passes: int = 1, act: str = "kill", environment: Mapping[str, str] | None = None
    ) -> Party:
        """Start an agent for all facets of the programs."""
        words = ["--group", self._deployment.agent_group]
        for facet in facets_with_events(self._deployment.programs):
            words += ["--handlers", argument_for(facet)]
        return self._party("agent", words, at, passes, act, environment or {})

    def agent_of(self, module: str, at: str = "", passes: int = 1, act: str = "kill") -> Party:
        """Start an agent with the handlers of a module."""
        words = ["--group", self._deployment.agent_group, "--handlers", module]
        return self._party("agent", words, at, passes, act, {})

    def poller(self, module: str, at: str = "", passes: int = 1, act: str = "kill") -> Party:
        """Start a poller of the store with the handlers of a module."""
        return self._party("poller", ["--handlers", module], at, passes, act, {})

    def registry_agent(
        self, *topics: str, group: str | None = None, at: str = "", passes: int = 1, act: str = "kill"
    ) -> Party:
        """Start an agent that handles what is registered in the store."""
        words = ["--registry", *(["--group", group] if group else [])]
        for pattern in topics:
            words += ["--topics", pattern]
        return self._party("agent", words, at, passes, act, {})

    def audit(
        self, file: Path, at: str = "", passes: int = 1, act: str = "kill", environment: Mapping[str, str] | None = None
    ) -> Party:
        """Start an audit that writes to this file."""
        return self._party("audit", ["--file", str(file)], at, passes, act, environment or {})

    def bridge(self, module: str, at: str = "", passes: int = 1, act: str = "kill") -> Party:
        """Start a bridge that does what a module declares."""
        return self._party("bridge", ["--handlers", module], at, passes, act, {})

    def command(self, *words: str, **environment: str) -> Party:
        """Start the command line as people do."""
        return self._processes.start(words[0], "afl_stream", *words, environment={**self.environment, **environment})

    def _party(
        self, role: str, words: Sequence[str], at: str, passes: int, act: str, environment: Mapping[str, str]
    ) -> Party:
        fate = ["--at", at, "--passes", str(passes), "--act", act] if at else []
        return self._processes.start(role, _PARTY, role, *words, *fate, environment={**self.environment, **environment})

    def await_members(self, group: str, count: int) -> None:
        """Wait until the group has so many members, each with partitions."""
        kafka = self._deployment.kafka
        eventually(lambda: self._processes.check_alive() and kafka.members(group) == count, DEADLINE_S, interval_s=0.1)

    def finish(self, workflow_ids: Sequence[str]) -> None:
        """Wait until these workflows have ended and all that was to be published is."""
        eventually(partial(self._is_over, workflow_ids), DEADLINE_S, interval_s=0.02)

    def _is_over(self, workflow_ids: Sequence[str]) -> bool:
        self._processes.check_alive()
        return all(map(self.has_ended, workflow_ids)) and not self._deployment.store.outbox()

    def has_ended(self, workflow_id: str) -> bool:
        row = self._deployment.store.load_workflow(workflow_id)
        return row is not None and row.status in ENDED_STATUSES
