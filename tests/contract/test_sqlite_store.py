"""The SQLite store keeps the contract, survives its processes, and touches no file that is not its own."""

from __future__ import annotations

import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from afl.core.clock import ManualClock
from afl.engine.errors import (
    ForeignStore,
    StoreCorrupt,
    StoreUnavailable,
    VersionMismatchError,
    WorkflowConflict,
)
from afl.engine.model.entities import TaskState
from afl.engine.model.store import Batch, PositionMove
from afl.stores.documents import encode_step
from afl.stores.sqlite.migrations import FORMAT, OLDEST_FORMAT
from afl.stores.sqlite.schema import APPLICATION_ID
from afl.stores.sqlite.store import SqliteStore
from tests.contract.public_face_contract import PublicFaceContract
from tests.contract.store_contract import DurableContract, StoreContract
from tests.contract.store_rows import (
    CONTROL_0,
    WholeStore,
    change,
    public_step,
    start,
    step_document,
    task,
    without_identity,
    workflow_row,
)
from tests.contract.visibility_contract import VisibilityContract
from tests.contract.waiting_contract import DurableWaitingContract, WaitingContract, timer

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


class TestSqliteStore(
    StoreContract, PublicFaceContract, VisibilityContract, WaitingContract, DurableContract, DurableWaitingContract
):
    @pytest.fixture
    def store(self, path: Path, clock: ManualClock) -> Iterator[WholeStore]:
        store = SqliteStore(path, clock=clock)
        yield store
        store.close()

    @pytest.fixture
    def reopen(self, path: Path, clock: ManualClock) -> Iterator[Callable[[], WholeStore]]:
        opened: list[WholeStore] = []

        def open_again() -> WholeStore:
            opened.append(SqliteStore(path, create=False, clock=clock))
            return opened[-1]

        yield open_again
        for store in opened:
            store.close()


def test_an_ordinary_commit_and_load_ask_nothing_of_timers_histories_and_schedules(path: Path) -> None:
    store = SqliteStore(path)
    asked: list[str] = []
    store._file._writer.set_trace_callback(asked.append)
    start(store, "w", step_document("w:a"))
    with store._exclusive():
        assert store.load_workflow("w") is not None
        assert store.load_steps("w")
    store.close()

    assert [statement.split()[0] for statement in asked] == [
        "BEGIN", "INSERT", "INSERT", "INSERT", "COMMIT", "BEGIN", "SELECT", "SELECT", "COMMIT",
    ]  # fmt: skip
    assert not [statement for statement in asked if re.search("timer|history|schedule", statement)]


@pytest.mark.parametrize(
    ("read", "index"),
    [
        (lambda store: store.next_timer_ms(), "timer_due"),
        (lambda store: store.timers_due(5, after=timer("w:a", 4)), "timer_due"),
        (lambda store: store.timers_of("w"), "timer_workflow"),
        (lambda store: store.pending_events(["w", "v"]), "history_pending"),
        (lambda store: store.history("w"), "history_number"),
        (lambda store: store.history_sizes(["w", "v"]), "history_number"),
        (lambda store: store.known_events([("w", "e")]), "history_event"),
        (lambda store: store.early_workflows(after="a"), "history_early"),
        (lambda store: store.schedules_due(5), "schedule_due"),
        (lambda store: store.next_schedule_ms(), "schedule_due"),
    ],
    ids=["next timer", "due", "of a workflow", "pending", "history", "sizes", "known", "early", "schedules", "next"],
)
def test_reads_of_what_waits_go_along_an_index(path: Path, read: Callable[[SqliteStore], object], index: str) -> None:
    store = SqliteStore(path)
    asked: list[str] = []
    with store._file.writing() as db:
        db.set_trace_callback(asked.append)
        read(store)
        db.set_trace_callback(None)
        (query,) = [statement for statement in asked if statement.lstrip().startswith(("SELECT", "WITH"))]
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {query}")]
    store.close()

    assert [step for step in plan if index in step and "USING" in step], plan
    assert not [step for step in plan if "TEMP B-TREE" in step or step in ("SCAN timer", "SCAN history")], plan


