"""The worker process: shuts itself in, and forks a process for every script that it is given.

One process is always ready. A process that answered stays for further runs of the same text, since a loop's steps
share one; it is never given another text, so nothing of a script is left for another script.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import signal
import sys
import time
from typing import Final, NoReturn

from afl.scripts.frames import (
    FrameDeadline,
    FramesEnded,
    FrameTooLarge,
    encode_frame,
    exchange,
    read_frame,
    write_all,
)
from afl.scripts.interpreter import ScriptInterpreter, load_modules, serve_scripts
from afl.scripts.limits import ScriptLimits
from afl.scripts.lockdown import has_privileges, measure_lockdown, shut_in_script, shut_in_worker
from afl.scripts.outcomes import EXITED, REPLIED, SIGNALLED, SUCCEEDED, TIMED_OUT, TOO_LARGE

#: A process is used for this many runs and seconds at most, so that what it leaks is bounded.
_MOST_RUNS: Final = 1000
_MOST_RUN_S: Final = 1.0
#: Processes that wait for their text to come again; each takes some 8 MB.
_MOST_USED: Final = 8
#: Room for what a reply says beside the result and the printed text.
_REPLY_ROOM: Final = 64 * 1024


class ScriptProcess:
    """One forked process, and the two pipes to it."""

    def __init__(self, limits: ScriptLimits, interpreter: ScriptInterpreter) -> None:
        requests_read, self._requests = os.pipe()
        self._replies, replies_write = os.pipe()
        self.text: bytes | None = None
        self._runs, self._run_s = 0, 0.0
        self._limits = limits
        self.pid = os.fork()
        if self.pid == 0:
            _become_script_process(requests_read, replies_write, limits, interpreter)
        os.close(requests_read)
        os.close(replies_write)
        os.set_blocking(self._requests, False)
        os.set_blocking(self._replies, False)

    def run(self, text: bytes, params: bytes) -> bytes:
        """Return the reply to one run. Raises what `exchange` does; the process is of no use then."""
        self.text = text
        began_s = time.monotonic()
        (reply,) = exchange(
            encode_frame(text) + encode_frame(params),
            to_descriptor=self._requests,
            from_descriptor=self._replies,
            replies=1,
            deadline_s=began_s + self._limits.wall_s,
            # Printed text may grow sixfold as JSON.
            max_bytes=self._limits.output_bytes + 6 * self._limits.printed_bytes + _REPLY_ROOM,
            watched_descriptor=0,
        )
        self._runs += 1
        self._run_s += time.monotonic() - began_s
        return reply

    def may_run_again(self) -> bool:
        return self._runs < _MOST_RUNS and self._run_s < _MOST_RUN_S

    def end(self) -> int:
        """Kill the process if it still runs, and return its wait status."""
        os.close(self._requests)
        os.close(self._replies)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        return os.waitpid(self.pid, 0)[1]

    def status(self) -> int:
        """Wait for a process that closed its pipe; it may have done so without ending."""
        deadline_s = time.monotonic() + 0.5
        while time.monotonic() < deadline_s:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self._requests)
                os.close(self._replies)
                return status
            time.sleep(0.001)
        return self.end()


class ScriptWorker:
    """Answers the pool's requests one after the other, each by a process that no other text was run in."""

    def __init__(self, limits: ScriptLimits, interpreter: ScriptInterpreter) -> None:
        self._limits = limits
        self._interpreter = interpreter
        #: Processes by the text they have run, least recently used first.
        self._used: dict[bytes, ScriptProcess] = {}
        self._spare = self._fork()

    def serve(self) -> None:
        """Answer until the pool closes the pipe."""
        while True:
            outcome, reply = self._answer(read_frame(0), read_frame(0))
            write_all(1, encode_frame(outcome.encode()) + encode_frame(reply))
            # Clearing up and getting ready cost milliseconds, which no one waits for now.
            if len(self._used) > _MOST_USED:
                self._used.pop(next(iter(self._used))).end()
            if self._spare.text is not None:
                self._spare = self._fork()

    def _answer(self, text: bytes, params: bytes) -> tuple[str, bytes]:
        process = self._used.pop(text, None)
        if process is not None:
            outcome, reply = self._run(process, text, params)
            if outcome == REPLIED or outcome in (TIMED_OUT, TOO_LARGE):
                return outcome, reply
            # Perhaps it was gone before it was asked; a script changes nothing, so it can run again.
        return self._run(self._spare, text, params)

    def _run(self, process: ScriptProcess, text: bytes, params: bytes) -> tuple[str, bytes]:
        try:
            reply = process.run(text, params)
        except FrameDeadline:
            process.end()
            return TIMED_OUT, b""
        except FrameTooLarge:
            process.end()
            return TOO_LARGE, b""
        except FramesEnded:
            status = process.status()
            if os.WIFSIGNALED(status):
                return f"{SIGNALLED} {os.WTERMSIG(status)}", b""
            return f"{EXITED} {os.WEXITSTATUS(status)}", b""
        if reply[:1] == SUCCEEDED and process.may_run_again():
            self._used[text] = process
        else:
            process.end()
        return REPLIED, reply

    def _fork(self) -> ScriptProcess:
        return ScriptProcess(self._limits, self._interpreter)


