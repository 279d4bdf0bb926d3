"""One Java process: started in the background, stopped by its own id, never mistaken for another."""

import atexit
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Event

from afl_stream.broker.errors import LocalBrokerError

_LEASH = Path(__file__).with_name("leash.py")
_INTERVAL_S = 0.02

#: The processes that this one started, until they are found to have ended. They are kept so that the exit code is read
#: also of a process that is found by its id alone, and no zombie stays.
_CHILDREN: "dict[int, subprocess.Popen[bytes]]" = {}


@atexit.register
def _leave_children() -> None:
    """Leave the children that go on to those whom they serve, or to their guardians: another worker of a test run."""
    for child in _CHILDREN.values():
        if child.poll() is None:
            # Popen warns of a child without an exit code when it is collected, and has no other way to be done with it.
            child.returncode = 0


class JavaProcess:
    """A running Java program, a child of ours or found by its id."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._child = _CHILDREN.get(pid)

    @classmethod
    def start(cls, command: Sequence[str], *, log_path: Path, guardian_pid: int | None) -> "JavaProcess":
        """Start it with its output appended to `log_path`; it dies with `guardian_pid`, where there is one."""
        leash = [] if guardian_pid is None else leash_to(guardian_pid)
        with log_path.open("ab") as log:
            child = subprocess.Popen(
                [*leash, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C at a terminal is for the tests: they stop their broker themselves.
                start_new_session=True,
            )
        _CHILDREN[child.pid] = child
        return cls(child.pid)

    @property
    def is_running(self) -> bool:
        """Whether the process is there and no zombie."""
        if self._child is None:
            return process_exists(self.pid)
        if self._child.poll() is None:
            return True
        _CHILDREN.pop(self.pid, None)
        return False

    @property
    def exit_code(self) -> int | None:
        """The exit code of a child that has ended (negative: the signal), else None."""
        return None if self._child is None else self._child.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; ignore a process that has ended."""
        if self.is_running:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return

    def wait(self, timeout_s: float) -> bool:
        """Wait until it has ended, and say whether it has."""
        end_s, pause = time.monotonic() + timeout_s, Event()
        while self.is_running:
            if time.monotonic() > end_s:
                return False
            pause.wait(_INTERVAL_S)
        return True

    def stop(self, grace_s: float) -> None:
        """SIGTERM, and SIGKILL when it has not ended within `grace_s`. Wakes a process that is stopped by SIGSTOP."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        if not self.wait(grace_s):
            self.kill()

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        if not self.wait(30):
            raise LocalBrokerError(f"process {self.pid} did not end within 30 s of SIGKILL")


def leash_to(guardian_pid: int) -> list[str]:
    """Return what stands before the command of a process that is to die with another one."""
    return [sys.executable, "-S", "-E", str(_LEASH), str(guardian_pid)]


def log_tail(path: Path, lines: int = 40) -> str:
    """Return the last lines of a log."""
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])


def process_exists(pid: int) -> bool:
    """Whether a process with this id is there and no zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _process_state(pid).startswith("Z")


def command_line(pid: int) -> str:
    """Return the command line of a process, its arguments parted by blanks; empty when there is none."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return _ps(pid, "command=")


def _process_state(pid: int) -> str:
    try:
        # The name in parentheses may hold blanks and parentheses itself.
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].strip()
    except OSError:
        return _ps(pid, "stat=")


def _ps(pid: int, column: str) -> str:
    try:
        run = subprocess.run(
            ["ps", "-ww", "-o", column, "-p", str(pid)], capture_output=True, text=True, timeout=30, check=False
        )
    except OSError:
        return ""
    return run.stdout.strip()
