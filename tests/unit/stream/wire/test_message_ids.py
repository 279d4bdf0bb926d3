"""Ids of workflows, steps and events."""

import pytest

from afl_stream.errors import IdRefused, Unreadable
from afl_stream.wire.messages import (
    ProgramDefinition,
    check_workflow_id,
    event_id_of,
    name_key,
    step_and_attempt_of,
    workflow_of,
)


def test_a_step_id_tells_its_workflow() -> None:
    assert workflow_of("order-17.a~b:0af3") == "order-17.a~b"


@pytest.mark.parametrize(
    "step_id", ["", "w1", "w1:", ":ab", "w1:XY", "w1:ab:cd", "w1:ab\n", "w 1:ab", "w" * 129 + ":ab"]
)
def test_what_is_no_step_id_is_refused_with_what_one_looks_like(step_id: str) -> None:
    with pytest.raises(IdRefused, match="is not a valid step id: expected a workflow id, a colon and a digest"):
        workflow_of(step_id)


def test_an_event_id_is_made_of_step_and_attempt_and_comes_apart_again() -> None:
    assert event_id_of("w1:ab", 3) == "w1:ab#3"
    assert step_and_attempt_of("w1:ab#3") == ("w1:ab", 3)


@pytest.mark.parametrize("event_id", ["w1:ab", "w1:ab#", "w1:ab#x", "w1:ab#-1", "w1:ab#01", "#1"])
def test_what_is_no_event_id_is_refused(event_id: str) -> None:
    with pytest.raises(IdRefused, match="is not a valid event id"):
        step_and_attempt_of(event_id)


@pytest.mark.parametrize("workflow_id", ["a", "A-Z_az.09~-", "x" * 128])
def test_workflow_ids_of_legal_characters_are_taken(workflow_id: str) -> None:
    assert check_workflow_id(workflow_id) == workflow_id


@pytest.mark.parametrize("workflow_id", ["", "x" * 129, "a:b", "a/b", "é", "a\n"])
def test_other_workflow_ids_are_refused(workflow_id: str) -> None:
    with pytest.raises(IdRefused, match="1 to 128 characters"):
        check_workflow_id(workflow_id)


def test_a_program_unpacks_to_the_text_that_was_packed() -> None:
    text = '{"type":"Program","name":"é"}' * 100
    definition = ProgramDefinition.packed("f1", text)

    assert definition.program_json() == text
    assert len(definition.program) < len(text)


@pytest.mark.parametrize(
    "definition",
    [
        ProgramDefinition(fingerprint="f", program=b"junk"),
        ProgramDefinition(fingerprint="f", program=ProgramDefinition.packed("f", "x" * 1000).program[:-6]),
        ProgramDefinition(fingerprint="f", program=b"", encoding="lz4"),
    ],
)
def test_a_program_that_does_not_unpack_is_unreadable(definition: ProgramDefinition) -> None:
    with pytest.raises(Unreadable, match="bad_program"):
        definition.program_json()


def test_the_key_of_a_name_cannot_be_a_fingerprint() -> None:
    assert name_key("billing.Pay") == "name:billing.Pay"
