"""A SQLite store in several files: divided and joined without a row lost, and read as one store."""

from __future__ import annotations

import os
import pickle
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from afl.core.clock import SystemClock
from afl.core.process.crashes import Crash
from afl.engine.errors import StoreCorrupt, StoreUnavailable
from afl.engine.model.entities import HandlerRegistration
from afl.engine.model.store import (
    COMPLETED,
    ERROR,
    Batch,
    OutboxRecord,
    ParkedRecord,
    Position,
    PositionMove,
    ScheduleChange,
    ScheduleRow,
    StoredOutboxRecord,
)
from afl.stores.maintenance.purge import Purge
from afl.stores.public.persistence import EngineStore
from afl.stores.sqlite.dividing import DIVIDED
from afl.stores.sqlite.store import SqliteStore
from afl_stream.evaluator.outbox import control_lane
from afl_stream.evaluator.parts.dividing import divide, set_strays_aside
from afl_stream.evaluator.parts.part_locks import held
from afl_stream.evaluator.parts.parted_store import ROUTES, NotOfAllParts, PartedStore, parts_within
from afl_stream.evaluator.sensitive.sealed_store import SEALED_LOCK
from afl_stream.evaluator.stores import open_configured_store, parts_index
from afl_stream.partitioner import partition_for
from afl_stream.settings.config import EmbeddedSettings, KafkaSettings, StreamConfig
from afl_stream.settings.store_parts import (
    StorePart,
    StoreParts,
    StorePartsUnreadable,
    part_path,
    parts_of,
    parts_path,
    write_parts,
)
from tests.scenarios.working_stores import work

PARTITIONS = 6
IDS = [f"run-{number}" for number in range(20)]

Rows = dict[str, list[tuple[object, ...]]]


@pytest.fixture
def config(tmp_path: Path) -> StreamConfig:
    """Return the settings of a deployment on Kafka whose data directory is the test's."""
    return StreamConfig(
        kafka=KafkaSettings(bootstrap="127.0.0.1:1"), embedded=EmbeddedSettings(data_dir=str(tmp_path / "data"))
    )


def partition_of(workflow_id: str) -> int:
    return partition_for(workflow_id.encode(), PARTITIONS)


@pytest.fixture
def filled(config: StreamConfig) -> StreamConfig:
    """Return the settings; their store has runs, what waits for them, and what belongs to no run."""
    with closing(open_configured_store(config)) as store:
        work(store, range(6))
        store.save_handler_registration(HandlerRegistration(facet_name="shop.Pay", module_uri="shop"))
        fill(store)
    return config


def fill(store: EngineStore) -> None:
    parked = [
        ParkedRecord(
            id=f"parked-{one}", workflow_id=one, step_id=f"{one}:1", topic="afl.control", partition=partition_of(one),
            offset=number, key=one.encode(), value=b"{}", headers=(), parked_at_ms=1, expires_at_ms=2,
        )
        for number, one in enumerate(IDS)
    ]  # fmt: skip
    store.commit_batch(
        Batch(
            outbox=[
                *(OutboxRecord(control_lane(partition_of(one)), "afl.lifecycle", one.encode(), b"x") for one in IDS),
                OutboxRecord("writer/1", "afl.events.x", f"{IDS[0]}:abc".encode(), b"y"),
            ],
            positions=[
                PositionMove(position=Position("cluster", topic, number, "id"), expected=None, next_offset=number + 1)
                for topic in ("afl.control", "afl.commands", "afl.external")
                for number in range(PARTITIONS)
            ],
            parked=parked,
            schedules=[
                ScheduleChange(one, 0, ScheduleRow(id=one, revision=1, next_at_ms=5, document={})) for one in IDS
            ],
            programs={"f" * 64: b"{}"},
        )
    )


def rows_of(*paths: Path) -> Rows:
    """Return the rows of files, table by table, without the numbers that only order them, and without identities."""
    found: Rows = {}
    for path in paths:
        with closing(sqlite3.connect(path)) as connection:
            for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                if table.startswith("sqlite_") or table == "store":
                    continue
                cursor = connection.execute(f"SELECT * FROM {table}")
                names = [column[0] for column in cursor.description]
                for row in cursor:
                    kept = tuple(value for name, value in zip(names, row, strict=True) if name != "sequence")
                    found.setdefault(table, []).append(kept)
    return {table: sorted(rows, key=repr) for table, rows in found.items()}


def paths_of(config: StreamConfig) -> list[Path]:
    base = config.store_path
    parts = parts_of(base)
    return [base] if parts is None else [part_path(base, part) for part in parts.all()]


# --- dividing -------------------------------------------------------------------------------------------------------