def _become_script_process(
    requests: int, replies: int, limits: ScriptLimits, interpreter: ScriptInterpreter
) -> NoReturn:
    try:
        _keep_only(requests, replies)
        shut_in_script(limits)
        interpreter.warm_up()
        serve_scripts(interpreter)
    finally:
        os._exit(1)


def _keep_only(reading: int, writing: int) -> None:
    """Make the two descriptors 0 and 1, and close all others."""
    os.dup2(reading, 0)
    os.dup2(writing, 1)
    os.closerange(2, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _measure(limits: ScriptLimits) -> dict[str, bool]:
    """What a shut-in process was refused, as such a process found it. One that ended over it has told nothing."""
    reading, writing = os.pipe()
    worker_pid = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _keep_only(reading, writing)
            shut_in_script(limits)
            write_all(1, encode_frame(json.dumps(measure_lockdown(limits, worker_pid)).encode()))
        finally:
            os._exit(0)
    os.close(writing)
    try:
        refused: dict[str, bool] = json.loads(read_frame(reading))
    except FramesEnded:
        refused = {}
    os.close(reading)
    os.waitpid(pid, 0)
    return {**refused, "privileges": not has_privileges()}


def _get_ready() -> tuple[ScriptLimits, ScriptInterpreter]:
    """Read the settings, load what scripts need, and shut in."""
    settings = json.loads(read_frame(0))
    limits = ScriptLimits(**settings["limits"])
    interpreter = ScriptInterpreter(limits, load_modules())
    sys.path.clear()
    sys.path_importer_cache.clear()
    # Closing all descriptors up to the highest possible one is slow where millions are allowed.
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    shut_in_worker(settings["empty_folder"])
    return limits, interpreter


def main() -> None:
    """Run a worker: descriptor 0 brings the settings, then requests; the measured isolation goes out first at 1."""
    # A terminal's Ctrl-C is for the engine, which closes the pipe when it wants this to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        limits, interpreter = _get_ready()
        measured: dict[str, object] = {**_measure(limits)}
    except Exception as error:  # noqa: BLE001 - there is no one else to tell
        write_all(1, encode_frame(json.dumps({"failed": f"{type(error).__name__}: {error}"}).encode()))
        os._exit(1)
    write_all(1, encode_frame(json.dumps(measured).encode()))
    gc.collect()
    gc.freeze()
    with contextlib.suppress(FramesEnded, BrokenPipeError):
        ScriptWorker(limits, interpreter).serve()
    # Scripts' processes see the end of their pipes; the one that runs was killed by its deadline or is now.
    os._exit(0)
