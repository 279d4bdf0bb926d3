"""A worker as the pool sees it: a zygote, and the processes that it has forked for scripts.

A process belongs to one text of one workflow. It may run again for the same two, because the steps of a loop share
them; for another text or another workflow a new process is forked, from a zygote that has never held data.
"""

from __future__ import annotations

import os
import resource
import select
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from afl.scripts.errors import ScriptWorkerUnavailable
from afl.scripts.frames import FrameDeadline, FramesEnded, FrameTooLarge, encode_frame, exchange
from afl.scripts.isolation import Isolation
from afl.scripts.limits import ScriptLimits
from afl.scripts.orders import END, FORK, REST, STATUS, WAKE
from afl.scripts.outcomes import EXITED, REPLIED, SIGNALLED, SUCCEEDED, TIMED_OUT, TOO_LARGE
from afl.scripts.zygote_process import ZygoteLost, ZygoteProcess

#: The most runs and seconds of one process, so that its leaks are bounded.
_MOST_RUNS: Final = 1000
_MOST_RUN_S: Final = 1.0
#: The most processes of one worker that wait for another run of their text and workflow.
_MOST_IDLE: Final = 8
#: The time that a zygote has at least to clean up after a script that used up its own time.
_MOMENT_S: Final = 0.5
#: The room in a reply beside the result and the printed text.
_REPLY_ROOM: Final = 64 * 1024
_PAGE_BYTES: Final = resource.getpagesize()


@dataclass(frozen=True, slots=True)
class ScriptKey:
    """The key for reusing a process: the same text in the same workflow."""

    workflow_id: str
    text: bytes


