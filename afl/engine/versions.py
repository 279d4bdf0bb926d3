"""Which versions of stored artifacts this release reads: the one place of the engine that decides it.

Every artifact in a store carries three versions of its writer: of the compiled program's form (workflow_version), of
the stored form of steps and all that goes with them (step_schema_version), and of the release (runtime_version). A
version is `major.minor`, and maybe a third number, which is a fix that changes no form. A release reads what it writes
itself, everything older of the same major number (N), and everything of the major number before (N-1). What is newer is
refused, a minor number too: an older release would write the artifact back without what it does not know. What is
older than N-1 has to be brought up by the releases in between, one after another.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from afl.engine.errors import VersionMismatchError
from afl.engine.types import RUNTIME_VERSION, STEP_SCHEMA_VERSION, WORKFLOW_VERSION


class Versions(NamedTuple):
    """The versions under which an artifact was written, or which a release reads up to."""

    workflow_version: str
    step_schema_version: str
    runtime_version: str

    @property
    def text(self) -> str:
        """The form in which they stand in an artifact."""
        return " ".join(self)


#: What this release writes, and reads up to.
SUPPORTED: Final = Versions(WORKFLOW_VERSION, STEP_SCHEMA_VERSION, RUNTIME_VERSION)
#: The same as it stands in artifacts. Readers compare with it first: what this release wrote is not taken apart.
VERSIONS: Final = SUPPORTED.text

_VERSION: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})(?:\.[0-9]{1,9})?\Z", re.ASCII)
_UPGRADE: Final = "upgrade this process"
_BRING_UP: Final = "open the store with release {0} first, which brings it up, then with this one"


def check_versions(versions: object, supported: Versions = SUPPORTED) -> None:
    """Return when an artifact with these versions is read by a release that reads up to `supported`.

    VersionMismatchError, which names the component and says what to do, when it is newer or too old; ValueError when
    these are no versions.
    """
    if versions == VERSIONS and supported is SUPPORTED:
        return
    found = versions.split(" ") if isinstance(versions, str) else []
    if len(found) != len(supported):
        raise ValueError(f"a document starts with its three versions, not with {versions!r:.60}")
    for component, actual, expected in zip(Versions._fields, found, supported, strict=True):
        check_version(component, actual, expected)


def check_maker(versions: object, store: str, supported: Versions = SUPPORTED) -> None:
    """Refuse a whole store that a newer release has made. One that an older release made is read artifact by artifact:
    whatever was written since has versions of its own.

    Raises VersionMismatchError, and ValueError when these are no versions.
    """
    try:
        check_versions(versions, supported)
    except VersionMismatchError as error:
        if error.remedy == _UPGRADE:
            error.component = f"store {store}: {error.component}"
            raise


def check_version(component: str, actual: str, supported: str) -> None:
    """The same for one of the three versions, or another one of the same form."""
    if actual == supported:
        return
    theirs, ours = _numbers(component, actual), _numbers(component, supported)
    if theirs > ours:
        remedy = _UPGRADE
    elif theirs[0] < ours[0] - 1:
        remedy = _BRING_UP.format(f"{theirs[0] + 1}.x")
    else:
        return
    raise VersionMismatchError(expected_version=supported, actual_version=actual, component=component, remedy=remedy)


def _numbers(component: str, version: str) -> tuple[int, int]:
    match = _VERSION.match(version)
    if match is None:
        raise ValueError(f"{component} {version!r:.40} is no version, expected major.minor")
    return int(match[1]), int(match[2])
