"""`afl-stream schemas register` and `check` on a real registry: levels of subjects, refusals, and what stays."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from tests.integration.registry.world import RegistryParties
from tests.scenarios.command_lines import CommandLine
from tests.scenarios.test_cli_schemas import CHANGED, OLD
from tools.registry import RegistryServer

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


@pytest.fixture
def prefix() -> str:
    """Provide a prefix of the test's own: the registry is shared."""
    return f"t{uuid.uuid4().hex[:12]}."


@pytest.fixture
def command_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    registry: RegistryServer,
    prefix: str,
) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AFL_REGISTRY_URL", registry.url)
    monkeypatch.setenv("AFL_PREFIX", prefix)
    return CommandLine(tmp_path, capsys)


def subjects_of(client: SchemaRegistryClient, prefix: str) -> list[str]:
    return [subject for subject in client.get_subjects() if subject.startswith(prefix)]


def test_subjects_get_the_suggested_level_and_keep_one_of_their_own(
    command_line: CommandLine, registry: RegistryServer, parties: RegistryParties, prefix: str
) -> None:
    client, program = parties.client(registry.url), command_line.file("shop.afl", OLD)
    charge = f"{prefix}events.shop.Charge-value"

    first = command_line("schemas", "register", program, "--json")
    subjects = subjects_of(client, prefix)
    given = {client.get_compatibility(subject) for subject in subjects}
    client.set_compatibility(charge, "BACKWARD")
    again = command_line("schemas", "register", program, "--json")
    kept = client.get_compatibility(charge)
    all_of_one = command_line("schemas", "register", program, "--compatibility", "full", "--json")

    assert (first.code, again.code, all_of_one.code) == (0, 0, 0)
    assert {each["subject"] for each in first.document["schemas"]} == set(subjects)
    assert {charge, f"{prefix}control-afl.v1.StepContinue"} <= set(subjects)
    assert given == {"FULL_TRANSITIVE"}
    assert {each["action"] for each in again.document["schemas"]} == {"there"}
    assert kept == "BACKWARD"
    assert {client.get_compatibility(subject) for subject in subjects} == {"FULL"}


def test_a_refused_schema_is_told_by_place_and_the_others_are_registered(
    command_line: CommandLine, registry: RegistryServer, parties: RegistryParties, prefix: str
) -> None:
    client, old = parties.client(registry.url), command_line.file("old.afl", OLD)
    charge, refund = f"{prefix}events.shop.Charge-value", f"{prefix}events.shop.Refund-value"
    assert command_line("schemas", "register", old).code == 0
    changed = command_line.file(
        "changed.afl", CHANGED.replace("event facet Ship", "event facet Refund(order: String)\n  event facet Ship")
    )

    checked = command_line("schemas", "check", changed, "--json")
    tried = command_line("schemas", "register", changed, "--dry-run")
    before = subjects_of(client, prefix)
    registered = command_line("schemas", "register", changed)

    assert (checked.code, tried.code, registered.code) == (1, 1, 1)
    assert refund not in before
    found = {each["topic"]: each["status"] for each in checked.document["schemas"]}
    assert found[charge.removesuffix("-value")] == "breaking"
    assert found[refund.removesuffix("-value")] == "new"
    assert f"{charge} refuses the schema of shop.Charge" in registered.err
    assert "payload.amount" in registered.err
    assert client.get_versions(charge) == [1]
    assert client.get_versions(refund) == [1]


def test_a_dry_run_registers_nothing(
    command_line: CommandLine, registry: RegistryServer, parties: RegistryParties, prefix: str
) -> None:
    tried = command_line("schemas", "register", command_line.file("shop.afl", OLD), "--dry-run", "--json")

    assert tried.code == 0
    assert tried.document["dry_run"] is True
    assert subjects_of(parties.client(registry.url), prefix) == []
