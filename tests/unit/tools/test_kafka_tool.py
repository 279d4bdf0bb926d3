"""The broker's tool around the broker: ports, Java, jars, settings, and what happens where they lack."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from afl_stream.broker.broker import Broker
from afl_stream.broker.errors import JarsMissing, JavaMissing, NotThisBroker
from afl_stream.broker.jars import jars_of
from afl_stream.broker.java import find_java, java_version
from afl_stream.broker.ports import free_ports, is_free
from afl_stream.broker.process import JavaProcess, leash_to, process_exists
from afl_stream.broker.settings import BrokerSettings, Listener, new_cluster_id
from tests.eventually import eventually
from tests.worlds.requirements import missing, required_tool
from tools.kafka.testcontainer import container_environment

_ROOT = Path(__file__).parents[3]
_UNTIL_TOLD = "import sys; sys.stdin.read()"

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <artifactId>words</artifactId><version>1.2</version>
</project>"""


def test_a_program_on_the_leash_dies_with_its_guardian() -> None:
    with subprocess.Popen([sys.executable, "-c", _UNTIL_TOLD], stdin=subprocess.PIPE) as guardian:
        leash = leash_to(guardian.pid)
        with subprocess.Popen([*leash, sys.executable, "-c", _UNTIL_TOLD], stdin=subprocess.PIPE) as program:
            assert program.poll() is None
            guardian.kill()

            assert program.wait(30) == -9


def test_a_program_on_the_leash_has_its_own_id_and_exit_code() -> None:
    leash = leash_to(os.getpid())
    script = "import os, sys; print(os.getpid(), flush=True); sys.exit(7)"
    with subprocess.Popen([*leash, sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as program:
        assert program.communicate(timeout=30)[0].strip() == str(program.pid)

    assert program.returncode == 7
    eventually(lambda: not process_exists(program.pid))


_STARTS_ONE = """
import sys
from pathlib import Path
from afl_stream.broker.process import JavaProcess

command = [sys.executable, "-c", "import signal; signal.pause()"]
print(JavaProcess.start(command, log_path=Path(sys.argv[1]), guardian_pid=int(sys.argv[2])).pid)
"""


def test_a_process_that_serves_others_is_left_to_them_without_a_word(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "default::ResourceWarning", "-c", _STARTS_ONE, str(tmp_path / "log")]
    started = subprocess.run([*command, str(os.getpid())], capture_output=True, text=True, check=True, cwd=_ROOT)
    process = JavaProcess(int(started.stdout))
    try:
        assert started.stderr == ""
        assert process.is_running
    finally:
        process.kill()


def test_free_ports_differ_and_keep_clear_of_those_of_outgoing_connections() -> None:
    ports = free_ports(6)

    assert len(set(ports)) == 6
    assert all(is_free(port) and port < 32_768 for port in ports)


def test_settings_survive_being_written_down(tmp_path: Path) -> None:
    settings = BrokerSettings(
        directory=tmp_path,
        cluster_id=new_cluster_id(),
        port=1,
        controller_port=2,
        voters={1: 2, 2: 4},
        scram_users={"agent": "secret"},
        listeners=(Listener(name="TLS", protocol="SSL", properties={"ssl.client.auth": "required"}, port=3),),
        java_options=("-Xss1m",),
    )

    assert BrokerSettings.from_json(settings.to_json()) == settings


def test_a_process_that_took_over_a_brokers_id_is_not_taken_for_it(tmp_path: Path) -> None:
    settings = BrokerSettings(directory=tmp_path, cluster_id="c", port=1, controller_port=2)
    (tmp_path / "broker.json").write_text(settings.to_json())
    (tmp_path / "broker.pid").write_text(f"{os.getpid()}\n")

    with pytest.raises(NotThisBroker, match=f"process {os.getpid()} is not the broker of"):
        Broker.attach(tmp_path)


def test_given_properties_win_over_the_defaults(tmp_path: Path) -> None:
    given = {"group.min.session.timeout.ms": "5"}
    settings = BrokerSettings(directory=tmp_path, cluster_id="c", port=1, controller_port=2, properties=given)

    assert settings.server_properties()["group.min.session.timeout.ms"] == "5"
    assert settings.server_properties()["auto.create.topics.enable"] == "false"


def test_cluster_ids_are_22_characters_that_are_no_option() -> None:
    ids = [new_cluster_id() for _ in range(300)]

    assert {len(each) for each in ids} == {22}
    assert not any(each.startswith("-") for each in ids)


def test_a_container_advertises_the_port_that_it_was_bound_to() -> None:
    environment = container_environment(12345, "the-id")

    assert environment["CLUSTER_ID"] == "the-id"
    assert environment["KAFKA_ADVERTISED_LISTENERS"] == "PLAINTEXT://127.0.0.1:12345"
    assert environment["KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR"] == "1"


def test_a_java_that_is_too_old_is_refused_by_both_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "java"
    old.write_text("#!/bin/sh\necho 'java version \"1.8.0_401\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    assert java_version(str(old)) == 8
    with pytest.raises(JavaMissing, match=r"Java 99 or newer is needed, found .* of version"):
        find_java(99)


def test_jars_in_the_cache_need_no_maven_and_others_say_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pom = tmp_path / "pom.xml"
    pom.write_text(_POM)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(JarsMissing, match=r"Maven \(mvn\) is not on PATH; install it") as error:
        jars_of(pom)
    error.value.libraries.mkdir()

    assert jars_of(pom) == error.value.libraries
    assert error.value.libraries.parent.name.startswith("words-1.2-")


def test_what_is_missing_skips_a_test_and_fails_it_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="nosuchtool is not on PATH"):
        required_tool("nosuchtool")

    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no broker"):
        missing("no broker")


def test_settings_of_the_persons_shell_reach_no_test(tmp_path: Path) -> None:
    probe = tmp_path / "test_probe.py"
    probe.write_text(
        "import os\n"
        "def test_probe(bootstrap_from_outside):\n"
        "    assert bootstrap_from_outside == '127.0.0.1:1'\n"
        "    assert not [name for name in os.environ if name.startswith('AFL_')]\n"
    )
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider", probe],
        cwd=_ROOT,
        env={**os.environ, "AFL_KAFKA_BOOTSTRAP": "127.0.0.1:1", "AFL_STORE": "elsewhere"},
        capture_output=True,
        text=True,
    )

    assert run.returncode == 0, run.stdout + run.stderr
