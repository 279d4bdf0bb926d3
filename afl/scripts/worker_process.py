"""A worker process as the pool sees it: started, asked, killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Final

import afl
from afl.scripts.errors import ScriptWorkerUnavailable
from afl.scripts.frames import FrameDeadline, FramesEnded, FrameTooLarge, encode_frame, exchange
from afl.scripts.isolation import Isolation
from afl.scripts.limits import ScriptLimits

#: Loads nothing but Python's own library and this package, and only until the worker has shut itself in.
_BOOT: Final = "import sys; sys.path.append(sys.argv[1]); from afl.scripts.worker import main; main()"
_ROOT: Final = str(Path(afl.__file__).parent.parent)
_START_S: Final = 60.0
#: The worker ends late scripts itself; when it is this much later, it is the worker that hangs.
_GRACE_S: Final = 5.0
_LARGEST_FRAME: Final = 2**31


class WorkerLost(Exception):
    """The worker ended, hung or spoke nonsense: it is of no use any more."""


class WorkerProcess:
    """One worker. Not for two threads at once."""

    def __init__(self, limits: ScriptLimits) -> None:
        """Start a worker and wait until it is ready. Raises ScriptWorkerUnavailable."""
        self._limits = limits
        self.last_text: bytes | None = None
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-E", "-c", _BOOT, _ROOT],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env={},
                close_fds=True,
                start_new_session=True,
            )
        except OSError as error:
            raise ScriptWorkerUnavailable(f"{sys.executable} cannot be started: {error}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._replies = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._requests, False)
        os.set_blocking(self._replies, False)
        try:
            # The worker makes it its root, and goes on in it when it is gone: no one can put anything there.
            with tempfile.TemporaryDirectory(prefix="afl-scripts-") as empty_folder:
                settings = {"limits": asdict(limits), "empty_folder": empty_folder}
                (hello,) = self._exchange(json.dumps(settings).encode(), replies=1, within_s=_START_S)
            measured = json.loads(hello)
        except (WorkerLost, OSError, ValueError) as error:
            self.kill()
            raise ScriptWorkerUnavailable(f"{error}, with code {self._process.returncode}") from error
        if "failed" in measured:
            self.kill()
            raise ScriptWorkerUnavailable(measured["failed"])
        self.isolation = Isolation.of_measurement(measured)

    @property
    def pid(self) -> int:
        return self._process.pid

    def run(self, text: bytes, params: bytes) -> tuple[str, bytes]:
        """Return how the run ended, and the reply of the script's process if it gave one. Raises WorkerLost."""
        self.last_text = text
        outcome, reply = self._exchange(text, params, replies=2, within_s=self._limits.wall_s + _GRACE_S)
        return outcome.decode(errors="replace"), reply

    def terminate(self) -> None:
        """End the worker's process; whoever waits for its answer sees that. For any thread."""
        self._process.kill()

    def kill(self) -> None:
        """End the worker and whatever it runs, and close the pipes; doing so again is harmless."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _exchange(self, *bodies: bytes, replies: int, within_s: float) -> list[bytes]:
        try:
            return exchange(
                b"".join(map(encode_frame, bodies)),
                to_descriptor=self._requests,
                from_descriptor=self._replies,
                replies=replies,
                deadline_s=time.monotonic() + within_s,
                max_bytes=_LARGEST_FRAME,
            )
        except FramesEnded as error:
            raise WorkerLost("the worker ended") from error
        except FrameTooLarge as error:
            raise WorkerLost("the worker sent more than it may") from error
        except FrameDeadline as error:
            raise WorkerLost(f"the worker did not answer within {within_s:g} s") from error
