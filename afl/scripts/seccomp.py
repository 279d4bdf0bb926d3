"""A kernel filter that leaves a process the few system calls that computing needs: memory, time, its open pipes."""

from __future__ import annotations

import ctypes
import platform
import struct
import sys
from typing import Final

_PR_SET_SECCOMP: Final = 22
_SECCOMP_MODE_FILTER: Final = 2

_LOAD_WORD: Final = 0x20
_JUMP_IF_EQUAL: Final = 0x15
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_KILL_PROCESS: Final = 0x80000000
#: Refused calls fail with EPERM, so that a script sees an ordinary error.
_REFUSE: Final = 0x00050000 | 1

#: The kernel's architecture, then the numbers of the allowed calls. Every other call is refused: files, sockets,
#: processes, signals to others, limits, namespaces, and the calls of later kernels.
_ALLOWED: Final[dict[str, tuple[int, dict[str, int]]]] = {
    "x86_64": (
        0xC000003E,
        {
            "read": 0,
            "write": 1,
            "close": 3,
            "fstat": 5,
            "poll": 7,
            "lseek": 8,
            "mmap": 9,
            "mprotect": 10,
            "munmap": 11,
            "brk": 12,
            "rt_sigaction": 13,
            "rt_sigprocmask": 14,
            "rt_sigreturn": 15,
            "sched_yield": 24,
            "mremap": 25,
            "madvise": 28,
            "getpid": 39,
            "exit": 60,
            "gettimeofday": 96,
            "futex": 202,
            "restart_syscall": 219,
            "clock_gettime": 228,
            "exit_group": 231,
            "getrandom": 318,
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            "close": 57,
            "lseek": 62,
            "read": 63,
            "write": 64,
            "ppoll": 73,
            "fstat": 80,
            "exit": 93,
            "exit_group": 94,
            "futex": 98,
            "clock_gettime": 113,
            "sched_yield": 124,
            "restart_syscall": 128,
            "rt_sigaction": 134,
            "rt_sigprocmask": 135,
            "rt_sigreturn": 139,
            "gettimeofday": 169,
            "getpid": 172,
            "brk": 214,
            "munmap": 215,
            "mremap": 216,
            "mmap": 222,
            "mprotect": 226,
            "madvise": 233,
            "getrandom": 278,
        },
    ),
}


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


def seccomp_program() -> bytes | None:
    """Return the filter for this machine, None where there is none."""
    if sys.platform != "linux" or platform.machine() not in _ALLOWED or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    architecture, calls = _ALLOWED[platform.machine()]
    numbers = sorted(calls.values())
    instructions = [
        # On another architecture the numbers mean other calls.
        (_LOAD_WORD, 0, 0, 4),
        (_JUMP_IF_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD_WORD, 0, 0, 0),
        *((_JUMP_IF_EQUAL, len(numbers) - index, 0, number) for index, number in enumerate(numbers)),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)


def install_seccomp(program: bytes, libc: ctypes.CDLL) -> bool:
    """Put this process under the filter permanently, and say whether it is.

    The process must have given up gaining privileges before.
    """
    instructions = ctypes.create_string_buffer(program, len(program))
    described = _Program(len(program) // 8, ctypes.cast(instructions, ctypes.c_void_p).value)
    set_filter = libc.prctl(
        _PR_SET_SECCOMP,
        ctypes.c_ulong(_SECCOMP_MODE_FILTER),
        ctypes.byref(described),
        ctypes.c_ulong(0),
        ctypes.c_ulong(0),
    )
    return bool(set_filter == 0)
