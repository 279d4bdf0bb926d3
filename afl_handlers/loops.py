"""The event loop that a server runs its asynchronous handlers in, in a thread of its own."""

from __future__ import annotations

import asyncio


def run_loop(loop: asyncio.AbstractEventLoop, grace_s: float | None = None) -> None:
    """Run a loop until it is stopped, then cancel what is left in it, and close it; see `cancel_the_rest`."""
    try:
        loop.run_forever()
        loop.run_until_complete(cancel_the_rest(grace_s))
    finally:
        loop.close()


async def cancel_the_rest(grace_s: float | None = None) -> None:
    """Cancel every other task of the running loop, and wait for them.

    One that does not let itself be cancelled is left behind after `grace_s`; None: it is waited for.
    """
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        # Gathered, so that what they raise of it is told to nobody.
        await asyncio.wait([asyncio.gather(*left, return_exceptions=True)], timeout=grace_s)
