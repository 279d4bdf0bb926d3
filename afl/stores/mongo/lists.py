"""Lists of a MongoDB store's workflows, and searches over them: by indexes, and in the documents as they come."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from operator import itemgetter
from typing import Any, Final

from pymongo import ASCENDING, DESCENDING
from pymongo.collection import Collection as Documents

from afl.engine.model.store import WorkflowHead, WorkflowRow
from afl.engine.model.visibility import ProgramUse, WorkflowFilter, WorkflowPlace
from afl.stores.damaged_rows import taken
from afl.stores.document_searches import (
    calls_any,
    facet_mark,
    may_fit,
    program_in,
    stored_error_text,
    stored_inputs,
    stored_program,
)
from afl.stores.mongo.connection import Connection
from afl.stores.mongo.documents import PROGRAMS, STEPS, WORKFLOWS, Document, id_of, workflow_head
from afl.stores.stored_text import key_of, text_of

_NEWEST_FIRST: Final = [("created_at_ms", DESCENDING), ("_id", DESCENDING)]
#: Documents of one answer of the server, where many are looked at.
_AT_ONCE: Final = 2_000
#: Workflows whose steps are looked at together.
_WITH_STEPS: Final = 500


class MongoLists:
    """The part of `MongoStore` that lists workflows and searches them."""

    _mongo: Connection

    @abstractmethod
    def _reading(self, collection: str) -> AbstractContextManager[Documents[dict[str, Any]]]:
        """Yield a collection; errors of the client inside become the store's."""

    @abstractmethod
    def _workflow(self, found: Document) -> WorkflowRow: ...

    def list_workflows(
        self, *, status: str | None = None, name: str | None = None, limit: int = 100
    ) -> list[WorkflowRow]:
        """Return workflows, newest first."""
        wanted: dict[str, object] = {} if status is None else {"status": status}
        if name is not None:
            wanted["name"] = key_of(name)
        with self._reading(WORKFLOWS) as workflows:
            newest = workflows.find(wanted).sort([("created_at_ms", DESCENDING), ("_id", DESCENDING)])
            found = list(newest.limit(limit))
        return [self._workflow(document) for document in found]

    def workflow_heads(self, *, status: str, limit: int = 1_000) -> list[WorkflowHead]:
        """Return the newest workflows in a status; see `Store`."""
        with self._reading(WORKFLOWS) as workflows:
            newest = workflows.find({"status": status}, {"revision": 1, "updated_at_ms": 1})
            found = list(newest.sort([("created_at_ms", DESCENDING), ("_id", DESCENDING)]).limit(limit))
        return taken(self._mongo.name, "workflow", found, workflow_head, itemgetter("_id"))

    def runnable_workflows(self, *, limit: int = 1_000) -> list[str]:
        """Return the ids of workflows that have more to do now, oldest first."""
        with self._reading(WORKFLOWS) as workflows:
            oldest = workflows.find({"runnable": True}, {"_id": 1})
            found = list(oldest.sort([("created_at_ms", ASCENDING), ("_id", ASCENDING)]).limit(limit))
        return taken(self._mongo.name, "workflow", found, id_of, itemgetter("_id"))

    def find_workflows(
        self, wanted: WorkflowFilter, *, after: WorkflowPlace | None = None, limit: int = 100
    ) -> list[WorkflowRow]:
        """Return the workflows that fit, newest first; see `VisibilityStore`.

        What has no field of its own is compared here, in the documents as they come.
        """
        with self._reading(WORKFLOWS) as workflows:
            found = self._fitting(workflows, wanted, after, limit)
            if not wanted.facets:
                return list(islice(found, limit))
            rows: list[WorkflowRow] = []
            while chunk := list(islice(found, _WITH_STEPS)):
                calling = self._calling([row.id for row in chunk], wanted.facets)
                rows += [row for row in chunk if row.id in calling]
                if len(rows) >= limit:
                    break
            return rows[:limit]

    def _fitting(
        self, workflows: Documents[dict[str, Any]], wanted: WorkflowFilter, after: WorkflowPlace | None, limit: int
    ) -> Iterator[WorkflowRow]:
        programs = {*map(stored_program, wanted.programs)}
        error_text = stored_error_text(wanted) if wanted.error_text else b""
        inputs = stored_inputs(wanted)
        is_exact = not (programs or wanted.has_contents or wanted.facets)
        for conditions in _conditions(wanted, after):
            cursor = workflows.find(conditions).sort(_NEWEST_FIRST)
            cursor = cursor.limit(limit) if is_exact else cursor.batch_size(_AT_ONCE)
            for found in cursor:
                document = found["document"]
                if programs and program_in(document) not in programs:
                    continue
                if wanted.has_contents and not may_fit(document, found["inputs"], error_text, inputs):
                    continue
                row = self._workflow(found)
                if wanted.takes_contents(row):
                    yield row

    def _calling(self, workflow_ids: Sequence[str], facets: Sequence[str]) -> set[str]:
        marks = [*map(facet_mark, facets)]
        wanted = {"workflow_id": {"$in": [*map(key_of, workflow_ids)]}}
        with self._reading(STEPS) as steps:
            found = steps.find(wanted, {"workflow_id": 1, "document": 1}).batch_size(_AT_ONCE)
            return {text_of(step["workflow_id"]) for step in found if calls_any(step["document"], marks)}

    def program_uses(self) -> list[ProgramUse]:
        """Return who runs which program; see `VisibilityStore`. It looks at all workflows."""
        created: dict[tuple[bytes, Any, str], list[int]] = defaultdict(list)
        fields = {"name": 1, "status": 1, "created_at_ms": 1, "document": 1}
        with self._reading(WORKFLOWS) as workflows:
            for found in workflows.find({}, fields).batch_size(_AT_ONCE):
                created[program_in(found["document"]), found["name"], found["status"]].append(found["created_at_ms"])

        def use(found: tuple[tuple[bytes, Any, str], list[int]]) -> ProgramUse:
            (program, name, status), times = found
            return ProgramUse(program.decode(), text_of(name), status, len(times), min(times), max(times))

        return taken(self._mongo.name, "workflow program", created.items(), use, itemgetter(0))

    def program_fingerprints(self) -> list[str]:
        """Return the fingerprints of all programs that are kept."""
        with self._reading(PROGRAMS) as programs:
            return taken(self._mongo.name, "program", list(programs.find({}, {"_id": 1})), id_of, itemgetter("_id"))


def _conditions(wanted: WorkflowFilter, after: WorkflowPlace | None) -> list[Mapping[str, object]]:
    """Return what the server compares: one query, or for a later page two, each along the index."""
    fields: dict[str, object] = {}
    if wanted.statuses:
        fields["status"] = _any_of([*wanted.statuses])
    if wanted.names:
        fields["name"] = _any_of([*map(key_of, wanted.names)])
    created = {} if wanted.since_ms is None else {"$gte": wanted.since_ms}
    if wanted.before_ms is not None:
        created["$lt"] = wanted.before_ms
    if after is None:
        return [fields | ({"created_at_ms": created} if created else {})]
    same = {"created_at_ms": {**created, "$eq": after.created_at_ms}, "_id": {"$lt": key_of(after.workflow_id)}}
    earlier = {**created, "$lt": min(after.created_at_ms, created.get("$lt", after.created_at_ms))}
    return [fields | same, fields | {"created_at_ms": earlier}]


def _any_of(values: Sequence[object]) -> object:
    return values[0] if len(values) == 1 else {"$in": values}
