"""What this platform shuts scripts off from, measured; and what it takes to run them at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from afl.scripts.errors import ScriptsNotIsolated

#: What a script must be shut off from: other processes and making new ones; the network, the own machine's included;
#: files; memory beyond its limit; the rights of a root user, whose limits don't bind.
ASPECTS: Final = frozenset(["processes", "network", "files", "memory", "privileges"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """What a shut-in process tried and was refused."""

    refused: frozenset[str]

    @classmethod
    def of_measurement(cls, measured: Mapping[str, object]) -> Isolation:
        """Take over a worker's measurement; what it doesn't speak of was not refused."""
        return cls(refused=frozenset(aspect for aspect in ASPECTS if measured.get(aspect) is True))

    @property
    def missing(self) -> frozenset[str]:
        """What scripts are not shut off from."""
        return ASPECTS - self.refused

    def require(self, accept_missing: Collection[str] = ()) -> None:
        """Raise ScriptsNotIsolated when more is missing than the operator accepts by name.

        Raises ValueError for a name that is none of ASPECTS.
        """
        unknown = set(accept_missing) - ASPECTS
        if unknown:
            raise ValueError(f"accept_missing knows {', '.join(sorted(ASPECTS))}, not {', '.join(sorted(unknown))}")
        missing = self.missing - set(accept_missing)
        if missing:
            raise ScriptsNotIsolated(missing, f"{sys.platform}, user {os.getuid()}")


def require_posix() -> None:
    """Raise ScriptsNotIsolated where processes cannot be forked and limited at all; nothing makes up for that."""
    if os.name != "posix":
        raise ScriptsNotIsolated(ASPECTS, f"{sys.platform} cannot fork and limit processes, whatever is accepted")
