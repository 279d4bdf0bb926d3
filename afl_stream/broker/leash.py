"""Runs a program that dies with another process: `python leash.py PID PROGRAM ARGUMENT...`.

The process becomes the program, so its id and exit code are the program's own. A child of it watches process PID
and kills the program when that one is gone, however it went: a test run that is killed leaves no broker behind.
A file of its own, run by path: it must start fast and import nothing but this.
"""

import os
import select
import signal
import sys

_INTERVAL_S = 0.5


def _watch(guardian: int, program: int) -> None:
    """Return when either process is gone."""
    try:
        guardian_fd = os.pidfd_open(guardian)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):
        guardian_fd = None
    pause = select.poll()
    if guardian_fd is not None:
        pause.register(guardian_fd, select.POLLIN)
    while os.getppid() == program:
        if pause.poll(_INTERVAL_S * 1000):
            return
        if guardian_fd is None and not _exists(guardian):
            return


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def main(arguments: list[str]) -> None:
    """Start the watcher, then become the program."""
    guardian, command = int(arguments[0]), arguments[1:]
    program = os.getpid()
    if os.fork() == 0:
        _watch(guardian, program)
        # Our parent is the program still, so its id can't have been given to another.
        if os.getppid() == program:
            os.kill(program, signal.SIGKILL)
        os._exit(0)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
