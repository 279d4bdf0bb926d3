"""The container files hold, as far as can be told without an engine: settings, commands, what the image is made of."""

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import click
import jsonschema
import pytest
import yaml

from afl_stream.cli import afl_stream
from afl_stream.settings.config import load_config
from afl_stream.web.access import Role, read_tokens
from tests.scenarios.command_lines import CommandLine
from tools.kafka.versions import TESTED
from tools.registry.application import RELEASE

_ROOT = Path(__file__).parents[2]
_COMPOSE: dict[str, Any] = yaml.safe_load((_ROOT / "docker-compose.yml").read_text())
_SERVICES: dict[str, dict[str, Any]] = _COMPOSE["services"]
_OURS = {name: service for name, service in _SERVICES.items() if "build" in service}
#: Those that run on, with metrics and health.
_LOOPS = ("evaluator", "agent", "audit")
_DOCKERFILE = (_ROOT / "Dockerfile").read_text()
_IMAGE = _DOCKERFILE.rpartition("\nFROM ")[2]
_FOLDER = "deploy/compose/orders"


def test_the_parts_of_a_deployment_are_there() -> None:
    parts = {"kafka", "registry", "mongodb", "topics", "deploy", *_LOOPS, "dashboard", "prometheus", "grafana"}

    assert parts <= set(_SERVICES)


def test_the_services_are_what_the_specification_of_compose_takes() -> None:
    schema = json.loads((_ROOT / "tests/fixtures/compose/compose-spec.json").read_text())
    validator = jsonschema.validators.validator_for(schema)(schema)

    assert [f"{error.json_path}: {error.message}" for error in validator.iter_errors(_COMPOSE)] == []
    # It can say no.
    assert list(validator.iter_errors({"services": {"kafka": {"imagee": "x"}}}))


@pytest.mark.parametrize("name", _OURS)
def test_every_variable_of_a_service_is_a_setting(name: str) -> None:
    config = load_config(environ={key: str(value) for key, value in _OURS[name]["environment"].items()})

    described = config.describe()
    assert config.is_kafka
    for variable in _OURS[name]["environment"]:
        if variable == "HEALTH_URL":
            continue
        words = variable.removeprefix("AFL_").lower()
        assert words in {key.replace(".", "_") for key in described}, variable


@pytest.mark.parametrize("name", [name for name, service in _OURS.items() if "entrypoint" not in service])
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
        if word.endswith(".afl"):
            assert (_ROOT / _FOLDER / word).is_file(), word
        if word == "handlers":
            assert (_ROOT / _FOLDER / "handlers.py").is_file()


def test_the_programs_folder_is_mounted_where_the_image_works() -> None:
    where = re.findall(r"^WORKDIR (\S+)$", _IMAGE, re.MULTILINE)[0]

    for name in ("topics", "deploy", "agent", "cli"):
        assert _OURS[name]["volumes"] == [f"${{AFL_FOLDER:-./{_FOLDER}}}:{where}:ro"]


def test_the_program_of_the_containers_runs_with_its_handlers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = CommandLine(tmp_path, capsys)
    folder = _ROOT / _FOLDER
    words = ("--handlers", str(folder / "handlers.py"), "--input", "order=17", "--json")

    called = run("dev", str(folder / "workflow.afl"), *words)

    assert called.code == 0, called.err
    assert called.document["outputs"] == {"receipt": "r-17-10.00", "parcel": "p-r-17-10.00"}


@pytest.mark.parametrize("name", _SERVICES)
def test_a_service_waits_for_services_that_there_are(name: str) -> None:
    waits = _SERVICES[name].get("depends_on", {})
    if isinstance(waits, list):
        waits = {other: {"condition": "service_started"} for other in waits}

    assert set(waits) <= set(_SERVICES)
    healthy = {other for other, how in waits.items() if how["condition"] == "service_healthy"}
    assert all("healthcheck" in _SERVICES[other] for other in healthy)
    # A service that is to complete must not be one that is started again.
    completed = {other for other, how in waits.items() if how["condition"] == "service_completed_successfully"}
    assert all(_SERVICES[other]["restart"] == "on-failure" for other in completed)


