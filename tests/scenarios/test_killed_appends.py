"""Processes that append are killed at any moment: what was acknowledged is there, and nothing is there in part."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from afl_stream.pubsub.event_stores.store import RequestStatus
from afl_stream.pubsub.model.events import StoredEvent
from tests.scenarios.killed_appends import AT_ONCE, REQUESTS, event
from tests.scenarios.stores_of_processes import opened

ROOT = Path(__file__).parents[2]


def acknowledged_until_killed(where: str, lines: int) -> dict[str, int]:
    """Let a process append until it has told of so many acknowledgements, and kill it. Return what it told."""
    command = [sys.executable, "-m", "tests.scenarios.killed_appends", where]
    told: dict[str, int] = {}
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _, line in zip(range(lines), process.stdout, strict=False):
            request_id, count = line.split()
            told[request_id] = int(count)
        process.kill()
        # What was on its way to us when it died was acknowledged too.
        for line in process.stdout:
            if line.endswith("\n"):
                request_id, count = line.split()
                told[request_id] = int(count)
    assert len(told) == REQUESTS
    return told


async def stored(where: str) -> dict[str, list[StoredEvent]]:
    async with opened(where) as store:
        keys = await store.requests("Desk", [RequestStatus.RUNNING])
        found = [await store.request(key) for key in keys]
    return {each.key.request_id: list(each.events) for each in found if each is not None}


def check(where: str, *, rounds: int = 3) -> None:
    for turn in range(rounds):
        told = acknowledged_until_killed(where, 40 + 23 * turn)

        found = asyncio.run(stored(where))

        assert found.keys() == told.keys()
        for request_id, events in found.items():
            # One append may be stored whose acknowledgement nobody has heard of.
            assert len(events) in (told[request_id], told[request_id] + AT_ONCE)
            assert events == [event(request_id, number) for number in range(len(events))]


def test_a_sqlite_file(tmp_path: Path) -> None:
    check(str(tmp_path / "events.sqlite3"))


def test_topics_of_an_embedded_log(tmp_path: Path) -> None:
    check(f"embedded:{tmp_path / 'log.sqlite3'}")


def test_a_database_of_mongodb(tmp_path: Path, standalone_mongodb_url: str) -> None:
    check(f"{standalone_mongodb_url}/killed_appends_{tmp_path.name}")


def test_topics_of_kafka(kafka_bootstrap: str, kafka_prefix: str) -> None:
    check(f"kafka:{kafka_bootstrap}/{kafka_prefix}", rounds=2)


def test_two_processes_that_append_to_the_same_requests_are_never_mixed(tmp_path: Path) -> None:
    """Each is refused where the other was faster, and ends: the requests are those of one history."""
    where = str(tmp_path / "events.sqlite3")
    command = [sys.executable, "-m", "tests.scenarios.killed_appends", where]
    processes = [
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    try:
        # One of them ends by itself.
        errors: list[str] = []
        while not errors:
            for process in processes:
                assert process.stdout is not None
                assert process.stderr is not None
                process.stdout.readline()
                if process.poll() is not None:
                    errors.append(process.stderr.read())
    finally:
        for process in processes:
            process.kill()
            process.communicate()

    assert "RequestConflict" in errors[0]
    for request_id, events in asyncio.run(stored(where)).items():
        assert len(events) % AT_ONCE == 0
        assert events == [event(request_id, number) for number in range(len(events))]


@pytest.mark.long
def test_a_sqlite_file_many_times(tmp_path: Path) -> None:
    check(str(tmp_path / "events.sqlite3"), rounds=25)
