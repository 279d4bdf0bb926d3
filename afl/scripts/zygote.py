"""The zygote: a process that isolates itself, and from then on only forks the processes of scripts.

Text, params and replies go through pipes between the pool and a script's process; the zygote passes the ends of these
pipes on and never reads them. So a process that it forks begins without any data of another script in its memory.
"""

from __future__ import annotations

import _socket
import contextlib
import gc
import json
import os
import resource
import signal
import struct
import sys
import time
from typing import Final, NoReturn

from afl.core.text.exception_text import exception_line
from afl.scripts.frames import FramesEnded, encode_frame, read_frame, write_all
from afl.scripts.interpreter import ScriptInterpreter, load_modules, serve_scripts
from afl.scripts.limits import ScriptLimits
from afl.scripts.lockdown import has_privileges, measure_lockdown, shut_in_script, shut_in_worker
from afl.scripts.orders import END, FORK, ORDER_BYTES, REST, STATUS, WAKE, decode_order, encode_answer

_PIPES: Final = struct.Struct("2i")
_PIPES_SPACE: Final = _socket.CMSG_SPACE(_PIPES.size)
#: The time that a process has to end by itself after it closed its pipe.
_ENDING_S: Final = 0.5


class Zygote:
    """The zygote that carries out the orders at descriptor 0, until the pool closes it."""

    def __init__(self, limits: ScriptLimits, interpreter: ScriptInterpreter) -> None:
        self._limits = limits
        self._interpreter = interpreter
        self._control = _socket.socket(fileno=0)
        self._children: set[int] = set()

    def serve(self) -> None:
        """Carry out orders until the pool closes the socket; no process is left then."""
        while (order := self._next_order()) is not None:
            kind, pid, pipes = order
            if kind == FORK:
                self._answer(self._fork(pipes))
            elif pid not in self._children:
                # Another process may have its number by now. The answer must be sent all the same.
                if kind != END:
                    self._answer(-1)
            elif kind == END:
                self._end(pid)
            elif kind == STATUS:
                self._answer(self._status(pid))
            elif kind == REST:
                os.kill(pid, signal.SIGSTOP)
                self._answer(int(os.WIFSTOPPED(self._wait_for_stop(pid))))
            elif kind == WAKE:
                os.kill(pid, signal.SIGCONT)
                self._answer(0)
        for child in list(self._children):
            self._end(child)

    def _next_order(self) -> tuple[bytes, int, tuple[int, ...]] | None:
        order, ancillary, _, _ = self._control.recvmsg(ORDER_BYTES, _PIPES_SPACE)
        pipes = tuple(number for _, _, data in ancillary for number in _PIPES.unpack(data))
        while order and len(order) < ORDER_BYTES:
            more = self._control.recv(ORDER_BYTES - len(order))
            order = order + more if more else b""
        return (*decode_order(order), pipes) if order else None

    def _answer(self, number: int) -> None:
        write_all(0, encode_answer(number))

    def _fork(self, pipes: tuple[int, ...]) -> int:
        reading, writing = pipes
        try:
            pid = os.fork()
        except OSError as error:
            pid = -(error.errno or 1)
        if pid == 0:
            _become_script_process(reading, writing, self._limits, self._interpreter)
        os.close(reading)
        os.close(writing)
        if pid > 0:
            self._children.add(pid)
        return pid

    def _end(self, pid: int) -> int:
        os.kill(pid, signal.SIGKILL)
        return self._reap(pid)

    def _status(self, pid: int) -> int:
        deadline_s = time.monotonic() + _ENDING_S
        while time.monotonic() < deadline_s:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self._children.discard(pid)
                return status
            time.sleep(0.001)
        return self._end(pid)

    def _wait_for_stop(self, pid: int) -> int:
        status = os.waitpid(pid, os.WUNTRACED)[1]
        if not os.WIFSTOPPED(status):
            self._children.discard(pid)
        return status

    def _reap(self, pid: int) -> int:
        self._children.discard(pid)
        return os.waitpid(pid, 0)[1]


def _become_script_process(
    requests: int, replies: int, limits: ScriptLimits, interpreter: ScriptInterpreter
) -> NoReturn:
    try:
        _keep_only(requests, replies)
        shut_in_script(limits)
        serve_scripts(interpreter)
    finally:
        os._exit(1)


def _keep_only(reading: int, writing: int) -> None:
    """Make the two descriptors 0 and 1, and close all others."""
    os.dup2(reading, 0)
    os.dup2(writing, 1)
    os.closerange(2, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _measure(limits: ScriptLimits) -> dict[str, bool]:
    """Return what an isolated process was refused, as measured by such a process.

    A process that ended during the measurement has reported nothing.
    """
    reading, writing = os.pipe()
    zygote_pid = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _keep_only(reading, writing)
            shut_in_script(limits)
            write_all(1, encode_frame(json.dumps(measure_lockdown(limits, zygote_pid)).encode()))
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
    """Read the settings, load the modules that scripts need, and isolate the process."""
    settings = json.loads(read_frame(0))
    limits = ScriptLimits(**settings["limits"])
    interpreter = ScriptInterpreter(limits, load_modules())
    interpreter.warm_up()
    sys.path.clear()
    sys.path_importer_cache.clear()
    # Closing all descriptors up to the highest possible one is slow where millions are allowed.
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    shut_in_worker(settings["empty_folder"])
    return limits, interpreter


def main() -> None:
    """Run a zygote: descriptor 0 brings the settings, then orders; the measured isolation is sent first."""
    # A terminal's Ctrl-C is for the engine, which closes the socket to end this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        limits, interpreter = _get_ready()
        measured: dict[str, object] = {**_measure(limits)}
    except Exception as error:  # noqa: BLE001 - there is no one else to tell
        write_all(0, encode_frame(json.dumps({"failed": exception_line(error)}).encode()))
        os._exit(1)
    zygote = Zygote(limits, interpreter)
    write_all(0, encode_frame(json.dumps(measured).encode()))
    gc.collect()
    gc.freeze()
    with contextlib.suppress(ConnectionError):
        zygote.serve()
    os._exit(0)
