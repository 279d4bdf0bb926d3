"""Topics as files of Terraform and Strimzi, and as commands of Kafka's own tool."""

import re
import shlex
from dataclasses import replace

import pytest
import yaml

from afl_stream.settings.config import StreamConfig
from afl_stream.topics.declared import PlanAction, TopicPlan, TopicSpec, Topology
from afl_stream.topics.exports import (
    is_cluster_name,
    kafka_topics_lines,
    resource_name,
    strimzi_lines,
    terraform_lines,
)

_SPEC = TopicSpec(
    name="afl.events.shop.Charge",
    partitions=12,
    replication=3,
    settings={"cleanup.policy": "delete", "retention.ms": "604800000"},
)
MISSING = TopicPlan(spec=_SPEC, action=PlanAction.CREATE)
#: What Kubernetes takes as the name of a custom resource, as its reference says it (RFC 1123).
_RFC_1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def there(partitions: int, spec: TopicSpec = _SPEC) -> TopicPlan:
    return TopicPlan(spec=spec, action=PlanAction.DIFFERS, found_partitions=partitions)


def test_terraform_gets_a_resource_for_each_topic_that_no_plan_can_destroy() -> None:
    text = "\n".join(terraform_lines([MISSING]))

    assert text.endswith(
        """
resource "kafka_topic" "afl_events_shop_Charge" {
  name               = "afl.events.shop.Charge"
  partitions         = 12
  replication_factor = 3

  config = {
    "cleanup.policy" = "delete"
    "retention.ms"   = "604800000"
  }

  lifecycle {
    prevent_destroy = true
  }
}"""
    )
    assert 'source = "Mongey/kafka"' in text
    assert "import {" not in text


def test_terraform_imports_topics_that_exist_in_place_of_creating_them() -> None:
    text = "\n".join(terraform_lines([there(12)]))

    assert 'import {\n  to = kafka_topic.afl_events_shop_Charge\n  id = "afl.events.shop.Charge"\n}' in text


@pytest.mark.parametrize(("found", "exported"), [(24, 24), (6, 12)])
def test_a_topic_is_never_exported_with_fewer_partitions_than_it_has(found: int, exported: int) -> None:
    # Terraform would delete it and create another one; Strimzi's operator would refuse.
    assert f"partitions         = {exported}" in "\n".join(terraform_lines([there(found)]))
    resource = yaml.safe_load("\n".join(strimzi_lines([there(found)], "main")))
    assert resource["spec"]["partitions"] == exported


def test_strimzi_gets_a_resource_for_each_topic_of_a_deployment() -> None:
    specs = Topology(StreamConfig()).specs(["shop.Charge"])
    plans = [TopicPlan(spec=spec, action=PlanAction.CREATE) for spec in specs]

    resources = list(yaml.safe_load_all("\n".join(strimzi_lines(plans, "main"))))

    assert [resource["spec"]["topicName"] for resource in resources] == [spec.name for spec in specs]
    by_topic = {resource["spec"]["topicName"]: resource for resource in resources}
    assert by_topic["afl.control"]["metadata"] == {"name": "afl.control", "labels": {"strimzi.io/cluster": "main"}}
    assert by_topic["afl.control"]["spec"] == {
        "topicName": "afl.control",
        "partitions": 6,
        "replicas": 3,
        "config": {
            "cleanup.policy": "delete",
            "max.message.bytes": 1_048_588,
            "min.insync.replicas": 2,
            "retention.ms": 604_800_000,
        },
    }
    assert {(resource["apiVersion"], resource["kind"]) for resource in resources} == {
        ("kafka.strimzi.io/v1", "KafkaTopic")
    }


@pytest.mark.parametrize(
    "topic",
    ["afl.control", "afl.events.shop.Charge", "a_b", "a-b", "A.B", "-", "__x__", ".a.", "a..b", "x" * 249, "X" * 249],
)
def test_each_topic_has_a_name_that_kubernetes_takes(topic: str) -> None:
    name = resource_name(topic)

    assert _RFC_1123.fullmatch(name)
    assert len(name) <= 253


def test_topics_that_differ_in_case_and_underscores_alone_have_resources_of_their_own() -> None:
    topics = ["a.b-c", "a.b_c", "a.B_c", "a.B-c", "A.b-c"]

    assert len({resource_name(topic) for topic in topics}) == len(topics)


def test_a_cluster_is_named_as_kubernetes_names_it() -> None:
    assert is_cluster_name("my-cluster")
    assert not is_cluster_name("My_Cluster")
    assert not is_cluster_name("")


def test_kafkas_tool_creates_what_is_missing_and_nothing_else() -> None:
    other = replace(_SPEC, name="afl.events.shop.Ship")

    lines = list(kafka_topics_lines([MISSING, there(12, other)], "kafka:9092"))

    assert [shlex.split(line) for line in lines] == [
        [
            *("kafka-topics.sh", "--bootstrap-server", "kafka:9092", "--create", "--if-not-exists"),
            *("--topic", "afl.events.shop.Charge", "--partitions", "12", "--replication-factor", "3"),
            *("--config", "cleanup.policy=delete", "--config", "retention.ms=604800000"),
        ]
    ]
