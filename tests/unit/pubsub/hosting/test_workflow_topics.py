"""The topics of a hosted workflow: names, sizes, and what is missing."""

import pytest

from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.errors import TopicNameRefused
from afl_stream.pubsub.hosting.topics import (
    PartitionsNotEqual,
    WorkflowTopicMissing,
    WorkflowTopics,
    apply_topics,
    plan_topics,
)
from afl_stream.settings.config import StreamConfig, TopicSettings
from afl_stream.topics.declared import PlanAction, Topology
from afl_stream.topics.policies import unsafe_policies


def topics_of(*names: str, workflow: str = "orders", config: StreamConfig | None = None) -> WorkflowTopics:
    return WorkflowTopics(config or StreamConfig(), workflow, names)


def test_topics_are_named_after_prefix_workflow_and_topic() -> None:
    topics = topics_of("received", "billed")

    assert topics.of == {"received": "afl.pubsub.orders.received", "billed": "afl.pubsub.orders.billed"}
    assert topics.state == "afl.pubsub.orders.state"
    assert topics.status == "afl.pubsub.orders.status"
    assert topics.dead_letters == "afl.dlq.pubsub.orders"
    assert topics.group == "afl.pubsub.orders"
    assert topics.topic_at["afl.pubsub.orders.billed"] == "billed"


@pytest.mark.parametrize(
    ("workflow", "names"),
    [
        ("orders", ["state"]),
        ("orders", ["status"]),
        ("orders", ["a.b", "a_b"]),
        ("orders", ["two words"]),
        ("two words", ["received"]),
        ("a.b", ["c"]),
        ("orders", ["x" * 250]),
    ],
)
def test_names_that_kafka_would_not_take_or_tell_apart_are_refused(workflow: str, names: list[str]) -> None:
    with pytest.raises(TopicNameRefused):
        topics_of(*names, workflow=workflow)


def test_what_belongs_to_requests_has_the_partitions_of_the_settings() -> None:
    topics = topics_of("received", config=StreamConfig(topics=TopicSettings(control_partitions=9)))

    assert {spec.name: spec.partitions for spec in topics.specs()} == {
        "afl.pubsub.orders.received": 9,
        "afl.pubsub.orders.status": 9,
        "afl.pubsub.orders.state": 9,
        "afl.dlq.pubsub.orders": 1,
        "afl.schemas": 1,
    }


def test_only_state_and_schemas_are_compacted() -> None:
    topics = topics_of("received")

    compacted = [spec.name for spec in topics.specs() if spec.settings["cleanup.policy"] == "compact"]

    assert compacted == [topics.state, topics.schemas]


def test_what_is_missing_is_created_once() -> None:
    transport, topics = EmbeddedTransport(), topics_of("received", "billed")

    before = apply_topics(topics, transport)
    after = plan_topics(topics, transport)

    assert {plan.action for plan in before} == {PlanAction.CREATE}
    assert {plan.action for plan in after} == {PlanAction.OK}
    assert transport.admin().topic_names() == {spec.name for spec in topics.specs()}
    transport.close()


def test_a_missing_topic_is_named_with_the_command_that_creates_it() -> None:
    transport, topics = EmbeddedTransport(), topics_of("received")
    apply_topics(topics, transport)
    transport.admin().delete_topic("afl.pubsub.orders.received")

    with pytest.raises(
        WorkflowTopicMissing, match=r"afl\.pubsub\.orders\.received.*afl-stream pubsub topics .* --apply"
    ):
        topics.require(transport.admin().topics(), has_state=True)
    transport.close()


def test_the_topic_of_the_state_is_needed_only_where_the_store_is_on_it() -> None:
    transport, topics = EmbeddedTransport(), topics_of("received")
    apply_topics(topics, transport)
    transport.admin().delete_topic(topics.state)

    assert topics.require(transport.admin().topics(), has_state=False) == 6
    with pytest.raises(WorkflowTopicMissing):
        topics.require(transport.admin().topics(), has_state=True)
    transport.close()


def test_topics_with_different_numbers_of_partitions_are_refused() -> None:
    transport, topics = EmbeddedTransport(), topics_of("received", "billed")
    transport.admin().create_topic("afl.pubsub.orders.billed", partitions=2)
    apply_topics(topics, transport)

    with pytest.raises(PartitionsNotEqual, match="billed 2"):
        topics.require(transport.admin().topics(), has_state=True)
    transport.close()


def test_no_topic_of_a_workflow_is_taken_for_a_facet() -> None:
    config = StreamConfig(topics=TopicSettings(facet_template="{facet}"))
    topology = Topology(config)

    assert topology.is_facet_topic("billing.Pay")
    assert not any(topology.is_facet_topic(spec.name) for spec in topics_of("received", config=config).specs())


def test_a_state_topic_that_deletes_and_a_workflow_topic_that_compacts_are_reported() -> None:
    transport, topics = EmbeddedTransport(), topics_of("received")
    transport.admin().create_topic(topics.state, partitions=6, settings={"cleanup.policy": "delete"})
    transport.admin().create_topic(topics.of["received"], partitions=6, settings={"cleanup.policy": "compact"})
    apply_topics(topics, transport)

    findings = unsafe_policies(Topology(StreamConfig()), transport.admin().topics())

    assert [finding.partition(", not ")[0] for finding in findings] == [
        "topic afl.pubsub.orders.received has cleanup.policy=compact",
        "topic afl.pubsub.orders.state has cleanup.policy=delete",
    ]
    transport.close()
