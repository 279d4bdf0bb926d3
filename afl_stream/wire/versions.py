"""The versions of records that this release reads, decided in one place for the whole stream side.

A record has three versions of its writer, in headers and, where its form has room for them, in its fields: of the
compiled program's form (workflow_version), of the form of steps and events (step_schema_version), and of the release
(runtime_version). The first number counts: a release reads its own (N) and the one before (N-1). A record of a newer
release waits, with its partition, for the upgrade of its reader; a record older than N-1 can never be read here. The
second number counts additions: readers skip unknown ones, so it makes no difference. A record without versions, as
people write them by hand, counts as written by this release.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from afl.core.versions import RUNTIME_VERSION, STEP_SCHEMA_VERSION, WORKFLOW_VERSION, Reading, major_of, reading_of
from afl_stream.errors import NewerFormat, Reason, Unreadable

#: The versions that this release writes, and reads up to: by the name of their field.
SUPPORTED: Final[Mapping[str, str]] = {
    "workflow_version": WORKFLOW_VERSION,
    "step_schema_version": STEP_SCHEMA_VERSION,
    "runtime_version": RUNTIME_VERSION,
}
#: The same as a tuple: nearly every record has it, so that readers compare once.
CURRENT: Final = tuple(SUPPORTED.values())
#: Header of each version. They are part of the wire: never change one.
HEADERS: Final[Mapping[str, str]] = {f"afl_{component}": component for component in SUPPORTED}


def check_version(component: str, found: str, supported: Mapping[str, str] = SUPPORTED) -> None:
    """Return when a release that supports `supported` reads records with this version of a component.

    Raises NewerFormat, and Unreadable (TOO_OLD; WRONG_TYPE for a malformed version).
    """
    if found == supported[component]:
        return
    theirs = major_of(found)
    if theirs is None:
        raise Unreadable(Reason.WRONG_TYPE, f"{component} {found[:40]!r} is not a version")
    ours = int(supported[component].partition(".")[0])
    reading = reading_of((theirs,), (ours,))
    if reading is Reading.NEWER:
        raise NewerFormat(f"{component} {found}", supported[component])
    if reading is Reading.TOO_OLD:
        raise Unreadable(
            Reason.TOO_OLD,
            f"{component} {found} was written by a release that this one does not read any more (it reads from "
            f"{max(ours - 1, 0)}.0 on): upgrade the writer and send the record again",
        )


def check_versions(found: tuple[str, ...], supported: Mapping[str, str] = SUPPORTED) -> None:
    """Check all three versions, in the order of SUPPORTED."""
    if found == CURRENT and supported is SUPPORTED:
        return
    for component, version in zip(supported, found, strict=True):
        check_version(component, version, supported)
