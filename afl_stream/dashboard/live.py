"""Live pages: one look at the store for all who look at the same, and a message to each when something has changed.

Only what somebody looks at is looked for, once for all of them: a hundred open pages ask the store as often as one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from starlette.concurrency import run_in_threadpool

from afl.core.errors import AFLError
from afl.core.text.exception_text import exception_line
from afl.engine.model.visibility import WorkflowFilter
from afl_stream.dashboard.deployment import Deployment

_log = logging.getLogger(__name__)

#: Between two looks at the store: seconds.
INTERVAL_S: Final = 1.0
#: After so many seconds without a message one is sent all the same, so that nothing on the way closes the connection.
KEEP_ALIVE_S: Final = 15.0
#: Things that are looked at, each with any number of pages; more are refused.
MOST_SUBJECTS: Final = 500
#: Runs whose changes count for the list: those of its first page.
_LISTED: Final = 50


class TooManySubjects(AFLError):
    """So many different things are looked at that one more would make looking expensive."""


@dataclass(slots=True)
class _Subject:
    mark: object = None
    waiting: set[asyncio.Event] = field(default_factory=set)


class LiveHub:
    """Tells pages of changes. Belongs to the event loop of its server."""

    def __init__(self, deployment: Deployment, *, interval_s: float = INTERVAL_S) -> None:
        self._deployment = deployment
        self._interval_s = interval_s
        self._subjects: dict[tuple[str, str], _Subject] = {}
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        #: How often the store was looked at; for tests.
        self.looks = 0

    @property
    def page_count(self) -> int:
        """Return how many pages are open."""
        return sum(len(subject.waiting) for subject in self._subjects.values())

    def require_room(self, kind: str, key: str) -> None:
        """Raise TooManySubjects where one more thing to look at would be too much."""
        if (kind, key) not in self._subjects and len(self._subjects) >= MOST_SUBJECTS:
            raise TooManySubjects(f"{MOST_SUBJECTS} different things are looked at live; reload the page to see it")

    async def messages(self, kind: str, key: str) -> AsyncIterator[str]:
        """Yield the messages to a page until it is closed: the text of server-sent events."""
        async with self._opened(kind, key) as changed:
            yield "retry: 3000\n\n"
            while not self._is_closed:
                try:
                    await asyncio.wait_for(changed.wait(), KEEP_ALIVE_S)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                changed.clear()
                if not self._is_closed:
                    yield "event: changed\ndata: 1\n\n"

    @asynccontextmanager
    async def _opened(self, kind: str, key: str) -> AsyncIterator[asyncio.Event]:
        subject = self._subjects.get((kind, key))
        if subject is None:
            subject = self._subjects[kind, key] = _Subject()
        changed = asyncio.Event()
        subject.waiting.add(changed)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())
        try:
            yield changed
        finally:
            subject.waiting.discard(changed)
            if not subject.waiting:
                self._subjects.pop((kind, key), None)

    async def _look(self) -> None:
        """Look at what pages show, until no page is open."""
        while self._subjects and not self._is_closed:
            keys = list(self._subjects)
            marks = await run_in_threadpool(self._marks, keys)
            for key, mark in marks.items():
                subject = self._subjects.get(key)
                if subject is None:
                    continue
                before, subject.mark = subject.mark, mark
                if before is not None and before != mark:
                    for changed in subject.waiting:
                        changed.set()
            await asyncio.sleep(self._interval_s)

    def _marks(self, keys: list[tuple[str, str]]) -> dict[tuple[str, str], object]:
        self.looks += 1
        found: dict[tuple[str, str], object] = {}
        try:
            store = self._deployment.store
            ids = [key for kind, key in keys if kind == "run"]
            revisions = store.revisions(ids) if ids else {}
            found.update({("run", key): revisions.get(key, 0) for key in ids})
            if ("runs", "") in keys:
                rows = store.find_workflows(WorkflowFilter(), limit=_LISTED)
                found["runs", ""] = tuple((row.id, row.revision) for row in rows)
        except AFLError as error:
            _log.debug("what changed is not known now: %s", exception_line(error))
        return found

    def close(self) -> None:
        """End all messages; any thread may call this through the loop."""
        self._is_closed = True
        for subject in self._subjects.values():
            for changed in subject.waiting:
                changed.set()
