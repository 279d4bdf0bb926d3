"""Heartbeats of a server: sent from a thread of its own, and judged by those who look at the list of servers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from afl.core.clock import has_waited
from afl.core.text.exception_text import exception_traceback
from afl.engine.model.entities import HandledCount, ServerDefinition, ServerState
from afl.workers.server_record import ServerRecord

_log = logging.getLogger(__name__)

#: A server that has missed this many heartbeats is taken to be gone.
MISSED_BEATS: Final = 3


@contextmanager
def registered_server(
    server_record: ServerRecord,
    names: Callable[[], Sequence[str]] = tuple,
    counts: Callable[[], Iterable[HandledCount]] | None = None,
    trouble: Callable[[], str] = str,
) -> Iterator[None]:
    """Be in the list of servers for as long as this lasts, with heartbeats from a thread of its own.

    For servers that have no loop of tasks; `names` are those of their handlers and `counts` what those did, whenever
    they are asked; without `counts`, `count` was called for each. `trouble` is what keeps it from getting on. Raises
    what the store raises at the first heartbeat.
    """
    server_record.register(names())
    server_record.running()
    stopped = threading.Event()

    def tell() -> None:
        try:
            server_record.handles(names())
            server_record.troubled(trouble())
            if counts is not None:
                server_record.counted(counts())
        except Exception as error:  # noqa: BLE001 - a server that cannot say how it does is alive all the same
            text = exception_traceback(error)
            _log.error("server %s could not collect its status\n%s", server_record.server_id, text)

    def keep_alive() -> None:
        while not stopped.wait(server_record.heartbeat_interval_s):
            tell()
            server_record.beat()

    keeper = threading.Thread(target=keep_alive, name="afl-heartbeat", daemon=True)
    keeper.start()
    failure: BaseException | None = None
    try:
        yield
    except BaseException as error:
        failure = None if isinstance(error, KeyboardInterrupt) else error
        raise
    finally:
        stopped.set()
        keeper.join()
        tell()
        server_record.sign_off(failure)


def is_stale(server: ServerDefinition, now_ms: int) -> bool:
    """Say whether a server that has not signed off is to be taken for gone: its heartbeats have stopped."""
    alive = server.state in (ServerState.STARTUP, ServerState.RUNNING)
    return alive and has_waited(server.ping_time, now_ms, MISSED_BEATS * server.heartbeat_interval_ms + 1)
