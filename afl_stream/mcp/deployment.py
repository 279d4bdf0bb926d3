"""The deployment that the tools are about: its store, its records, and an evaluator where no other one can run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from afl.core.clock import monotonic_s
from afl.core.process.stopping import StopFlag
from afl.stores.public.persistence import EngineStore
from afl_stream.client.client import Client
from afl_stream.commands.asking import ask
from afl_stream.commands.idleness import Idleness
from afl_stream.commands.invocation import Invocation, open_store, open_transport, store_here
from afl_stream.commands.sensitive.shown import open_shown_store
from afl_stream.evaluator.sensitive.redacted_store import redacted
from afl_stream.evaluator.service import EvaluatorService
from afl_stream.settings.config import StreamConfig
from afl_stream.transport import Transport

T = TypeVar("T")

#: How long an evaluator of this process works for one call. What is left then waits for the next call.
SETTLE_LIMIT_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Connected:
    """An open transport, and a client on it."""

    transport: Transport
    client: Client


class Deployment:
    """The deployment of the command's settings. One call at a time uses it; nothing stays open between calls.

    On the embedded log no other process can apply what a call has sent, so `settle` runs an evaluator here.
    """

    def __init__(self, invocation: Invocation, *, may_write: bool = False) -> None:
        """Read the settings. Raises ConfigError and CommandRefused."""
        self.invocation = invocation
        self.config: StreamConfig = invocation.settings()
        self.may_write = may_write
        #: Set when the server ends: waits of calls are over.
        self.stop = StopFlag()

    @contextmanager
    def store(self) -> Iterator[EngineStore]:
        """Open the store as people may see it: sensitive values are hidden. Raises NothingThere."""
        with open_shown_store(self.config) as store:
            yield store

    @contextmanager
    def whole_store(self, *, create: bool = False) -> Iterator[EngineStore]:
        """Open the store itself, for what changes it. Raises NothingThere."""
        with open_store(self.config, create=create) as store:
            yield store

    @contextmanager
    def connected(self, *, create: bool = False) -> Iterator[Connected]:
        """Open transport and client. Raises NothingThere, FileInUse and what Kafka raises."""
        with open_transport(self.config, create=create) as transport, Client(self.config, transport) as client:
            yield Connected(transport, client)

    @contextmanager
    def store_beside(self, connected: Connected) -> Iterator[EngineStore | None]:
        """Open the store if it is on this machine, as people may see it."""
        with store_here(self.config, connected.transport) as store:
            yield None if store is None else redacted(store, self.config.sensitive.patterns)

    @property
    def is_shared(self) -> bool:
        """Whether evaluators may run beside this server: on Kafka, and beside the holder of an embedded log."""
        return self.invocation.is_shared()

    def ask(self, client: Client, give: Callable[[float | None], T]) -> T | None:
        """Send a command or an answer; on Kafka wait for the evaluator's reply, 5 s at most."""
        return ask(self.invocation, client, give)

    def settle(self) -> None:
        """Apply what was sent to the embedded log; where evaluators may run beside this server, they do it."""
        if self.is_shared:
            return
        stop, idleness, began_s = StopFlag(), Idleness(self.config), monotonic_s()

        def on_batch(_stats: Any) -> None:
            idleness.busy()
            if self.stop.is_set() or monotonic_s() - began_s > SETTLE_LIMIT_S:
                stop.set()

        with open_transport(self.config) as transport, self.whole_store(create=True) as store:
            service = EvaluatorService(self.config, transport, store)

            def on_idle() -> None:
                without = () if service.loop.stats().owned else (self.config.evaluator_group,)
                if idleness.is_over(without, service.has_read_all):
                    stop.set()

            service.run(stop, on_batch, on_idle)

    def masked(self, text: str) -> str:
        """Return a text without the secrets of the settings and the environment."""
        return self.invocation.secrets.masked(text)

    def command(self, *words: str) -> str:
        """Return a command of `afl-stream` for this deployment, as a person would type it."""
        return self.invocation.command_line(*words)
