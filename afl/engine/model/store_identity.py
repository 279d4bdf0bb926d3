"""Which store this is: an id that it got when it was made, and marks that tell it from copies of itself."""

from __future__ import annotations

import socket
import uuid
from dataclasses import dataclass
from typing import Final, Protocol

#: Marks that a store keeps, the newest last. Each evaluator sets one now and then: far more than there are evaluators.
MARKS_KEPT: Final = 128


@dataclass(frozen=True, slots=True)
class StoreIdentity:
    """The id of a store, and the marks that were set in it last.

    A copy of a store has its id. From then on the two are set different marks, so a mark that is not here was set in a
    copy, or in this store after the copy that it was restored from.
    """

    id: str
    marks: tuple[str, ...] = ()

    def with_mark(self, mark: str) -> StoreIdentity:
        """The identity once this mark is set."""
        return StoreIdentity(self.id, (*self.marks, mark)[-MARKS_KEPT:])


class IdentifiedStore(Protocol):
    """What every store says of itself."""

    def identity(self) -> StoreIdentity:
        """Which store this is, as it is stored now."""

    def location(self) -> str:
        """Where the store is, for people: host and path, or an url without who asks. Another place, another text."""

    def add_mark(self, mark: str) -> None:
        """Set a mark, durably; the oldest one goes where there are more than MARKS_KEPT."""

    def renew_identity(self) -> StoreIdentity:
        """Give the store another id and no marks: from now on it is another store than its copies."""


def new_store_id() -> str:
    """Draw the id of a store."""
    return uuid.uuid4().hex


def new_mark() -> str:
    """Draw a mark."""
    return uuid.uuid4().hex[:16]


def this_host() -> str:
    """The name of this machine, as others are told where a store was seen."""
    return socket.gethostname() or "localhost"
