"""The server on standard input and output, which a host starts itself."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import Any, Final, TextIO, cast

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from afl.core.process.stopping import StopFlag

#: The longest message; the rest of a longer one is dropped, and the host is told that it is no message.
MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
_CHUNK: Final = 1 << 16
#: How often a request to stop is looked for.
_LOOK_INTERVAL_S: Final = 0.1


class _Lines:
    """The lines of a descriptor. Waiting for them can be cancelled, as a read on a thread could not."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    async def __aiter__(self) -> AsyncIterator[str]:
        kept = bytearray()
        is_dropping = False
        while data := await self._read():
            kept += data
            *lines, rest = kept.split(b"\n")
            for line in lines:
                if not is_dropping:
                    yield line.decode("utf-8", "replace")
                is_dropping = False
            kept = bytearray(rest)
            if len(kept) > MAX_MESSAGE_BYTES:
                yield kept[:100].decode("utf-8", "replace")
                kept.clear()
                is_dropping = True
        if kept and not is_dropping:
            yield kept.decode("utf-8", "replace")

    async def _read(self) -> bytes:
        try:
            await anyio.wait_readable(self._descriptor)
        except PermissionError:
            # A file is always ready, and cannot be waited for.
            await anyio.lowlevel.checkpoint()
        return os.read(self._descriptor, _CHUNK)


def serve_stdio(server: Server[Any], out: TextIO, stop: StopFlag, *, descriptor: int = 0) -> None:
    """Serve one host until it closes standard input, or `stop` is set. Only the protocol is written to `out`.

    Raises BrokenPipeError where the host has closed its end.
    """
    anyio.run(_serve, server, out, stop, descriptor)


async def _serve(server: Server[Any], out: TextIO, stop: StopFlag, descriptor: int) -> None:
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_when, stop, group.cancel_scope)
            # It reads lines of text, and needs nothing else of a file.
            lines = cast("anyio.AsyncFile[str]", _Lines(descriptor))
            async with stdio_server(lines, anyio.wrap_file(out)) as (read, write):
                await server.run(read, write, server.create_initialization_options())
            group.cancel_scope.cancel()
    except BaseExceptionGroup as group_of:
        broken, others = group_of.split((BrokenPipeError, anyio.BrokenResourceError))
        if others is not None or broken is None:
            raise
        raise BrokenPipeError from None


async def _cancel_when(stop: StopFlag, scope: anyio.CancelScope) -> None:
    while not stop.is_set():
        await anyio.sleep(_LOOK_INTERVAL_S)
    scope.cancel()
