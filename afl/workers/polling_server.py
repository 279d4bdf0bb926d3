"""The common base of servers that poll for tasks: start, stop, poll once, and be listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from afl.compiled.program import Node
from afl.core.clock import Clock, SystemClock
from afl.core.probes import Probe, no_probe
from afl.evaluation.evaluator import Evaluator
from afl.stores.public.persistence import EngineStore
from afl.workers.server_record import ServerRecord
from afl.workers.task_loop import LoopSettings, TaskLoop
from afl.workers.task_work import HandlerSource


class PollingConfig(Protocol):
    """The settings of every such server."""

    service_name: str
    server_group: str
    server_name: str
    task_list: str
    poll_interval_ms: int
    max_concurrent: int
    heartbeat_interval_ms: int
    lease_ms: int
    shutdown_timeout_ms: int
    max_stuck_handlers: int


class PollingServer:
    """A server on the task loop. Its handlers come from a `HandlerSource`."""

    def __init__(  # noqa: PLR0913 - the parts of a server, wired by its makers
        self,
        persistence: EngineStore,
        evaluator: Evaluator,
        config: PollingConfig,
        source: HandlerSource,
        *,
        clock: Clock | None = None,
        probe: Probe = no_probe,
        topics: Sequence[str] = (),
        renew_interval_ms: int = 0,
        beside: Callable[[], AbstractContextManager[object]] = nullcontext,
        sweep: Callable[[], int] | None = None,
    ) -> None:
        self._persistence = persistence
        self._evaluator = evaluator
        self._clock = clock or SystemClock()
        self._server_record = ServerRecord(
            persistence,
            self._clock,
            service_name=config.service_name,
            server_group=config.server_group,
            server_name=config.server_name,
            topics=topics,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
        )
        settings = LoopSettings(
            task_list=config.task_list,
            poll_interval_ms=config.poll_interval_ms,
            max_concurrent=config.max_concurrent,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            lease_ms=config.lease_ms,
            renew_interval_ms=renew_interval_ms,
            shutdown_timeout_ms=config.shutdown_timeout_ms,
            max_stuck_handlers=config.max_stuck_handlers,
        )
        self._loop = TaskLoop(
            persistence,
            evaluator,
            source,
            self._server_record,
            settings,
            clock=self._clock,
            probe=probe,
            beside=beside,
            sweep=sweep,
        )

    @property
    def server_id(self) -> str:
        """The server's id, unique to this instance: the owner of its claims."""
        return self._server_record.server_id

    @property
    def is_running(self) -> bool:
        """Return whether `start` is running."""
        return self._loop.is_running

    def start(self) -> None:
        """Register as a server and work until `stop`; blocks.

        Raises errors after which it cannot continue: HandlersStuck, when too many handlers still run after their time
        was up.
        """
        self._loop.run()

    def stop(self) -> None:
        """Let `start` finish claimed tasks, sign off and return. Safe in any thread, and in a signal handler."""
        self._loop.stop()

    def poll_once(self) -> int:
        """Do the waiting tasks, at most `max_concurrent`, one after the other; return how many.

        Starts no thread: synchronous handlers have no time limit.
        """
        return self._loop.run_once()

    def cache_workflow_ast(self, workflow_id: str, ast: Node, program_ast: Node | None = None) -> None:
        """Set the program of a workflow, which must be the one that it was started with. This is optional."""
        self._loop.cache_workflow_ast(workflow_id, ast, program_ast)

    def update_step(self, step_id: str, partial_result: Mapping[str, Any]) -> None:
        """Merge a partial result into a waiting step's returns. Raises ValueError ("not found") for an unknown step."""
        self._evaluator.update_step(step_id, partial_result, is_checked=True)
