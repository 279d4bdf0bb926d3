"""Stored documents: what comes back, what is left out, which versions are read."""

from __future__ import annotations

import json
import math
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl.engine.errors import VersionMismatchError
from afl.engine.model.entities import (
    HandledCount,
    LockDefinition,
    LockMetaData,
    Parameter,
    RunnerDefinition,
    ServerDefinition,
    TaskDefinition,
    WorkflowDefinition,
)
from afl.engine.model.plan import StatementPlan
from afl.engine.model.step_rows import BlockIds, BoundStep
from afl.engine.model.store import (
    ErrorRecord,
    HistoryKind,
    HistoryRow,
    LiveStep,
    RetryRecord,
    StepDocument,
    WorkflowRow,
)
from afl.engine.types import Value
from afl.engine.versions import VERSIONS, Versions, check_versions
from afl.stores.documents import (
    DAMAGE,
    decode_history,
    decode_schedule,
    decode_step,
    decode_value,
    decode_workflow,
    encode_bound,
    encode_change,
    encode_live,
    encode_long_step,
    encode_step,
    encode_value,
    encode_workflow,
)
from afl.stores.entity_documents import decode_entity, encode_entity

STEP = StepDocument(
    id="w:1",
    workflow_id="w",
    number=3,
    revision=9,
    object_type="VariableAssignment",
    state="state.EventTransmit",
    statement_id="st",
    facet_name="shop.Pay",
    container_id="w:c",
    container_type="Workflow",
    block_id="w:b",
    root_id="w:r",
    params={"amount": 3},
    returns={},
    created_at_ms=1_700_000_000_000,
)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def again(step: StepDocument) -> StepDocument:
    return decode_step(step.id, step.revision, step.state, encode_step(step))


@given(values)
def test_any_value_comes_back_as_it_was(value: Value) -> None:
    assert decode_value(encode_value(value)) == value


@pytest.mark.parametrize("value", [2**53 + 1, -(2**64), 10**400, 1.0, -0.0, 5e-324, math.inf, -math.inf])
def test_numbers_keep_their_kind_and_every_digit(value: int | float) -> None:
    back = decode_value(encode_value([value]))

    assert repr(back) == repr([value])


def test_not_a_number_stays_not_a_number() -> None:
    back = decode_value(encode_value([math.nan]))

    assert isinstance(back, list)
    assert isinstance(back[0], float)
    assert math.isnan(back[0])


def test_text_is_utf_8() -> None:
    assert encode_value("日本語😀") == '"日本語😀"'.encode()


@pytest.mark.parametrize("text", ["\ud800", "a\udc80\\", '"\ud800"', "日\ud800本"])
def test_lone_surrogates_come_back(text: str) -> None:
    assert decode_value(encode_value({text: [text]})) == {text: [text]}


def test_what_is_no_value_is_refused_by_its_type() -> None:
    with pytest.raises(TypeError, match="type set can't be stored"):
        encode_value({"x": {1, 2}})
    with pytest.raises(TypeError, match="type bytes"):
        encode_step(STEP._replace(params={"x": b"raw"}))  # type: ignore[dict-item]  # on purpose


def test_a_read_only_map_is_stored_as_a_map() -> None:
    assert again(STEP._replace(params=MappingProxyType({"x": 1}))).params == {"x": 1}


@pytest.mark.parametrize(
    "step",
    [
        STEP,
        STEP._replace(returns={"r": None}),
        STEP._replace(attempt=2, event_state="event.Created"),
        STEP._replace(deadline_ms=0),
        STEP._replace(error=ErrorRecord("E", "m", "w:1", "p", "f", 4)),
        STEP._replace(foreach_index=0, foreach_var="x", foreach_value=[{"k": None}], deadline_ms=5),
        STEP._replace(statement_id=None, container_id=None, container_type=None, block_id=None, root_id=None),
    ],
)
def test_every_field_of_a_step_comes_back(step: StepDocument) -> None:
    assert again(step) == step


@given(st.text(), st.dictionaries(st.text(), values, max_size=3), st.integers())
def test_a_plain_step_and_one_with_a_deadline_are_written_alike(
    text: str, params: dict[str, Value], number: int
) -> None:
    # A deadline sends a step the long way round, by the encoder; without it the document is put together by hand.
    step = STEP._replace(statement_id=text, facet_name=text, container_type=text, params=params, number=number)
    dated = encode_step(step._replace(deadline_ms=7))

    assert dated == encode_step(step).removesuffix(b"]") + b",7]"
    assert again(step) == step


