"""`afl-stream topics acls` without a cluster: it shows rights, knows the facets of programs, and refuses nonsense."""

import pytest

from tests.scenarios.command_lines import CommandLine


@pytest.fixture
def command_line(tmp_path, capsys, monkeypatch) -> CommandLine:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("COLUMNS", "250")
    return CommandLine(tmp_path, capsys)


def test_the_rights_of_a_role_are_shown_with_their_reasons(command_line: CommandLine) -> None:
    called = command_line("topics", "acls", command_line.program, "--role", "agent", "--facet", "net.Ping")

    assert called.code == 0
    rows = [line.split() for line in called.out.splitlines()]
    assert ["topic", "afl.events.net.Ping", "Read", "reads", "the", "events"] in [row[:6] for row in rows]
    assert ["group", "afl.agent.net.Ping", "Read"] in [row[:3] for row in rows]
    assert "optional: to skip the events of cancelled runs" in called.out


def test_minimal_rights_are_those_that_are_not_optional(command_line: CommandLine) -> None:
    words = ("topics", "acls", "--role", "agent", "--facet", "net.Ping", "--json")

    full, minimal = command_line(*words).document["rights"], command_line(*words, "--minimal").document["rights"]

    assert [right for right in full if not right["optional"]] == minimal


def test_a_facet_that_no_program_has_is_refused_with_what_was_meant(command_line: CommandLine) -> None:
    words = ("topics", "acls", "--role", "agent", "--facet", "net.Pnig")

    of_files = command_line(*words, command_line.program)
    of_deployed = command_line.deployed()(*words)

    for called in (of_files, of_deployed):
        assert called.code != 0
        assert "there is no event facet net.Pnig; did you mean net.Ping" in called.err


def test_a_facet_without_a_topic_is_refused(command_line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFL_DISPATCH_TASK_FACETS", "net.Ping")

    called = command_line("topics", "acls", "--role", "agent", "--facet", "net.Ping")

    assert called.code == 2
    assert "events of net.Ping are tasks in the store (dispatch.*): no topic has them" in called.err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--role", "agent"), "the rights of an agent depend on its facets: name them with --facet"),
        (("--role", "audit", "--principal", "bob"), "--principal: found bob, expected User:NAME"),
        (("--role", "audit", "--principal", "User:*"), "rights for everyone are no rights of a role"),
        (("--role", "audit", "--apply"), "--apply needs --principal User:NAME"),
        (("--role", "audit", "--format", "terraform"), "--format terraform needs --principal User:NAME"),
        (("--role", "audit", "--principal", "User:a", "--apply"), "--apply is for a Kafka cluster"),
        (("--role", "audit", "--principal", "User:a", "--check"), "--check is for a Kafka cluster"),
        (("--role", "audit", "--principal", "User:a", "--apply", "--check"), "--check only looks: give one"),
        (
            ("--role", "audit", "--principal", "User:a", "--apply", "--format", "kafka-acls"),
            "--apply and --format kafka-acls are two ways to give rights: give one",
        ),
        (("--role", "audit", "--principal", "User:a", "--format", "strimzi"), "needs --cluster NAME"),
        (("--role", "audit", "--cluster", "main"), "--cluster is for strimzi"),
        (
            ("--role", "audit", "--principal", "User:a", "--format", "kafka-acls", "--json"),
            "--format kafka-acls and --json are two forms of one output: give one",
        ),
        (("--role", "starter", "--group", "g"), "--group is for evaluator, agent and audit, found with --role starter"),
        (("--role", "starter", "--answers"), "--answers is for producer, found with --role starter"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    words: tuple[str, ...], why: str, command_line: CommandLine
) -> None:
    called = command_line("topics", "acls", *words)

    assert called.code == 2
    assert why in called.err
