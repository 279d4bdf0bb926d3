"""Parked records of a SQLite store: rows whose values are read only for the record itself."""

from __future__ import annotations

from collections.abc import Collection
from operator import attrgetter
from typing import Final

from afl.engine.model.parked import ParkedHead, ParkedRecord, ParkedUsage, ParkedWorkflow
from afl.engine.model.store import ENDED_STATUSES
from afl.stores.sqlite.connections import Connections, key_of, text_of
from afl.stores.sqlite.rows import SELECT_PARKED, Row, parked_record

#: SQLite returns a value's length without reading the value.
_SIZE: Final = "ifnull(length(p.key), 0) + ifnull(length(p.value), 0) + ifnull(length(p.headers), 0)"
_HEAD: Final = f"p.id, p.workflow_id, p.step_id, {_SIZE}, p.parked_at_ms, p.expires_at_ms"
_ENDED: Final = ", ".join(f"'{status}'" for status in ENDED_STATUSES)
#: Counted along the index before the workflows are looked up, so each is looked up once.
_SELECT_WORKFLOWS: Final = """
SELECT w.id, w.revision, p.count
FROM (SELECT workflow_id, count(*) AS count FROM parked GROUP BY workflow_id) p JOIN workflow w ON w.id = p.workflow_id
ORDER BY w.id
"""
_SELECT_DUE: Final = f"""
SELECT {_HEAD}, CASE WHEN w.status IN ({_ENDED}) THEN 0 ELSE s.revision END
FROM parked p CROSS JOIN workflow w ON w.id = p.workflow_id LEFT JOIN step s ON s.id = p.step_id
WHERE p.workflow_id IN ({{places}})
AND (s.id IS NOT NULL OR w.status IN ({_ENDED}))
ORDER BY p.parked_at_ms, p.sequence
"""
#: Values of one statement. SQLite takes at least 999.
_MOST_VALUES: Final = 500


class SqliteParked:
    """The part of `SqliteStore` that keeps parked records."""

    _file: Connections

    def parked(
        self,
        *,
        ids: Collection[str] | None = None,
        step_id: str | None = None,
        workflow_id: str | None = None,
        limit: int = 1_000,
    ) -> list[ParkedRecord]:
        """Return parked records with their values, in order of parking; see `ParkedStore`."""
        found: list[tuple[int, ParkedRecord]] = []
        for some in [None] if ids is None else _slices(ids):
            conditions: list[str] = []
            values: list[object] = []
            if some is not None:
                conditions.append(f"id IN ({_places(some)})")
                values += map(key_of, some)
            for column, value in (("step_id", step_id), ("workflow_id", workflow_id)):
                if value is not None:
                    conditions.append(f"{column} = ?")
                    values.append(key_of(value))
            where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
            query = f"{SELECT_PARKED} {where} ORDER BY parked_at_ms, sequence LIMIT ?"
            found += self._file.read("parked", query, (*values, limit), lambda row: (row[-1], parked_record(row[:-1])))
        if ids is not None:
            found.sort(key=lambda entry: (entry[1].parked_at_ms, entry[0]))
        return [record for _, record in found[:limit]]

    def parked_heads(self, *, expired_at_ms: int | None = None, limit: int = 1_000) -> list[ParkedHead]:
        """Return parked records without values, in order of parking; see `ParkedStore`."""
        where, values = ("", ()) if expired_at_ms is None else ("WHERE p.expires_at_ms <= ?", (expired_at_ms,))
        query = f"SELECT {_HEAD}, 0 FROM parked p {where} ORDER BY p.parked_at_ms, p.sequence LIMIT ?"
        return self._file.read("parked", query, (*values, limit), _head)

    def parked_workflows(self) -> list[ParkedWorkflow]:
        """Return the workflows that are in the store and have parked records."""
        return self._file.read(
            "workflow", _SELECT_WORKFLOWS, (), lambda row: ParkedWorkflow(text_of(row[0]), row[1], row[2])
        )

    def parked_due(self, workflow_ids: Collection[str]) -> list[ParkedHead]:
        """Return the parked records whose step exists by now or whose workflow has ended; see `ParkedStore`."""
        found: list[ParkedHead] = []
        for some in _slices(workflow_ids):
            query = _SELECT_DUE.format(places=_places(some))
            found += self._file.read("parked", query, tuple(map(key_of, some)), _head)
        return sorted(found, key=attrgetter("parked_at_ms"))

    def parked_usage(self, workflow_id: str | None = None) -> ParkedUsage:
        """Return the amount parked for a workflow, or in all."""
        where, values = ("", ()) if workflow_id is None else ("WHERE p.workflow_id = ?", (key_of(workflow_id),))
        (row,) = self._file.rows(f"SELECT count(*), ifnull(sum({_SIZE}), 0) FROM parked p {where}", values)
        return ParkedUsage(row[0], row[1])


def _head(row: Row) -> ParkedHead:
    parked_id, workflow_id, step_id, size_bytes, parked_at_ms, expires_at_ms, step_revision = row
    return ParkedHead(
        text_of(parked_id),
        text_of(workflow_id),
        text_of(step_id),
        size_bytes,
        parked_at_ms,
        expires_at_ms,
        step_revision,
    )


def _slices(ids: Collection[str]) -> list[list[str]]:
    listed = list(ids)
    return [listed[start : start + _MOST_VALUES] for start in range(0, len(listed), _MOST_VALUES)]


def _places(values: Collection[str]) -> str:
    return ", ".join("?" * len(values))