@pytest.mark.parametrize("workflow_id", ["w", "", "w:1", ":"])
@pytest.mark.parametrize("other", [None, "", ":", ":c", "w", "w:", "w:c", "x:c", "::c", "c"])
def test_ids_of_every_form_come_back(workflow_id: str, other: str | None) -> None:
    for step_id in ("w:1", "odd", ":1", ""):
        step = STEP._replace(id=step_id, workflow_id=workflow_id, container_id=other, block_id=other, root_id="w:r")
        assert again(step) == step


def test_a_document_starts_with_the_versions_and_leaves_the_workflows_id_out() -> None:
    row = json.loads(encode_step(STEP))

    assert row[0] == VERSIONS == "1.0 1.0 0.1.0"
    assert b"w:" not in encode_step(STEP)


def test_a_trailing_null_is_cut() -> None:
    assert encode_step(STEP).endswith(b",1700000000000]")


def test_steps_read_from_one_document_share_nothing() -> None:
    first, second = again(STEP), again(STEP)
    first.returns["x"] = 1  # type: ignore[index]  # read maps are plain ones

    assert second.returns == {}


@pytest.mark.parametrize("versions", ["1.0 1.2 0.1.0", "1.0 2.0 0.1.0"])
def test_a_newer_step_schema_is_refused(versions: str) -> None:
    content = encode_step(STEP).replace(VERSIONS.encode(), versions.encode())

    with pytest.raises(VersionMismatchError) as caught:
        decode_step("w:1", 1, "s", content)

    assert caught.value.component == "step_schema_version"
    assert caught.value.expected_version == "1.1"
    assert caught.value.actual_version == versions.split()[1]


#: The versions that the release without external events reads up to, and how many entries its rows of workflows have.
BEFORE_WAITS, ITS_ENTRIES = Versions("1.0", "1.0", "0.1.0"), 11


@pytest.mark.parametrize("deadline_ms", [None, 5])
@pytest.mark.parametrize("workflow_id", ["w", "v"])
def test_a_release_without_further_attempts_refuses_a_step_that_has_one(
    workflow_id: str, deadline_ms: int | None
) -> None:
    retry = RetryRecord(1, ErrorRecord("E", "m"))
    step = STEP._replace(workflow_id=workflow_id, retry=retry, deadline_ms=deadline_ms)

    with pytest.raises(VersionMismatchError, match=r"step_schema_version has version 1\.1.*upgrade this process"):
        check_versions(json.loads(encode_step(step))[0], BEFORE_WAITS)
    assert again(step) == step


@pytest.mark.parametrize("fields", [{"executions_before": 3}, {"pending_events": 2}])
def test_a_release_without_external_events_comes_to_the_versions_of_a_workflow_that_has_them(
    fields: dict[str, int],
) -> None:
    row = WorkflowRow(id="w", revision=2, program="p", name="n", status="PAUSED", execution=4)

    document = json.loads(encode_workflow(row._replace(**fields)))  # type: ignore[arg-type]  # by name

    assert len(document) == len(json.loads(encode_workflow(row))) == ITS_ENTRIES


@pytest.mark.parametrize("more", [[], [7], [7, {"of": "a later release"}]])
def test_a_workflow_of_a_newer_release_is_refused_by_its_versions_whatever_it_has(more: list[object]) -> None:
    row = WorkflowRow(id="w", revision=2, program="p", name="n", status="PAUSED")
    document = [*json.loads(encode_workflow(row)), *more]
    document[0] = "1.0 1.2 0.1.0"

    with pytest.raises(VersionMismatchError, match=r"step_schema_version has version 1\.2"):
        decode_workflow(
            workflow_id="w",
            revision=2,
            name="n",
            status="PAUSED",
            runnable=False,
            created_at_ms=0,
            content=encode_value(document),
            inputs=b"{}",
        )


def test_a_history_and_a_schedule_of_a_newer_release_are_refused_by_their_versions_whatever_they_have() -> None:
    newer = encode_value(["1.0 1.2 0.1.0", 1, 2, 3, 4, 5, 6])

    with pytest.raises(VersionMismatchError):
        decode_history(HistoryRow("w", 0, HistoryKind.EXTERNAL_EVENT, 1, 5), newer)
    with pytest.raises(VersionMismatchError):
        decode_schedule(newer)


@pytest.mark.parametrize(
    ("versions", "component"), [("2.0 1.0 0.1.0", "workflow_version"), ("1.0 1.0 0.2.0", "runtime_version")]
)
def test_other_newer_versions_are_refused_by_name(versions: str, component: str) -> None:
    content = encode_step(STEP).replace(VERSIONS.encode(), versions.encode())

    with pytest.raises(VersionMismatchError) as caught:
        decode_step("w:1", 1, "s", content)

    assert caught.value.component == component


