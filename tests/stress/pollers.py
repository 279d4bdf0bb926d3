"""The pollers of a trial: in threads of this process, or each in a process of its own that is used for many trials."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Final, Protocol

from afl.evaluation.evaluator import Evaluator
from afl.stores.mongo.store import MongoStore
from afl.stores.public.persistence import EngineStore
from afl.workers.poller import AgentPoller, AgentPollerConfig
from afl.workers.task_context import TaskContext
from tests.stress.programs import HANDLERS
from tests.stress.stores import StoreAddress, open_store

#: Far longer than a trial: no claim expires here, so each event is handled once.
LEASE_MS: Final = 600_000
_JOIN_S: Final = 60.0
#: How often a poller looks that finds nothing. Behind a wire, eight that look often are all that a small server does.
_POLL_MS, _WIRE_POLL_MS = 40, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A handler was called."""

    event_id: str
    answer: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one poller did in a trial."""

    server_id: str
    effects: list[Effect]
    #: What ended it before it was told to stop.
    failure: str | None = None


class TrialPoller:
    """A poller at work in a thread."""

    def __init__(self, store: EngineStore, evaluator: Evaluator) -> None:
        interval_ms = _WIRE_POLL_MS if isinstance(store, MongoStore) else _POLL_MS
        config = AgentPollerConfig(poll_interval_ms=interval_ms, max_concurrent=2, lease_ms=LEASE_MS)
        self._poller = AgentPoller(store, evaluator, config)
        self._effects: list[Effect] = []
        self._failure: str | None = None
        for facet, function in HANDLERS.items():
            self._poller.register(facet, partial(self._handle, function))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> Report:
        """Let it finish and say what it did."""
        self._poller.stop()
        self._thread.join(_JOIN_S)
        if self._thread.is_alive():
            self._failure = f"did not stop within {_JOIN_S:.0f} s"
        return Report(server_id=self._poller.server_id, effects=self._effects, failure=self._failure)

    def _run(self) -> None:
        try:
            self._poller.start()
        except Exception as error:  # noqa: BLE001 - told by the report
            self._failure = repr(error)

    def _handle(self, function: Any, payload: dict[str, Any], context: TaskContext) -> dict[str, Any]:
        answer: dict[str, Any] = function(payload)
        self._effects.append(Effect(event_id=context.event_id, answer=answer))
        return answer


class Pollers(Protocol):
    """A number of pollers that can be let loose again and again."""

    def start(self) -> None: ...
    def stop(self) -> list[Report]: ...


class InThreads:
    """Pollers in threads, on one store object; each second trial they share one evaluator, too."""

    def __init__(self, store: EngineStore, count: int) -> None:
        self._store = store
        self._count = count
        self._trials = 0
        self._running: list[TrialPoller] = []

    def start(self) -> None:
        self._trials += 1
        shared = Evaluator(self._store)
        self._running = [
            TrialPoller(self._store, shared if self._trials % 2 else Evaluator(self._store)) for _ in range(self._count)
        ]

    def stop(self) -> list[Report]:
        return [poller.stop() for poller in self._running]


class InProcesses:
    """Pollers that each have a process, a connection to the store and an evaluator of their own."""

    def __init__(self, pipes: Sequence[Connection], address: StoreAddress) -> None:
        self._pipes = pipes
        for pipe in pipes:
            pipe.send(address)
        for pipe in pipes:
            pipe.recv()

    def start(self) -> None:
        for pipe in self._pipes:
            pipe.send("start")

    def stop(self) -> list[Report]:
        for pipe in self._pipes:
            pipe.send("stop")
        return [pipe.recv() for pipe in self._pipes]


@contextmanager
def processes(count: int) -> Iterator[list[Connection]]:
    """So many processes that wait to be told what to do; they end with the block."""
    context = multiprocessing.get_context("spawn")
    pipes: list[Connection] = []
    children = []
    for _ in range(count):
        ours, theirs = context.Pipe()
        child = context.Process(target=_serve, args=(theirs,), daemon=True)
        child.start()
        theirs.close()
        pipes.append(ours)
        children.append(child)
    try:
        yield pipes
    finally:
        for pipe in pipes:
            pipe.close()
        for child in children:
            child.join(_JOIN_S)
            if child.is_alive():
                child.kill()


def _serve(pipe: Connection) -> None:
    """Open the store that is named, then start and stop a poller whenever told to, until the pipe is closed."""
    store: EngineStore | None = None
    poller: TrialPoller | None = None
    evaluator: Evaluator | None = None
    while True:
        try:
            reported = pipe.recv()
        except EOFError:
            return
        if isinstance(reported, StoreAddress):
            if store is not None:
                store.close()
            store = open_store(reported)
            evaluator = Evaluator(store)
            pipe.send("open")
        elif reported == "start":
            assert store is not None
            assert evaluator is not None
            poller = TrialPoller(store, evaluator)
        else:
            assert poller is not None
            pipe.send(poller.stop())
