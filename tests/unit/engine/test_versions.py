"""Versions that are read, and messages about those that are not: N reads N-1, on both sides and of programs."""

from __future__ import annotations

import hashlib
import json

import pytest

from afl.compiled.program import (
    SCHEMA_VERSION,
    CompiledProgram,
    ProgramError,
    ProgramVersionError,
    check_schema_version,
)
from afl.core import versions as core
from afl.engine import versions
from afl.engine.errors import VersionMismatchError
from afl.engine.execution.task_dispatch import TaskDispatch
from afl.engine.model.store import Batch
from afl.engine.versions import Versions
from afl.engine.workflow_cache import WorkflowCache
from afl.stores.memory.store import MemoryStore
from afl_stream.errors import NewerFormat, Reason, Unreadable
from afl_stream.wire import versions as stream_versions

#: A release some years from now.
LATER = Versions("3.1", "3.1", "3.1.4")
READ, NEWER, TOO_OLD = "read", "newer", "too old"

#: A version, and what a release that reads up to 3.1 makes of it: in its store, and on topics.
TABLE = [
    ("3.1", READ, READ),
    ("3.0", READ, READ),
    ("2.0", READ, READ),
    ("2.9", READ, READ),
    ("3.2", NEWER, READ),
    ("4.0", NEWER, NEWER),
    ("30.0", NEWER, NEWER),
    ("1.9", TOO_OLD, TOO_OLD),
    ("0.1", TOO_OLD, TOO_OLD),
]
COMPONENTS = Versions._fields


def _written(component: str, version: str) -> Versions:
    return LATER._replace(**{component: version})


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize(("version", "verdict"), [(version, in_store) for version, in_store, _ in TABLE])
def test_a_stored_artifact_is_read_or_refused_by_each_of_its_versions(
    component: str, version: str, verdict: str
) -> None:
    text = _written(component, version).text
    if verdict == READ:
        versions.check_versions(text, LATER)
        return

    with pytest.raises(VersionMismatchError) as caught:
        versions.check_versions(text, LATER)

    error = caught.value
    assert (error.component, error.actual_version) == (component, version)
    assert error.expected_version == getattr(LATER, component)
    remedy = "upgrade this process" if verdict == NEWER else f"release {int(version[0]) + 1}.x first"
    assert remedy in str(error)


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize(("version", "verdict"), [(version, on_topics) for version, _, on_topics in TABLE])
def test_a_record_is_read_or_refused_by_each_of_its_versions(component: str, version: str, verdict: str) -> None:
    found = tuple(_written(component, version))
    supported = LATER._asdict()
    if verdict == READ:
        stream_versions.check_versions(found, supported)
    elif verdict == NEWER:
        with pytest.raises(NewerFormat, match=f"{component} {version}.*upgrade this process"):
            stream_versions.check_versions(found, supported)
    else:
        with pytest.raises(Unreadable, match=f"{component} {version}.*from 2.0 on.*upgrade the writer") as caught:
            stream_versions.check_versions(found, supported)
        assert caught.value.reason is Reason.TOO_OLD


@pytest.mark.parametrize(
    "text", ["", "1.0", "1.0 1.0", "1.0 1.0 x", "1.0 1 0.1.0", "1.0 1.0 0.1.0.0", "1_0.0 1.0 0.1.0", None, 5]
)
def test_what_are_no_versions_is_damage(text: object) -> None:
    with pytest.raises(ValueError, match="version"):
        versions.check_versions(text)


@pytest.mark.parametrize("version", ["", "x", "-1.0", "1" * 12, "\u0661.0"])
def test_a_record_with_what_is_no_version_can_never_be_read(version: str) -> None:
    with pytest.raises(Unreadable) as caught:
        stream_versions.check_version("runtime_version", version)

    assert caught.value.reason is Reason.WRONG_TYPE


def test_a_fix_release_changes_nothing() -> None:
    versions.check_versions("1.0 1.0 0.1.99")
    stream_versions.check_versions(("1.0", "1.0", "0.1.99"))


def test_both_sides_and_programs_write_the_versions_of_the_one_place() -> None:
    stated = (core.WORKFLOW_VERSION, core.STEP_SCHEMA_VERSION, core.RUNTIME_VERSION)

    assert tuple(versions.WRITTEN) == stream_versions.CURRENT == stated
    assert stated[0] == SCHEMA_VERSION


def test_a_store_that_a_newer_release_made_is_refused_as_a_whole() -> None:
    versions.check_maker("1.0 1.0 0.1.0", "x", LATER)

    with pytest.raises(VersionMismatchError, match=r"store /a/b: runtime_version has version 9\.0.*upgrade"):
        versions.check_maker("1.0 1.0 9.0", "/a/b")


@pytest.mark.parametrize("found", [None, "1.0", "1.7", "2.0", "2.3"])
def test_a_program_of_this_form_or_the_one_before_is_read(found: str | None) -> None:
    tree = {"type": "Program", "declarations": []} | ({} if found is None else {"schemaVersion": found})

    assert CompiledProgram(tree).workflows() == []


@pytest.mark.parametrize(
    ("found", "supported", "remedy"),
    [("2.0", "1.0", "upgrade this process"), ("1.0", "3.0", "compile its source again")],
)
def test_a_program_of_another_form_is_refused_with_what_to_do(found: str, supported: str, remedy: str) -> None:
    with pytest.raises(ProgramVersionError, match=f"schemaVersion {found}.*up to {supported}.*{remedy}"):
        check_schema_version(found, supported)


@pytest.mark.parametrize("found", ["", "1", "x.0", "-1.0", 1, 1.0, ["1.0"], {}])
def test_a_program_whose_version_is_none_is_refused(found: object) -> None:
    with pytest.raises(ProgramError, match="schemaVersion"):
        CompiledProgram({"type": "Program", "schemaVersion": found})


def test_a_workflow_whose_stored_program_is_of_a_newer_form_waits_for_the_upgrade() -> None:
    text = json.dumps({"type": "Program", "schemaVersion": "3.0"}).encode()
    fingerprint = hashlib.sha256(text).hexdigest()
    store = MemoryStore()
    store.commit_batch(Batch(programs={fingerprint: text}))

    with pytest.raises(VersionMismatchError, match=rf"program {fingerprint}: schemaVersion has version 3\.0.*upgrade"):
        WorkflowCache(store, TaskDispatch()).program(fingerprint, "shop.Checkout")