def test_a_store_that_is_divided_and_joined_again_has_every_row_once(filled: StreamConfig) -> None:
    before = rows_of(*paths_of(filled))
    assert {"workflow", "step", "outbox", "position", "parked", "schedule", "program", "tasks"} - before.keys() <= {
        "tasks"
    }

    for count in (3, 2, 4, 1):
        divide(filled, count)
        found = rows_of(*paths_of(filled))
        programs = found.pop("program")

        assert len(paths_of(filled)) == count
        assert sorted(set(programs), key=repr) == before["program"]
        assert len(programs) == count * len(before["program"])
        assert found == {table: rows for table, rows in before.items() if table != "program"}


def test_what_each_evaluator_writes_into_its_own_file_is_whole_in_every_new_file(filled: StreamConfig) -> None:
    divide(filled, 2)
    pauses = ScheduleRow(id="#pauses", revision=1, next_at_ms=None, document={"pauses": [["all", "", 1, ""]]})
    with closing(open_configured_store(filled)) as parted:
        for part in parts_within(parted):
            part.commit_batch(Batch(schedules=[ScheduleChange(pauses.id, 0, pauses)]))
            assert part.acquire_lock(SEALED_LOCK, 10**12)

    for count in (3, 1, 4):
        divide(filled, count)
        with closing(open_configured_store(filled)) as store:
            parts = parts_within(store)
            assert [part.schedule(pauses.id) for part in parts] == [pauses] * count
            assert None not in [part.check_lock(SEALED_LOCK) for part in parts]
            assert {row.id for row in store.schedules()} == {pauses.id, *IDS}


def test_each_row_is_in_the_file_of_its_workflow_or_partition(filled: StreamConfig) -> None:
    divide(filled, 3)

    for part, path in zip(StoreParts(3, "any").all(), paths_of(filled), strict=True):
        with closing(SqliteStore(path, prefix=filled.prefix, create=False)) as store:
            ids = [
                *store.workflow_ids(),
                *(row.workflow_id for row in store.parked_heads()),
                *map(id_of, store.schedules()),
            ]
            assert ids
            assert all(part.owns(partition_of(one)) for one in ids)
            assert {position.partition for position in store.positions()} == part.partitions(PARTITIONS)
            assert set(store.lanes()) - {"writer/1"} == {control_lane(n) for n in part.partitions(PARTITIONS)} & {
                control_lane(partition_of(one)) for one in IDS
            }


def id_of(row: ScheduleRow) -> str:
    return row.id


def test_the_steps_of_a_run_keep_their_order_and_the_store_its_identity(filled: StreamConfig) -> None:
    with closing(open_configured_store(filled)) as store:
        identity = store.identity()
        steps = {one: [step.id for step in store.load_steps(one)] for one in store.workflow_ids()}
    assert any(len(found) > 3 for found in steps.values())

    divide(filled, 4)
    with closing(open_configured_store(filled)) as parted:
        assert {one: [step.id for step in parted.load_steps(one)] for one in parted.workflow_ids()} == steps
        identities = [part.identity() for part in parts_within(parted)]

    assert identities[0] == identity
    assert len({one.id for one in identities}) == 4


def test_the_old_files_are_kept_and_nothing_takes_them_for_the_store(filled: StreamConfig) -> None:
    before = rows_of(*paths_of(filled))

    (kept,), strays = divide(filled, 2)

    assert rows_of(kept) == before
    assert (filled.store_path.exists(), strays) == (False, [])


#: Divides the store of the settings on standard input, and is killed at a point.
_KILLED = """
import os, pickle, signal, sys
from afl_stream.evaluator.parts.dividing import divide
config = pickle.load(sys.stdin.buffer)
divide(config, 2, probe=lambda name: os.kill(os.getpid(), signal.SIGKILL) if name == sys.argv[1] else None)
"""


@pytest.mark.parametrize("point", ["dividing.copied", "dividing.decided"])
def test_what_a_killed_division_has_left_is_set_aside_by_the_next_and_told(point: str, filled: StreamConfig) -> None:
    before = rows_of(*paths_of(filled))
    killed(filled, point)
    names = {path.name for path in paths_of(filled)}
    left = {path.name for path in filled.data_dir.glob("*.sqlite3")} - names
    assert len(left) == (2 if point == "dividing.copied" else 1)

    same_number = len(names)
    aside = divide(filled, 3).strays if point == "dividing.copied" else set_strays_aside(filled)

    assert {path.name.partition(".before-")[0] for path in aside} == left
    assert {path.name for path in filled.data_dir.glob("*.sqlite3")} == {path.name for path in paths_of(filled)}
    assert len(paths_of(filled)) == (3 if point == "dividing.copied" else same_number)
    divide(filled, 1)
    assert rows_of(*paths_of(filled)) == before


