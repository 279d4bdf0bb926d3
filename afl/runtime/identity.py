"""How ids are made and read: derived from what they name, so that doing the same work twice makes the same ids."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from afl.runtime.plan import StatementPlan
    from afl.runtime.records import Frame

#: Bytes of the digest in a step's id. 96 bits: a workflow of ten million steps has a clash once in 10^15 runs.
DIGEST_BYTES = 12


def derived_id(workflow_id: str, parent_id: str, key: str) -> str:
    """A step's id: its workflow's, and a digest of its place (the parent's id, and the key under it)."""
    return f"{workflow_id}:{blake2b(f'{parent_id}/{key}'.encode(), digest_size=DIGEST_BYTES).hexdigest()}"


def statement_step_id(workflow_id: str, frame: Frame, plan: StatementPlan) -> str:
    """The derived id of a statement's step: `derived_id` of its block's id and its name, which all statements of the
    block go on from, so that what they share is digested once."""
    shared = frame.digest
    if shared is None:
        shared = frame.digest = blake2b(f"{frame.step.id}/".encode(), digest_size=DIGEST_BYTES)
    digest = shared.copy()
    digest.update(plan.key)
    return f"{workflow_id}:{digest.hexdigest()}"


def workflow_of(step_id: str) -> str | None:
    """The workflow that a step of the engine's belongs to; None for an id of another make."""
    workflow_id, separator, _ = step_id.rpartition(":")
    return workflow_id if separator else None


def event_id_of(step_id: str, attempt: int) -> str:
    """An event's id: its step's, and which attempt it is."""
    return f"{step_id}#{attempt}"


def split_event_id(event_id: str) -> tuple[str, int] | None:
    """The step and attempt of an event of the engine's; None for an id of another make."""
    step_id, mark, attempt = event_id.rpartition("#")
    # Longer numbers are nobody's attempt: reading them as one would only cost time.
    if not mark or not attempt.isascii() or not attempt.isdecimal() or len(attempt) > 18:
        return None
    return step_id, int(attempt)
