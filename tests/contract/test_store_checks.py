"""Checks of the stores in memory and in a file, and what only one of them can have wrong."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from afl.core.clock import ManualClock
from afl.core.versions import RUNTIME_VERSION
from afl.engine.model.entities import TaskDefinition
from afl.engine.model.store import PAUSED, Batch, StepDocument, WorkflowRow
from afl.engine.model.upkeep import StepEntry
from afl.stores.documents import encode_step, encode_workflow
from afl.stores.entity_documents import encode_entity
from afl.stores.maintenance.check import Inspection
from afl.stores.memory.steps import KeptSteps
from afl.stores.memory.store import MemoryStore
from afl.stores.sqlite.store import SqliteStore
from tests.contract.inspection_contract import DONE, WAITING, Case, Damage, InspectionContract, findings_of
from tests.contract.store_rows import WholeStore, change, start, step_document, task, workflow_row


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


class MemoryDamage:
    """Changes the dictionaries."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def put_workflow(self, row: WorkflowRow) -> None:
        self._store._workflows[row.id] = row

    def delete_workflow(self, workflow_id: str) -> None:
        del self._store._workflows[workflow_id]

    def put_step(self, step: StepDocument) -> None:
        self._store._steps.setdefault(step.workflow_id, KeptSteps()).by_id()[step.id] = step

    def delete_step(self, step_id: str) -> None:
        del self._store._steps[step_id.partition(":")[0]].by_id()[step_id]

    def put_program(self, fingerprint: str, content: bytes) -> None:
        self._store._programs[fingerprint] = content

    def delete_program(self, fingerprint: str) -> None:
        del self._store._programs[fingerprint]

    def put_task(self, task: TaskDefinition) -> None:
        self._store._task_queue.put(task)

    def delete_task(self, task_id: str) -> None:
        del self._store._task_queue.by_id[task_id]


class SqliteDamage:
    """Changes the file by SQL."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _write(self, sql: str, *values: object) -> None:
        with closing(sqlite3.connect(self._path)) as file, file:
            file.execute(sql, values)

    def put_workflow(self, row: WorkflowRow) -> None:
        self._write(
            "UPDATE workflow SET revision = ?, status = ?, runnable = ?, document = ?, steps = NULL WHERE id = ?",
            row.revision,
            row.status,
            row.runnable,
            encode_workflow(row),
            row.id,
        )

    def delete_workflow(self, workflow_id: str) -> None:
        self._write("DELETE FROM workflow WHERE id = ?", workflow_id)

    def put_step(self, step: StepDocument) -> None:
        self._write(
            "INSERT OR REPLACE INTO step(id, revision, state, document) VALUES (?, ?, ?, ?)",
            step.id,
            step.revision,
            step.state,
            encode_step(step),
        )

    def delete_step(self, step_id: str) -> None:
        self._write("DELETE FROM step WHERE id = ?", step_id)

    def put_program(self, fingerprint: str, content: bytes) -> None:
        self._write("INSERT OR REPLACE INTO program(fingerprint, content) VALUES (?, ?)", fingerprint, content)

    def delete_program(self, fingerprint: str) -> None:
        self._write("DELETE FROM program WHERE fingerprint = ?", fingerprint)

    def put_task(self, task: TaskDefinition) -> None:
        self._write("DROP INDEX IF EXISTS event_stepId_running_unique_index")
        self._write(
            "INSERT OR REPLACE INTO tasks(key, name, state, task_list_name, step_id, created, document)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            task.uuid,
            task.name,
            task.state,
            task.task_list_name,
            task.step_id,
            task.created,
            encode_entity(task),
        )

    def delete_task(self, task_id: str) -> None:
        self._write("DELETE FROM tasks WHERE key = ?", task_id)


class TestChecksInMemory(InspectionContract):
    @pytest.fixture
    def store(self, clock: ManualClock) -> WholeStore:
        return MemoryStore(clock=clock)

    @pytest.fixture
    def damage(self, store: MemoryStore) -> Damage:
        return MemoryDamage(store)

    def test_a_workflow_that_is_listed_as_runnable_and_is_not_is_found(self, case: Case, store: MemoryStore) -> None:
        store._runnable[WAITING] = None

        assert [line.split(" ")[0] for line in findings_of(store)] == ["workflow.runnable_index"]

    def test_outbox_records_that_are_not_in_order_are_found(self, case: Case, store: MemoryStore) -> None:
        case.send()
        case.send()
        store._outbox = dict(reversed(store._outbox.items()))

        assert [line.split(" ")[0] for line in findings_of(store)] == ["outbox.sequence"]


class TestChecksInSqlite(InspectionContract):
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "store.db"

    @pytest.fixture
    def store(self, path: Path, clock: ManualClock) -> Iterator[WholeStore]:
        store = SqliteStore(path, clock=clock)
        yield store
        store.close()

    @pytest.fixture
    def damage(self, store: WholeStore, path: Path) -> Damage:
        return SqliteDamage(path)

    @pytest.mark.parametrize(("table", "kind"), [("workflow", "workflow"), ("step", "step"), ("tasks", "tasks")])
    def test_what_cannot_be_read_is_found_row_by_row(self, case: Case, path: Path, table: str, kind: str) -> None:
        with closing(sqlite3.connect(path)) as file, file:
            file.execute(f"UPDATE {table} SET document = x'00'")
            (count,) = file.execute(f"SELECT count(*) FROM {table}").fetchone()

        found = [line for line in findings_of(case.store) if line.startswith(f"{kind}.unreadable ")]

        assert len(found) == count
        assert all("expected what was written" in line for line in found)

    @pytest.mark.parametrize(("table", "kind"), [("workflow", "workflow"), ("step", "step"), ("tasks", "tasks")])
    def test_what_a_newer_release_wrote_is_found_row_by_row(
        self, case: Case, path: Path, table: str, kind: str
    ) -> None:
        with closing(sqlite3.connect(path)) as file, file:
            sql = f"UPDATE {table} SET document = CAST(replace(CAST(document AS TEXT), ?, '7.0\"') AS BLOB)"
            file.execute(sql, (f'{RUNTIME_VERSION}"',))
            (count,) = file.execute(f"SELECT count(*) FROM {table}").fetchone()

        found = [line for line in findings_of(case.store) if line.startswith(f"{kind}.version ")]

        assert len(found) == count
        assert all("runtime_version 7.0" in line and "upgrade this process" in line for line in found)

    @pytest.mark.parametrize(
        ("kind", "damage", "names"),
        [
            ("history", "UPDATE history SET document = x'00'", WAITING),
            ("history", 'UPDATE history SET document = \'["7.0 1.0 1.0","",null,"",""]\'', WAITING),
            ("history", "UPDATE history SET kind = 'Nothing'", WAITING),
            ("timer", "UPDATE timer SET kind = 'nothing'", "shop:s"),
            ("schedule", "UPDATE schedule SET document = '[1]'", "nightly"),
        ],
    )
    def test_what_waits_and_cannot_be_read_is_found(
        self, case: Case, path: Path, kind: str, damage: str, names: str
    ) -> None:
        case.remember(WAITING)
        case.time("shop:s")
        case.keep_schedule()
        with closing(sqlite3.connect(path)) as file, file:
            file.execute(damage)

        found = [line for line in findings_of(case.store) if line.startswith(f"{kind}.")]

        assert len(found) == 1, found
        assert found[0].split(" ")[0] in (f"{kind}.unreadable", f"{kind}.version")
        assert names in found[0]

    def test_a_program_that_a_newer_release_wrote_is_found_once_for_each_workflow(self, case: Case, path: Path) -> None:
        with closing(sqlite3.connect(path)) as file, file:
            file.execute("UPDATE program SET versions = '1.0 1.0 7.0'")

        found = findings_of(case.store)

        assert [line.split(" ")[:3] for line in found] == [
            ["program.version", "", DONE],
            ["program.version", "", WAITING],
        ]


class BusyStore(MemoryStore):
    """A store in which a workflow changes each time that its steps are read, a given number of times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self._times = times

    def examine_steps(self, workflow_id: str) -> list[StepEntry]:
        found = super().examine_steps(workflow_id)
        if self._times:
            self._times -= 1
            row = self.load_workflow(workflow_id)
            assert row is not None
            self._workflows[workflow_id] = row._replace(revision=row.revision + 1)
        return found


