"""Refusals of the kernel to a script's process that has all of Python: the wall behind the check of names."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import afl
from afl.scripts.errors import ScriptsNotIsolated
from afl.scripts.isolation import ASPECTS, Isolation
from afl.scripts.pool import ScriptPool

_ROOT = str(Path(afl.__file__).parent.parent)

#: Shuts itself in as a worker and a script's process do, then tries with the whole of Python what no script may do.
_PRISONER = """
import ctypes, json, mmap, os, resource, signal, socket, subprocess, sys, threading
sys.path.append(sys.argv[1])
from afl.scripts.limits import ScriptLimits
from afl.scripts.lockdown import shut_in_script, shut_in_worker

out = os.dup(1)
parent = os.getppid()
libc = ctypes.CDLL(None, use_errno=True)
shut_in_worker(sys.argv[2])
os.dup2(out, 1)
os.close(0)
os.closerange(2, 64)
shut_in_script(ScriptLimits())

def bomb():
    while True:
        os.fork()

def thread():
    threading.Thread(target=print).start()

def call(name, *arguments):
    if getattr(libc, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)

attempts = {
    "read a file": lambda: os.open("/etc/passwd", os.O_RDONLY),
    "read its environment": lambda: os.open("/proc/self/environ", os.O_RDONLY),
    "list files": lambda: os.listdir("."),
    "write a file": lambda: os.open("x", os.O_CREAT | os.O_WRONLY),
    "remove a file": lambda: os.unlink(sys.argv[2]),
    "fork": os.fork,
    "fork bomb": bomb,
    "thread": thread,
    "execute": lambda: os.execv("/bin/sh", ["sh"]),
    "internet socket": lambda: socket.socket(),
    "unix socket": lambda: socket.socket(socket.AF_UNIX),
    "socket pair": socket.socketpair,
    "kill its parent": lambda: os.kill(parent, signal.SIGKILL),
    "kill everyone": lambda: os.kill(-1, signal.SIGKILL),
    "become root": lambda: os.setuid(0),
    "raise its limits": lambda: resource.setrlimit(resource.RLIMIT_AS, (-1, -1)),
    "leave its folder": lambda: os.chdir("/"),
    "make a namespace": lambda: call("unshare", 0x10000000),
    "trace": lambda: call("ptrace", 16, parent, 0, 0),
    "outlive the worker": lambda: call("prctl", 1, 0, 0, 0, 0),
    "memory": lambda: bytearray(10 ** 10),
    "shared memory": lambda: call("shmget", 0, 4096, 0o1600),
}
succeeded = []
for name, attempt in attempts.items():
    try:
        attempt()
    except (OSError, MemoryError, RuntimeError, ValueError):
        continue
    succeeded.append(name)
os.write(1, json.dumps({"tried": len(attempts), "succeeded": succeeded}).encode())
os._exit(0)
"""


def test_a_process_with_all_of_python_is_refused_everything(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-E", "-c", _PRISONER, _ROOT, str(tmp_path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={},
        timeout=60,
    )

    assert json.loads(run.stdout) == {"tried": 22, "succeeded": []}, run.stderr
    assert os.listdir(tmp_path) == []


def test_a_pool_tells_what_its_scripts_are_shut_off_from(pool: ScriptPool) -> None:
    assert pool.isolation.refused == ASPECTS
    assert pool.isolation.missing == frozenset()


def test_what_is_missing_refuses_scripts_by_name() -> None:
    isolation = Isolation.of_measurement({"processes": True, "files": True, "memory": True, "network": False})

    with pytest.raises(ScriptsNotIsolated, match="does not isolate them from network, privileges"):
        isolation.require()
    with pytest.raises(ScriptsNotIsolated, match="does not isolate them from privileges") as caught:
        isolation.require(["network"])
    assert caught.value.missing == {"privileges"}


def test_an_operator_may_accept_what_is_missing() -> None:
    Isolation.of_measurement({}).require(ASPECTS)


def test_accepting_an_unknown_aspect_is_an_error() -> None:
    with pytest.raises(ValueError, match="not internet"):
        Isolation.of_measurement({}).require(["internet"])
