"""The waits of this process: each is noted when it begins, and reported when it lasts."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_log = logging.getLogger(__name__)

#: A wait is reported, once, when it has lasted this long; an operator should know within 5 s.
REPORTED_AFTER_S: Final = 3.0
#: The interval at which the waits are checked.
_LOOK_INTERVAL_S: Final = 0.5


class _Wait:
    __slots__ = ("began_s", "detail", "is_quiet", "is_reported", "what")

    def __init__(self, what: str, detail: Callable[[], str], is_quiet: bool) -> None:
        self.what = what
        self.detail = detail
        self.began_s = time.monotonic()
        self.is_quiet = is_quiet
        self.is_reported = False


class Waits:
    """The waits of a process. Any thread may use it; its own thread reports those that last."""

    def __init__(self, reported_after_s: float = REPORTED_AFTER_S, report: Callable[[str], None] | None = None) -> None:
        self._reported_after_s = reported_after_s
        self._report = report or (lambda text: _log.warning("%s", text))
        self._waits: dict[int, _Wait] = {}
        self._lock = threading.Lock()
        self._watcher: threading.Thread | None = None

    @contextmanager
    def on(self, what: str, detail: Callable[[], str] = str, *, is_quiet: bool = False) -> Iterator[None]:
        """Note a wait for `what` while this context lasts.

        The report calls `detail` for more information, and that call may be slow. A quiet wait is reported by its
        caller alone. Inside another wait of the same thread the outer one counts.
        """
        number = threading.get_ident()
        if number in self._waits:
            yield
            return
        wait = self._waits[number] = _Wait(what, detail, is_quiet)
        if self._watcher is None:
            self._watch()
        end = "no longer waiting for {}: that took {:.1f} s"
        try:
            yield
        except BaseException:
            end = "waiting for {} failed after {:.1f} s"
            raise
        finally:
            self._waits.pop(number, None)
            if wait.is_reported:
                self._report(end.format(wait.what, _age_s(wait)))

    def now(self) -> list[str]:
        """Return what the process waits for, and for how long. Takes no lock, so that a signal handler may call it."""
        return [f"{_said(wait)} (for {_age_s(wait):.0f} s)" for wait in tuple(self._waits.values())]

    def _watch(self) -> None:
        with self._lock:
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._look, name="afl-waits", daemon=True)
                self._watcher.start()

    def _look(self) -> None:
        while True:
            for wait in tuple(self._waits.values()):
                if not wait.is_reported and not wait.is_quiet and _age_s(wait) >= self._reported_after_s:
                    wait.is_reported = True
                    self._report(f"waiting for {_said(wait)}, for {_age_s(wait):.0f} s by now")
            time.sleep(_LOOK_INTERVAL_S)


def _said(wait: _Wait) -> str:
    try:
        return wait.what + wait.detail()
    except Exception:  # noqa: BLE001 - who holds a file may be gone while it is looked for
        return wait.what


def _age_s(wait: _Wait) -> float:
    return time.monotonic() - wait.began_s


#: The waits of this process.
WAITS: Final = Waits()
