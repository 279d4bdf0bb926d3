"""Every way to have a workflow's events handled: pollers and runners on a store, agents on topics."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.core.handlers.modules import ModuleLoader, register_module
from afl.engine.model.store import StepDocument, WorkflowRow
from afl.evaluation.evaluator import Evaluator
from afl.runtime import AgentPoller, AgentPollerConfig, RegistryRunner, RegistryRunnerConfig
from afl.stores.memory.store import MemoryStore
from afl.stores.public.persistence import EngineStore
from afl.workers.polling_server import PollingServer
from afl.workers.service import RunnerConfig, RunnerService
from afl_stream.agent.agent import Agent, AgentConfig
from afl_stream.agent.registry_agent import RegistryAgent
from afl_stream.commands.stored_handlers import StoredHandlers, StoringRegistrar
from afl_stream.embedded.transport import EmbeddedTransport
from tests.eventually import eventually
from tests.worlds.world import embedded

DEADLINE_S = 30.0


class Registrar(Protocol):
    """What every model offers: modules, and single functions of modules."""

    def register_module(self, module_uri: str, facets: Sequence[str] = ()) -> None: ...

    @property
    def register_handler(self) -> Callable[..., None]: ...


class Model(Protocol):
    """A deployment of one kind, with the process that handles its events."""

    registrar: Registrar

    def start(self, workflow: str, inputs: Mapping[str, Any]) -> str: ...
    def work(self) -> None:
        """Start the process that handles events."""

    def row(self, workflow_id: str) -> WorkflowRow | None: ...
    def steps(self, workflow_id: str) -> list[StepDocument]: ...
    def close(self) -> None: ...


class OnTasks:
    """A poller or runner on a store in memory."""

    def __init__(self, program: str, server: Callable[[EngineStore, Evaluator], Any]) -> None:
        self._store = MemoryStore()
        self._evaluator = Evaluator(self._store)
        self._program = CompiledProgram(compile_text(program).program_json)
        self.registrar: Any = server(self._store, self._evaluator)
        self._thread: threading.Thread | None = None

    def start(self, workflow: str, inputs: Mapping[str, Any]) -> str:
        return self._evaluator.execute(workflow, dict(inputs), self._program).workflow_id

    def work(self) -> None:
        server: PollingServer = self.registrar
        self._thread = threading.Thread(target=server.start, daemon=True)
        self._thread.start()

    def row(self, workflow_id: str) -> WorkflowRow | None:
        return self._store.load_workflow(workflow_id)

    def steps(self, workflow_id: str) -> list[StepDocument]:
        return self._store.load_steps(workflow_id)

    def close(self) -> None:
        if self._thread is not None:
            eventually(lambda: self.registrar.is_running)
            self.registrar.stop()
            self._thread.join(DEADLINE_S)
            assert not self._thread.is_alive()


class Registering:
    """Registers in the store, as `afl-stream handlers register` does."""

    def __init__(self, registry: StoredHandlers) -> None:
        self._registry = registry

    def register_module(self, module_uri: str, facets: Sequence[str] = ()) -> None:
        registrar = StoringRegistrar()
        register_module(registrar, ModuleLoader(), module_uri, facets)
        self._save(registrar)

    def register_handler(self, **details: Any) -> None:
        registrar = StoringRegistrar()
        registrar.register_handler(**details)
        self._save(registrar)

    def _save(self, registrar: StoringRegistrar) -> None:
        for registration in registrar.registered:
            self._registry.save(registration)


class OnTopics:
    """An agent of topics beside an evaluator, on the embedded transport."""

    def __init__(self, program: str, *, from_registry: bool) -> None:
        self._deployment = embedded(None, program)
        self._transport = EmbeddedTransport(self._deployment.broker)
        config = AgentConfig(stream=self._deployment.config, commit_interval_s=0.0, poll_timeout_s=0.01)
        self.registrar: Any
        if from_registry:
            registry = StoredHandlers(self._deployment.store)
            self._agent: Agent = RegistryAgent(registry, config, self._transport, refresh_interval_s=0.0)
            self.registrar = Registering(registry)
        else:
            self._agent = Agent(config, self._transport)
            self.registrar = self._agent
        self._evaluator = self._deployment.evaluator()
        self._works = False

    def start(self, workflow: str, inputs: Mapping[str, Any]) -> str:
        return self._deployment.client.start(workflow, dict(inputs))

    def work(self) -> None:
        self._works = True

    def row(self, workflow_id: str) -> WorkflowRow | None:
        # Evaluator and agent take their turns at each look.
        self._evaluator.turn()
        if self._works:
            self._agent.turn(0.0)
        return self._deployment.store.load_workflow(workflow_id)

    def steps(self, workflow_id: str) -> list[StepDocument]:
        return self._deployment.steps(workflow_id)

    def close(self) -> None:
        self._agent.close()
        self._evaluator.stop()


def poller(store: EngineStore, evaluator: Evaluator) -> AgentPoller:
    return AgentPoller(store, evaluator, AgentPollerConfig(poll_interval_ms=10))


def registry_runner(store: EngineStore, evaluator: Evaluator) -> RegistryRunner:
    return RegistryRunner(store, evaluator, RegistryRunnerConfig(poll_interval_ms=10))


def runner_service(store: EngineStore, evaluator: Evaluator) -> RunnerService:
    return RunnerService(store, evaluator, RunnerConfig(poll_interval_ms=10, http_port=0))


MODELS: dict[str, Callable[[str], Model]] = {
    "AgentPoller": lambda program: OnTasks(program, poller),
    "RegistryRunner": lambda program: OnTasks(program, registry_runner),
    "RunnerService": lambda program: OnTasks(program, runner_service),
    "Agent": lambda program: OnTopics(program, from_registry=False),
    "RegistryAgent": lambda program: OnTopics(program, from_registry=True),
}


def ended(model: Model, workflow: str, **inputs: Any) -> WorkflowRow:
    """How a run of this workflow ends."""
    workflow_id = model.start(workflow, inputs)
    found: list[WorkflowRow] = []

    def look() -> bool:
        row = model.row(workflow_id)
        if row is not None and row.status in ("COMPLETED", "ERROR"):
            found.append(row)
        return bool(found)

    eventually(look, DEADLINE_S, interval_s=0.005)
    return found[0]
