"""Rights as files of Terraform and Strimzi, and as commands of Kafka's own tool: all say the same."""

from __future__ import annotations

import re
import shlex

import pytest
import yaml

from afl_stream.settings.config import StreamConfig
from afl_stream.topics.acl_exports import NoStrimziUser, kafka_acls_lines, strimzi_user_lines, terraform_acl_lines
from afl_stream.topics.acls import acls_of, rights_of
from afl_stream.topics.declared import Topology
from afl_stream.topics.rights import Role

RIGHTS = rights_of(Role.EVALUATOR, Topology(StreamConfig()))
#: Name, operation, and whether the name is a beginning, of each right.
EXPECTED = {
    (right.name, operation.value, right.match.value == "prefixed") for right in RIGHTS for operation in right.operations
}


def option(words: list[str], name: str) -> list[str]:
    return [words[at + 1] for at, word in enumerate(words) if word == name]


def test_kafkas_tool_gets_a_line_for_each_right() -> None:
    found = set()
    for line in kafka_acls_lines(RIGHTS, "User:O'Hara", "*", "kafka:9092"):
        words = shlex.split(line)
        assert words[:5] == ["kafka-acls.sh", "--bootstrap-server", "kafka:9092", "--add", "--force"]
        assert option(words, "--allow-principal") == ["User:O'Hara"]
        assert option(words, "--allow-host") == ["*"]
        [name] = option(words, "--topic") + option(words, "--group")
        [kind] = option(words, "--resource-pattern-type")
        found |= {(name, operation, kind == "prefixed") for operation in option(words, "--operation")}

    assert found == EXPECTED


def test_strimzi_gets_a_user_with_simple_authorization() -> None:
    user = yaml.safe_load("\n".join(strimzi_user_lines(RIGHTS, "User:CN=evaluator", "*", "main")))

    assert (user["kind"], user["metadata"]["name"]) == ("KafkaUser", "evaluator")
    assert user["metadata"]["labels"] == {"strimzi.io/cluster": "main"}
    assert user["spec"]["authentication"] == {"type": "tls-external"}
    assert user["spec"]["authorization"]["type"] == "simple"
    found = {
        (acl["resource"]["name"], operation, acl["resource"]["patternType"] == "prefix")
        for acl in user["spec"]["authorization"]["acls"]
        for operation in acl["operations"]
    }
    assert found == EXPECTED


def test_strimzi_leaves_the_login_of_other_users_to_its_people() -> None:
    user = yaml.safe_load("\n".join(strimzi_user_lines(RIGHTS, "User:evaluator", "*", "main")))

    assert "authentication" not in user["spec"]


@pytest.mark.parametrize("principal", ["User:Evaluator", "User:CN=a,OU=b", "Group:evaluator", "User:a_b"])
def test_a_user_that_strimzi_cannot_make_is_refused(principal: str) -> None:
    with pytest.raises(NoStrimziUser, match="where NAME is a name of Kubernetes"):
        list(strimzi_user_lines(RIGHTS, principal, "*", "main"))


def test_terraform_gets_a_resource_for_each_acl_under_a_name_of_its_own() -> None:
    text = "\n".join(terraform_acl_lines(acls_of(RIGHTS, "User:evaluator")))

    labels = re.findall(r'^resource "kafka_acl" "([a-z_][a-z0-9_]*)" {$', text, re.MULTILINE)
    names, kinds, operations = (
        re.findall(rf'^  {key} += "(.*)"$', text, re.MULTILINE)
        for key in ("resource_name", "resource_pattern_type_filter", "acl_operation")
    )
    assert len(set(labels)) == len(labels) == len(EXPECTED)
    found = {(name, what, kind == "Prefixed") for name, what, kind in zip(names, operations, kinds, strict=True)}
    assert found == EXPECTED
    assert set(re.findall(r'resource_type += "(.*)"', text)) == {"Topic", "Group"}
