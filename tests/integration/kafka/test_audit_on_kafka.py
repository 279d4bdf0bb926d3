"""The audit on a real broker: a group of its own that sees everything once, unnoticed by the workflow path."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from afl_stream.kafka.groups import NEVER_S
from afl_stream.transport import CommittedOffset, TopicPartition
from afl_stream.wire.messages import StepContinue
from tests.eventually import eventually
from tests.integration.kafka.test_audit_crashes_on_kafka import in_the_log, written
from tests.integration.kafka.test_crashes_on_kafka import AUDIT_POINTS, quick_first
from tests.worlds.delivery_checks import assert_delivered
from tests.worlds.deployment import Deployment, program_of
from tests.worlds.processes import DEADLINE_S, Processes
from tests.worlds.shop import SHOP, start_orders
from tests.worlds.world import Deployments

ORDERS: Final = 4
FACETS: Final = ("shop.Price", "shop.Ship")
#: How soon a facet that is deployed later is followed, with default settings (its first record included).
FOLLOWED_WITHIN_S: Final = 15
LATER_FACET: Final = "later.Ask"
LATER_RUNS: Final = 6
LATER = """
namespace later {
  event facet Ask(about: String) => (reply: String)
  workflow Enquiry(about: String) => (reply: String) andThen {
    asked = Ask(about = $.about)
    yield Enquiry(reply = asked.reply)
  }
}
"""


def lines(file: Path, kind: str) -> list[dict[str, Any]]:
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    return [entry for entry in entries if entry["kind"] == kind]


def await_all_written(deployment: Deployment, file: Path) -> None:
    """Wait until the file has everything, and see that it has nothing twice."""
    expected = in_the_log(deployment)
    eventually(lambda: not expected - written(file), DEADLINE_S, interval_s=0.1)
    assert written(file) == expected


def assert_told(deployment: Deployment, file: Path) -> None:
    """Return the lines tell each event and each answer of the log."""
    events = [event for facet in FACETS for event in deployment.events(facet)]
    answers = [m for m in deployment.messages(deployment.topology.control()) if isinstance(m, StepContinue)]
    reported = [(line["event_id"], line["step"], line["payload"]) for line in lines(file, "event")]
    assert ordered(reported) == ordered((event.id, event.step_id, event.payload) for event in events)
    replied = [(line["event_id"], line["step"], line["result"]) for line in lines(file, "answer")]
    assert ordered(replied) == ordered((answer.event_id, answer.step_id, answer.result) for answer in answers)
    assert len(reported) == len(replied) == len({event.step_id for event in events})


def ordered(entries: Iterable[tuple[object, ...]]) -> list[str]:
    return sorted(map(str, entries))


def membership(deployment: Deployment) -> dict[str, set[tuple[str, int]]]:
    """Which partitions each member of the evaluators' and the agents' group has."""
    groups = [deployment.config.evaluator_group, deployment.agent_group]
    asked = deployment.kafka.admin.describe_consumer_groups(groups, request_timeout=NEVER_S)
    described = [done.result(20) for done in asked.values()]
    return {
        str(member.member_id): {(at.topic, at.partition) for at in member.assignment.topic_partitions}
        for group in described
        for member in group.members
        if member.assignment is not None
    }


def audit_group(deployment: Deployment) -> str:
    return f"{deployment.config.prefix}audit"


def committed_work(deployment: Deployment) -> dict[TopicPartition, CommittedOffset]:
    """Return what evaluators and agents have committed."""
    topology = deployment.topology
    return {
        **deployment.committed(deployment.config.evaluator_group, [topology.control(), topology.commands()]),
        **deployment.committed(deployment.agent_group, [topology.facet(facet) for facet in FACETS]),
    }


def has_committed_all(deployment: Deployment) -> bool:
    """Whether what evaluators and agents have committed is all that there is."""
    ends: dict[TopicPartition, int] = {}
    for topic, partition, offset in in_the_log(deployment):
        place = TopicPartition(topic, partition)
        ends[place] = max(ends.get(place, 0), offset + 1)
    committed = committed_work(deployment)
    return all(place in committed and committed[place].offset == end for place, end in ends.items())


@pytest.mark.long
def test_an_audit_that_comes_after_the_runs_reads_all_from_the_beginning_and_once(
    deployments: Deployments, tmp_path: Path
) -> None:
    deployment = deployments(SHOP)
    orders = start_orders(deployment, ORDERS)
    parties = [deployment.processes.evaluator(), deployment.processes.agent()]
    deployment.processes.finish(orders)
    for party in parties:
        party.stop()
    before = committed_work(deployment)

    file = tmp_path / "audit.jsonl"
    audit = deployment.processes.audit(file)
    await_all_written(deployment, file)
    counts = audit.stop()
    # A second one of the group finds nothing left; one from the beginning, and one in a group of its own, find all.
    later, anew, own = (tmp_path / f"{name}.jsonl" for name in ("later", "anew", "own"))
    same_group = ["--group", audit_group(deployment)]
    for words in (
        ["--file", str(later), *same_group],
        ["--file", str(anew), *same_group, "--from-beginning"],
        ["--file", str(own)],
    ):
        # One after the other: two members of the group would share the partitions.
        call = deployment.processes.command("audit", "--until-idle", *words)
        assert call.exit_code() == 0, call.log

    assert_told(deployment, file)
    assert (counts["written"], counts["repeated"], counts["unreadable"]) == (len(written(file)), 0, 0)
    assert not written(later) & in_the_log(deployment)
    for whole in (anew, own):
        assert in_the_log(deployment) <= written(whole)
        assert max(written(whole).values()) == 1
    assert committed_work(deployment) == before


@pytest.mark.parametrize("fate", [pytest.param("frozen", marks=pytest.mark.long), "killed"])
def test_the_workflow_path_does_not_notice_an_audit_that_stands_still_or_dies(
    fate: str, deployments: Deployments, tmp_path: Path
) -> None:
    deployment, file = deployments(SHOP), tmp_path / "audit.jsonl"
    parties = deployment.processes
    evaluator, agent, audit = parties.evaluator(), parties.agent(), parties.audit(file)
    deployment.processes.await_members(deployment.config.evaluator_group, 1)
    deployment.processes.await_members(deployment.agent_group, 1)
    deployment.processes.await_members(audit_group(deployment), 1)
    at_work = membership(deployment)
    first = start_orders(deployment, ORDERS, "first")
    deployment.processes.finish(first)
    await_all_written(deployment, file)

    if fate == "frozen":
        audit.freeze()
    else:
        audit.kill()
    seen = written(file)
    second = start_orders(deployment, ORDERS, "second")
    deployment.processes.finish(second)
    eventually(lambda: has_committed_all(deployment), DEADLINE_S, interval_s=0.1)
    deployment.processes.await_members(audit_group(deployment), 0)
    assert written(file) == seen

    if fate == "frozen":
        audit.go_on()
    else:
        deployment.processes.audit(file)
    await_all_written(deployment, file)
    assert_told(deployment, file)
    assert_delivered(deployment, [*first, *second])
    assert membership(deployment) == at_work
    assert evaluator.stop()["positions_lost"] == 0
    assert agent.stop()["commit_failures"] == 0


def test_two_audits_at_once_each_see_every_record(deployments: Deployments) -> None:
    """Both read to standard output, one of them begins in the middle of the runs; a facet that is deployed later is
    followed by both. No group is left behind.
    """
    deployment = deployments(SHOP)
    deployment.processes.evaluator()
    deployment.processes.agent()
    audits = [deployment.processes.command("audit")]
    orders = start_orders(deployment, ORDERS)
    audits.append(deployment.processes.command("audit"))
    deployment.processes.finish(orders)
    deploy_later(deployment)

    def all_written() -> bool:
        return all(not in_the_log(deployment) - written(audit.out) for audit in audits)

    eventually(all_written, DEADLINE_S, interval_s=0.2)
    for audit in audits:
        audit.ask_to_stop()
        assert audit.exit_code() == 0, audit.log
        assert max(written(audit.out).values()) == 1
    groups = deployment.kafka.admin.list_consumer_groups().result(20).valid
    assert not [group.group_id for group in groups if group.group_id.startswith(f"{deployment.config.prefix}audit")]


def deploy_later(deployment: Deployment) -> None:
    """Deploy a facet that was not there before, and publish events of it."""
    program = program_of(LATER)
    deployment.programs.append(program)
    deployment.client.apply_topics([program])
    deployment.client.deploy(program)
    for number in range(LATER_RUNS):
        deployment.client.start("later.Enquiry", {"about": "tea"}, workflow_id=f"enquiry-{number}")
    eventually(lambda: len(deployment.events(LATER_FACET)) == LATER_RUNS, DEADLINE_S, interval_s=0.1)


@pytest.mark.parametrize("point", quick_first(AUDIT_POINTS, {"audit.synced"}))
@pytest.mark.long
def test_an_audit_that_stood_still_at_any_step_past_its_session_writes_each_record_once(
    point: str, deployments: Deployments, tmp_path: Path
) -> None:
    deployment, file = deployments(SHOP), tmp_path / "audit.jsonl"
    orders = start_orders(deployment, ORDERS)
    deployment.processes.evaluator()
    deployment.processes.agent()
    deployment.processes.finish(orders)

    audit = deployment.processes.audit(file, point, act="freeze").when_frozen()
    deployment.processes.await_members(audit_group(deployment), 0)
    audit.go_on()

    await_all_written(deployment, file)
    assert_told(deployment, file)


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.long)])
def test_a_facet_deployed_later_is_followed_from_its_first_record_within_15_s(
    protocol: str, deployments: Deployments, processes: Processes, tmp_path: Path
) -> None:
    deployment, file = deployments(SHOP, protocol=protocol), tmp_path / "audit.jsonl"
    audit = processes.start(
        "audit",
        "afl_stream",
        *("audit", "--file", str(file), "--group", audit_group(deployment)),
        environment=without_tuning(deployment.processes.environment),
    )
    deployment.processes.evaluator()
    deployment.processes.await_members(audit_group(deployment), 1)

    deploy_later(deployment)

    topic = deployment.topology.facet(LATER_FACET)
    expected = Counter((r.topic, r.partition, r.offset) for r in deployment.records(topic))
    eventually(lambda: audit.check_alive() and expected <= written(file), FOLLOWED_WITHIN_S, interval_s=0.1)
    assert in_the_log(deployment) - written(file) == Counter()
    assert max(written(file).values()) == 1


def without_tuning(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a deployment that says nothing of how its clients behave."""
    said = ("AFL_KAFKA_BOOTSTRAP", "AFL_KAFKA_GROUP_PROTOCOL")
    return {name: value for name, value in environment.items() if not name.startswith("AFL_KAFKA_") or name in said}
