"""Remove from the calling process what a script must not have: privileges, network, files, processes, memory.

Each step is tried, and none is trusted: `measure_lockdown` measures the result.
"""

from __future__ import annotations

import _socket
import contextlib
import ctypes
import os
import resource
import signal
import struct
import sys
from typing import Final

from afl.scripts.limits import ScriptLimits
from afl.scripts.seccomp import install_seccomp, seccomp_program

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NO_NEW_PRIVS: Final = 38
_CLONE_NEWUTS: Final = 0x04000000
_CLONE_NEWIPC: Final = 0x08000000
_CLONE_NEWUSER: Final = 0x10000000
_CLONE_NEWNET: Final = 0x40000000
_CAPABILITY_VERSION: Final = 0x20080522

#: The user `nobody` of every Linux and BSD, who owns no files.
NOBODY: Final = 65534

_libc = ctypes.CDLL(None, use_errno=True)
_program = seccomp_program()


def shut_in_worker(empty_folder: str) -> None:
    """Isolate a worker, and so every process that it forks. It cannot open or import anything afterwards.

    The order matters: namespaces and root folder need privileges, which go next; after that the steps are irreversible.
    """
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        # When the machine runs out of memory, the kernel kills scripts first.
        score.write("1000")
    os.chdir(empty_folder)
    is_root = os.geteuid() == 0
    if sys.platform == "linux":
        # An ordinary user gets a network without devices inside a user namespace of its own.
        apart = _CLONE_NEWNET | _CLONE_NEWIPC | _CLONE_NEWUTS
        _libc.unshare(ctypes.c_int(apart if is_root else apart | _CLONE_NEWUSER))
    with contextlib.suppress(OSError):
        os.chroot(".")
    if is_root:
        with contextlib.suppress(OSError):
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
    if sys.platform == "linux":
        _drop_capabilities()
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0)


def shut_in_script(limits: ScriptLimits) -> None:
    """Isolate a script's process, which has only its two pipes open, at 0 and 1."""
    _limit(resource.RLIMIT_AS, limits.memory_bytes)
    # The signal at the soft limit ends the process; the hard limit is for a process that survives it. A process that is
    # used again has spent up to a second before.
    resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_s + 1, limits.cpu_s + 2))
    _limit(resource.RLIMIT_NPROC, 0)
    _limit(resource.RLIMIT_NOFILE, 2)
    if sys.platform == "linux":
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if _program is not None:
            install_seccomp(_program, _libc)


def has_privileges() -> bool:
    """Say whether this process is still root. Called outside the filter, which would refuse the system call."""
    return os.getuid() == 0 or os.geteuid() == 0


def measure_lockdown(limits: ScriptLimits, worker_pid: int) -> dict[str, bool]:
    """Try from inside an isolated process what a script must not do, and say what was refused."""
    # A number below the limit of open files must be free, because a script could free one.
    os.close(0)
    return {
        "processes": _refuses_processes(worker_pid),
        "network": _refuses_network(),
        "files": _refuses_files(),
        "memory": _refuses_memory(limits.memory_bytes),
    }


def _limit(kind: int, value: int) -> None:
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(kind, (value, value))


def _prctl(option: int, value: int) -> None:
    _libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def _drop_capabilities() -> None:
    header = struct.pack("Ii", _CAPABILITY_VERSION, 0)
    _libc.capset(header, bytes(24))


def _refuses_processes(worker_pid: int) -> bool:
    """Say whether new processes, and signals to other processes, are refused."""
    try:
        child = os.fork()
    except OSError:
        pass
    else:
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        return False
    try:
        os.kill(worker_pid, 0)
    except OSError:
        return True
    return False


def _refuses_network() -> bool:
    """Say whether even the loopback is refused: connecting a datagram socket sends nothing, but needs a network."""
    try:
        attempt = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    except OSError:
        return True
    try:
        attempt.connect(("127.0.0.1", 9))
    except OSError:
        return True
    finally:
        attempt.close()
    return False


def _refuses_files() -> bool:
    try:
        return os.listdir("/") == []
    except OSError:
        return True


def _refuses_memory(memory_bytes: int) -> bool:
    try:
        return not bytearray(memory_bytes)
    except MemoryError:
        return True