def test_closing_leaves_one_file(path: Path) -> None:
    store = SqliteStore(path)
    start(store, "w", step_document("w:a"))
    assert store.load_steps("w")

    store.close()

    assert list(path.parent.iterdir()) == [path]


def test_a_closed_store_says_so(path: Path) -> None:
    store = SqliteStore(path)
    store.close()

    with pytest.raises(StoreUnavailable, match="closed"):
        store.load_workflow("w")
    with pytest.raises(StoreUnavailable, match="closed"):
        start(store, "w")
    store.close()


def test_readers_do_not_wait_for_a_writer_and_see_the_last_commit(path: Path) -> None:
    store = SqliteStore(path)
    start(store, "w")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("UPDATE workflow SET revision = 9")

    assert store.revisions(["w"]) == {"w": 1}

    other.execute("ROLLBACK")
    other.close()
    store.close()


def test_a_writer_that_is_kept_out_for_too_long_says_who_holds_the_file(path: Path) -> None:
    store = SqliteStore(path, busy_timeout_s=0.01)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreUnavailable, match=r"it is locked \(database is locked\)"):
        start(store, "w")

    other.execute("ROLLBACK")
    start(store, "w")
    other.close()
    store.close()


def test_threads_read_while_others_write(path: Path) -> None:
    store = SqliteStore(path)
    start(store, "w", step_document("w:a", number=0), step_document("w:b", number=1))
    done = threading.Event()
    torn: list[object] = []

    def read() -> None:
        while not done.is_set():
            revisions = {step.revision for step in store.load_steps("w")}
            if len(revisions) != 1:
                torn.append(revisions)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for revision in range(2, 52):
        steps = [step_document("w:a", number=0, revision=revision), step_document("w:b", number=1, revision=revision)]
        store.commit_batch(Batch(changes=[change(workflow_row("w", revision), *steps)]))
    done.set()
    for reader in readers:
        reader.join()

    assert torn == []
    store.close()


OTHER_PROCESS = """
import sys
from afl.engine.errors import WorkflowConflict
from afl.engine.model.store import Batch
from afl.stores.sqlite.store import SqliteStore
from tests.contract.store_rows import change, step_document, workflow_row
store = SqliteStore(sys.argv[1])
print([step.id for step in store.load_steps("w")], flush=True)
for line in sys.stdin:
    revision = int(line)
    try:
        store.commit_batch(Batch(changes=[change(workflow_row("w", revision), step_document("w:b", number=1))]))
        print("committed", flush=True)
    except WorkflowConflict as conflict:
        print(conflict, flush=True)
"""


