"""The one place where the server meets the dashboard: it serves the pages beside the log that it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from afl_stream.settings.config import StreamConfig
from afl_stream.transport import Transport


@contextmanager
def dashboard_beside(
    config: StreamConfig,  # noqa: ARG001 - what a dashboard needs
    open_transport: Callable[[], AbstractContextManager[Transport]],  # noqa: ARG001
) -> Iterator[str | None]:
    """Serve the dashboard until the block ends, and yield its address; None: this installation has none.

    `open_transport` opens the log that this process holds, for one use.
    """
    yield None
