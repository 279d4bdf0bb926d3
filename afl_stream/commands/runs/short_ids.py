"""Beginnings of workflow ids, where a command is given one in place of the whole id."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from afl.stores.public.persistence import EngineStore
    from afl_stream.commands.terminal import Terminal

#: An id that a client has drawn, and a beginning of one: 8 digits at least.
_DRAWN: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.ASCII)
#: Where the parts of such an id end, but for the last.
_PARTS: Final = (8, 13, 18, 23)
_BEGINNING: Final = re.compile(r"[0-9a-f]{8}[0-9a-f-]*\Z", re.ASCII)


def short_id(store: EngineStore, workflow_id: str) -> str:
    """Return the shortest beginning of an id that was drawn, by its parts, which no other run's id has.

    An id that somebody has chosen is returned whole.
    """
    if _DRAWN.match(workflow_id):
        for end in _PARTS:
            start = workflow_id[:end]
            if sum(found.startswith(start) for found in store.workflow_ids(after=start, limit=2)) == 1:
                return start
    return workflow_id


def is_short(workflow_id: str) -> bool:
    """Return whether this may be the beginning of an id that was drawn."""
    return bool(_BEGINNING.match(workflow_id)) and not _DRAWN.match(workflow_id)


def meant_id(store: EngineStore | None, terminal: Terminal, workflow_id: str) -> str:
    """Return the id that a command that changes a run is for.

    It may be given by the first 8 digits, or more, of an id that was drawn. An id that somebody has chosen is given
    whole: `order-1` may be a run that has not been started yet, and must not become `order-17`. Raises NoSuchWorkflow
    where several runs begin so.
    """
    if store is None or not is_short(workflow_id):
        return workflow_id
    from afl_stream.visibility.workflows import NoSuchWorkflow, full_id

    try:
        found = full_id(store, workflow_id)
    except NoSuchWorkflow as error:
        if error.near:
            raise
        return workflow_id
    if found == workflow_id or not _DRAWN.match(found):
        return workflow_id
    terminal.remark(f"{workflow_id} is short for {found}")
    return found
