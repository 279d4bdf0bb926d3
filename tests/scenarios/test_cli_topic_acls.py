"""`afl-stream topics acls` without a cluster: it shows rights, knows the facets of programs, and refuses nonsense."""

from pathlib import Path

import pytest

from tests.scenarios.command_lines import Called, CommandLine
from tests.worlds.reviews import REVIEW


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


_SHOP = f"""{REVIEW}

def declare(bridge):
    bridge.publish("net.Ping", to="shop.pings", request_id="host")
    bridge.raise_events("shop.parcels", name="packed")
"""


@pytest.fixture
def shop(tmp_path: Path) -> str:
    path = tmp_path / "shop.py"
    path.write_text(_SHOP)
    return str(path)


def granted(called: Called) -> set[tuple[str, str]]:
    """Return the rights that are not optional: what is done to which name."""
    return {
        (operation, right["name"])
        for right in called.document["rights"]
        for operation in right["operations"]
        if not right["optional"]
    }


def test_the_rights_of_a_bridge_are_those_of_what_it_declares(command_line: CommandLine, shop: str) -> None:
    called = command_line("topics", "acls", "--role", "bridge", "--declaration", shop, "--name", "desk", "--json")

    assert granted(called) == {
        ("Read", "afl.events.net.Ping"), ("Write", "afl.control"), ("Write", "afl.dlq.events.net.Ping"),
        ("Read", "afl.agent.net.Ping"), ("Read", "afl.schemas"), ("Write", "shop.pings"), ("Write", "afl.external"),
        ("Read", "shop.parcels"), ("Read", "afl.pubsub.sub.desk.shop.parcels"), ("Write", "afl.dlq.shop.parcels"),
    }  # fmt: skip


def test_the_rights_of_worker_and_client_are_those_of_the_workflow(command_line: CommandLine, shop: str) -> None:
    words = ("topics", "acls", "--workflow", f"{shop}:review", "--json", "--role")
    topics = "afl.pubsub.review."

    assert granted(command_line(*words, "pubsub-client")) == {
        ("Write", f"{topics}cases"), ("Read", f"{topics}told"), ("Read", f"{topics}status"), ("Read", "afl.schemas"),
        ("Describe", "afl.dlq.pubsub.review"),
    }  # fmt: skip
    worker = granted(command_line(*words, "pubsub-worker"))
    assert {name for operation, name in worker if operation == "Write"} == {
        *(f"{topics}{name}" for name in ("cases", "told", "status", "state")), "afl.schemas", "afl.dlq.pubsub.review"
    }  # fmt: skip
    assert ("Read", "afl.pubsub.review") in worker


def test_a_gateway_has_the_rights_for_the_facets_of_its_settings(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("topics", "acls", command_line.program, "--role", "gateway", "--json")
    without = granted(command_line(*words))
    monkeypatch.setenv("AFL_GATEWAY_FACETS", "net.Ping")

    assert granted(command_line(*words)) - without == {
        ("Read", "afl.events.net.Ping"), ("Write", "afl.dlq.events.net.Ping"), ("Read", "afl.agent.net.Ping")
    }  # fmt: skip


def test_a_pipe_gets_a_line_for_each_right_with_tabs_between(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")

    called = command_line("topics", "acls", "--role", "subscriber", "--topic", "orders", "--name", "report")

    assert [line.split("\t")[:3] for line in called.out.splitlines()] == [
        ["topic", "orders", "Read"],
        ["group", "afl.pubsub.sub.report", "Read"],
        ["topic", "afl.schemas", "Read"],
        ["group", "afl.reader-*", "Describe"],
    ]


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
        (("--role", "bridge"), "the rights of a bridge depend on what it reads and writes: name it with --declaration"),
        (("--role", "pubsub-client"), "name it with --workflow MODULE:WORKFLOW"),
        (("--role", "agent", "--declaration", "m"), "--declaration is for bridge, found with --role agent"),
        (("--role", "agent", "--name", "n"), "--name is for bridge and subscriber, found with --role agent"),
        (("--role", "bridge", "--declaration", "m", "--facet", "f"), "leave out --facet"),
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
