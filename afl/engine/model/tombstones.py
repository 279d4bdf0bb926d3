"""The tombstone of a purged workflow: enough to recognise late answers and repeated starts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from afl.core.limits import EXACT_IN_DOUBLE

#: States of a tombstone. They are stored: never change one. PURGING: rows of the workflow are still to be deleted.
PURGING, PURGED = "purging", "purged"


@dataclass
class Tombstone:
    """A workflow that was finished and purged. Times in milliseconds since the epoch."""

    workflow_id: str
    #: Qualified name of the workflow, and the fingerprint of its program.
    name: str
    program: str
    #: The result of `digest_of_inputs` for its inputs, without the sensitive ones: these could be guessed from it.
    inputs_digest: str
    #: Its final status: COMPLETED, ERROR or CANCELLED.
    status: str
    created_at_ms: int = 0
    ended_at_ms: int = 0
    purged_at_ms: int = 0
    state: str = PURGING


def digest_of_inputs(inputs: Mapping[str, object]) -> str:
    """Return a digest that is the same for inputs that are equal as AFL compares them: 1 is 1.0, and is not true."""
    return hashlib.sha256(_encode(_canonical(dict(inputs))).encode()).hexdigest()


#: Made once: `json.dumps` makes another encoder for each call with options.
_encode: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode


def _canonical(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(name): _canonical(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(entry) for entry in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= EXACT_IN_DOUBLE:
        return int(value)
    return value
