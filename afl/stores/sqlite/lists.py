"""Lists of a SQLite store's workflows, and what one of them has open."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from afl.engine.model.entities import TaskState
from afl.engine.model.store import StoredOutboxRecord, WorkflowHead, WorkflowRow
from afl.stores.sqlite.connections import Connections, key_of, text_of
from afl.stores.sqlite.rows import SELECT_OUTBOX, SELECT_WORKFLOW, Row, first_text, outbox_record

_SELECT_HEADS: Final = (
    "SELECT id, revision, updated_at_ms FROM workflow WHERE status = ? ORDER BY created_at_ms DESC, id DESC LIMIT ?"
)
_SELECT_RUNNABLE: Final = "SELECT id FROM workflow WHERE runnable = 1 ORDER BY created_at_ms, id LIMIT ?"
#: The table has few rows, and no index.
_SELECT_KEYS: Final = "SELECT DISTINCT key FROM outbox WHERE key >= ? AND key < ?"
_SELECT_RUNNING: Final = f"SELECT key FROM tasks WHERE key >= ? AND key < ? AND state = '{TaskState.RUNNING}'"


class SqliteLists:
    """The part of `SqliteStore` that lists workflows and waiting records, by indexes that have their order."""

    _file: Connections

    @abstractmethod
    def _workflow(self, row: Row) -> WorkflowRow: ...

    def list_workflows(
        self, *, status: str | None = None, name: str | None = None, limit: int = 100
    ) -> list[WorkflowRow]:
        """Return workflows, newest first."""
        wanted = {"status": status, "name": None if name is None else key_of(name)}
        conditions = {column: value for column, value in wanted.items() if value is not None}
        where = f" WHERE {' AND '.join(f'{column} = ?' for column in conditions)}" if conditions else ""
        rows = self._file.rows(
            f"{SELECT_WORKFLOW}{where} ORDER BY created_at_ms DESC, id DESC LIMIT ?", (*conditions.values(), limit)
        )
        return [self._workflow(row) for row in rows]

    def workflow_heads(self, *, status: str, limit: int = 1_000) -> list[WorkflowHead]:
        """Return the newest workflows in a status; see `Store`."""
        return self._file.read("workflow", _SELECT_HEADS, (status, limit), _head)

    def runnable_workflows(self, *, limit: int = 1_000) -> list[str]:
        """Return the ids of workflows that have more to do now, oldest first."""
        return self._file.read("workflow", _SELECT_RUNNABLE, (limit,), first_text)

    def outbox(
        self,
        *,
        lane: str | None = None,
        older_than_ms: int | None = None,
        newer_than_ms: int | None = None,
        after: int = 0,
        limit: int = 1_000,
    ) -> list[StoredOutboxRecord]:
        """Return waiting records in sequence order; see `Store`."""
        wanted = (after, None if lane is None else key_of(lane), older_than_ms, limit, newer_than_ms)
        return self._file.read("outbox", SELECT_OUTBOX, wanted, outbox_record)

    def lanes(self) -> list[str]:
        """Return the lanes that have waiting records."""
        return sorted(self._file.read("outbox lane", "SELECT DISTINCT lane FROM outbox", (), first_text))

    def _open_of(self, workflow_id: str) -> tuple[set[bytes], set[str]]:
        start, end = f"{workflow_id}:", f"{workflow_id};"
        keys = self._file.rows(_SELECT_KEYS, (start.encode(errors="surrogatepass"), end.encode(errors="surrogatepass")))
        running = self._file.read("tasks", _SELECT_RUNNING, (key_of(start), key_of(end)), first_text)
        return {row[0] for row in keys}, set(running)


def _head(row: Row) -> WorkflowHead:
    workflow_id, revision, updated_at_ms = row
    return WorkflowHead(text_of(workflow_id), revision, updated_at_ms or 0)
