"""A SQLite store of an older format whose process dies while it is brought up: it is the older one, or the new one."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from afl.engine.model.store import Batch, TimerKind, TimerRow
from afl.engine.states import EventState, StepState
from afl.stores.sqlite.migrations import FORMAT
from afl.stores.sqlite.store import SqliteStore
from tests.compatibility.dumps import sql_of
from tests.contract.store_rows import change, step_document, without_identity, without_waiting, workflow_row

ROOT = Path(__file__).parents[2]

#: Opens a store, and dies by SIGKILL just before one of the statements that SQLite is given; ends if there are fewer.
DYING_PROCESS = """
import os, signal, sqlite3, sys
from afl.stores.sqlite.store import SqliteStore
path, left = sys.argv[1], int(sys.argv[2])
def see(frame, event, function):
    global left
    if event == "c_call" and isinstance(getattr(function, "__self__", None), sqlite3.Connection):
        left -= function.__name__ in ("execute", "executemany")
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.setprofile(see)
SqliteStore(path, create=False).close()
"""

#: One process for each of these statements; the last ones come behind the migration.
_EVERY = 2
_MOST_STATEMENTS = 80


def of_format_4(file: sqlite3.Connection) -> None:
    without_waiting(file)


def of_format_2(file: sqlite3.Connection) -> None:
    without_identity(file)
    file.execute("DROP TABLE tombstones")
    file.execute("ALTER TABLE program DROP COLUMN versions")


def older_store(path: Path, number: int, make_older: Callable[[sqlite3.Connection], None]) -> None:
    """Create a store of an older format, with a step that has a deadline."""
    asked = step_document("w:a")._replace(
        state=StepState.EVENT_TRANSMIT, attempt=1, event_state=EventState.DISPATCHED, deadline_ms=7_000
    )
    with closing(SqliteStore(path)) as store:
        store.commit_batch(Batch(changes=[change(workflow_row("w"), asked)], programs={"fingerprint": b"program"}))
    with closing(sqlite3.connect(path)) as file, file:
        make_older(file)
        file.execute(f"PRAGMA user_version = {number}")


def format_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as file:
        found: int = file.execute("PRAGMA user_version").fetchone()[0]
        return found


def copy_of(path: Path, copy: Path) -> Path:
    """Copy a store's file, and what SQLite keeps beside it."""
    for beside in path.parent.glob(f"{path.name}*"):
        shutil.copy(beside, f"{copy}{beside.name.removeprefix(path.name)}")
    return copy


@pytest.mark.parametrize(("number", "make_older"), [(4, of_format_4), (2, of_format_2)])
def test_a_process_that_dies_while_a_store_is_brought_up_leaves_the_older_one_or_the_new_one(
    tmp_path: Path, number: int, make_older: Callable[[sqlite3.Connection], None]
) -> None:
    older = tmp_path / "older.db"
    older_store(older, number, make_older)
    before = sql_of(copy_of(older, tmp_path / "as-it-was.db"))
    left = set()

    for statements in range(1, _MOST_STATEMENTS, _EVERY):
        path = copy_of(older, tmp_path / f"{statements}.db")
        died = subprocess.run([sys.executable, "-c", DYING_PROCESS, str(path), str(statements)], cwd=ROOT, check=False)
        left.add(format_of(path))
        if format_of(path) == number:
            assert sql_of(path) == before
        with closing(SqliteStore(path, create=False)) as store:
            assert store.timers_due(10_000) == [TimerRow("w:a", "w", TimerKind.DEADLINE, 7_000)]
            assert [step.id for step in store.load_steps("w")] == ["w:a"]
            assert store.load_program("fingerprint") == b"program"
        assert format_of(path) == FORMAT
        if died.returncode == os.EX_OK:
            break
        assert died.returncode == -signal.SIGKILL
    else:
        pytest.fail(f"opening takes {_MOST_STATEMENTS} statements or more")

    assert left == {number, FORMAT}