def test_volumes_are_declared_and_what_must_stay_is_on_one() -> None:
    sources = [volume.rpartition(":/")[0] for service in _SERVICES.values() for volume in service.get("volumes", ())]
    mounted = {source.partition(":")[0] for source in sources if not source.startswith((".", "$"))}
    data_dir = re.findall(r"AFL_EMBEDDED_DATA_DIR=(\S+)", _DOCKERFILE)[0]

    assert mounted == set(_COMPOSE["volumes"])
    assert "mongodb:/data/db" in _SERVICES["mongodb"]["volumes"]
    assert _OURS["audit"]["volumes"] == [f"audit:{data_dir}"]
    assert f"VOLUME {data_dir}" in _DOCKERFILE


def test_the_broker_lets_groups_form_at_once_and_creates_no_topics_by_itself() -> None:
    settings = _SERVICES["kafka"]["environment"]

    assert settings["KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS"] == "0"
    assert settings["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"


def test_the_broker_and_the_registry_of_the_containers_have_versions_that_the_tests_run() -> None:
    tested = [re.findall(r"<version>([^<]+)</version>", version.pom.read_text())[0] for version in TESTED.values()]

    assert _tagged("kafka") in {f"apache/kafka:{version}" for version in tested}
    assert _tagged("registry") == f"apicurio/apicurio-registry:{RELEASE}"


def test_the_evaluators_share_a_store_in_a_replica_set_that_is_made_before_they_start() -> None:
    mongodb = _SERVICES["mongodb"]
    set_name = re.findall(r"--replSet=(\w+)", " ".join(mongodb["command"]))[0]
    look = mongodb["healthcheck"]["test"][-1]

    for name in ("evaluator", "cli"):
        assert _OURS[name]["environment"]["AFL_STORE_URL"] == f"mongodb://mongodb:27017/afl?replicaSet={set_name}"
        assert _OURS[name]["depends_on"]["mongodb"] == {"condition": "service_healthy"}
    # The name by which containers reach the node is the one that the set tells its clients.
    assert f'rs.initiate({{_id: "{set_name}", members: [{{_id: 0, host: "mongodb:27017"}}]}})' in look
    assert "isWritablePrimary ? 0 : 1" in look
    assert "mongodb" in _extras()


def test_the_database_of_the_containers_is_new_enough_for_the_store() -> None:
    # The first that writes several collections in one command.
    assert _tagged("mongodb") == "mongo:8.0"


def test_the_build_context_has_all_that_the_image_is_made_of() -> None:
    lines = re.findall(r"^COPY (?!--from)(.*) \S+$", _DOCKERFILE, re.MULTILINE)
    copied = [word for line in lines for word in line.split()]
    let_in = [line[1:] for line in (_ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]

    assert [word for word in copied if not (_ROOT / word).exists()] == []
    let_in += [f"{pattern}/*" for pattern in let_in]
    assert [word for word in copied if not any(fnmatch(word, pattern) for pattern in let_in)] == []
    # Whatever the wheel is built of: packages, what is put beside them, and the readme.
    project = (_ROOT / "pyproject.toml").read_text()
    packages = re.findall(r'"(\w+)"', re.findall(r"^packages = (.*)$", project, re.MULTILINE)[0])
    beside = re.findall(r'^"(\w+)" = "afl_stream/', project, re.MULTILINE)
    assert {*packages, *beside, "README.md", "pyproject.toml"} <= set(copied)


def test_the_image_does_not_run_as_root() -> None:
    # A number: Kubernetes cannot tell from a name that it is not root.
    assert re.search(r"^USER [1-9]\d+:[1-9]\d+$", _IMAGE, re.MULTILINE)


def test_the_image_has_labels_and_a_health_check_and_neither_examples_nor_what_it_was_built_with() -> None:
    lines = re.findall(r"^COPY (.*)$", _IMAGE, re.MULTILINE)

    assert [line for line in lines if "examples" in line or "tests" in line] == []
    assert [line.split()[1] for line in lines if line.startswith("--from=")] == ["/opt/afl-stream"]
    for label in ("title", "description", "licenses", "version", "revision"):
        assert f"org.opencontainers.image.{label}=" in _IMAGE
    assert 'CMD ["python", "/usr/local/lib/afl-stream/healthcheck.py"]' in _IMAGE


def test_the_image_has_extras_that_there_are_and_that_its_services_need() -> None:
    project = (_ROOT / "pyproject.toml").read_text()

    assert all(re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in _extras())
    assert {"dashboard", "metrics", "mongodb", "registry"} <= _extras()


@pytest.mark.parametrize("name", _SERVICES)
def test_a_container_has_limits_and_no_more_rights_than_it_needs(name: str) -> None:
    service = _SERVICES[name]

    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "mem_limit" in service
    assert "pids_limit" in service
    # The broker's start writes its settings into the image.
    assert service.get("read_only", False) is (name != "kafka")
    if name in _OURS:
        assert service["cap_drop"] == ["ALL"]
        assert service["tmpfs"] == ["/tmp"]


def test_nothing_is_reached_from_other_machines() -> None:
    ports = [port for service in _SERVICES.values() for port in service.get("ports", ())]

    assert ports
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


@pytest.mark.parametrize("name", _LOOPS)
def test_a_service_has_health_and_metrics_and_time_to_drain(name: str) -> None:
    config = load_config(environ={key: str(value) for key, value in _OURS[name]["environment"].items()})
    scraped = yaml.safe_load((_ROOT / "deploy/prometheus/prometheus.yml").read_text())["scrape_configs"][0]
    names = scraped["dns_sd_configs"][0]

    assert config.metrics.port == names["port"]
    assert config.metrics.host == "0.0.0.0"
    assert name in names["names"]
    assert int(_OURS[name]["stop_grace_period"].removesuffix("s")) > config.agent.grace_s


def test_what_is_mounted_out_of_the_tree_is_in_it_and_grafana_shows_our_dashboard() -> None:
    for service in _SERVICES.values():
        for volume in service.get("volumes", ()):
            if volume.startswith("./"):
                assert (_ROOT / volume.partition(":")[0]).exists(), volume
    provider = yaml.safe_load((_ROOT / "deploy/grafana/provisioning/dashboards/afl-stream.yml").read_text())
    folder = provider["providers"][0]["options"]["path"]
    assert f"./deploy/grafana/afl-stream.json:{folder}/afl-stream.json:ro" in _SERVICES["grafana"]["volumes"]
    source = yaml.safe_load((_ROOT / "deploy/grafana/provisioning/datasources/prometheus.yml").read_text())
    assert source["datasources"][0]["url"] == "http://prometheus:9090"


def test_tokens_of_the_dashboard_are_made_once_for_their_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    command = [sys.executable, str(_ROOT / "deploy/docker/dashboard_tokens.py"), str(file)]

    first = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    made = file.read_text()
    again = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert {principal.role for principal in read_tokens(file).values()} == {Role.OPERATE, Role.READ}
    assert made in first
    assert file.read_text() == made
    assert made not in again
    assert _OURS["dashboard-tokens"]["command"][0] in _OURS["dashboard"]["command"]


@pytest.mark.parametrize(
    ("status", "said", "code"), [(200, '{"ready": true}', 0), (503, '{"ready": false, "reasons": ["no broker"]}', 1)]
)
def test_a_container_is_healthy_when_its_service_says_that_it_is_ready(status: int, said: str, code: int) -> None:
    with _answering(status, said) as (port, asked):
        checked = _health({"AFL_METRICS_PORT": str(port)})

    assert (checked.returncode, checked.stdout.strip()) == (code, said)
    assert asked == ["/health/ready"]


def test_a_container_of_the_dashboard_is_asked_by_its_own_address() -> None:
    with _answering(200, "{}") as (port, asked):
        assert _health({"HEALTH_URL": f"http://127.0.0.1:{port}/health"}).returncode == 0

    assert asked == ["/health"]
    assert _OURS["dashboard"]["environment"]["HEALTH_URL"].endswith(":8233/health")


def test_a_container_without_an_answer_is_not_healthy_and_one_of_a_command_is() -> None:
    with _answering(200, "{}") as (port, _):
        pass

    assert _health({"AFL_METRICS_PORT": str(port)}).returncode == 1
    assert _health({}).returncode == 0


def _tagged(service: str) -> str:
    """Return a service's image without its digest."""
    return str(_SERVICES[service]["image"]).partition("@")[0]


def _extras() -> set[str]:
    return set(re.findall(r"^ARG EXTRAS=(\S+)$", _DOCKERFILE, re.MULTILINE)[0].split(","))


def _health(settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(_ROOT / "deploy/docker/healthcheck.py")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AFL_", "HEALTH_"))}
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**environment, **settings})


@contextmanager
def _answering(status: int, said: str) -> Iterator[tuple[int, list[str]]]:
    """Answer requests on a port of this machine; yield the port, and the paths that were asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(said.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_address[1], asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
