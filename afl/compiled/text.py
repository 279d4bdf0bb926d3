"""The form of compiled programs: its versions, the canonical text, and the fingerprint of that text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from afl.compiled.annotations import may_be_annotated, take_annotations
from afl.compiled.errors import ProgramError, ProgramVersionError, WrongFingerprint, malformed
from afl.core.versions import WORKFLOW_VERSION, Reading, major_of, reading_of

#: The form of compiled programs that this release writes. Raised with each change that is more than an addition.
SCHEMA_VERSION: Final = WORKFLOW_VERSION
#: The form of programs of which the runtime itself answers or repeats something. A release that does not know that
#: would ask agents for it, so it must not read them. This release reads forms up to this one.
LIBRARY_SCHEMA_VERSION: Final = "2.0"


def check_schema_version(found: object, supported: str = LIBRARY_SCHEMA_VERSION) -> None:
    """Return if a release that reads up to `supported` can read a program with this schemaVersion.

    A program without a version (None) counts as this release's form. Only the first number counts: it is raised when
    older readers would misread a program. Raises ProgramVersionError, and ProgramError for an invalid version.
    """
    if found is None or found == supported:
        return
    theirs = major_of(found) if isinstance(found, str) and found.partition(".")[2] else None
    if theirs is None:
        raise ProgramError(f"schemaVersion {found!r:.40} is not a version, expected major.minor")
    reading = reading_of((theirs,), (int(supported.partition(".")[0]),))
    if reading is not Reading.READ:
        raise ProgramVersionError(str(found), supported, is_newer=reading is Reading.NEWER)


def fingerprint_of(text: bytes) -> str:
    """Return the fingerprint of a text: its SHA-256, hexadecimal."""
    return hashlib.sha256(text).hexdigest()


def separated(tree: Mapping[str, Any]) -> tuple[bytes, list[Any]]:
    """Return a program's canonical text, and its annotations, which are not part of that text. Raises ProgramError."""
    text = _canonical(tree)
    if not may_be_annotated(text):
        return text, []
    try:
        # A copy, whose objects are in the order of the text, whatever the tree's order is.
        bare = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise malformed(error) from error
    annotations = take_annotations(bare)
    return (_canonical(bare), annotations) if annotations else (text, [])


def text_of(fingerprint: str, text: bytes, tree: Mapping[str, Any]) -> bytes:
    """Return the text of a program that has this fingerprint: the text that it was read from, or its canonical form.

    Earlier releases took the fingerprint of a text with annotations in it, so that text is also accepted. Raises
    WrongFingerprint when neither has this fingerprint.
    """
    if fingerprint_of(text) == fingerprint:
        return text
    bare, _ = separated(tree)
    for form in (bare, _canonical(tree)):
        if fingerprint_of(form) == fingerprint:
            return form
    raise WrongFingerprint(fingerprint, fingerprint_of(bare))


def _canonical(tree: Mapping[str, Any]) -> bytes:
    """Return a tree as JSON with sorted keys and no white space."""
    try:
        return json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise malformed(error) from error
