"""The versions that stored artifacts and records bear, and the rule by which a release reads those of others.

Every artifact tells three versions of its writer: of the compiled program's form (workflow_version), of the form of
steps and events and all that goes with them (step_schema_version), and of the release (runtime_version). The first
number is the form: a release reads its own (N) and the one before (N-1). How a version is written, and what is done
with an artifact that is not read, is said beside those that read it: `engine/versions.py` for what stores keep,
`wire/versions.py` for records.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from afl.core.release import VERSION

#: Versions that this release writes. Stored and published with every artifact: raise, never reuse.
WORKFLOW_VERSION: Final = "1.0"
STEP_SCHEMA_VERSION: Final = "1.0"
RUNTIME_VERSION: Final = VERSION
#: The version of steps and workflows in stores that say more than those of releases without external events: a further
#: attempt, executions before, or pending events. Such a release would write them back without it, so it must not read
#: them. All others keep STEP_SCHEMA_VERSION. Workflows of the release before are read by both.
WAITS_SCHEMA_VERSION: Final = "1.1"


class Reading(Enum):
    """The decision about an artifact's version: the artifact is read, or the reason why not."""

    READ = "read"
    NEWER = "newer"
    TOO_OLD = "too old"


def reading_of(found: tuple[int, ...], supported: tuple[int, ...]) -> Reading:
    """Judge a version's numbers against those that this release reads up to; the first one is the major number."""
    if found > supported:
        return Reading.NEWER
    return Reading.TOO_OLD if found[0] < supported[0] - 1 else Reading.READ


def major_of(version: str) -> int | None:
    """Return a version's first number, or None for a text that is not a version."""
    major = version.partition(".")[0]
    # int() takes more than digits, and digits without end.
    return int(major) if major.isascii() and major.isdigit() and len(major) <= 9 else None
