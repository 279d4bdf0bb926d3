"""Errors about a compiled program, or about a name that is looked up in one."""

from __future__ import annotations

from collections.abc import Sequence

from afl.core.errors import AFLError
from afl.core.text.exception_text import exception_line


class ProgramError(AFLError):
    """A compiled program that cannot be used: what is wrong, and where."""


def malformed(error: Exception) -> ProgramError:
    """Return what is said of a tree that cannot be read or written as JSON."""
    return ProgramError(f"the program is malformed: {exception_line(error)}")


class ProgramVersionError(ProgramError):
    """A compiled program in a form that this release does not read: a newer one, or more than one version older."""

    def __init__(self, found: str, supported: str, is_newer: bool) -> None:
        remedy = "upgrade this process" if is_newer else "compile its source again with this release"
        super().__init__(f"the program has schemaVersion {found}, this release reads up to {supported}: {remedy}")
        self.found, self.supported, self.is_newer, self.remedy = found, supported, is_newer, remedy


class WrongFingerprint(ProgramError):
    """The text of a program does not have the fingerprint under which it was found."""

    def __init__(self, fingerprint: str, found: str) -> None:
        super().__init__(f"the text under program {fingerprint} has the fingerprint {found}")
        self.fingerprint, self.found = fingerprint, found


class UnknownName(ProgramError):
    """A name that the program does not declare."""

    def __init__(self, what: str, name: str, near: Sequence[str] = ()) -> None:
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        super().__init__(f"no {what} named {name!r}{hint}")
        self.name, self.near = name, tuple(near)


class AmbiguousName(ProgramError):
    """A short name that several declarations have."""

    def __init__(self, what: str, name: str, candidates: Sequence[str]) -> None:
        super().__init__(f"{what} {name!r} may be any of {', '.join(candidates)}; qualify it")
        self.name, self.candidates = name, tuple(candidates)