@pytest.mark.parametrize("versions", ["1.0 0.9 0.1.0", "0.5 1.0 0.0.1", "1.0 1.0 0.1.7"])
def test_the_version_before_and_later_fixes_are_read(versions: str) -> None:
    content = encode_step(STEP).replace(VERSIONS.encode(), versions.encode())

    assert decode_step(STEP.id, STEP.revision, STEP.state, content) == STEP


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"5", b"[1", b"\xff", b'["1.0 1.0 0.1.0"]', b'["x"]', b"[[]]", b"[] []"]
)
def test_what_is_no_step_is_damage(content: bytes) -> None:
    with pytest.raises(DAMAGE):
        decode_step("w:1", 1, "s", content)


def workflow_again(row: WorkflowRow) -> WorkflowRow:
    return decode_workflow(
        workflow_id=row.id,
        revision=row.revision,
        name=row.name,
        status=row.status,
        runnable=row.runnable,
        created_at_ms=row.created_at_ms,
        content=encode_workflow(row),
        inputs=encode_value(row.inputs),
    )


def test_a_workflow_comes_back() -> None:
    row = WorkflowRow(id="w", revision=2, program="p", name="n", status="ERROR", error=ErrorRecord("E", "m"))

    assert workflow_again(row) == row


def test_a_workflow_of_a_newer_runtime_is_refused() -> None:
    row = WorkflowRow(id="w", revision=2, program="p", name="n", status="PAUSED", runtime_version="1.0.0")

    with pytest.raises(VersionMismatchError) as caught:
        workflow_again(row)

    assert caught.value.component == "runtime_version"


@pytest.mark.parametrize(
    "entity",
    [
        TaskDefinition("t", "n", "r", "w", "f", "s", error={"message": "\ud800"}, data={"x": [1, {"y": None}]}),
        ServerDefinition("s", "g", "service", "name", handled=[HandledCount("h", 1, 2)], error=None),
        LockDefinition("k", 1, 2, LockMetaData(topic="t")),
        LockDefinition("k"),
        RunnerDefinition("r", "w", WorkflowDefinition("u", "n", "ns", "f", "fl", "s", "1"), [Parameter("p", [1])]),
    ],
)
def test_entities_come_back_with_what_is_nested_in_them(entity: object) -> None:
    assert decode_entity(type(entity), encode_entity(entity)) == entity


def test_an_entity_from_before_a_field_gets_its_default_and_one_with_more_fields_is_read() -> None:
    content = encode_value([VERSIONS, {"key": "k", "later": True}])

    assert decode_entity(LockDefinition, content) == LockDefinition("k")


def test_an_entity_of_a_newer_runtime_is_refused() -> None:
    with pytest.raises(VersionMismatchError):
        decode_entity(LockDefinition, encode_value(["1.0 9.0 0.1.0", {"key": "k"}]))


def test_every_form_of_a_step_is_read() -> None:
    """The long form is that of earlier formats; a statement without rare fields has the short one now."""
    step = STEP._replace(container_type=None, attempt=2, event_state="event.Created", returns={"r": [1]})

    short, long = encode_step(step), encode_long_step(step)

    assert json.loads(short)[:3] == [VERSIONS, 3, "VariableAssignment"]
    assert json.loads(long)[:3] == [VERSIONS, None, 3]
    assert decode_step("w:1", 9, step.state, short) == decode_step("w:1", 9, step.state, long) == step


@pytest.mark.parametrize("workflow_id", ["w", "a:b", "", "ü"])
def test_a_live_step_is_stored_as_its_document_is(workflow_id: str) -> None:
    statement = StatementPlan(0, "a", "st", "VariableAssignment", "shop.Pay")
    place = BlockIds(workflow_id, f"{workflow_id}:r", f"{workflow_id}:c", f"{workflow_id}:b", 1)
    step = LiveStep(place.step_id(b"a"), 3, 9, "s", 1, "", {"x": 0.5}, {}, 7, statement, place, is_written=False)

    assert encode_live(step) == encode_step(step.document())
    assert decode_step(step.id, 9, "s", encode_live(step)) == step.document()
    assert decode_step(step.id, 9, "s", encode_live(step), encode_change(step)) == step.document()
    bound = BoundStep(place, statement, 3, 9, {"x": 0.5}, {"y": True}, 7)
    assert encode_bound(bound) == encode_step(bound.document())
