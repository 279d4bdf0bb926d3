"""The versions of stored artifacts that this release reads: the only module of the engine that decides it.

Every artifact in a store has three versions of its writer: of the compiled program's form (workflow_version), of the
stored form of steps and related data (step_schema_version), and of the release (runtime_version). A version is
`major.minor`, with an optional third number for a fix that changes no form. A release reads its own versions,
everything older of the same major number (N), and everything of the previous major number (N-1). Newer versions are
refused, also by the minor number: an older release would write the artifact back without the parts that it does not
know. Data older than N-1 must be migrated by the releases in between, one after another.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from afl.core.versions import (
    RUNTIME_VERSION,
    STEP_SCHEMA_VERSION,
    WAITS_SCHEMA_VERSION,
    WORKFLOW_VERSION,
    Reading,
    reading_of,
)
from afl.engine.errors import VersionMismatchError


class Versions(NamedTuple):
    """The versions under which an artifact was written, or up to which a release reads."""

    workflow_version: str
    step_schema_version: str
    runtime_version: str

    @property
    def text(self) -> str:
        """The form in which they are stored in an artifact."""
        return " ".join(self)


#: The versions that this release writes.
WRITTEN: Final = Versions(WORKFLOW_VERSION, STEP_SCHEMA_VERSION, RUNTIME_VERSION)
#: The same in their stored form. Readers compare with it first: artifacts of this release need no parsing.
VERSIONS: Final = WRITTEN.text
#: The versions up to which this release reads. It writes them where an older release would lose something.
SUPPORTED: Final = Versions(WORKFLOW_VERSION, WAITS_SCHEMA_VERSION, RUNTIME_VERSION)
WAITS_VERSIONS: Final = SUPPORTED.text

_VERSION: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})(?:\.[0-9]{1,9})?\Z", re.ASCII)
_UPGRADE: Final = "upgrade this process"
_BRING_UP: Final = "open the store with release {0} first, which brings it up, then with this one"


def check_versions(versions: object, supported: Versions = SUPPORTED) -> None:
    """Return if a release that reads up to `supported` can read an artifact with these versions.

    Raises VersionMismatchError, which names the component and the remedy, when it is newer or too old; ValueError when
    these are not versions.
    """
    if versions == VERSIONS and supported is SUPPORTED:
        return
    found = versions.split(" ") if isinstance(versions, str) else []
    if len(found) != len(supported):
        raise ValueError(f"a document starts with its three versions, not with {versions!r:.60}")
    for component, actual, expected in zip(Versions._fields, found, supported, strict=True):
        check_version(component, actual, expected)


def check_maker(versions: object, store: str, supported: Versions = SUPPORTED) -> None:
    """Refuse a whole store that a newer release has made.

    A store from an older release is read artifact by artifact, because newer artifacts have versions of their own.
    Raises VersionMismatchError, and ValueError when these are not versions.
    """
    try:
        check_versions(versions, supported)
    except VersionMismatchError as error:
        if error.remedy == _UPGRADE:
            error.component = f"store {store}: {error.component}"
            raise


def check_version(component: str, actual: str, supported: str) -> None:
    """Check one of the three versions, or another one of the same form."""
    if actual == supported:
        return
    theirs = _numbers(component, actual)
    reading = reading_of(theirs, _numbers(component, supported))
    if reading is Reading.READ:
        return
    remedy = _UPGRADE if reading is Reading.NEWER else _BRING_UP.format(f"{theirs[0] + 1}.x")
    raise VersionMismatchError(expected_version=supported, actual_version=actual, component=component, remedy=remedy)


def _numbers(component: str, version: str) -> tuple[int, int]:
    match = _VERSION.match(version)
    if match is None:
        raise ValueError(f"{component} {version!r:.40} is not a version, expected major.minor")
    return int(match[1]), int(match[2])
