"""The container that tests run MongoDB in: the address and the replica set that its clients get."""

from pathlib import Path

import yaml

from tools.mongodb.testcontainer import IMAGE, container_command, set_configuration

ROOT = Path(__file__).parents[3]


def test_a_set_has_the_address_by_which_its_clients_come() -> None:
    words = container_command(40_001, standalone=False).split()

    assert words[words.index("--port") + 1] == "40001"
    assert set_configuration(40_001) == {
        "_id": words[words.index("--replSet") + 1],
        "members": [{"_id": 0, "host": "127.0.0.1:40001"}],
    }


def test_a_standalone_server_is_in_no_set() -> None:
    assert "--replSet" not in container_command(40_001, standalone=True)


def test_tests_run_on_the_version_of_the_containers() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())

    assert compose["services"]["mongodb"]["image"].partition("@")[0] == IMAGE
