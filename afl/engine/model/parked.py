"""Answers that arrived before their subject, and a store's lists of them: most queries need no values."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedRecord:
    """A control record that arrived before its subject: applied when that appears, dead-lettered when it expires."""

    #: The identity, the same when the record is read again, and no other record's: its place and time.
    id: str
    workflow_id: str
    step_id: str
    #: The record as it was received: value, key, headers.
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    parked_at_ms: int
    expires_at_ms: int

    @property
    def size_bytes(self) -> int:
        """Bytes of key, value and headers."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


class ParkedHead(NamedTuple):
    """A parked record without its value: enough to decide whether to read it."""

    id: str
    workflow_id: str
    step_id: str
    #: The approximate size of the record in the store.
    size_bytes: int
    parked_at_ms: int
    expires_at_ms: int
    #: The revision that last wrote its step; 0: without a step, for an ended workflow, or not requested.
    step_revision: int = 0


class ParkedWorkflow(NamedTuple):
    """A workflow of the store that has parked answers."""

    workflow_id: str
    revision: int
    records: int


class ParkedUsage(NamedTuple):
    """The amount parked."""

    records: int
    size_bytes: int


class ParkedStore(Protocol):
    """The parked records of a store. They are written with a batch."""

    def parked(
        self,
        *,
        ids: Collection[str] | None = None,
        step_id: str | None = None,
        workflow_id: str | None = None,
        limit: int = 1_000,
    ) -> list[ParkedRecord]:
        """Return parked records with their values, in order of parking: of these ids, of a step, or of a workflow."""

    def parked_heads(self, *, expired_at_ms: int | None = None, limit: int = 1_000) -> list[ParkedHead]:
        """Return parked records without values, in order of parking: all of them, or those whose expiry has come."""

    def parked_workflows(self) -> list[ParkedWorkflow]:
        """Return the workflows that are in the store and have parked records."""

    def parked_due(self, workflow_ids: Collection[str]) -> list[ParkedHead]:
        """Return the parked records of these workflows that can be settled, in order of parking.

        These are records whose step is in the store, and all records of a workflow that has ended.
        """

    def parked_usage(self, workflow_id: str | None = None) -> ParkedUsage:
        """Return the amount parked for a workflow, or in all."""
