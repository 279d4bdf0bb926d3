"""Rights as the files of those who give them: Terraform, Strimzi, and the commands of Kafka's own tool."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from afl_stream.acls import Acl, Match, Resource
from afl_stream.errors import StreamError
from afl_stream.topics.exports import STRIMZI_API, is_cluster_name
from afl_stream.topics.rights import Right

_TERRAFORM_TYPES: Final = {Resource.TOPIC: "Topic", Resource.GROUP: "Group"}
_DIGEST_CHARS: Final = 8


class NoStrimziUser(StreamError):
    """Strimzi's user operator makes no user of this name."""

    def __init__(self, principal: str) -> None:
        super().__init__(
            f"--principal {principal}: Strimzi makes the users User:NAME and User:CN=NAME, where NAME is a name of "
            "Kubernetes: lower case letters, digits, hyphens and dots"
        )


def kafka_acls_lines(rights: Iterable[Right], principal: str, host: str, bootstrap: str) -> Iterator[str]:
    """Yield a line of shell for each right: Kafka's own tool gives it."""
    for right in rights:
        words = ["kafka-acls.sh", "--bootstrap-server", bootstrap, "--add", "--force"]
        words += ["--allow-principal", principal, "--allow-host", host]
        for operation in right.operations:
            words += ["--operation", operation]
        words += [f"--{right.resource}", right.name, "--resource-pattern-type", right.match]
        yield shlex.join(words)


def terraform_acl_lines(acls: Sequence[Acl]) -> Iterator[str]:
    """Yield a file for Terraform's provider Mongey/kafka: a resource for each ACL."""
    yield "terraform {"
    yield "  required_providers {"
    yield "    kafka = {"
    yield '      source = "Mongey/kafka"'
    yield "    }"
    yield "  }"
    yield "}"
    for acl in acls:
        yield ""
        yield f'resource "kafka_acl" "{_label(acl)}" {{'
        yield f"  resource_name                = {json.dumps(acl.name)}"
        yield f'  resource_type                = "{_TERRAFORM_TYPES[acl.resource]}"'
        yield f'  resource_pattern_type_filter = "{acl.match.capitalize()}"'
        yield f"  acl_principal                = {json.dumps(acl.principal)}"
        yield f"  acl_host                     = {json.dumps(acl.host)}"
        yield f'  acl_operation                = "{acl.operation}"'
        yield '  acl_permission_type          = "Allow"'
        yield "}"


def strimzi_user_lines(rights: Iterable[Right], principal: str, host: str, cluster: str) -> Iterator[str]:
    """Yield the KafkaUser of Strimzi's user operator that has these rights. Raises NoStrimziUser.

    A user of TLS (`User:CN=NAME`) brings a certificate of its own; how any other logs in is left to who applies this.
    """
    name = principal.removeprefix("User:")
    is_tls, name = name.startswith("CN="), name.removeprefix("CN=")
    if not principal.startswith("User:") or not is_cluster_name(name):
        raise NoStrimziUser(principal)
    yield f"apiVersion: {STRIMZI_API}"
    yield "kind: KafkaUser"
    yield "metadata:"
    yield f"  name: {json.dumps(name)}"
    yield "  labels:"
    yield f"    strimzi.io/cluster: {json.dumps(cluster)}"
    yield "spec:"
    if is_tls:
        yield "  authentication:"
        yield "    type: tls-external"
    yield "  authorization:"
    yield "    type: simple"
    yield "    acls:"
    for right in rights:
        yield "      - resource:"
        yield f"          type: {right.resource}"
        yield f"          name: {json.dumps(right.name)}"
        yield f"          patternType: {'prefix' if right.match is Match.PREFIXED else 'literal'}"
        yield f"        operations: [{', '.join(right.operations)}]"
        yield f"        host: {json.dumps(host)}"


def _label(acl: Acl) -> str:
    digest = hashlib.sha256(repr(acl).encode()).hexdigest()[:_DIGEST_CHARS]
    shown = re.sub(r"[^a-z0-9]+", "_", f"{acl.principal} {acl.operation} {acl.name}".lower()).strip("_")
    return f"{shown}_{digest}"
