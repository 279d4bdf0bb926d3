"""How ids are made and read: derived from what they name, so that doing the same work twice makes the same ids."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from hashlib import blake2b
from secrets import randbits
from typing import Final, NamedTuple

#: Bytes of the digest in a step's id. 96 bits: a workflow of ten million steps has a clash once in 10^15 runs.
DIGEST_BYTES = 12
#: The colon before it, and its hex digits.
_DIGEST_CHARS = 1 + 2 * DIGEST_BYTES


def derived_id(workflow_id: str, parent_id: str, key: str) -> str:
    """A step's id: its workflow's, and a digest of its place (the parent's, and the key under it)."""
    parent = parent_id[: len(workflow_id) + _DIGEST_CHARS]
    return f"{workflow_id}:{blake2b(f'{parent}/{key}'.encode(), digest_size=DIGEST_BYTES).hexdigest()}"


def place_of(step_id: str) -> str:
    """What a step's id says of its place: all of it, but for the mark of a later generation (generations.py)."""
    return step_id[: step_id.rfind(":") + _DIGEST_CHARS]


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


#: Made again from nothing, and going on with what is inside of the generation before.
AGAIN: Final = "a"
CONTINUED: Final = "c"


class Generation(NamedTuple):
    """Which generation a step is of, and whether it was made from nothing."""

    number: int
    is_fresh: bool


_FIRST: Final = Generation(1, True)


def generation_of(step_id: str) -> Generation:
    """The generation that a step's id tells."""
    mark = step_id[len(place_of(step_id)) :]
    return _FIRST if not mark else Generation(int(mark[1:], 16), mark[0] == AGAIN)


def made_again(step_id: str, generation: int) -> str:
    """The id of the step of the same place that is made from nothing in a generation."""
    return f"{place_of(step_id)}{AGAIN}{generation:x}"


def continued(step_id: str, generation: int) -> str:
    """The id of the step of the same place that goes on, in a generation, with what is inside of this one."""
    return f"{place_of(step_id)}{CONTINUED}{generation:x}"


def time_ordered_id(now_ms: int, random_bits: Callable[[int], int] = randbits) -> str:
    """Draw an id that sorts by its time: the lower-case text of a UUIDv7.

    `now_ms` is the time in milliseconds since the epoch (48 bits are kept), `random_bits(n)` gives n random bits.
    Ids that grow keep a store's primary key dense, where random ones split its pages on each insert.
    """
    stamp = now_ms & 0xFFFF_FFFF_FFFF
    value = stamp << 80 | 0x7 << 76 | random_bits(12) << 64 | 0b10 << 62 | random_bits(62)
    return str(uuid.UUID(int=value))
