"""The event store in a SQLite file keeps the contract, and copes with what happens to files."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from afl_stream.pubsub.event_stores.errors import EventsTooLarge, EventStoreUnavailable, EventStoreUnusable
from afl_stream.pubsub.event_stores.rows import append_of
from afl_stream.pubsub.event_stores.sqlite import SQLiteEventStore
from afl_stream.pubsub.event_stores.sqlite_file import APPLICATION_ID, FORMAT, SQLiteFile
from afl_stream.pubsub.event_stores.store import RequestKey
from tests.contract.event_store_contract import (
    CONTEXT,
    FINISHED,
    KEY,
    RUNNING,
    DurableEventStoreContract,
    EventStoreContract,
    NewStore,
    PurgingEventStoreContract,
    append,
    events_of,
    publish,
    publishes,
)
from tests.unit.core.test_database_headers import seen_elsewhere

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.sqlite3"


class TestSQLiteEventStore(EventStoreContract, DurableEventStoreContract, PurgingEventStoreContract):
    @pytest.fixture
    def new_store(self, path: Path) -> NewStore:
        return lambda: SQLiteEventStore(path)


def with_file(path: Path, body: Callable[[SQLiteEventStore], Awaitable[object]], **settings: float) -> None:
    """Run a body with a store on the file, which is closed at the end."""

    async def run() -> None:
        store = SQLiteEventStore(path, **settings)  # type: ignore[arg-type]  # only its time-out is a number
        try:
            await asyncio.wait_for(body(store), 60)
        finally:
            await store.close()

    asyncio.run(run())


# --- the file -------------------------------------------------------------------------------------------------------


def test_a_file_and_those_beside_it_are_for_their_owner_alone(path: Path) -> None:
    before = os.umask(0)
    try:

        async def body(store: SQLiteEventStore) -> None:
            await append(store, 0, publishes(0, 1))
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.glob("events.sqlite3*")}
            assert modes == {path.name + end: 0o600 for end in ("", "-wal", "-shm")}

        with_file(path, body)
    finally:
        os.umask(before)


def test_a_closed_store_leaves_one_file(path: Path) -> None:
    async def body(store: SQLiteEventStore) -> None:
        await append(store, 0, publishes(0, 1))

    with_file(path, body)

    assert [file.name for file in path.parent.iterdir()] == [path.name]


def content(path: Path) -> bytes:
    return path.read_bytes()


def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_bytes(b"a letter to my aunt" * 100)

    with pytest.raises(EventStoreUnusable, match="starts with b'a letter"):
        SQLiteEventStore(path)
    assert content(path) == b"a letter to my aunt" * 100


def test_a_database_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE request(id)")
    before = content(path)

    with pytest.raises(EventStoreUnusable, match="of something else"):
        SQLiteEventStore(path)
    assert content(path) == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_file_of_a_newer_release_is_refused_and_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {FORMAT + 1}")
        db.execute("CREATE TABLE of_the_future(id)")
    before = content(path)

    with pytest.raises(EventStoreUnusable, match=rf"format is {FORMAT + 1}; expected format {FORMAT}: use a newer"):
        SQLiteEventStore(path)
    assert content(path) == before


def test_a_format_that_is_newer_in_the_write_ahead_log_alone_is_refused(path: Path) -> None:
    with_file(path, lambda store: append(store, 0, publishes(0, 1)))
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA user_version = {FORMAT + 1}")
        assert int.from_bytes(content(path)[60:64], "big") == FORMAT

        with pytest.raises(EventStoreUnusable, match=f"format is {FORMAT + 1}"):
            SQLiteEventStore(path)


def test_two_processes_that_make_a_file_at_the_same_time_have_one_store(path: Path) -> None:
    made: list[SQLiteFile] = []
    begin = threading.Barrier(4)

    def make() -> None:
        begin.wait()
        made.append(SQLiteFile(path))

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(made) == 4
    for first, file in enumerate(made):
        assert file.append([append_of(KEY, CONTEXT, first, publishes(first, 1), RUNNING)]) == [None]
        file.close()


def test_a_damaged_row_is_named_by_its_request_and_number(path: Path) -> None:
    with_file(path, lambda store: append(store, 0, publishes(0, 3)))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE event SET data = '{' WHERE number = 1")

    async def body(store: SQLiteEventStore) -> None:
        with pytest.raises(EventStoreUnusable, match=r"event 1 of request r-1 is damaged: Expecting property name"):
            await store.request(KEY)
        await append(store, 0, publishes(0, 1, "r-2"), key=RequestKey("Desk", "r-2"))

    with_file(path, body)


def test_events_that_are_missing_are_not_passed_over(path: Path) -> None:
    with_file(path, lambda store: append(store, 0, publishes(0, 3)))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM event WHERE number = 1")

    async def body(store: SQLiteEventStore) -> None:
        with pytest.raises(EventStoreUnusable, match=r"request r-1 has 2 events; expected 3"):
            await store.request(KEY)

    with_file(path, body)


def test_a_damaged_file_says_so(path: Path) -> None:
    with_file(path, lambda store: append(store, 0, publishes(0, 500)))
    whole = content(path)
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))

    # SQLite may find it when it opens the file.
    with pytest.raises(EventStoreUnusable, match="damaged"):
        with_file(path, lambda store: store.request(KEY))


def test_an_event_beyond_the_limit_is_refused_by_name_and_those_beside_it_are_stored(path: Path) -> None:
    file = SQLiteFile(path, max_event_bytes=10_000)
    other = RequestKey("Desk", "r-2")

    error, fine = file.append([
        append_of(KEY, CONTEXT, 0, [publish(0), publish(1, data="x" * 20_000)], RUNNING),
        append_of(other, CONTEXT, 0, publishes(0, 1, "r-2"), RUNNING),
    ])  # fmt: skip

    assert isinstance(error, EventsTooLarge)
    assert "event e-1 of topic questions takes 20," in str(error)
    assert "10,000 is the most" in str(error)
    assert (fine, file.request(KEY), file.requests("Desk", [])) == (None, None, [other])
    file.close()


def test_a_file_that_is_opened_twice_in_a_process_loses_nothing_to_a_process_that_looks_into_it(path: Path) -> None:
    file = SQLiteFile(path)
    file.append([append_of(KEY, CONTEXT, 0, publishes(0, 1), RUNNING)])
    SQLiteFile(path).close()
    seen_elsewhere(path)

    file.append([append_of(RequestKey("Desk", "r-2"), CONTEXT, 0, publishes(0, 1, "r-2"), RUNNING)])

    assert seen_elsewhere(path, "SELECT count(*) FROM request") == "2"
    file.close()


LOCKING = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print(flush=True)
sys.stdin.read()
"""


