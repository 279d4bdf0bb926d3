"""Versions of a program as people name them: the beginning of a fingerprint, or the one that is deployed now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from afl.core.text.printable import printable
from afl_stream.errors import StreamError
from afl_stream.programs.definitions import Definitions

#: The version that a workflow's name is deployed with.
CURRENT: Final = "current"
#: The fewest digits of a fingerprint that name a version.
_LEAST_DIGITS: Final = 4
_SHOWN_CHARS: Final = 80
_NAMED: Final = 3


class VersionUnclear(StreamError):
    """What names a version is too short, begins several programs, or needs a workflow that is not known."""

    def __init__(self, wanted: str, why: str) -> None:
        super().__init__(f"version {printable(wanted, _SHOWN_CHARS)}: {why}")
        self.wanted = wanted


class NoSuchVersion(StreamError):
    """No program that is known begins so."""

    def __init__(self, wanted: str) -> None:
        super().__init__(f"there is no version {printable(wanted, _SHOWN_CHARS)} among the programs that are deployed")
        self.wanted = wanted


def meant_version(definitions: Definitions, wanted: str, workflow: str | None, stored: Iterable[str] = ()) -> str:
    """Return the fingerprint that `wanted` names: its first digits, or CURRENT.

    `workflow`: whose current version is meant, None where it is not known; `stored`: fingerprints that runs have beside
    the deployed ones. Raises VersionUnclear, NoSuchVersion, UnknownProgram, and SchemaUnavailable.
    """
    if wanted == CURRENT:
        if workflow is None:
            raise VersionUnclear(wanted, "the workflow of the run is not known here: give the program's id")
        return definitions.find(workflow)[0].fingerprint
    if len(wanted) < _LEAST_DIGITS:
        raise VersionUnclear(wanted, f"give {_LEAST_DIGITS} digits of the program's id or more, or {CURRENT}")
    known = {*definitions.fingerprints(), *stored}
    found = sorted(fingerprint for fingerprint in known if fingerprint.startswith(wanted))
    if len(found) > 1:
        begun = ", ".join(found[:_NAMED])
        raise VersionUnclear(wanted, f"several programs begin so: {begun}; give more of the id")
    if not found:
        raise NoSuchVersion(wanted)
    return found[0]
