"""The event loop that a server runs its asynchronous handlers in, in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from afl.core.text.exception_text import exception_line

log = logging.getLogger(__name__)


def run_loop(loop: asyncio.AbstractEventLoop, grace_s: float | None = None) -> None:
    """Run a loop until it is stopped, then cancel its remaining tasks, and close it; see `cancel_the_rest`.

    A task that a handler left running may raise SystemExit, which asyncio lets through: the loop continues for the
    others.
    """
    loop.set_exception_handler(_report_error)
    try:
        while True:
            try:
                loop.run_forever()
                break
            except (SystemExit, KeyboardInterrupt) as error:
                what = exception_line(error)
                log.error("what a handler left running in the event loop raised %s; the loop continues", what)
        loop.run_until_complete(cancel_the_rest(grace_s))
    finally:
        loop.close()


def _report_error(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error that no code awaits, in one line: a garbage collection may report it, in the middle of any code."""
    error = context.get("exception")
    what = "" if error is None else f": {exception_line(error)}"
    log.error("in the event loop of the handlers: %s%s", context.get("message"), what)


async def cancel_the_rest(grace_s: float | None = None) -> None:
    """Cancel every other task of the running loop, and wait for them.

    A task that resists cancellation is left behind after `grace_s`; with None it is awaited.
    """
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        # Gathered, so that asyncio does not report their exceptions.
        await asyncio.wait([asyncio.gather(*left, return_exceptions=True)], timeout=grace_s)
