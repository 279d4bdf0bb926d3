"""The container files hold, as far as can be told without an engine: settings, commands, what the image is made of."""

import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from afl_stream.cli import afl_stream
from afl_stream.settings.config import load_config

_ROOT = Path(__file__).parents[2]
_COMPOSE: dict[str, Any] = yaml.safe_load((_ROOT / "docker-compose.yml").read_text())
_SERVICES: dict[str, dict[str, Any]] = _COMPOSE["services"]
_OURS = {name: service for name, service in _SERVICES.items() if "build" in service}
_DOCKERFILE = (_ROOT / "Dockerfile").read_text()


def test_the_parts_of_the_loop_are_there() -> None:
    assert {"kafka", "mongodb", "topics", "deploy", "evaluator", "agent", "audit"} <= set(_SERVICES)


@pytest.mark.parametrize("name", _OURS)
def test_every_variable_of_a_service_is_a_setting(name: str) -> None:
    config = load_config(environ={key: str(value) for key, value in _OURS[name]["environment"].items()})

    described = config.describe()
    assert config.is_kafka
    for variable in _OURS[name]["environment"]:
        words = variable.removeprefix("AFL_").lower()
        assert words in {key.replace(".", "_") for key in described}, variable


@pytest.mark.parametrize("name", _OURS)
def test_every_command_of_a_service_is_one_of_the_command_line(name: str) -> None:
    words: list[str] = _OURS[name]["command"]
    context = click.Context(afl_stream)
    command: click.Command = afl_stream
    # A group that does something by itself has options of its own.
    while isinstance(command, click.Group) and not (command.invoke_without_command and words[0].startswith("-")):
        found = command.get_command(context, words[0])
        assert found is not None, words
        command, words = found, words[1:]

    command.make_context(command.name, list(words), parent=context)
    for word in words:
        if "/" in word and not word.startswith("/"):
            assert (_ROOT / word).is_file(), word
        if word.startswith("examples."):
            assert (_ROOT / f"{word.replace('.', '/')}.py").is_file(), word


@pytest.mark.parametrize("name", _SERVICES)
def test_a_service_waits_for_services_that_there_are(name: str) -> None:
    waits = _SERVICES[name].get("depends_on", {})

    assert set(waits) <= set(_SERVICES)
    healthy = {other for other, how in waits.items() if how["condition"] == "service_healthy"}
    assert all("healthcheck" in _SERVICES[other] for other in healthy)
    # A service that is to complete must not be one that is started again.
    completed = {other for other, how in waits.items() if how["condition"] == "service_completed_successfully"}
    assert all(_SERVICES[other]["restart"] == "on-failure" for other in completed)


def test_volumes_are_declared_and_what_must_stay_is_on_one() -> None:
    mounted = {volume.partition(":")[0] for service in _SERVICES.values() for volume in service.get("volumes", ())}
    data_dir = re.findall(r"AFL_EMBEDDED_DATA_DIR=(\S+)", _DOCKERFILE)[0]

    assert mounted == set(_COMPOSE["volumes"])
    assert _SERVICES["mongodb"]["volumes"] == ["mongodb:/data/db"]
    assert _OURS["audit"]["volumes"] == [f"audit:{data_dir}"]
    assert f"VOLUME {data_dir}" in _DOCKERFILE


def test_the_broker_lets_groups_form_at_once_and_creates_no_topics_by_itself() -> None:
    settings = _SERVICES["kafka"]["environment"]

    assert settings["KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS"] == "0"
    assert settings["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"


def test_the_broker_of_the_containers_is_the_version_that_the_tests_run() -> None:
    tested = re.findall(r"<version>([^<]+)</version>", (_ROOT / "tools" / "kafka" / "pom.xml").read_text())[0]

    assert _SERVICES["kafka"]["image"] == f"apache/kafka:{tested}"


def test_the_evaluators_share_a_store_in_a_replica_set_that_is_made_before_they_start() -> None:
    mongodb = _SERVICES["mongodb"]
    set_name = re.findall(r"--replSet=(\w+)", " ".join(mongodb["command"]))[0]
    look = mongodb["healthcheck"]["test"][-1]

    for name in ("evaluator", "cli"):
        assert _OURS[name]["environment"]["AFL_STORE_URL"] == f"mongodb://mongodb:27017/afl?replicaSet={set_name}"
        assert _OURS[name]["depends_on"]["mongodb"] == {"condition": "service_healthy"}
        assert "volumes" not in _OURS[name]
    # The name by which containers reach the node is the one that the set tells its clients.
    assert f'rs.initiate({{_id: "{set_name}", members: [{{_id: 0, host: "mongodb:27017"}}]}})' in look
    assert "isWritablePrimary ? 0 : 1" in look
    assert "[mongodb]" in _DOCKERFILE


def test_the_database_of_the_containers_is_new_enough_for_the_store() -> None:
    # The first that writes several collections in one command.
    assert _SERVICES["mongodb"]["image"] == "mongo:8.0"


def test_the_build_context_has_all_that_the_image_is_made_of() -> None:
    copied = [word for line in re.findall(r"^COPY (.*) \S+$", _DOCKERFILE, re.MULTILINE) for word in line.split()]
    let_in = [line[1:] for line in (_ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]

    assert [word for word in copied if not (_ROOT / word).exists()] == []
    assert [word for word in copied if not any(fnmatch(word, pattern) for pattern in let_in)] == []
    # Whatever the wheel is built of: packages, what is put beside them, and the readme.
    project = (_ROOT / "pyproject.toml").read_text()
    packages = re.findall(r'"(\w+)"', re.findall(r"^packages = (.*)$", project, re.MULTILINE)[0])
    beside = re.findall(r'^"(\w+)" = "afl_stream/', project, re.MULTILINE)
    assert {*packages, *beside, "README.md", "pyproject.toml", "constraints/run.txt"} <= set(copied)


def test_the_image_does_not_run_as_root_and_its_versions_are_pinned() -> None:
    assert re.search(r"^USER (?!root)\w+$", _DOCKERFILE, re.MULTILINE)
    assert "--constraint constraints/run.txt" in _DOCKERFILE
