"""The memory of a script's process: it holds nothing of another text or workflow, whatever it gets past.

The processes are looked into from outside, byte for byte. So it does not matter by which trick a script would look.
"""

import os
from pathlib import Path

import pytest

from afl.scripts.limits import MEBIBYTE, ScriptLimits
from afl.scripts.pool import ScriptPool
from afl.scripts.worker import Worker
from tests.eventually import eventually

#: Written in two parts, so that the memory of this process does not contain it.
TEXT_CANARY, PARAM_CANARY, REPLY_CANARY = (f"canary-{part}-" + "7f3e9a51" for part in ("text", "param", "reply"))
CANARIES = (TEXT_CANARY, PARAM_CANARY, REPLY_CANARY)
SECRET_SCRIPT = f"""
# {TEXT_CANARY}
result["seen"] = "canary-reply-" + params["tail"] + str(len(params["secret"]))
print(params["secret"])
"""
PARAMS = {"secret": PARAM_CANARY * 1000, "tail": "7f3e9a51"}


def memory_of(pid: int) -> bytes:
    """All that a process has in memory and may write to, and its stack."""
    parts = []
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                if "rw" not in line.split()[1]:
                    continue
                begin, end = (int(number, 16) for number in line.split()[0].split("-"))
                memory.seek(begin)
                parts.append(memory.read(end - begin))
    except PermissionError:
        pytest.skip("this user may not look into the memory of other processes")
    return b"".join(parts)


def found_in(pid: int) -> list[str]:
    memory = memory_of(pid)
    return [canary for canary in CANARIES if canary.encode() in memory]


def idle_pids(worker: Worker) -> list[int]:
    return [process.pid for process, _ in worker._idle.values()]


def spare_pid(worker: Worker) -> int:
    """Return the process that waits for the next script, once the zygote has said which it is."""
    assert worker._spare is not None
    if not worker._spare.pid:
        worker._spare.pid = worker._zygote.receive(10**9)
    return worker._spare.pid


def test_neither_the_zygote_nor_a_new_process_holds_anything_of_a_script_that_has_run() -> None:
    with ScriptPool() as pool:
        for number in range(5):
            seen = pool.run(SECRET_SCRIPT, PARAMS, f"w{number}").result["seen"]
            assert seen.startswith(REPLY_CANARY)
        (worker,) = pool._idle

        assert set(found_in(idle_pids(worker)[0])) == set(CANARIES), "the search finds what is there"
        assert found_in(worker.pid) == []
        assert found_in(spare_pid(worker)) == []


def test_a_process_is_used_again_for_the_same_text_and_workflow_only() -> None:
    def left(workflow_id: str, code: str = "import json as j\nresult['left'] = hasattr(j.JSONEncoder, 'left')") -> bool:
        return bool(pool.run(code + "\nj.JSONEncoder.left = 1", {}, workflow_id).result["left"])

    with ScriptPool() as pool:
        assert not left("w1")
        assert left("w1")
        assert not left("w2")
        assert left("w1")
        assert not left("w1", "import json as j\nresult['left'] = hasattr(j.JSONEncoder, 'left') or False")


def test_without_a_workflow_every_run_has_a_process_of_its_own() -> None:
    code = "import json as j\nresult['left'] = hasattr(j.JSONEncoder, 'left')\nj.JSONEncoder.left = 1"
    with ScriptPool() as pool:
        assert [pool.run(code, {}).result["left"] for _ in range(3)] == [False] * 3
        (worker,) = pool._idle
        assert idle_pids(worker) == []


def test_processes_that_wait_hold_no_more_than_their_bound_together() -> None:
    keeps = "import json as j\nj.JSONEncoder.left = ['x' * 1000 + str(i) for i in range(30000)]\nresult['n'] = {}"
    limits = ScriptLimits(idle_bytes=100 * MEBIBYTE)
    with ScriptPool(limits) as pool:
        for number in range(8):
            pool.run(keeps.format(number), {}, "w1")
        (worker,) = pool._idle
        held = sum(process.resident_bytes() or 0 for process, _ in worker._idle.values())

        assert 1 <= len(idle_pids(worker)) <= 2
        assert 30 * MEBIBYTE < held <= limits.idle_bytes


def test_a_process_that_alone_holds_more_than_the_bound_is_not_kept() -> None:
    with ScriptPool(ScriptLimits(idle_bytes=40 * MEBIBYTE)) as pool:
        pool.run("import json as j\nj.JSONEncoder.left = 'x' * 60000000\nresult['n'] = 1", {}, "w1")
        (worker,) = pool._idle
        assert idle_pids(worker) == []

        pool.run("result['n'] = 1", {}, "w1")
        assert len(idle_pids(worker)) == 1


def test_a_process_that_waits_stands_still() -> None:
    with ScriptPool() as pool:
        pool.run("result['n'] = 1", {}, "w1")
        (worker,) = pool._idle
        (pid,) = idle_pids(worker)

        assert Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        assert pool.run("result['n'] = 1", {}, "w1").result == {"n": 1}
        assert idle_pids(worker) == [pid]


def test_a_pool_leaves_neither_processes_nor_descriptors() -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    with ScriptPool(workers=2) as pool:
        for number in range(30):
            pool.submit(f"result['n'] = {number}", {}, f"w{number % 3}").result(60)
        workers = list(pool._all)
        children = [pid for worker in workers for pid in children_of(worker.pid)]
        assert len(children) <= 2 * (8 + 1)
        assert len(os.listdir("/proc/self/fd")) <= len(before) + 2 * (1 + 2 * (8 + 1))

    assert sorted(os.listdir("/proc/self/fd")) == before
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() and not is_zombie(pid) for pid in children))


def test_a_process_that_has_ended_is_reaped() -> None:
    with ScriptPool() as pool:
        for number in range(10):
            pool.run(f"result['n'] = {number}", {})
        (worker,) = pool._idle
        spare_pid(worker)

        eventually(lambda: not [pid for pid in children_of(worker.pid) if is_zombie(pid)])
        assert len(children_of(worker.pid)) <= 2


def children_of(pid: int) -> list[int]:
    return [int(number) for number in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return False