def killed(config: StreamConfig, point: str) -> None:
    """Begin to divide in a process of its own, which is killed at this point."""
    ended = subprocess.run([sys.executable, "-c", _KILLED, point], input=pickle.dumps(config), check=False)
    assert ended.returncode == -signal.SIGKILL


@pytest.mark.parametrize("point", ["dividing.copied", "dividing.decided"])
def test_a_division_that_crashes_leaves_the_store_whole_and_may_be_tried_again(
    point: str, filled: StreamConfig
) -> None:
    before = rows_of(*paths_of(filled))

    def probe(name: str) -> None:
        if name == point:
            raise Crash(name)

    with pytest.raises(Crash):
        divide(filled, 2, probe=probe)
    with closing(open_configured_store(filled, create=False)) as store:
        assert len(parts_within(store)) == (1 if point == "dividing.copied" else 2)
    divide(filled, 3)
    divide(filled, 1)

    assert rows_of(*paths_of(filled)) == before


def test_a_division_that_fails_leaves_nothing_that_looks_like_a_part(filled: StreamConfig) -> None:
    with closing(sqlite3.connect(filled.store_path)) as connection:
        connection.execute("CREATE TABLE novelty(id)")

    with pytest.raises(StoreCorrupt, match="table novelty is not known"):
        divide(filled, 2)

    assert [path.name for path in filled.data_dir.iterdir() if path.suffix != ".lock"] == [filled.store_path.name]


def test_a_store_that_is_in_use_is_not_divided(filled: StreamConfig) -> None:
    with closing(open_configured_store(filled)), pytest.raises(StoreUnavailable, match="it is in use"):
        divide(filled, 2)

    assert parts_of(filled.store_path) is None
    divide(filled, 2)


def test_nothing_is_written_to_the_old_file_until_the_new_ones_count(filled: StreamConfig) -> None:
    refused: list[str] = []

    def probe(point: str) -> None:
        if point == "dividing.copied":
            with pytest.raises(StoreUnavailable) as error:
                SqliteStore(filled.store_path, filled.prefix, busy_timeout_s=0.1)
            refused.append(str(error.value))

    divide(filled, 2, probe=probe)

    assert len(refused) == 1
    assert "it is locked" in refused[0]


