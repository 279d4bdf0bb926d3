"""A zygote as the pool sees it: started, given orders, killed.

It is started as a program of its own and never forked from the evaluator: the evaluator has threads, whose locks a fork
would copy in any state, and memory that holds every workflow's data.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from afl.scripts.errors import ScriptWorkerUnavailable
from afl.scripts.frames import FrameDeadline, FramesEnded, FrameTooLarge, encode_frame, exchange
from afl.scripts.isolation import Isolation
from afl.scripts.limits import ScriptLimits
from afl.scripts.orders import ANSWER_BYTES, decode_answer, encode_order

#: It loads only Python's standard library and this package, and only until the zygote has isolated itself.
_BOOT: Final = "import sys; sys.path.append(sys.argv[1]); from afl.scripts.zygote import main; main()"
_ROOT: Final = str(Path(__file__).resolve().parents[2])
_START_S: Final = 60.0
#: The longest wait for the answer to an order. Orders take milliseconds; a zygote that is this late hangs.
_ANSWER_S: Final = 5.0
#: The time that a zygote has to end.
_ENDING_S: Final = 1.0
_LARGEST_HELLO: Final = 64 * 1024


class ZygoteLost(Exception):
    """A zygote that ended or hangs: it and the processes that it forked are unusable."""


class ZygoteProcess:
    """One zygote. One thread may use it; `terminate` is for any thread."""

    def __init__(self, limits: ScriptLimits, within_s: float = _START_S) -> None:
        """Start a zygote and wait until it is ready. Raises ScriptWorkerUnavailable."""
        self._control, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-E", "-c", _BOOT, _ROOT],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={},
                    close_fds=True,
                    start_new_session=True,
                )
        except OSError as error:
            self._control.close()
            raise ScriptWorkerUnavailable(f"{sys.executable} cannot be started: {error}") from error
        try:
            measured = self._hello(limits, min(within_s, _START_S))
        except (ZygoteLost, OSError, ValueError) as error:
            self.kill()
            raise ScriptWorkerUnavailable(f"{error}, with code {self._process.returncode}") from error
        if "failed" in measured:
            self.kill()
            raise ScriptWorkerUnavailable(measured["failed"])
        self.isolation = Isolation.of_measurement(measured)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, kind: bytes, pid: int = 0, descriptors: Sequence[int] = ()) -> None:
        """Give an order. Raises ZygoteLost."""
        try:
            self._control.settimeout(_ANSWER_S)
            socket.send_fds(self._control, [encode_order(kind, pid)], list(descriptors))
        except OSError as error:
            raise ZygoteLost(f"the zygote takes no orders: {error}") from error

    def receive(self, deadline_s: float) -> int:
        """Return the answer to the oldest unanswered order. Raises ZygoteLost.

        `deadline_s` is a reading of `time.monotonic()`; an answer is never awaited longer than the longest wait above.
        """
        patience_s = min(_ANSWER_S, deadline_s - time.monotonic())
        answer = b""
        try:
            self._control.settimeout(max(patience_s, 0.001))
            while len(answer) < ANSWER_BYTES:
                arrived = self._control.recv(ANSWER_BYTES - len(answer))
                if not arrived:
                    raise ZygoteLost("the zygote ended")
                answer += arrived
        except TimeoutError as error:
            raise ZygoteLost(f"the zygote did not answer within {max(patience_s, 0.0):.1f} s") from error
        except OSError as error:
            raise ZygoteLost(f"the zygote ended: {error}") from error
        return decode_answer(answer)

    def terminate(self) -> None:
        """End the zygote's process, and with it the processes it has forked. For any thread."""
        self._process.kill()

    def end(self) -> None:
        """Tell the zygote to end its processes and itself; `kill` must still be called."""
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING_S)

    def kill(self) -> None:
        """End the zygote and all its processes, and close the socket; calling it again is harmless."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self._control.close()

    def _hello(self, limits: ScriptLimits, within_s: float) -> dict[str, str]:
        """Send the settings, and return the zygote's measurement or the reason why it failed."""
        self._control.setblocking(False)
        # The zygote makes it its root, and keeps it after it is deleted: no process can put files there.
        with tempfile.TemporaryDirectory(prefix="afl-scripts-") as empty_folder:
            settings = {"limits": asdict(limits), "empty_folder": empty_folder}
            try:
                hello = exchange(
                    encode_frame(json.dumps(settings).encode()),
                    to_descriptor=self._control.fileno(),
                    from_descriptor=self._control.fileno(),
                    deadline_s=time.monotonic() + within_s,
                    max_bytes=_LARGEST_HELLO,
                )
            except FramesEnded as error:
                raise ZygoteLost("the zygote ended") from error
            except FrameTooLarge as error:
                raise ZygoteLost("the zygote sent more than it may") from error
            except FrameDeadline as error:
                raise ZygoteLost(f"the zygote was not ready within {within_s:g} s") from error
        measured: dict[str, str] = json.loads(hello)
        return measured
