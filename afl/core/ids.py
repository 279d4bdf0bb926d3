"""Ids: derived from what they name, so that repeated work makes the same ids."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from hashlib import blake2b
from secrets import randbits
from typing import Final, NamedTuple

from afl.core.limits import MAX_WORKFLOW_ID_CHARS

#: What a workflow's id is made of, as a regular expression.
WORKFLOW_ID_PATTERN: Final = rf"[A-Za-z0-9._~-]{{1,{MAX_WORKFLOW_ID_CHARS}}}"

#: What ids of schedule rows begin with that are no schedules of people: each file of a store has its own of them.
RESERVED: Final = "#"

#: Bytes of the digest in a step's id. 96 bits: a workflow of ten million steps has a clash once in 10^15 runs.
DIGEST_BYTES = 12
#: The length of the colon and its hex digits.
_DIGEST_CHARS = 1 + 2 * DIGEST_BYTES


def derived_id(workflow_id: str, parent_id: str, key: str) -> str:
    """Return a step's id: its workflow's id, and a digest of its place (the parent's, and the key under it)."""
    parent = parent_id[: len(workflow_id) + _DIGEST_CHARS]
    return f"{workflow_id}:{blake2b(f'{parent}/{key}'.encode(), digest_size=DIGEST_BYTES).hexdigest()}"


def id_of_place(step_id: str) -> str:
    """Return the part of a step's id that names its place: all but the mark of a later generation (generations.py)."""
    return step_id[: step_id.rfind(":") + _DIGEST_CHARS]


def workflow_of(step_id: str) -> str | None:
    """Return the workflow that a step of the engine belongs to; None for an id of another form."""
    workflow_id, separator, _ = step_id.rpartition(":")
    return workflow_id if separator else None


def event_id_of(step_id: str, attempt: int) -> str:
    """Return the id of the event that asks for this attempt of this step: `<step_id>#<attempt>`."""
    return f"{step_id}#{attempt}"


def split_event_id(event_id: str) -> tuple[str, int] | None:
    """Return the step and attempt of an event of the engine; None for an id of another form."""
    step_id, mark, attempt = event_id.rpartition("#")
    # A longer number is never an attempt: parsing it would only cost time.
    if not mark or not attempt.isascii() or not attempt.isdecimal() or len(attempt) > 18:
        return None
    return step_id, int(attempt)


#: The marks of steps that start from nothing, and of steps that continue the previous generation.
AGAIN: Final = "a"
CONTINUED: Final = "c"


class Generation(NamedTuple):
    """The generation of a step, and whether it started from nothing."""

    number: int
    is_fresh: bool


_FIRST: Final = Generation(1, True)


def generation_of(step_id: str) -> Generation:
    """Return the generation in a step's id."""
    mark = step_id[len(id_of_place(step_id)) :]
    return _FIRST if not mark else Generation(int(mark[1:], 16), mark[0] == AGAIN)


def made_again(step_id: str, generation: int) -> str:
    """Return the id of the step of the same place that starts from nothing in a generation."""
    return f"{id_of_place(step_id)}{AGAIN}{generation:x}"


def continued(step_id: str, generation: int) -> str:
    """Return the id of the step of the same place that continues, in a generation, with the steps inside this one."""
    return f"{id_of_place(step_id)}{CONTINUED}{generation:x}"


def time_ordered_id(now_ms: int, random_bits: Callable[[int], int] = randbits) -> str:
    """Draw an id that sorts by its time: the lower-case text of a UUIDv7.

    `now_ms` is the time in milliseconds since the epoch (48 bits are kept), `random_bits(n)` gives n random bits.
    Ids that grow keep a store's primary key dense, where random ones split its pages on each insert.
    """
    stamp = now_ms & 0xFFFF_FFFF_FFFF
    value = stamp << 80 | 0x7 << 76 | random_bits(12) << 64 | 0b10 << 62 | random_bits(62)
    return str(uuid.UUID(int=value))
