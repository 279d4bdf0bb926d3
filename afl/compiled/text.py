"""The form of compiled programs: its versions, the canonical text, and the fingerprint that this gives."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from afl.compiled.annotations import may_be_annotated, take_annotations
from afl.compiled.errors import ProgramError, ProgramVersionError, WrongFingerprint, malformed

#: The form of compiled programs that this release writes and reads up to. Raised with each change that is more than an
#: addition.
SCHEMA_VERSION: Final = "1.0"


def check_schema_version(found: object, supported: str = SCHEMA_VERSION) -> None:
    """Return when a program with this schemaVersion is read by a release that reads up to `supported`. None, as programs
    without one have it: of this release.

    The first number counts: it is raised when older readers would take a program for something else. Raises
    ProgramVersionError, and ProgramError for what is no version.
    """
    if found is None or found == supported:
        return
    major, _, rest = found.partition(".") if isinstance(found, str) else ("", "", "")
    if not (major.isascii() and major.isdigit() and len(major) <= 9 and rest):
        raise ProgramError(f"schemaVersion {found!r:.40} is no version, expected major.minor")
    ours = int(supported.partition(".")[0])
    if not ours - 1 <= int(major) <= ours:
        raise ProgramVersionError(str(found), supported, is_newer=int(major) > ours)


def fingerprint_of(text: bytes) -> str:
    """Return the fingerprint of a text: its SHA-256, hexadecimal."""
    return hashlib.sha256(text).hexdigest()


def separated(tree: Mapping[str, Any]) -> tuple[bytes, list[Any]]:
    """Return a program's canonical text, and the annotations that are not in it. Raises ProgramError."""
    text = _canonical(tree)
    if not may_be_annotated(text):
        return text, []
    try:
        # A copy, whose objects are in the order of the text whatever the tree's is.
        bare = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise malformed(error) from error
    annotations = take_annotations(bare)
    return (_canonical(bare), annotations) if annotations else (text, [])


def text_of(fingerprint: str, text: bytes, tree: Mapping[str, Any]) -> bytes:
    """Return the text of a program that has this fingerprint: the one that it was read from, or what that says.

    The canonical text, or the one with annotations in it that earlier releases took the fingerprint of. Raises
    WrongFingerprint when it is of another program.
    """
    if fingerprint_of(text) == fingerprint:
        return text
    bare, _ = separated(tree)
    for form in (bare, _canonical(tree)):
        if fingerprint_of(form) == fingerprint:
            return form
    raise WrongFingerprint(fingerprint, fingerprint_of(bare))


def _canonical(tree: Mapping[str, Any]) -> bytes:
    """A tree with its keys sorted, and no white space."""
    try:
        return json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise malformed(error) from error
