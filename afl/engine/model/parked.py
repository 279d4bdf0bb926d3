"""Answers that came before what they speak of, and what a store tells of them: most questions need no values."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedRecord:
    """A control record that came before what it speaks of: applied when that appears, dead-lettered when it expires."""

    #: Identity, the same when the record is read again: `topic/partition/offset`.
    id: str
    workflow_id: str
    step_id: str
    #: The record as it came: value, key, headers.
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
    """A parked record without what came: enough to say whether it is worth reading."""

    id: str
    workflow_id: str
    step_id: str
    #: About what the record takes in the store.
    size_bytes: int
    parked_at_ms: int
    expires_at_ms: int
    #: The revision that last wrote its step; 0: there is none, the workflow has ended, or nobody asked.
    step_revision: int = 0


class ParkedWorkflow(NamedTuple):
    """A workflow of the store that answers are parked for."""

    workflow_id: str
    revision: int
    records: int


class ParkedUsage(NamedTuple):
    """How much is parked."""

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
        """Parked records with their values, in order of parking: those of these ids, of a step, or of a workflow."""

    def parked_heads(self, *, expired_at_ms: int | None = None, limit: int = 1_000) -> list[ParkedHead]:
        """Parked records without values, in order of parking: all of them, or those whose expiry has come."""

    def parked_workflows(self) -> list[ParkedWorkflow]:
        """The workflows that are in the store and have parked records."""

    def parked_due(self, workflow_ids: Collection[str]) -> list[ParkedHead]:
        """The parked records of these workflows that may have found what they speak of, in order of parking: those
        whose step is in the store, and all of a workflow that has ended.
        """

    def parked_usage(self, workflow_id: str | None = None) -> ParkedUsage:
        """How much is parked for a workflow, or in all."""
