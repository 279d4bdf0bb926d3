"""The deployment that a dashboard shows: its store, opened once and shared, and its broker, opened for each use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from afl.core.clock import Clock, SystemClock
from afl.core.text.masking import Secrets, secrets_of_environment
from afl.stores.public.persistence import EngineStore
from afl_stream.errors import StreamError
from afl_stream.settings.config import StreamConfig
from afl_stream.settings.store_files import is_store_at
from afl_stream.transport import Transport

#: Opens the broker of a deployment, and closes it at the end.
OpenTransport = Callable[[], AbstractContextManager[Transport]]

#: How long a broker may take to answer a page.
CONNECT_S: Final = 5


class NothingHere(StreamError):
    """The deployment has no store yet, or none that can be reached from here."""

    def __init__(self, config: StreamConfig) -> None:
        where = "the store of the evaluators is not on this machine; name it with store.path or store.url"
        first = "nothing has run here yet: afl-stream dev FILE.afl runs a file at once"
        super().__init__(f"there is no store {config.store_path}; {where if config.is_kafka else first}")


class Deployment:
    """What the dashboard reads and acts on. Any thread may use it.

    `open_transport` opens the broker; by default as the settings say. A process that has the embedded log open itself
    passes its own, and says with `can_be_answered` whether an evaluator runs beside it.
    """

    def __init__(
        self,
        config: StreamConfig,
        *,
        open_transport: OpenTransport | None = None,
        can_be_answered: bool | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.config = config
        self.clock = clock or SystemClock()
        self._secrets: Secrets = secrets_of_environment()
        self._secrets.add(config.secrets())
        self._open_transport = open_transport or (lambda: _configured_transport(config))
        is_always_open = config.is_kafka or open_transport is not None
        self._can_be_answered = True if is_always_open and can_be_answered is None else can_be_answered
        #: The embedded log is opened once in a process.
        self._turn = None if is_always_open else threading.Lock()
        self._lock = threading.Lock()
        self._plain: EngineStore | None = None
        self._shown: EngineStore | None = None

    @property
    def can_be_answered(self) -> bool:
        """Whether an evaluator may run while this process has the broker open, and so may answer a command."""
        if self._can_be_answered is not None:
            return self._can_be_answered
        from afl_stream.holder.joining import is_served

        return is_served(self.config.log_path)

    def masked(self, text: str) -> str:
        """Return a text without the secrets of the settings and the environment."""
        return self._secrets.masked(text)

    @property
    def store(self) -> EngineStore:
        """The store as people may see it: sensitive values are hidden. Raises NothingHere, and the store's errors."""
        self._open_store()
        assert self._shown is not None
        return self._shown

    @property
    def plain_store(self) -> EngineStore:
        """The store as it is, for writing. Raises as `store`."""
        return self._open_store()

    def has_store(self) -> bool:
        """Return whether there is a store to read."""
        return self._plain is not None or self.config.store.url is not None or is_store_at(self.config.store_file.path)

    def _open_store(self) -> EngineStore:
        from afl_stream.evaluator.sensitive.redacted_store import redacted
        from afl_stream.evaluator.stores import open_configured_store

        with self._lock:
            if self._plain is None:
                if not self.has_store():
                    raise NothingHere(self.config)
                self._plain = open_configured_store(self.config, create=False)
                self._shown = redacted(self._plain, self.config.sensitive.patterns)
            return self._plain

    @contextmanager
    def transport(self) -> Iterator[Transport]:
        """Open the broker, and close it at the end. Raises what keeps it from being opened."""
        if self._turn is None:
            with self._open_transport() as transport:
                yield transport
            return
        with self._turn, self._open_transport() as transport:
            yield transport

    def close(self) -> None:
        """Close the store."""
        with self._lock:
            plain, self._plain, self._shown = self._plain, None, None
        if plain is not None:
            plain.close()


@contextmanager
def _configured_transport(config: StreamConfig) -> Iterator[Transport]:
    from dataclasses import replace

    transport: Transport
    if config.is_kafka:
        from afl_stream.kafka.transport import KafkaTransport

        connect_s = min(config.kafka.connect_timeout_s, CONNECT_S)
        transport = KafkaTransport(replace(config, kafka=replace(config.kafka, connect_timeout_s=connect_s)))
    else:
        from afl_stream.holder.joining import hold_or_join

        if not config.log_path.exists():
            raise NothingHere(config)
        transport = hold_or_join(config.log_path, serves=False)
    try:
        yield transport
    finally:
        transport.close()