@pytest.mark.parametrize(("times", "busy"), [(3, []), (99, ["w"])])
def test_a_workflow_that_changes_meanwhile_is_looked_at_again(times: int, busy: list[str]) -> None:
    store = BusyStore(times)
    pauses: list[float] = []
    start(store, "w", step_document("w:a"))
    inspection = Inspection(store=store, pause=pauses.append)

    kinds = {finding.kind for finding in inspection.findings()}

    assert inspection.busy == busy
    assert ("workflow.steps" in kinds) is not bool(busy)
    assert pauses == sorted(pauses)
    assert len(pauses) == 5


def test_a_task_that_ends_while_it_is_looked_at_is_no_finding() -> None:
    class Ending(MemoryStore):
        def get_task(self, task_id: str) -> TaskDefinition | None:
            found = super().get_task(task_id)
            if found is not None:
                found.state = "completed"
            return found

    store = Ending()
    row = workflow_row("w", status=PAUSED)._replace(steps=1)
    document = step_document("w:a", state="state.statement.Complete")
    store.commit_batch(Batch(changes=[change(row, document)]))
    store.save_task(task("w:a#1", step_id="w:a"))

    assert not [line for line in findings_of(store) if line.startswith("tasks.")]


def test_an_answer_that_becomes_visible_in_parts_is_no_finding() -> None:
    store = MemoryStore()
    row = workflow_row("w", status=PAUSED)._replace(steps=1)
    store.commit_batch(Batch(changes=[change(row, step_document("w:a", state="state.statement.Complete"))]))
    pending = task("w:a#1", step_id="w:a")
    store.save_task(pending)
    ended = replace(pending, state="completed")
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            store.save_task(ended)

    found = [str(finding) for finding in Inspection(store=store, pause=pause).findings()]

    assert not [line for line in found if line.startswith("tasks.")]
    assert len(pauses) >= 3
