"""The identity of a store: an id from its creation, and marks that distinguish it from its copies."""

from __future__ import annotations

import socket
import uuid
from dataclasses import dataclass
from typing import Final, Protocol

#: The most marks that a store keeps, the newest last. Each evaluator sets one at intervals: far more than evaluators.
MARKS_KEPT: Final = 128


@dataclass(frozen=True, slots=True)
class StoreIdentity:
    """The id of a store, and the last marks set in it.

    A copy of a store has its id. From then on the two get different marks, so an unknown mark was set in a copy, or in
    this store after the backup that it was restored from.
    """

    id: str
    marks: tuple[str, ...] = ()

    def with_mark(self, mark: str) -> StoreIdentity:
        """Return the identity with this mark added."""
        return StoreIdentity(self.id, (*self.marks, mark)[-MARKS_KEPT:])


class IdentifiedStore(Protocol):
    """The interface for the identity of a store."""

    def identity(self) -> StoreIdentity:
        """Return the stored identity."""

    def location(self) -> str:
        """Return the location of the store for people: host and path, or a url without the user."""

    def add_mark(self, mark: str) -> None:
        """Set a mark, durably; beyond MARKS_KEPT the oldest one is deleted."""

    def renew_identity(self) -> StoreIdentity:
        """Give the store a new id and no marks: from now on it is another store than its copies."""


def new_store_id() -> str:
    """Generate the id of a store."""
    return uuid.uuid4().hex


def new_mark() -> str:
    """Generate a mark."""
    return uuid.uuid4().hex[:16]


def this_host() -> str:
    """Return the name of this machine, for messages about where a store was seen."""
    return socket.gethostname() or "localhost"