class ScriptProcess:
    """The pool's ends of the pipes to a forked process."""

    def __init__(self, zygote: ZygoteProcess, limits: ScriptLimits) -> None:
        """Order a process; `pid` is known once the zygote has answered. Raises ZygoteLost."""
        self.pid = 0
        self._limits = limits
        self._zygote = zygote
        self._runs, self._run_s = 0, 0.0
        requests_read, self._requests = os.pipe()
        self._replies, replies_write = os.pipe()
        theirs = [requests_read, replies_write]
        try:
            os.set_blocking(self._requests, False)
            os.set_blocking(self._replies, False)
            zygote.send(FORK, descriptors=theirs)
        except BaseException:
            self.close()
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)

    def run(self, text: bytes, params: bytes, deadline_s: float) -> bytes:
        """Return the reply to one run. Raises as `exchange` does; the process is unusable then."""
        began_s = time.monotonic()
        reply = exchange(
            encode_frame(text) + encode_frame(params),
            to_descriptor=self._requests,
            from_descriptor=self._replies,
            deadline_s=deadline_s,
            # Printed text may grow sixfold as JSON.
            max_bytes=self._limits.output_bytes + 6 * self._limits.printed_bytes + _REPLY_ROOM,
        )
        self._runs += 1
        self._run_s += time.monotonic() - began_s
        return reply

    def may_run_again(self) -> bool:
        """Say whether it has sent nothing beyond its replies, and has not run for too long."""
        poller = select.poll()
        poller.register(self._replies, select.POLLIN)
        return self._runs < _MOST_RUNS and self._run_s < _MOST_RUN_S and not poller.poll(0)

    def resident_bytes(self) -> int | None:
        """Return the memory of the process, including pages shared with its zygote; None where it is unknown."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_bytes().split()[1]) * _PAGE_BYTES
        except (OSError, ValueError, IndexError):
            return None

    def close(self) -> None:
        for descriptor in (self._requests, self._replies):
            os.close(descriptor)


class Worker:
    """A worker that runs one script at a time. One thread may use it; `terminate` is for any thread."""

    def __init__(self, limits: ScriptLimits, within_s: float | None = None) -> None:
        """Start the zygote and have a process ready. Raises ScriptWorkerUnavailable."""
        self._limits = limits
        #: Whether its zygote was lost after the last run had its reply: the worker is unusable then.
        self.is_lost = False
        self._zygote = ZygoteProcess(limits) if within_s is None else ZygoteProcess(limits, within_s)
        self.isolation: Isolation = self._zygote.isolation
        #: Resting processes with the memory that they hold, least recently used first.
        self._idle: dict[ScriptKey, tuple[ScriptProcess, int]] = {}
        self._spare: ScriptProcess | None = None
        try:
            self._order_spare()
        except BaseException as error:
            self.kill()
            raise ScriptWorkerUnavailable(str(error)) from error

    @property
    def pid(self) -> int:
        """The process id of the zygote."""
        return self._zygote.pid

    def knows(self, key: ScriptKey | None) -> bool:
        """Say whether a process waits for this text and workflow."""
        return key is not None and key in self._idle

    def run(self, text: bytes, params: bytes, key: ScriptKey | None, deadline_s: float) -> tuple[str, bytes]:
        """Return how the run ended, and the reply if there is one.

        Without a key the process is used once. Raises ZygoteLost, and ScriptWorkerUnavailable where the system cannot
        fork a process.
        """
        idle = self._idle.pop(key, None) if key is not None else None
        if idle is not None:
            process = idle[0]
            try:
                self._ask(WAKE, process.pid, deadline_s)
            except ZygoteLost:
                process.close()
                raise
            outcome, reply = self._run(process, text, params, key, deadline_s)
            if outcome in (REPLIED, TIMED_OUT, TOO_LARGE):
                return outcome, reply
            # It may have been gone before the run was sent. A script changes nothing, so it can run again.
        return self._run(self._take_spare(deadline_s), text, params, key, deadline_s)

    def terminate(self) -> None:
        """End the worker's processes; threads that wait for their answers notice it. For any thread."""
        self._zygote.terminate()

    def end(self) -> None:
        """End an idle worker; its zygote reaps the processes that it has forked."""
        self._zygote.end()
        self.kill()

    def kill(self) -> None:
        """End the worker and its running processes, and close all pipes; calling it again is harmless."""
        self._zygote.kill()
        idle, self._idle = self._idle, {}
        spare, self._spare = self._spare, None
        for process in [*(process for process, _ in idle.values()), *([spare] if spare is not None else [])]:
            process.close()

    def _run(
        self, process: ScriptProcess, text: bytes, params: bytes, key: ScriptKey | None, deadline_s: float
    ) -> tuple[str, bytes]:
        try:
            reply = process.run(text, params, deadline_s)
        except FrameDeadline:
            self._put_away(None, process, deadline_s)
            return TIMED_OUT, b""
        except FrameTooLarge:
            self._put_away(None, process, deadline_s)
            return TOO_LARGE, b""
        except FramesEnded:
            process.close()
            return self._how_it_ended(process, deadline_s), b""
        except BaseException:
            process.close()
            raise
        may_run_again = reply[:1] == SUCCEEDED and process.may_run_again()
        self._put_away(key if may_run_again else None, process, deadline_s)
        return REPLIED, reply

    def _put_away(self, key: ScriptKey | None, process: ScriptProcess, deadline_s: float) -> None:
        """Let a process rest if it has a key, else end it. The end of its run is known, whatever is lost here."""
        try:
            if key is None:
                self._end(process)
            else:
                self._keep(key, process, deadline_s)
        except ZygoteLost:
            self.is_lost = True

    def _keep(self, key: ScriptKey, process: ScriptProcess, deadline_s: float) -> None:
        """Let a process rest for the next run of its text and workflow, and end resting ones beyond the bounds."""
        try:
            stands_still = self._ask(REST, process.pid, deadline_s) == 1
        except ZygoteLost:
            process.close()
            raise
        resident_bytes = process.resident_bytes() if stands_still else None
        if resident_bytes is None:
            self._end(process)
            return
        self._idle[key] = (process, resident_bytes)
        while len(self._idle) > _MOST_IDLE or sum(held for _, held in self._idle.values()) > self._limits.idle_bytes:
            self._end(self._idle.pop(next(iter(self._idle)))[0])

    def _end(self, process: ScriptProcess) -> None:
        process.close()
        self._zygote.send(END, process.pid)

    def _how_it_ended(self, process: ScriptProcess, deadline_s: float) -> str:
        status = self._ask(STATUS, process.pid, deadline_s)
        if os.WIFSIGNALED(status):
            return f"{SIGNALLED} {os.WTERMSIG(status)}"
        return f"{EXITED} {os.WEXITSTATUS(status)}"

    def _ask(self, kind: bytes, pid: int, deadline_s: float) -> int:
        """Send an order that has an answer, and return the answer."""
        until_s = max(deadline_s, time.monotonic() + _MOMENT_S)
        if self._spare is not None and not self._spare.pid:
            # Answers come in the order of the orders: the spare process was ordered before.
            self._spare.pid = self._zygote.receive(until_s)
        self._zygote.send(kind, pid)
        return self._zygote.receive(until_s)

    def _order_spare(self) -> None:
        self._spare = ScriptProcess(self._zygote, self._limits)

    def _take_spare(self, deadline_s: float) -> ScriptProcess:
        """Take the spare process, and have the next one forked while this one runs."""
        process, self._spare = self._spare, None
        try:
            if process is None:
                process = ScriptProcess(self._zygote, self._limits)
            if not process.pid:
                process.pid = self._zygote.receive(deadline_s)
            if process.pid < 0:
                raise ScriptWorkerUnavailable(f"no process can be forked: {os.strerror(-process.pid)}")
            self._order_spare()
        except BaseException:
            if process is not None:
                process.close()
            raise
        return process
