"""Searches over the workflows of a SQLite store: by indexes where there is one, else in the rows' documents."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Final

from afl.engine.model.visibility import ProgramUse, WorkflowFilter, WorkflowPlace
from afl.engine.model.workflow_rows import WorkflowRow
from afl.stores.document_searches import (
    PROGRAM_ENDS,
    PROGRAM_STARTS,
    VALUES_START,
    facet_mark,
    stored_error_text,
    stored_inputs,
    stored_program,
)
from afl.stores.sqlite.connections import Connections, key_of, text_of
from afl.stores.sqlite.rows import SELECT_WORKFLOW, Row, first_text

#: The fingerprint in a workflow's document, which begins with the versions.
_REST: Final = f"substr(w.document, instr(w.document, X'{PROGRAM_STARTS.hex()}') + {len(PROGRAM_STARTS)})"
_PROGRAM: Final = f"substr({_REST}, 1, instr({_REST}, X'{PROGRAM_ENDS.hex()}') - 1)"
#: A step of the workflow that names a facet before its values.
_CALLS: Final = f"""
EXISTS (SELECT 1 FROM step s WHERE s.id >= w.id || ':' AND s.id < w.id || ';'
    AND instr(substr(s.document, 1, instr(s.document, X'{VALUES_START.hex()}')), ?) > 0)
"""
_USES: Final = f"""
SELECT {_PROGRAM} AS program, name, status, count(*), min(created_at_ms), max(created_at_ms)
FROM workflow w GROUP BY program, name, status
"""
#: Rows that are read at once where some of them may not fit.
_PAGE: Final = 500


class SqliteVisibility:
    """The part of `SqliteStore` that searches workflows."""

    _file: Connections

    @abstractmethod
    def _workflow(self, row: Row) -> WorkflowRow: ...

    def find_workflows(
        self, wanted: WorkflowFilter, *, after: WorkflowPlace | None = None, limit: int = 100
    ) -> list[WorkflowRow]:
        """Return the workflows that fit, newest first; see `VisibilityStore`."""
        conditions, values = _conditions(wanted)
        page = max(limit, _PAGE) if wanted.has_contents else limit
        found: list[WorkflowRow] = []
        while True:
            rows = self._page_after(after, conditions, values, page)
            for row in rows:
                if wanted.takes_contents(row):
                    found.append(row)
                    if len(found) == limit:
                        return found
            if len(rows) < page:
                return found
            after = WorkflowPlace.of(rows[-1])

    def _page_after(
        self, after: WorkflowPlace | None, conditions: Sequence[str], values: Sequence[object], limit: int
    ) -> list[WorkflowRow]:
        where, given = [*conditions], [*values]
        if after is not None:
            # First: it is what the index begins with.
            where.insert(0, "(created_at_ms, w.id) < (?, ?)")
            given[:0] = [after.created_at_ms, key_of(after.workflow_id)]
        condition = f" WHERE {' AND '.join(where)}" if where else ""
        query = f"{SELECT_WORKFLOW}{condition} ORDER BY created_at_ms DESC, w.id DESC LIMIT ?"
        return [self._workflow(row) for row in self._file.rows(query, (*given, limit))]

    def program_uses(self) -> list[ProgramUse]:
        """Return who runs which program; see `VisibilityStore`."""
        return self._file.read("workflow", _USES, (), _use)

    def program_fingerprints(self) -> list[str]:
        """Return the fingerprints of all programs that are kept."""
        return self._file.read("program", "SELECT fingerprint FROM program", (), first_text)


def _conditions(wanted: WorkflowFilter) -> tuple[list[str], list[object]]:
    """Return conditions, the cheap ones first, and their values. Documents may contain what does not fit, too."""
    conditions: list[str] = []
    values: list[object] = []

    def require(condition: str, *its: object) -> None:
        conditions.append(condition)
        values.extend(its)

    if wanted.statuses:
        require(f"status IN ({_marks(wanted.statuses)})", *wanted.statuses)
    if wanted.names:
        require(f"name IN ({_marks(wanted.names)})", *map(key_of, wanted.names))
    if wanted.since_ms is not None:
        require("created_at_ms >= ?", wanted.since_ms)
    if wanted.before_ms is not None:
        require("created_at_ms < ?", wanted.before_ms)
    if wanted.programs:
        require(f"{_PROGRAM} IN ({_marks(wanted.programs)})", *map(stored_program, wanted.programs))
    if wanted.error_text:
        require("CAST(w.document AS TEXT) LIKE ? ESCAPE '\\'", _pattern(stored_error_text(wanted)))
    for texts in stored_inputs(wanted):
        require(f"({' OR '.join(['instr(i.document, ?) > 0'] * len(texts)) or 'FALSE'})", *texts)
    if wanted.facets:
        require(f"({' OR '.join([_CALLS] * len(wanted.facets))})", *map(facet_mark, wanted.facets))
    return conditions, values


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _pattern(text: bytes) -> str:
    escaped = text.decode().replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def _use(row: Row) -> ProgramUse:
    program, name, status, count, first_ms, last_ms = row
    shown: Any = program.decode() if isinstance(program, bytes) else text_of(program)
    return ProgramUse(shown, text_of(name), status, count, first_ms, last_ms)