def test_a_table_that_no_rule_knows_is_refused_and_every_table_of_a_store_is_known(filled: StreamConfig) -> None:
    path = filled.store_path
    with closing(sqlite3.connect(path)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        connection.execute("CREATE TABLE novelty(id)")

    assert {name for name in tables if not name.startswith("sqlite_")} == DIVIDED
    with pytest.raises(StoreCorrupt, match="table novelty is not known"):
        divide(filled, 2)


# --- all parts as one store -----------------------------------------------------------------------------------------


def test_every_method_of_a_store_has_a_route_and_no_route_is_left_over() -> None:
    methods = {
        name
        for kind in EngineStore.__mro__
        for name, value in vars(kind).items()
        if callable(value) and not name.startswith("_") and kind.__module__.startswith("afl.")
    }

    assert methods == ROUTES.keys() | {"location", "close"}


#: What is the same of one file and of several: each asks a store.
LOOKS: list[Callable[[EngineStore], object]] = [
    lambda store: store.list_workflows(limit=4),
    lambda store: store.list_workflows(),
    lambda store: store.workflow_ids(limit=3),
    lambda store: store.workflow_ids(after=IDS[0]),
    lambda store: store.ended_workflows(created_before_ms=10**15, limit=2),
    lambda store: store.unfinished_workflows(created_before_ms=10**15, limit=3),
    lambda store: store.revisions([*store.workflow_ids(), "none"]),
    lambda store: sorted(row.id for row in store.load_workflows([*store.workflow_ids(), "none"])),
    lambda store: sorted(head.id for head in store.workflow_heads(status=COMPLETED)),
    lambda store: [len(store.load_run(one)) for one in store.workflow_ids()],
    lambda store: sorted(store.waiting_keys()),
    lambda store: store.positions(),
    lambda store: [store.load_steps(one) for one in store.workflow_ids()],
    lambda store: store.schedules(limit=5),
    lambda store: store.schedule(IDS[3]),
    lambda store: store.next_schedule_ms(),
    lambda store: store.next_timer_ms(),
    lambda store: store.load_program("f" * 64),
    lambda store: sorted(row.id for row in store.parked_heads()),
    lambda store: store.list_handler_registrations(),
    lambda store: store.get_handler_registration("shop.Pay"),
    lambda store: sorted(store.lanes()),
    lambda store: store.prefix(),
    lambda store: sorted(row.record for row in outbox_in_pages(store)),
]


def outbox_in_pages(store: EngineStore) -> Iterator[StoredOutboxRecord]:
    after = 0
    while page := store.outbox(after=after, limit=4):
        assert [row.sequence for row in page] == sorted(row.sequence for row in page)
        after = page[-1].sequence
        yield from page


@pytest.mark.parametrize("look", LOOKS)
def test_several_files_answer_as_one_does(look: Callable[[EngineStore], object], filled: StreamConfig) -> None:
    with closing(open_configured_store(filled)) as store:
        expected = look(store)

    divide(filled, 3)
    with closing(open_configured_store(filled)) as parted:
        assert isinstance(parted, PartedStore)
        assert look(parted) == expected


def test_runs_of_all_parts_are_purged_and_forgotten_together(filled: StreamConfig) -> None:
    divide(filled, 3)
    with closing(open_configured_store(filled)) as store:
        ended = {row.id for row in store.list_workflows() if row.status in (COMPLETED, ERROR)}
        purge = Purge(store, SystemClock(), rows_per_slice=3)
        rows = list(purge.due(10**15))

        assert set(purge.purge_all(rows, purge.waiting())) == ended
        assert {stone.workflow_id for stone in store.tombstones(state="purged")} == ended
        assert [store.load_steps(one) for one in ended] == [[]] * len(ended)
        assert len({store.index_of(one) for one in ended}) > 1  # type: ignore[attr-defined]  # it has parts
        assert purge.forget(10**15) == len(ended)
        assert store.tombstones(state="purged") == []
        while purge.give_back():
            pass


def test_what_the_evaluator_of_a_part_does_is_refused_for_all_parts(filled: StreamConfig) -> None:
    divide(filled, 2)

    with closing(open_configured_store(filled)) as parted, pytest.raises(NotOfAllParts, match="commit_batch is for"):
        parted.commit_batch(Batch())


# --- which files count ----------------------------------------------------------------------------------------------


def test_a_part_has_its_partitions_and_each_partition_is_of_one_part() -> None:
    parts = StoreParts.new(4).all()

    assert [part.partitions(10) for part in parts] == [{0, 4, 8}, {1, 5, 9}, {2, 6}, {3, 7}]
    assert [str(part) for part in parts[:2]] == ["1 of 4", "2 of 4"]
    assert [StorePart.parse(part.as_option) for part in parts] == parts
    assert [StorePart.parse(text) for text in ("0/2", "3/2", "a/b", "1", "")] == [None] * 5


@pytest.mark.parametrize(
    "content", ["", "4", '{"count": 0, "id": "x"}', '{"count": 2}', '{"count": 2, "id": ""}', "[]"]
)
def test_a_damaged_note_of_the_parts_is_an_error_that_names_it(content: str, config: StreamConfig) -> None:
    base = config.store_path
    base.parent.mkdir(parents=True)
    parts_path(base).write_text(content)

    with pytest.raises(StorePartsUnreadable, match=r"store-kafka\.parts: it holds"):
        parts_of(base)


def test_parts_without_the_note_of_them_are_not_taken_for_no_store(filled: StreamConfig) -> None:
    divide(filled, 2)
    parts_path(filled.store_path).unlink()

    with pytest.raises(StorePartsUnreadable, match="there is no such file beside the parts"):
        open_configured_store(filled)


def test_a_store_of_an_evaluator_says_to_end_that_first(filled: StreamConfig) -> None:
    with held(filled.store_path), pytest.raises(StoreUnavailable, match="while no evaluator runs: end the command"):
        divide(filled, 2)


def test_the_note_of_the_parts_is_its_owners_alone(filled: StreamConfig) -> None:
    before = os.umask(0o022)
    try:
        divide(filled, 2)
    finally:
        os.umask(before)

    assert stat.S_IMODE(parts_path(filled.store_path).stat().st_mode) == 0o600


def test_one_process_has_a_part(config: StreamConfig) -> None:
    base = config.store_path
    base.parent.mkdir(parents=True)
    write_parts(base, StoreParts(2, "x"))
    path = part_path(base, StorePart(1, 2))

    with held(path):
        with pytest.raises(StoreUnavailable, match="another evaluator has it"), held(path):
            raise AssertionError("two have it")
        with held(part_path(base, StorePart(2, 2))):
            pass
    with held(path):
        pass


def test_the_index_of_a_part_follows_the_partition_of_the_workflow(config: StreamConfig) -> None:
    narrow = replace(config, topics=replace(config.topics, control_partitions=2))

    assert [parts_index(narrow, 2)(one) for one in IDS] == [partition_for(one.encode(), 2) for one in IDS]
    assert [parts_index(config, 4)(one) for one in IDS] == [partition_of(one) % 4 for one in IDS]
