"""The one place where the server meets the dashboard: it serves the pages beside the log that it holds."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from afl.core.monitoring.status_server import NoPortFree
from afl_stream.settings.config import StreamConfig
from afl_stream.transport import Transport

LOG = logging.getLogger(__name__)
#: What the extra brings. Without it there are no pages, and all else is the same.
_LIBRARIES: Final = frozenset({"jinja2", "multipart", "python_multipart", "starlette", "uvicorn"})


@contextmanager
def dashboard_beside(
    config: StreamConfig, open_transport: Callable[[], AbstractContextManager[Transport]]
) -> Iterator[str | None]:
    """Serve the dashboard until the block ends, and yield its address; None: this installation lacks the extra.

    `open_transport` opens the log that this process holds, for one use. Where the port of the settings is taken, as by
    the server of another folder, the pages get a free one.
    """
    try:
        from afl_stream.dashboard import serving
        from afl_stream.dashboard.deployment import Deployment
        from afl_stream.web.access import Access
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _LIBRARIES:
            raise
        yield None
        return
    settings = config.dashboard
    access = Access.of(settings, settings.host)
    deployment = Deployment(config, open_transport=open_transport)
    try:
        served = serving.start(deployment, access, settings.port)
    except NoPortFree as error:
        LOG.warning("%s; the dashboard takes a free one", error)
        served = serving.start(deployment, access, 0)
    try:
        yield served.address
    finally:
        served.stop()
