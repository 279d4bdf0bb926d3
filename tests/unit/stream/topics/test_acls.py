"""The rights of roles: what each may do, and above all what it may not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from afl_stream.acls import Match, Operation, Resource
from afl_stream.commands.topics.acls import ROLES
from afl_stream.pubsub.hosting.topics import WorkflowTopics
from afl_stream.resources import topic_texts
from afl_stream.settings.config import StreamConfig
from afl_stream.settings.dashboard import DashboardSettings
from afl_stream.settings.registry import RegistrySettings
from afl_stream.settings.sections import AgentSettings, TopicSettings
from afl_stream.topics.acls import acls_of, rights_of
from afl_stream.topics.declared import Topology
from afl_stream.topics.rights import (
    BridgeScope,
    FacetsNeeded,
    OptionOfOthers,
    Right,
    Role,
    Scope,
    ScopeNeeded,
    Subscribed,
)

READ, WRITE, CREATE = Operation.READ, Operation.WRITE, Operation.CREATE
CHARGE, REFUND = "shop.Charge", "shop.Refund"
AGENT = Scope(facets=(CHARGE,))
PARCELS = Subscribed(topic="shop.parcels", group="afl.pubsub.sub.bridge.shop.parcels", has_letters=True)
BRIDGE = BridgeScope(reads=(PARCELS,), writes=("shop.orders",), raises_events=True)
HOSTED = WorkflowTopics(StreamConfig(), "review", ["cases", "checked", "verdicts"]).scope(
    taken=["cases"], given=["verdicts"], has_state=True
)
#: What the rights of a role depend on, where they do.
SCOPES = {
    Role.AGENT: AGENT,
    Role.GATEWAY: AGENT,
    Role.BRIDGE: replace(AGENT, bridge=BRIDGE),
    Role.PUBSUB_WORKER: Scope(hosted=HOSTED),
    Role.PUBSUB_CLIENT: Scope(hosted=HOSTED),
    Role.SUBSCRIBER: Scope(subscribed=(PARCELS,)),
}


def rights(role: Role, scope: Scope | None = None, config: StreamConfig | None = None) -> list[Right]:
    return rights_of(role, Topology(config or StreamConfig()), scope or SCOPES.get(role))


def may(found: Sequence[Right], operation: Operation, name: str, resource: Resource = Resource.TOPIC) -> bool:
    """Return whether a broker would allow it, by the rules of Kafka: a prefix covers all that begins so."""
    return any(
        operation in one.operations
        and one.resource is resource
        and (one.name == name or (one.match is Match.PREFIXED and name.startswith(one.name)))
        for one in found
    )


def written(role: Role, scope: Scope | None = None) -> set[str]:
    """Return the topics, of those that matter, that a role may write to."""
    topics = ["control", "commands", "external", "lifecycle", "definitions", "schemas", "presence", "dlq.control"]
    topics += [f"{start}events.{facet}" for facet in (CHARGE, REFUND) for start in ("", "dlq.")]
    found = rights(role, scope)
    return {topic for topic in topics if may(found, WRITE, f"afl.{topic}")}


def test_each_role_writes_only_where_it_has_work() -> None:
    facets = {f"events.{CHARGE}", f"events.{REFUND}"}

    assert written(Role.EVALUATOR) == {
        "commands", "lifecycle", "definitions", "schemas", "presence", "dlq.control", *facets
    }  # fmt: skip
    assert written(Role.AGENT) == {"control", f"dlq.events.{CHARGE}", "presence"}
    assert written(Role.AUDIT) == {"presence"}
    assert written(Role.PRODUCER) == {"external"}
    assert written(Role.PRODUCER, Scope(answers=True)) == {"external", "control"}
    assert written(Role.STARTER) == {"commands"}
    assert written(Role.GATEWAY) == {
        "control", "commands", "external", f"dlq.events.{CHARGE}", "presence"
    }  # fmt: skip
    assert written(Role.GATEWAY, Scope()) == {"control", "commands", "external"}
    assert written(Role.BRIDGE) == {"control", "external", f"dlq.events.{CHARGE}", "presence"}
    assert written(Role.BRIDGE, Scope(bridge=BridgeScope(reads=(PARCELS,)))) == set()
    assert written(Role.PUBSUB_WORKER) == {"schemas"}
    assert written(Role.PUBSUB_CLIENT) == written(Role.SUBSCRIBER) == set()


def test_a_bridge_reads_and_writes_what_it_declares_and_no_more() -> None:
    found = rights(Role.BRIDGE, Scope(bridge=BRIDGE))

    assert {right.name for right in found if WRITE in right.operations} == {
        "afl.external", "shop.orders", "afl.dlq.shop.parcels"
    }  # fmt: skip
    assert {right.name for right in found if READ in right.operations} == {
        "shop.parcels", PARCELS.group, "afl.schemas"
    }  # fmt: skip


def test_a_client_of_a_hosted_workflow_writes_inputs_reads_outputs_and_sees_nothing_between() -> None:
    found = rights(Role.PUBSUB_CLIENT, Scope(hosted=HOSTED, is_minimal=True))
    topics = [f"afl.pubsub.review.{name}" for name in ("cases", "checked", "verdicts", "status", "state")]

    assert [topic for topic in topics if may(found, WRITE, topic)] == ["afl.pubsub.review.cases"]
    assert [topic for topic in topics if may(found, READ, topic)] == topics[2:4]
    assert may(found, Operation.DESCRIBE, "afl.pubsub.review.checked")


def test_a_worker_has_its_own_workflow_alone_and_its_state_where_that_is_on_a_topic() -> None:
    found, elsewhere = rights(Role.PUBSUB_WORKER), replace(HOSTED, state=None)

    assert all(may(found, READ, topic) and may(found, WRITE, topic) for topic in (*HOSTED.topics, HOSTED.state or ""))
    assert not any(
        may(found, READ, f"afl.pubsub.{name}") for name in ("reviews.cases", "review.other", "review.status")
    )
    assert not any(right.name == HOSTED.state for right in rights(Role.PUBSUB_WORKER, Scope(hosted=elsewhere)))
    assert may(found, READ, "afl.pubsub.review", Resource.GROUP)


def test_an_agent_reads_its_own_facet_and_joins_its_own_group() -> None:
    found = rights(Role.AGENT)

    assert may(found, READ, f"afl.events.{CHARGE}")
    assert not may(found, READ, f"afl.events.{CHARGE}s")
    assert not any(
        may(found, READ, f"afl.{topic}") for topic in (f"events.{REFUND}", "control", "commands", "external")
    )
    groups = [f"afl.agent.{facet}" for facet in (CHARGE, REFUND)]
    assert [may(found, READ, group, Resource.GROUP) for group in groups] == [True, False]


def test_nobody_but_operators_creates_topics_and_nobody_deletes_or_alters() -> None:
    for role in Role:
        operations = {operation for right in rights(role) for operation in right.operations}

        assert (CREATE in operations) is (role is Role.OPERATOR)
        assert operations <= {READ, WRITE, CREATE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS}
        assert {right.resource for right in rights(role)} <= {Resource.TOPIC, Resource.GROUP}


@pytest.mark.parametrize("role", Role)
def test_the_minimal_rights_are_some_of_all(role: Role) -> None:
    scope = SCOPES.get(role, Scope())

    everything, minimal = rights(role, scope), rights(role, replace(scope, is_minimal=True))

    assert [right for right in everything if not right.is_optional] == minimal
    assert minimal


def test_an_agent_with_minimal_rights_learns_nothing_of_other_runs() -> None:
    found = rights(Role.AGENT, replace(AGENT, is_minimal=True))

    read = {right.name for right in found if READ in right.operations and right.resource is Resource.TOPIC}
    assert read == {f"afl.events.{CHARGE}", "afl.schemas"}


def test_a_dashboard_that_only_reads_writes_nothing() -> None:
    config = StreamConfig(dashboard=DashboardSettings(read_only=True))

    found = rights(Role.DASHBOARD, config=config)

    assert not any(WRITE in right.operations for right in found)
    assert may(found, READ, f"afl.events.{REFUND}")
    assert any(WRITE in right.operations for right in rights(Role.DASHBOARD))


def test_an_evaluator_announces_no_schemas_on_the_topic_where_a_registry_has_them() -> None:
    config = StreamConfig(registry=RegistrySettings(url="http://registry:8081"))

    found = rights(Role.EVALUATOR, config=config)

    assert may(found, READ, "afl.schemas")
    assert not may(found, WRITE, "afl.schemas")


def test_names_follow_prefix_and_settings() -> None:
    config = StreamConfig(prefix="t1.", agent=AgentSettings(group="{facet}-workers"))

    found = rights(Role.AGENT, config=config)

    assert may(found, READ, f"t1.events.{CHARGE}")
    assert may(found, READ, f"{CHARGE}-workers", Resource.GROUP)
    grouped = rights(Role.AGENT, replace(AGENT, group="desks"), config)
    assert [right.name for right in grouped if right.resource is Resource.GROUP] == ["desks", "t1.reader-"]


def test_facets_are_named_one_by_one_where_their_topics_begin_as_others_do() -> None:
    config = StreamConfig(topics=TopicSettings(facet_template="{prefix}{facet}"))

    with pytest.raises(FacetsNeeded, match="the rights of an evaluator depend on its facets: name them with --facet"):
        rights(Role.EVALUATOR, config=config)
    found = rights(Role.EVALUATOR, Scope(known_facets=(CHARGE,)), config)

    assert may(found, WRITE, f"afl.{CHARGE}")
    assert not may(found, WRITE, f"afl.{REFUND}")
    assert not may(found, WRITE, "afl.control")


def test_a_role_may_be_narrowed_to_some_facets() -> None:
    found = rights(Role.EVALUATOR, Scope(facets=(CHARGE,)))

    assert may(found, WRITE, f"afl.events.{CHARGE}")
    assert not may(found, WRITE, f"afl.events.{REFUND}")


def test_shared_topics_are_named_beside_the_beginning_of_the_others(tmp_path: Path) -> None:
    for kind, text in topic_texts().items():
        (tmp_path / f"{kind}.toml").write_text(text)
    with (tmp_path / "facet.toml").open("a") as file:
        file.write(f'\n[[shared]]\ntopic = "{{prefix}}billing"\nfacets = ["{CHARGE}", "{REFUND}"]\n')
    config = StreamConfig(topics=TopicSettings(declarations=str(tmp_path)))

    found = rights(Role.EVALUATOR, config=config)
    agent = rights(Role.AGENT, config=config)

    assert may(found, WRITE, "afl.billing")
    assert may(agent, READ, "afl.billing")
    assert may(agent, WRITE, "afl.dlq.billing")


def test_an_agent_without_facets_and_options_of_other_roles_are_refused() -> None:
    with pytest.raises(FacetsNeeded, match="the rights of an agent depend on its facets"):
        rights_of(Role.AGENT, Topology(StreamConfig()))
    with pytest.raises(OptionOfOthers, match="--group is for evaluator, agent and audit, found with --role starter"):
        rights(Role.STARTER, Scope(group="g"))
    for role, option in (
        (Role.BRIDGE, "--declaration MODULE"),
        (Role.PUBSUB_WORKER, "--workflow MODULE:WORKFLOW"),
        (Role.PUBSUB_CLIENT, "--workflow MODULE:WORKFLOW"),
        (Role.SUBSCRIBER, "--topic NAME"),
    ):
        with pytest.raises(ScopeNeeded, match=f"the rights of a {role} depend on .*: name it with {option}"):
            rights_of(role, Topology(StreamConfig()))
    with pytest.raises(OptionOfOthers, match="--answers is for producer, found with --role agent"):
        rights(Role.AGENT, replace(AGENT, answers=True))


@pytest.mark.parametrize("role", Role)
def test_every_right_says_why_and_becomes_acls_of_one_user_each_once(role: Role) -> None:
    found = rights(role)
    acls = acls_of(found, "User:x", "10.0.0.1")

    assert all(right.why for right in found)
    assert len(set(acls)) == len(acls)
    assert {(acl.principal, acl.host, acl.is_denied) for acl in acls} == {("User:x", "10.0.0.1", False)}
    assert {(acl.name, acl.operation) for acl in acls} == {
        (right.name, operation) for right in found for operation in right.operations
    }


def test_the_command_knows_every_role() -> None:
    assert list(ROLES) == list(Role)
