"""Deaths of processes that one command has started: noted where servers are listed, as a killed one cannot sign off."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Final

from afl.core.errors import AFLError
from afl.core.text.exception_text import exception_line
from afl_stream.commands.invocation import open_store, open_transport

if TYPE_CHECKING:
    from afl.core.process.children import Death
    from afl.stores.public.persistence import EngineStore
    from afl_stream.settings.config import StreamConfig
    from afl_stream.settings.store_parts import StorePart

_log = logging.getLogger(__name__)

#: How long the end of the command waits for the last notes.
_END_S: Final = 5.0
#: How long a broker is waited for.
_CONNECT_S: Final = 5


def id_of_process(family: str, pid: int) -> str:
    """Return the id under which a process lists itself: the one that has started it knows it too."""
    return str(uuid.uuid5(uuid.UUID(family), str(pid)))


@contextmanager
def noted_deaths(
    config: StreamConfig, family: str, part_of: Callable[[int], StorePart | None]
) -> Iterator[Callable[[Death], None]]:
    """Provide what notes a death, from a thread of its own: a restart never waits for a store or a broker.

    `part_of` returns the part of the store that has the records of the process of a number.
    """
    deaths: SimpleQueue[Death | None] = SimpleQueue()

    def run() -> None:
        while (death := deaths.get()) is not None:
            _note(config, id_of_process(family, death.pid), part_of(death.number), death)

    thread = Thread(target=run, name="afl-deaths", daemon=True)
    thread.start()
    try:
        yield deaths.put
    finally:
        deaths.put(None)
        thread.join(_END_S)


def _note(config: StreamConfig, server_id: str, part: StorePart | None, death: Death) -> None:
    """Note a death in the store, then on the topic of presence. What cannot be noted is stale a little later."""
    try:
        with open_store(config, part=part) as store:
            end_in_store(store, server_id, death.how)
    except AFLError as error:
        _log.info("the death of process %s is not noted in the store: %s", death.pid, exception_line(error))
    if not config.presence.interval_s:
        return
    from afl_stream.presence.announcing import sign_off
    from afl_stream.topics.declared import Topology

    quick = replace(config, kafka=replace(config.kafka, connect_timeout_s=_CONNECT_S))
    try:
        with open_transport(quick) as transport:
            sign_off(transport, Topology(config).presence(), server_id)
    except AFLError as error:
        _log.info("the death of process %s is not announced: %s", death.pid, exception_line(error))


def end_in_store(store: EngineStore, server_id: str, how: str) -> None:
    """Note in the list of servers how one has ended that has not signed off itself."""
    from afl.engine.model.entities import ServerState

    server = store.get_server(server_id)
    if server is None or server.state in (ServerState.SHUTDOWN, ServerState.ERROR):
        return
    server.state, server.error = ServerState.ERROR, {"type": "ProcessDied", "message": f"it {how}"}
    store.save_server(server)
