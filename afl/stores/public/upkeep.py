"""Tombstones in every store: entities like others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, TypeVar

from afl.engine.errors import StoreCorrupt, VersionMismatchError
from afl.engine.model.tombstones import Tombstone
from afl.engine.model.upkeep import StepEntry
from afl.stores.documents import DAMAGE

if TYPE_CHECKING:
    from afl.stores.public.store import KeptStep

#: Errors from reading an artifact that is damaged, or of another release.
UNREADABLE: Final = (StoreCorrupt, VersionMismatchError, *DAMAGE)

E = TypeVar("E")


class PublicUpkeep(ABC):
    """The part of `Upkeep` over a store's row primitives."""

    @abstractmethod
    def _put(self, entity: object) -> None: ...

    @abstractmethod
    def _get(self, kind: type[E], key: str) -> E | None: ...

    @abstractmethod
    def _find_step(self, step_id: str) -> KeptStep | None: ...

    def examine_step(self, step_id: str) -> StepEntry | None:
        """Return one step, or the reason why it cannot be read; None when it does not exist."""
        try:
            kept = self._find_step(step_id)
        except UNREADABLE as error:
            return StepEntry(step_id, None, error)
        return None if kept is None else StepEntry(step_id, kept.document)

    def tombstone(self, workflow_id: str) -> Tombstone | None:
        """Return the tombstone of a purged workflow."""
        return self._get(Tombstone, workflow_id)

    def save_tombstone(self, tombstone: Tombstone) -> None:
        """Insert or replace a tombstone."""
        self._put(tombstone)
