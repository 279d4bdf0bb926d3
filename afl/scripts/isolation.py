"""The measured isolation of scripts on this platform, and the isolation required to run them."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from afl.scripts.errors import ScriptsNotIsolated

#: The aspects of isolation: other processes and making new ones; the network, also to the own machine; files; memory
#: beyond the limit; the rights of a root user, whose limits do not bind.
ASPECTS: Final = frozenset(["processes", "network", "files", "memory", "privileges"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """The actions that an isolated process tried and was refused."""

    refused: frozenset[str]

    @classmethod
    def of_measurement(cls, measured: Mapping[str, object]) -> Isolation:
        """Take over a worker's measurement; an aspect that it does not mention was not refused."""
        return cls(refused=frozenset(aspect for aspect in ASPECTS if measured.get(aspect) is True))

    @property
    def missing(self) -> frozenset[str]:
        """The aspects from which scripts are not isolated."""
        return ASPECTS - self.refused

    def require(self, accept_missing: Collection[str] = ()) -> None:
        """Raise ScriptsNotIsolated when an aspect is missing that the operator does not accept by name.

        Raises ValueError for a name that is not in ASPECTS.
        """
        unknown = set(accept_missing) - ASPECTS
        if unknown:
            raise ValueError(f"accept_missing knows {', '.join(sorted(ASPECTS))}, not {', '.join(sorted(unknown))}")
        missing = self.missing - set(accept_missing)
        if missing:
            raise ScriptsNotIsolated(missing, f"{sys.platform}, user {os.getuid()}")


def require_posix() -> None:
    """Raise ScriptsNotIsolated where processes cannot be forked and limited at all; no setting accepts that."""
    if os.name != "posix":
        raise ScriptsNotIsolated(ASPECTS, f"{sys.platform} cannot fork and limit processes, whatever is accepted")
