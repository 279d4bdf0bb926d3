"""Runs a server until it ends or a signal comes: the first one drains it, the second ends the process at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

from afl.core.process.signals import Remaining, draining
from afl.core.process.stopping import StopFlag


def run_until_signalled(start: Callable[[], object], stop: Callable[[], object], remaining: Remaining = str) -> None:
    """
    Run `start` in a thread, and call `stop` on the first SIGTERM or SIGINT; return when `start` has.

    The main thread, where signals go, does nothing but wait, so that a signal finds it holding no lock. Outside of it,
    where Python allows no signal handlers, `start` is called and that is all.

    Raises what `start` raises. `remaining` says at the first signal what there is to wait for.
    """
    if threading.current_thread() is not threading.main_thread():
        start()
        return
    is_over = StopFlag()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            start()
        except BaseException as error:  # noqa: BLE001 - raised in the main thread
            failures.append(error)
        finally:
            is_over.set()

    with draining(stop, remaining):
        threading.Thread(target=run, name="afl-runner", daemon=True).start()
        is_over.wait()
    if failures:
        raise failures[0]
