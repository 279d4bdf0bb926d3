"""`afl-stream topics plan` for pipelines: its exit code, its files for those who create topics, and a budget."""

import re

import pytest
import yaml

from tests.scenarios.command_lines import CommandLine


@pytest.fixture
def command_line(tmp_path, capsys) -> CommandLine:  # type: ignore[no-untyped-def]
    return CommandLine(tmp_path, capsys)


def test_a_check_ends_with_1_until_all_is_as_declared(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = command_line("topics", "plan", command_line.program, "--check")
    command_line("topics", "apply", command_line.program)
    after = command_line("topics", "plan", command_line.program, "--check")
    monkeypatch.setenv("AFL_TOPICS_EVENT_PARTITIONS", "13")
    differing = command_line("topics", "plan", command_line.program, "--check")

    assert (before.code, after.code, differing.code) == (1, 0, 1)
    assert re.search(r"not as declared: (\d+) missing, 0 differ, of \1\n", before.err)
    assert "not as declared" not in after.err
    # The two facets of the program.
    assert "not as declared: 0 missing, 2 differ, of" in differing.err


def test_a_check_without_the_option_never_fails(command_line: CommandLine) -> None:
    assert command_line("topics", "plan", command_line.program).code == 0


def test_files_for_strimzi_and_terraform_name_every_topic_also_those_of_this_machines_log(
    command_line: CommandLine,
) -> None:
    planned = {item["topic"] for item in command_line("topics", "plan", command_line.program, "--json").document}
    command_line("topics", "apply", command_line.program)

    strimzi = command_line("topics", "plan", command_line.program, "--format", "strimzi", "--cluster", "main")
    terraform = command_line("topics", "plan", command_line.program, "--format", "terraform")

    resources = list(yaml.safe_load_all(strimzi.out))
    assert {resource["spec"]["topicName"] for resource in resources} == planned
    assert set(re.findall(r'^  name +=\s"(.*)"$', terraform.out, re.MULTILINE)) == planned
    # The embedded log's topics are not the cluster's, and have no copies.
    assert "import {" not in terraform.out
    assert {resource["spec"]["replicas"] for resource in resources} == {3}
    assert "no cluster was asked" in strimzi.err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--format", "strimzi"), "--format strimzi needs --cluster NAME"),
        (("--format", "strimzi", "--cluster", "My_Cluster"), "no resource of Kubernetes can be called 'My_Cluster'"),
        (("--cluster", "main"), "--cluster is for --format strimzi"),
        (("--format", "terraform", "--json"), "--format terraform and --json are two forms of one output"),
        (("--script", "--json"), "--script and --json are two forms of one output"),
        (("--format", "terraform", "--script"), "--script and --format terraform are two forms of one output"),
        (("--format", "kafka-topics"), "--format kafka-topics is for a Kafka cluster"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    words: tuple[str, ...], why: str, command_line: CommandLine
) -> None:
    called = command_line("topics", "plan", command_line.program, *words)

    assert (called.code, called.out) == (2, "")
    assert why in called.err


def test_a_budget_of_partitions_is_not_exceeded(command_line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = command_line("topics", "plan", command_line.program, "--json").document
    needed = sum(topic["partitions"] for topic in planned)

    monkeypatch.setenv("AFL_TOPICS_MAX_PARTITIONS", str(needed - 1))
    for command in ("plan", "apply"):
        refused = command_line("topics", command, command_line.program)
        assert refused.code == 3
        assert f"{len(planned)} topics to create would add {needed} partitions to 0" in refused.err
        assert f"topics.max_partitions is {needed - 1}" in refused.err
    assert not command_line("topics", "plan").err.startswith("0 to create")

    monkeypatch.setenv("AFL_TOPICS_MAX_PARTITIONS", str(needed))
    assert command_line("topics", "apply", command_line.program).code == 0
    # What is there stays within it, whatever is set later.
    monkeypatch.setenv("AFL_TOPICS_MAX_PARTITIONS", "1")
    assert command_line("topics", "plan", command_line.program, "--check").code == 0


def test_topics_of_other_programs_count_for_the_budget(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = command_line("topics", "apply", command_line.program, "--json").document
    there = sum(topic["partitions"] for topic in planned)
    other = command_line.file("other.afl", "namespace other {\n    event facet Call() => (ok: Boolean)\n}\n")

    # Twelve partitions of events and one of dead letters.
    monkeypatch.setenv("AFL_TOPICS_MAX_PARTITIONS", str(there + 12))
    refused = command_line("topics", "apply", other, "--lenient")

    assert refused.code == 3
    assert f"2 topics to create would add 13 partitions to {there}" in refused.err
