"""Topics as the files of those who create them: Terraform, Strimzi, and the commands of Kafka's own tool.

Terraform and Strimzi keep what they are given, so they get every topic of the deployment; a topic that such a file no
longer names would be deleted. Kafka's tool gets those that are missing.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from afl_stream.topics.declared import PlanAction, TopicPlan

#: The API of Strimzi's resources since its release 0.49; 1.0 knows no other.
STRIMZI_API: Final = "kafka.strimzi.io/v1"
#: What Kubernetes takes as the name of a resource: at most so many characters.
_MOST_NAME_CHARS: Final = 253
_DNS_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_DIGEST_CHARS: Final = 8


def kafka_topics_lines(plans: Iterable[TopicPlan], bootstrap: str) -> Iterator[str]:
    """Yield a line of shell for each topic that is missing: Kafka's own tool creates it."""
    for plan in plans:
        if plan.action is PlanAction.CREATE:
            spec = plan.spec
            words = ["kafka-topics.sh", "--bootstrap-server", bootstrap, "--create", "--if-not-exists"]
            words += ["--topic", spec.name, "--partitions", str(spec.partitions)]
            words += ["--replication-factor", str(spec.replication)]
            for name, value in sorted(spec.settings.items()):
                words += ["--config", f"{name}={value}"]
            yield shlex.join(words)


def terraform_lines(plans: Iterable[TopicPlan]) -> Iterator[str]:
    """Yield a file for Terraform's provider Mongey/kafka: a resource for each topic.

    Topics that exist are imported, none can be destroyed by a plan, and none has fewer partitions than it has now.
    """
    yield "terraform {"
    yield '  required_version = ">= 1.5"'
    yield "  required_providers {"
    yield "    kafka = {"
    yield '      source = "Mongey/kafka"'
    yield "    }"
    yield "  }"
    yield "}"
    for plan in plans:
        spec, label = plan.spec, _terraform_label(plan.spec.name)
        if plan.action is not PlanAction.CREATE:
            yield ""
            yield "import {"
            yield f"  to = kafka_topic.{label}"
            yield f"  id = {json.dumps(spec.name)}"
            yield "}"
        yield ""
        yield f'resource "kafka_topic" "{label}" {{'
        yield f"  name               = {json.dumps(spec.name)}"
        yield f"  partitions         = {_partitions(plan)}"
        yield f"  replication_factor = {spec.replication}"
        yield ""
        yield "  config = {"
        yield from (f"    {line}" for line in _aligned(spec.settings))
        yield "  }"
        yield ""
        yield "  lifecycle {"
        yield "    prevent_destroy = true"
        yield "  }"
        yield "}"


def strimzi_lines(plans: Iterable[TopicPlan], cluster: str) -> Iterator[str]:
    """Yield a resource of Strimzi's topic operator for each topic; `cluster` is the name of the Kafka resource."""
    for plan in plans:
        spec = plan.spec
        yield "---"
        yield f"apiVersion: {STRIMZI_API}"
        yield "kind: KafkaTopic"
        yield "metadata:"
        yield f"  name: {json.dumps(resource_name(spec.name))}"
        yield "  labels:"
        yield f"    strimzi.io/cluster: {json.dumps(cluster)}"
        yield "spec:"
        yield f"  topicName: {json.dumps(spec.name)}"
        yield f"  partitions: {_partitions(plan)}"
        yield f"  replicas: {spec.replication}"
        yield "  config:"
        for name, value in sorted(spec.settings.items()):
            # The operator compares numbers with numbers.
            yield f"    {name}: {value if value.isdecimal() else json.dumps(value)}"


def resource_name(topic: str) -> str:
    """Return a name that Kubernetes takes: the topic's own, or one made of it that no other topic has."""
    if len(topic) <= _MOST_NAME_CHARS and _DNS_NAME.match(topic):
        return topic
    digest = hashlib.sha256(topic.encode()).hexdigest()[:_DIGEST_CHARS]
    parts = (part.strip("-") for part in re.sub(r"[^a-z0-9.]", "-", topic.lower()).split("."))
    shown = ".".join(part for part in parts if part)[: _MOST_NAME_CHARS - _DIGEST_CHARS - 1].rstrip("-.")
    return f"{shown}-{digest}" if shown else f"topic-{digest}"


def is_cluster_name(text: str) -> bool:
    """Return whether Kubernetes takes this as the name of the Kafka resource."""
    return len(text) <= _MOST_NAME_CHARS and _DNS_NAME.match(text) is not None


def _partitions(plan: TopicPlan) -> int:
    # Fewer than there are would have the topic deleted and created again.
    return max(plan.spec.partitions, plan.found_partitions or 0)


def _terraform_label(topic: str) -> str:
    # Unique: no deployment has two topics that differ in dots and underscores alone.
    label = topic.replace(".", "_")
    return label if re.match(r"[A-Za-z_]", label) else f"topic_{label}"


def _aligned(settings: Mapping[str, str]) -> Iterator[str]:
    """Yield the entries of a map as `terraform fmt` lays them out."""
    names = {json.dumps(name): value for name, value in sorted(settings.items())}
    width = max(map(len, names))
    for name, value in names.items():
        yield f"{name:<{width}} = {json.dumps(value)}"
