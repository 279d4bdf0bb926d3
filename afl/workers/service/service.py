"""RunnerService: poll tasks and waiting steps, start workflows, and report the status over HTTP."""

from __future__ import annotations

import logging
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

from afl.core.clock import Clock, SystemClock
from afl.core.handlers.modules import ModuleLoader
from afl.core.ids import workflow_of
from afl.core.monitoring.health import ServiceHealth, health_routes
from afl.core.monitoring.serving import ServiceMetrics, metrics_route
from afl.core.monitoring.status_server import Answer, Page, StatusServer
from afl.core.probes import Probe, no_probe
from afl.core.versions import RUNTIME_VERSION, STEP_SCHEMA_VERSION, WORKFLOW_VERSION
from afl.evaluation.evaluator import Evaluator
from afl.stores.public.persistence import EngineStore
from afl.workers.handler_routes import HandlerRoutes, TakesModules
from afl.workers.polling_server import PollingServer
from afl.workers.service.flow_programs import FlowPrograms, FlowSource
from afl.workers.service.metrics import PollerMetrics
from afl.workers.service.runner_handlers import RunnerHandlers
from afl.workers.service.settings import RunnerConfig as RunnerConfig
from afl.workers.service.task_names import EXECUTE_TASK_NAME as EXECUTE_TASK_NAME
from afl.workers.service.task_names import RESUME_TASK_NAME as RESUME_TASK_NAME
from afl.workers.service.waiting_steps import WaitingSteps
from afl.workers.service.workflow_starts import WorkflowStarts
from afl.workers.task_context import TaskContext
from afl.workers.tool_registry import ToolRegistry

_log = logging.getLogger(__name__)

#: A loop that has not come round for so long, and for three times its poll interval, has stopped getting on.
SILENCE_LIMIT_S: Final = 30.0
_POLLS_MISSED: Final = 3


