"""Events raised by others: by kcat as the page of the schemas has it typed, in Java, by the client and its command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from afl_stream.client import EventOutcome, NotAnswered
from afl_stream.partitioner import partition_for
from afl_stream.wire.messages import ExternalEvent, Lifecycle
from afl_stream.wire.schedule_commands import PutSchedule, TriggerSchedule
from tests.eventually import eventually
from tests.integration.java_programs import EXAMPLES, JavaPrograms
from tests.integration.schemas_page import shell, typed
from tests.worlds.deployment import Deployment
from tests.worlds.processes import DEADLINE_S
from tests.worlds.requirements import required_tool
from tests.worlds.world import Deployments

#: The workflows that the page speaks of: a run that waits twice, one after the other, and one that continues.
SHOP = """
namespace shop {
  workflow Approved(order: String) => (by: [Json]) andThen {
    first = afl.WaitForEvent(name = "approval")
    again = Again(before = first.data)
    yield Approved(by = [again.before, again.data])
  }
  facet Again(before: Json) => (before: Json, data: Json) andThen {
    second = afl.WaitForEvent(name = "approval")
    yield Again(before = $.before, data = second.data)
  }
  workflow Meter(total: Long) => (total: Long) andThen {
    reading = afl.WaitForEvent(name = "reading")
    yield Meter(total = $.total)
  }
}
"""
RAISE, ASK = "printf '%s' 'order-21|", "printf '%s' 'order-22|"
ONE_PENDING = {"AFL_EVALUATOR_MAX_PENDING_EVENTS": "1"}
CONTINUE, SCHEDULE = "printf '%s' 'meter-7|", "printf '%s' 'nightly|"


def type_in(deployment: Deployment, text: str) -> str:
    return typed(text, deployment.config.store_path.parent, deployment.config, deployment.processes.environment)


def has_read_all(deployment: Deployment) -> None:
    eventually(deployment.has_read_all, DEADLINE_S, interval_s=0.1)


def test_two_lines_of_kcat_continue_a_run_that_waits_twice(deployments: Deployments) -> None:
    required_tool("kcat")
    deployment = deployments(SHOP)
    deployment.processes.evaluator()
    deployment.client.start("shop.Approved", {"order": "21"}, workflow_id="order-21")

    # Without an id each of them counts.
    type_in(deployment, shell(RAISE))
    type_in(deployment, shell(RAISE))
    deployment.processes.finish(["order-21"])

    assert deployment.workflow("order-21").outputs == {"by": [{"by": "ann"}, {"by": "ann"}]}
    events = deployment.records(deployment.topology.external())
    assert {record.partition for record in events} == {partition_for(b"order-21", 2)}
    told = [m for m in deployment.messages(deployment.topology.lifecycle()) if isinstance(m, Lifecycle)]
    assert [m.kind for m in told if m.kind.startswith("event.")] == []


def test_a_sender_with_kcat_that_asks_is_told_and_one_id_counts_once(deployments: Deployments) -> None:
    required_tool("kcat")
    deployment = deployments(SHOP)
    deployment.processes.evaluator()
    deployment.client.start("shop.Approved", {"order": "22"}, workflow_id="order-22", answer_timeout_s=DEADLINE_S)

    for _ in range(2):
        type_in(deployment, shell(ASK))
        has_read_all(deployment)
    type_in(deployment, shell(RAISE).replace("order-21", "order-22"))
    deployment.processes.finish(["order-22"])

    assert deployment.workflow("order-22").outputs == {"by": [{"by": "ben"}, {"by": "ann"}]}
    told = [m for m in deployment.messages(deployment.topology.lifecycle()) if isinstance(m, Lifecycle)]
    assert [m.kind for m in told if m.command_id == "c-91d0"] == ["event.taken", "event.repeated"]
    assert deployment.dead_letters(deployment.topology.external()) == []


def test_a_run_continues_as_new_by_a_line_of_kcat(deployments: Deployments) -> None:
    required_tool("kcat")
    deployment = deployments(SHOP)
    deployment.processes.evaluator()
    deployment.client.start("shop.Meter", {"total": 5}, workflow_id="meter-7", answer_timeout_s=DEADLINE_S)

    for _ in range(2):
        type_in(deployment, shell(CONTINUE))
        has_read_all(deployment)

    row = deployment.workflow("meter-7")
    assert (row.execution_number, row.inputs) == (2, {"total": 0})


def test_what_the_page_types_about_schedules_is_read_as_such_commands(deployments: Deployments) -> None:
    required_tool("kcat")
    deployment = deployments(SHOP)

    type_in(deployment, shell(SCHEDULE))

    assert deployment.messages(deployment.topology.commands()) == [
        PutSchedule(schedule_id="nightly", workflow="shop.Checkout", cron="30 2 * * *", inputs={"order": "daily"}),
        TriggerSchedule(schedule_id="nightly", command_id="c-51aa"),
    ]


@pytest.mark.long
def test_an_event_in_avro_from_java_continues_a_run(deployments: Deployments, tmp_path: Path) -> None:
    java = JavaPrograms(tmp_path, [EXAMPLES / "RaiseEvent.java"])
    deployment = deployments(SHOP)
    deployment.processes.evaluator()
    deployment.client.start("shop.Approved", {"order": "17"}, workflow_id="order-17")
    words = (deployment.config.kafka.bootstrap or "", deployment.config.prefix, "order-17")

    for event_id, by in (("approval-1", "ann"), ("approval-1", "ann"), ("approval-2", "ben")):
        java.run("RaiseEvent", *words, event_id, by)
    deployment.processes.finish(["order-17"])

    expected = [{"by": "ann", "approved": True}, {"by": "ben", "approved": True}]
    assert deployment.workflow("order-17").outputs == {"by": expected}
    raised = deployment.messages(deployment.topology.external())
    assert raised[0] == ExternalEvent(workflow_id="order-17", name="approval", id="approval-1", value=expected[0])
    assert {record.partition for record in deployment.records(deployment.topology.external())} == {
        partition_for(b"order-17", 2)
    }


def test_the_client_is_told_what_becomes_of_each_event(deployments: Deployments) -> None:
    deployment = deployments(SHOP, settings=ONE_PENDING)
    client = deployment.client
    with pytest.raises(NotAnswered, match="event approval of order-17"):
        client.raise_event("order-17", "approval", 1, id="a-1", wait=True, timeout_s=0.2)
    deployment.processes.evaluator()
    client.start("shop.Approved", {"order": "17"}, workflow_id="order-17", answer_timeout_s=DEADLINE_S)
    has_read_all(deployment)

    def raised(name: str, data: object, event_id: str) -> tuple[EventOutcome | None, str | None]:
        receipt = client.raise_event("order-17", name, data, id=event_id, wait=True, timeout_s=DEADLINE_S)
        assert (receipt.workflow_id, receipt.name, receipt.id) == ("order-17", name, event_id)
        return receipt.outcome, None if receipt.reason is None else receipt.reason.type

    assert raised("approval", 1, "a-1") == (EventOutcome.REPEATED, None)
    assert raised("other", 2, "o-1") == (EventOutcome.QUEUED, None)
    assert raised("other", 3, "o-2") == (EventOutcome.REFUSED, "TooManyPendingEvents")
    assert raised("approval", 4, "a-2") == (EventOutcome.TAKEN, None)
    assert raised("approval", 5, "a-3") == (EventOutcome.LATE, None)
    assert deployment.workflow("order-17").outputs == {"by": [1, 4]}
    (letter,) = deployment.dead_letters(deployment.topology.external())
    assert dict(letter.headers)["afl.dlq.reason"] == b"TooManyPendingEvents"


def test_the_command_waits_for_the_outcome_and_ends_by_the_table(deployments: Deployments) -> None:
    deployment = deployments(SHOP, settings=ONE_PENDING)
    deployment.client.start("shop.Approved", {"order": "17"}, workflow_id="order-17")
    unread = type_in(deployment, "afl-stream raise order-17 approval --wait --timeout 0.2 --json || echo $?")
    assert unread.splitlines()[-1] == "4", unread
    deployment.processes.evaluator()
    has_read_all(deployment)

    queued = json.loads(type_in(deployment, "afl-stream raise order-17 other '[1]' --wait --json"))
    refused = type_in(deployment, "afl-stream raise order-17 other '[2]' --wait --json || echo $?").splitlines()
    taken = json.loads(type_in(deployment, 'afl-stream raise order-17 approval \'{"by": "ann"}\' --wait --json'))

    assert (queued["outcome"], queued["answered"]) == ("queued", True)
    assert refused[-1] == "2"
    assert json.loads("".join(refused[:-1]))["error"]["type"] == "TooManyPendingEvents"
    assert taken["outcome"] == "taken"
    assert taken["step_id"].startswith("order-17:")
    deployment.processes.finish(["order-17"])