@contextmanager
def locked_by_another(path: Path) -> Iterator[int]:
    """Have another process lock the file for writing; yield its id."""
    command = [sys.executable, "-c", LOCKING, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        yield other.pid


# --- who waits for whom ---------------------------------------------------------------------------------------------


def test_a_file_that_another_process_has_locked_is_waited_for_while_the_loop_runs(path: Path) -> None:
    async def body(store: SQLiteEventStore) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            appending = asyncio.ensure_future(append(store, 0, publishes(0, 1)))
            # The loop has all the time it needs.
            for _ in range(1_000):
                await asyncio.sleep(0)
            assert not appending.done()
            other.execute("COMMIT")
        await appending
        assert await events_of(store) == publishes(0, 1)

    with_file(path, body)


def test_a_file_that_stays_locked_is_reported_with_its_holder(path: Path) -> None:
    async def body(store: SQLiteEventStore) -> None:
        await append(store, 0, publishes(0, 1))
        with locked_by_another(path) as pid:
            with pytest.raises(EventStoreUnavailable, match=rf"it is locked by process {pid} "):
                await append(store, 1, publishes(1, 1))
            # Who reads waits for no writer.
            assert await events_of(store) == publishes(0, 1)
        await append(store, 1, publishes(1, 1))
        assert await events_of(store) == publishes(0, 2)

    with_file(path, body, busy_timeout_s=0.2)


def test_appends_that_wait_for_a_lock_are_one_transaction_afterwards(path: Path) -> None:
    def stored() -> int:
        with closing(sqlite3.connect(path)) as db:
            return int(db.execute("SELECT count(*) FROM request").fetchone()[0])

    def one(store: SQLiteEventStore, number: int) -> asyncio.Future[None]:
        key = RequestKey("Desk", f"r-{number}")
        return asyncio.ensure_future(append(store, 0, publishes(0, 1, key.request_id), key=key))

    async def body(store: SQLiteEventStore) -> None:
        seen: set[int] = set()
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            appends = [one(store, 0)]
            await asyncio.sleep(0)
            while store.waiting:
                await asyncio.sleep(0)
            # It is on its way, and waits for the lock. Those that come now wait for it.
            appends += [one(store, number) for number in range(1, 50)]
            while store.waiting < 49:
                await asyncio.sleep(0)
            other.execute("COMMIT")
        while not all(each.done() for each in appends):
            await asyncio.sleep(0)
            seen.add(stored())
        assert seen | {stored()} <= {0, 1, 50}

    with_file(path, body)


# --- a disk that is full --------------------------------------------------------------------------------------------

FULL_DISK = """
import asyncio, resource, signal, sys
from pathlib import Path
from afl_stream.pubsub.event_stores.errors import EventStoreUnavailable
from afl_stream.pubsub.event_stores.sqlite import SQLiteEventStore
from tests.contract.event_store_contract import append, events_of, publish, publishes

async def main():
    store = SQLiteEventStore(Path(sys.argv[1]))
    await append(store, 0, publishes(0, 10))
    # Files cannot grow beyond this.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    try:
        await append(store, 10, [publish(10, data="x" * 1_000_000)])
    except EventStoreUnavailable as error:
        print(error)
    print(await events_of(store) == publishes(0, 10))
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await append(store, 10, publishes(10, 1))
    print(await events_of(store) == publishes(0, 11))
    await store.close()

asyncio.run(main())
"""


def test_a_full_disk_leaves_a_request_as_it_was(path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )

    said, *checks = ran.stdout.splitlines()
    assert f"event store {path}: " in said, ran.stderr
    assert checks == ["True", "True"]
    with_file(path, lambda store: append(store, 11, publishes(11, 1), FINISHED))