class RunnerService(TakesModules, PollingServer):
    """A server that works on the tasks of a store, and finds waiting steps whose task or wake-up was lost.

    The tasks are those of facets, done by the handlers of a tool registry and of modules; `afl:execute`, which starts a
    workflow; and `afl:resume`, which continues a step. Every work item is claimed by a lease, which its lock
    (`runner:task:<id>`) shows.
    """

    def __init__(
        self,
        persistence: EngineStore,
        evaluator: Evaluator,
        config: RunnerConfig | None = None,
        tool_registry: ToolRegistry | None = None,
        *,
        flows: FlowSource | None = None,
        clock: Clock | None = None,
        probe: Probe = no_probe,
    ) -> None:
        """`flows` is where `afl:execute` finds its flows; without it, in a store that keeps them (`get_flow`)."""
        self._config = config or RunnerConfig()
        self._tool_registry = tool_registry if tool_registry is not None else ToolRegistry()
        self._routes = HandlerRoutes(ModuleLoader())
        clock = clock or SystemClock()
        starts = WorkflowStarts(persistence, evaluator, FlowPrograms(persistence, flows), clock, probe)
        self._tool_registry.register(EXECUTE_TASK_NAME, starts.start)
        self._waiting = WaitingSteps(
            persistence,
            evaluator,
            clock,
            task_list=self._config.task_list,
            lock_ms=self._config.lock_duration_ms,
            quiet_ms=self._config.claim_ms,
            resume=lambda workflow_id: self._loop.resume(workflow_id),
            is_stopping=lambda: self._loop.is_stopping,
        )
        self._serves_http = True
        source = PollerMetrics(
            lambda: self._server_record.counts(), lambda: len(self._loop.jobs()), lambda: self._loop.liveness.silent_s()
        )
        _, metrics = metrics_route((ServiceMetrics("poller", self._judged), source))
        routes = {"/health": self._health, "/status": lambda: (HTTPStatus.OK, self.status()), "/metrics": metrics}
        self._http = StatusServer({**routes, **health_routes(self._judged)})
        super().__init__(
            persistence,
            evaluator,
            replace(self._config, lease_ms=self._config.claim_ms),
            RunnerHandlers(self._tool_registry, self._routes, self._config.topics, self._continue_with),
            clock=clock,
            probe=probe,
            topics=self._config.topics,
            renew_interval_ms=self._config.lock_extend_interval_ms,
            beside=self._serving_status,
            sweep=self._waiting.sweep_when_due,
        )

    # --- work -------------------------------------------------------------------------------------------------------

    def run_once(self) -> int:
        """Look for waiting steps, then do the waiting tasks, at most `max_concurrent`; return how many.

        Starts no thread, and serves no HTTP.
        """
        self._waiting.sweep()
        return self.poll_once()

    def run_until_idle(self) -> None:
        """Look for waiting steps, then work as `start` does, and end when no work is left. Serves no HTTP."""
        self._waiting.sweep()
        self._serves_http = False
        try:
            self._loop.run(until_idle=True)
        finally:
            self._serves_http = True

    def refuse_to_start(self, error: BaseException) -> None:
        """Appear in the list of servers as one that could not start. Raises the store's errors."""
        self._server_record.register([])
        self._server_record.sign_off(error)

    def tasks_at_work(self) -> list[str]:
        """Return the name of each task that is being worked on now."""
        return [job.task.name for job in self._loop.jobs()]

    @property
    def given_back(self) -> int:
        """The number of tasks given back when `start` ended, because they exceeded `shutdown_timeout_ms`."""
        return self._loop.given_back

    @property
    def left_undone(self) -> int:
        """The number of tasks left claimed because their ends could not be stored."""
        return self._loop.left_undone

    def _continue_with(self, payload: Mapping[str, Any], context: TaskContext) -> None:
        """Do an `afl:resume` task: the step continues with the returns that another process has written to it."""
        step_id = str(payload.get("step_id") or context.step_id or "")
        if not step_id:
            raise ValueError(f"a task {RESUME_TASK_NAME} names no step_id, neither in its data nor itself")
        workflow_id = str(payload.get("workflow_id") or context.workflow_id or workflow_of(step_id) or "")
        self._evaluator.continue_step(step_id, {})
        self._loop.resume(workflow_id)

    # --- status -----------------------------------------------------------------------------------------------------

    @property
    def http_port(self) -> int | None:
        """The port of the status server; None while it does not serve."""
        return self._http.port

    def status(self) -> dict[str, object]:
        """Return the document of `/status`: the identity, the state, the work and the counts."""
        config, server_record = self._config, self._server_record
        jobs = self._loop.jobs()
        document: dict[str, object] = {
            "server_id": self.server_id,
            "state": server_record.state,
            "running": self.is_running,
            "uptime_ms": server_record.up_ms,
            "handled": {
                count.handler: {"handled": count.handled, "not_handled": count.not_handled}
                for count in server_record.counts()
            },
            "active_work_items": len(jobs),
            "active": [
                {"task_id": job.task.uuid, "name": job.task.name, "step_id": job.task.step_id, "for_ms": job.age_ms()}
                for job in jobs
            ],
            "silent_ms": int(self._loop.liveness.silent_s() * 1_000),
            "obstacle": self._loop.liveness.obstacle,
            "config": {
                "server_group": config.server_group,
                "service_name": config.service_name,
                "server_name": config.server_name,
                "topics": list(config.topics),
                "max_concurrent": config.max_concurrent,
                "poll_interval_ms": config.poll_interval_ms,
            },
            "versions": {
                "runtime": RUNTIME_VERSION,
                "workflow": WORKFLOW_VERSION,
                "step_schema": STEP_SCHEMA_VERSION,
                "python": platform.python_version(),
            },
        }
        return document

    def _judged(self) -> ServiceHealth:
        """Return the health for probes: a runner that does not reach its store is not ready, and lives."""
        status, document = self._health()
        assert not isinstance(document, Page)
        return ServiceHealth(reasons=() if status is HTTPStatus.OK else (str(document["reason"]),))

    def _health(self) -> Answer:
        """Say whether it makes progress: its loop completes rounds, and reaches its store; or it drains."""
        liveness = self._loop.liveness
        limit_s = max(SILENCE_LIMIT_S, _POLLS_MISSED * self._config.poll_interval_ms / 1_000)
        silent_s = liveness.silent_s()
        if self._loop.is_stopping or silent_s <= limit_s:
            return HTTPStatus.OK, {"ok": True}
        reason = f"no poll has succeeded for {silent_s:.0f} s"
        if liveness.obstacle is not None:
            reason += f": {liveness.obstacle}"
        return HTTPStatus.SERVICE_UNAVAILABLE, {"ok": False, "reason": reason}

    @contextmanager
    def _serving_status(self) -> Iterator[None]:
        if not self._serves_http:
            yield
            return
        self._loop.liveness.beat()
        config = self._config
        port = self._http.start(config.http_host, config.http_port, config.http_max_port_attempts)
        _log.info("server %s: status at port %d; Ctrl-C drains and ends it", self.server_id, port)
        try:
            yield
        finally:
            self._http.stop()