def test_another_process_on_the_file_sees_commits_and_conflicts(path: Path) -> None:
    store = SqliteStore(path)
    start(store, "w", step_document("w:a"))
    with subprocess.Popen(
        [sys.executable, "-c", OTHER_PROCESS, str(path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "['w:a']\n"

        store.commit_batch(Batch(changes=[change(workflow_row("w", 2))]))
        other.stdin.write("2\n")
        assert "workflows w" in other.stdout.readline()
        other.stdin.write("3\n")
        assert other.stdout.readline() == "committed\n"
        other.stdin.close()

    assert [step.id for step in store.load_steps("w")] == ["w:a", "w:b"]
    with pytest.raises(WorkflowConflict):
        store.commit_batch(Batch(changes=[change(workflow_row("w", 3))]))
    store.close()


KILLED_PROCESS = """
import sys
from afl.engine.model.store import Batch, PositionMove
from afl.stores.sqlite.store import SqliteStore
from tests.contract.store_rows import CONTROL_0, change, outbox_record, step_document, workflow_row
store = SqliteStore(sys.argv[1])
filler = "x" * 2000
for revision in range(1, 1_000_000):
    steps = {
        w: [step_document(f"{w}:{n}", number=n, revision=revision, params={"filler": filler}) for n in range(100)]
        for w in "vw"
    }
    batch = Batch(
        changes=[change(workflow_row(w, revision), *steps[w]) for w in "vw"],
        outbox=[outbox_record(str(revision))],
        positions=[PositionMove(position=CONTROL_0, expected=revision - 1 or None, next_offset=revision)],
    )
    store.commit_batch(batch)
    print(revision, flush=True)
"""


@pytest.mark.parametrize("commits", [1, 7, 20])
def test_a_process_killed_in_the_middle_of_commits_leaves_each_whole_or_not_at_all(path: Path, commits: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED_PROCESS, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        reported = [int(process.stdout.readline()) for _ in range(commits)][-1]
        process.kill()

    store = SqliteStore(path)

    revision = store.revisions(["w"])["w"]
    assert revision >= reported
    assert store.revisions(["v"]) == {"v": revision}
    for workflow_id in "vw":
        assert [step.revision for step in store.load_steps(workflow_id)] == [revision] * 100
    assert store.positions() == {CONTROL_0: revision}
    assert [stored.record.value for stored in store.outbox()] == [str(n + 1).encode() for n in range(revision)]
    store.close()


CRASHING_PROCESS = """
import os, signal, sys
from afl.engine.model.store import Batch, PositionMove
from afl.stores.sqlite.store import SqliteStore
from tests.contract.store_rows import CONTROL_0, change, outbox_record, step_document, workflow_row
def crash(step):
    if step == f"store.{sys.argv[2]}":
        os.kill(os.getpid(), signal.SIGKILL)
SqliteStore(sys.argv[1], probe=crash).commit_batch(
    Batch(
        changes=[change(workflow_row("w", 2), step_document("w:b", number=1, revision=2))],
        outbox=[outbox_record("a")],
        positions=[PositionMove(position=CONTROL_0, expected=None, next_offset=5)],
    )
)
"""


@pytest.mark.parametrize(("step", "whole"), [("compared", False), ("written", False), ("committed", True)])
def test_a_crash_between_the_steps_of_a_commit_leaves_all_of_it_or_nothing(path: Path, step: str, whole: bool) -> None:
    store = SqliteStore(path)
    start(store, "w", step_document("w:a"))
    store.close()

    crashed = subprocess.run([sys.executable, "-c", CRASHING_PROCESS, str(path), step], cwd=ROOT, check=False)

    assert crashed.returncode == -signal.SIGKILL
    store = SqliteStore(path)
    assert store.revisions(["w"]) == {"w": 2 if whole else 1}
    assert [step.id for step in store.load_steps("w")] == (["w:a", "w:b"] if whole else ["w:a"])
    assert len(store.outbox()) == whole
    assert store.positions() == ({CONTROL_0: 5} if whole else {})
    store.close()


def test_an_exception_in_the_middle_of_a_commit_leaves_nothing_and_the_store_continues(path: Path) -> None:
    def fail(step: str) -> None:
        if step == "store.written":
            raise KeyboardInterrupt

    store = SqliteStore(path, probe=fail)
    with pytest.raises(KeyboardInterrupt):
        start(store, "v")

    assert store.load_workflow("v") is None
    store.save_step(public_step())
    assert store.step_count() == 1
    store.close()


OPENING_PROCESS = """
import sys
from afl.stores.sqlite.store import SqliteStore
from tests.contract.store_rows import start
start(SqliteStore(sys.argv[1]), sys.argv[2])
"""


def test_processes_that_make_the_file_at_the_same_time_share_one_store(path: Path) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", OPENING_PROCESS, str(path), f"w{number}"], cwd=ROOT)
        for number in range(3)
    ]

    assert [process.wait() for process in processes] == [0, 0, 0]
    store = SqliteStore(path, create=False)
    assert store.revisions(["w0", "w1", "w2"]) == {"w0": 1, "w1": 1, "w2": 1}
    store.close()


def test_an_index_keeps_a_step_to_one_running_task(path: Path) -> None:
    store = SqliteStore(path)
    store.save_task(task("t", step_id="w:a", state=TaskState.RUNNING))
    store.close()
    with closing(sqlite3.connect(path)) as file, file:
        sql = file.execute("SELECT sql FROM sqlite_master WHERE name = 'event_stepId_running_unique_index'").fetchone()

    assert "UNIQUE" in sql[0]


def test_a_file_whose_maker_died_before_its_first_table_becomes_a_store(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA auto_vacuum = INCREMENTAL")
    assert path.stat().st_size > 0

    with closing(SqliteStore(path)) as store:
        start(store, "w")

    with closing(SqliteStore(path)) as store:
        assert store.revisions(["w"]) == {"w": 1}


# Files that are not ours.


def header_with(application_id: int, user_version: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        file = sqlite3.connect(path)
        file.execute("CREATE TABLE theirs(x)")
        file.execute(f"PRAGMA application_id = {application_id}")
        file.execute(f"PRAGMA user_version = {user_version}")
        file.commit()
        file.close()

    return make


def store_of_another_prefix(path: Path) -> None:
    store = SqliteStore(path, "tenant.")
    start(store, "w")
    store.close()


@pytest.mark.parametrize(
    ("make", "found", "expected"),
    [
        (header_with(0, 0), "SQLite database of another program", f"{APPLICATION_ID:#010x}"),
        (header_with(0x0F055111, 4), "SQLite database of another program (application id 0x0f055111)", "store"),
        (header_with(APPLICATION_ID, FORMAT + 1), f"format {FORMAT + 1}", f"{OLDEST_FORMAT} to {FORMAT}: upgrade"),
        (store_of_another_prefix, "'tenant.'", "'afl.'"),
    ],
)
def test_a_foreign_file_is_named_and_left_alone(
    path: Path, make: Callable[[Path], None], found: str, expected: str
) -> None:
    make(path)
    before = path.read_bytes()

    with pytest.raises(ForeignStore) as caught:
        SqliteStore(path)

    assert found in caught.value.found
    assert expected in caught.value.expected
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


#: How the release before kept positions.
POSITIONS_OF_FORMAT_1 = """
CREATE TABLE position(
    cluster_id, topic, partition INTEGER, next_offset INTEGER NOT NULL,
    PRIMARY KEY (cluster_id, topic, partition)) WITHOUT ROWID
"""


def store_of_format_1(path: Path) -> None:
    """Create a store with a workflow, and a position of a topic whose id was not noted."""
    store = SqliteStore(path)
    start(store, "w", step_document("w:a"))
    store.close()
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("DROP TABLE tombstones")
        file.execute("ALTER TABLE program DROP COLUMN versions")
        without_identity(file)
        file.execute("DROP TABLE position")
        file.execute(POSITIONS_OF_FORMAT_1)
        file.execute("INSERT INTO position VALUES (?, ?, ?, ?)", (*CONTROL_0[:3], 5))
        file.execute("PRAGMA user_version = 1")


def test_a_store_of_the_format_before_continues(path: Path) -> None:
    store_of_format_1(path)

    store = SqliteStore(path, create=False)
    known = CONTROL_0._replace(topic_id="t1")

    assert store.positions() == {CONTROL_0: 5}
    store.commit_batch(Batch(positions=[PositionMove(position=known, expected=5, next_offset=6, replaces=CONTROL_0)]))
    store.close()
    again = SqliteStore(path, create=False)
    assert again.positions() == {known: 6}
    assert [step.id for step in again.load_steps("w")] == ["w:a"]
    again.close()


def test_a_store_that_is_brought_up_says_so_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store_of_format_1(path)

    SqliteStore(path, create=False).close()
    SqliteStore(path, create=False).close()

    (said,) = [record.getMessage() for record in caplog.records]
    assert f"{path} was of format 1 and is now of format {FORMAT}: older releases refuse it" in said


def test_a_store_of_the_format_before_is_left_alone_while_another_process_has_it_open(path: Path) -> None:
    store_of_format_1(path)
    with closing(sqlite3.connect(path)) as older:
        assert older.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
        older.execute("SELECT count(*) FROM step").fetchall()

        with pytest.raises(StoreUnavailable, match=r"it is of format 1, and becomes .*end those of the older release"):
            SqliteStore(path, create=False, busy_timeout_s=0.1)

        assert older.execute("PRAGMA user_version").fetchone() == (1,)
        older.execute("UPDATE workflow SET runnable = 1")
        older.rollback()
    SqliteStore(path, create=False, busy_timeout_s=0.1).close()


def test_a_store_of_the_format_before_and_of_another_prefix_is_left_alone(path: Path) -> None:
    store_of_format_1(path)

    with pytest.raises(ForeignStore):
        SqliteStore(path, "tenant.")

    with closing(sqlite3.connect(path)) as file, file:
        assert file.execute("PRAGMA user_version").fetchone() == (1,)


@pytest.mark.parametrize(
    "content", [b"not a database", b"SQLite format 3\0cut", b"\0" * 8192], ids=["text", "cut", "zeros"]
)
def test_a_file_that_is_no_database_is_corrupt_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)

    with pytest.raises(StoreCorrupt) as caught:
        SqliteStore(path)

    assert str(path) in str(caught.value)
    assert path.read_bytes() == content


def test_a_store_with_damaged_pages_is_corrupt(path: Path) -> None:
    store = SqliteStore(path)
    start(store, "w", *(step_document(f"w:{number}", number=number) for number in range(200)))
    store.close()
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xa5" * (len(content) - 4096))

    with pytest.raises(StoreCorrupt, match=str(path)):
        SqliteStore(path).load_steps("w")


def test_a_store_without_its_tables_is_corrupt(path: Path) -> None:
    header_with(APPLICATION_ID, FORMAT)(path)

    with pytest.raises(StoreCorrupt, match="no such table"):
        SqliteStore(path)


@pytest.mark.parametrize("content", [b"[1", b"{}", b"[]", b"\xff", b'["1.0 1.0 0.1.0"]', "text", 5])
@pytest.mark.parametrize(
    ("table", "named"), [("step", "step w:a"), ("workflow", "workflow w"), ("tasks", "an entry of tasks")]
)
def test_a_damaged_document_is_corrupt_and_named(path: Path, table: str, named: str, content: object) -> None:
    store = SqliteStore(path)
    start(store, "w", step_document("w:a"))
    store.save_task(task("t"))
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(f"UPDATE {table} SET document = ?", (content,))

    with pytest.raises(StoreCorrupt, match=named):
        (store.load_steps("w"), store.load_workflow("w"), store.get_task("t"))
    store.close()


def test_a_document_of_a_newer_runtime_is_refused_by_version(path: Path) -> None:
    store = SqliteStore(path)
    start(store, "w", step_document("w:a"))
    newer = encode_step(step_document("w:a")).replace(b"1.0 1.0 0.1.0", b"1.0 2.0 0.1.0")
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE step SET document = ?", (newer,))

    with pytest.raises(VersionMismatchError) as caught:
        store.load_steps("w")

    assert caught.value.component == "step_schema_version"
    store.close()


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()

    store = SqliteStore(path)
    start(store, "w")

    assert store.revisions(["w"]) == {"w": 1}
    store.close()


def test_a_missing_file_is_made_only_when_told(path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="no such file"):
        SqliteStore(path, create=False)

    assert not path.exists()


def test_sqlites_own_name_for_memory_is_refused_and_makes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreUnavailable, match="use MemoryStore"):
        SqliteStore(":memory:")

    assert list(tmp_path.iterdir()) == []


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=f"directory {tmp_path / 'missing'} does not exist"):
        SqliteStore(tmp_path / "missing" / "store.db")


def test_a_directory_in_the_files_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="directory"):
        SqliteStore(tmp_path)


def test_a_directory_that_can_not_be_written_to_is_refused() -> None:
    # /proc takes no new files from anyone: permission bits would not stop a test that runs as root.
    with pytest.raises(StoreUnavailable, match="unable to open"):
        SqliteStore(Path("/proc/store.db"))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="which files are open is read from /proc")
def test_a_file_that_is_found_damaged_is_closed(path: Path) -> None:
    SqliteStore(path).close()
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xff" * (len(content) - 100))

    # The error's traceback keeps what the opening had opened: nothing is closed by chance.
    with pytest.raises(StoreCorrupt) as caught:
        SqliteStore(path)

    open_files = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert path not in open_files
    assert caught.tb is not None
