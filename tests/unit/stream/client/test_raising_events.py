"""A client raises external events: what it sends, what it refuses to send, and what it makes of the answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from afl_stream.client.client import Client
from afl_stream.client.external_events import EventOutcome, EventReceipt, event_to_raise, receipt_of
from afl_stream.client.milestones import NotAnswered
from afl_stream.errors import EventTooLarge, IdRefused, ValueRefused
from afl_stream.transport import Record
from afl_stream.wire.headers import header
from afl_stream.wire.messages import ContinueAsNew, ExternalEvent, FailureReason, Lifecycle
from tests.unit.stream.agent.agent_bench import Deployment


@pytest.fixture
def deployment() -> Deployment:
    return Deployment()


@pytest.fixture
def client(deployment: Deployment) -> Iterator[Client]:
    with closing(Client(deployment.stream, deployment.transport)) as client:
        yield client


def raised(deployment: Deployment) -> list[tuple[ExternalEvent, Record]]:
    """Return the events on their topic, each with its record."""
    found = []
    for record in deployment.records(deployment.topology.external()):
        event = deployment.new_codec().decode(record.value, record.headers)
        assert isinstance(event, ExternalEvent)
        found.append((event, record))
    return found


def test_an_event_goes_out_under_its_workflow_with_its_data(deployment: Deployment, client: Client) -> None:
    receipt = client.raise_event("order-17", "approval", {"by": "ann", "lines": [1, None]}, id="a-1")

    assert receipt == EventReceipt(workflow_id="order-17", name="approval", id="a-1")
    ((event, record),) = raised(deployment)
    assert (event.workflow_id, event.name, event.id) == ("order-17", "approval", "a-1")
    assert event.value == {"by": "ann", "lines": [1, None]}
    assert event.created_at is not None
    assert (record.key, header(record.headers, "ce_id"), header(record.headers, "ce_subject")) == (
        b"order-17", "a-1", "order-17",
    )  # fmt: skip
    assert header(record.headers, "afl_command_id") is None, "nobody waits for an answer"


def test_an_event_without_data_has_null_and_one_without_an_id_gets_one(deployment: Deployment, client: Client) -> None:
    receipts = [client.raise_event("order-17", "approval") for _ in range(2)]

    events = [event for event, _ in raised(deployment)]
    assert [event.value for event in events] == [None, None]
    assert [event.id for event in events] == [receipt.id for receipt in receipts]
    assert len({event.id for event in events}) == 2, "each call is an event of its own"


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"workflow_id": "a b"}, IdRefused, "workflow id"),
        ({"workflow_id": ""}, IdRefused, "workflow id"),
        ({"name": ""}, IdRefused, "name of an external event"),
        ({"name": "x" * 250}, IdRefused, "name of an external event"),
        ({"id": ""}, IdRefused, "id of an external event"),
        ({"id": "x" * 250}, IdRefused, "id of an external event"),
        ({"data": {"at": object()}}, ValueRefused, r"ExternalEvent\.value\.at"),
        ({"data": float("nan")}, ValueRefused, "nan"),
        ({"data": 2**63}, ValueRefused, "64 bits"),
        ({"data": b"raw"}, ValueRefused, "bytes"),
        ({"data": "x" * 900_001}, EventTooLarge, "ExternalEvent takes 900"),
    ],
)
@pytest.mark.parametrize("wait", [False, True])
def test_what_no_workflow_could_get_is_refused_and_not_sent(
    deployment: Deployment, client: Client, given: dict[str, Any], error: type[Exception], said: str, wait: bool
) -> None:
    words = {"workflow_id": "order-17", "name": "approval", **given}

    with pytest.raises(error, match=said):
        client.raise_event(**words, wait=wait)

    assert raised(deployment) == []


def test_a_sender_that_waits_asks_and_is_told_that_nobody_answers(deployment: Deployment, client: Client) -> None:
    with pytest.raises(NotAnswered, match=r"event approval of order-17 has not come in 0\.01 s"):
        client.raise_event("order-17", "approval", 1, id="a-1", wait=True, timeout_s=0.01)

    ((event, record),) = raised(deployment)
    assert event.id == "a-1"
    assert header(record.headers, "afl_command_id")


def test_a_sender_whom_nobody_answers_learns_the_id_with_which_it_may_raise_the_event_again(
    deployment: Deployment, client: Client
) -> None:
    with pytest.raises(NotAnswered) as caught:
        client.raise_event("order-17", "approval", wait=True, timeout_s=0.01)

    ((event, _),) = raised(deployment)
    assert str(caught.value).endswith(
        f"an evaluator reads it as soon as one runs; raised again with its id it counts once: {event.id}"
    )


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        ("event.taken", EventOutcome.TAKEN),
        ("event.queued", EventOutcome.QUEUED),
        ("event.repeated", EventOutcome.REPEATED),
        ("event.late", EventOutcome.LATE),
        ("event.refused", EventOutcome.REFUSED),
        ("event.of_a_later_release", None),
    ],
)
def test_a_receipt_has_what_the_evaluator_says(kind: str, outcome: EventOutcome | None) -> None:
    event = event_to_raise("order-17", "approval", 1, "a-1", 5)
    reason = FailureReason(type="TooManyPendingEvents", message="100 events")

    receipt = receipt_of(event).answered(
        Lifecycle(workflow_id="order-17", kind=kind, at=6, step_id="order-17:0a", status="PAUSED", error=reason)
    )

    assert receipt == EventReceipt(
        workflow_id="order-17",
        name="approval",
        id="a-1",
        outcome=outcome,
        status="PAUSED",
        step_id="order-17:0a",
        reason=reason,
    )


def test_a_command_to_continue_as_new_goes_out_under_its_workflow(deployment: Deployment, client: Client) -> None:
    command_id = client.continue_as_new("meter-7", {"total": 0}, reason="new tariff")

    (record,) = deployment.records(deployment.topology.commands())
    assert record.key == b"meter-7"
    assert deployment.new_codec().decode(record.value) == ContinueAsNew(
        workflow_id="meter-7", inputs={"total": 0}, reason="new tariff", command_id=command_id
    )
    assert client.continue_as_new("meter-7", command_id="mine") == "mine"


def test_a_workflow_to_continue_has_a_valid_id(client: Client) -> None:
    with pytest.raises(IdRefused, match="workflow id"):
        client.continue_as_new("a b")
