"""Pages whose commands need a broker, a MongoDB or a clone: typed from an empty folder exactly as they are printed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from afl.config import MongoDBConfig
from afl_stream.broker.jars import cache_root
from examples.package_check.dpkg import has_dpkg
from tests.architecture.page_tables import ROOT
from tests.architecture.shell_sessions import clone_into, files_of, type_page
from tests.worlds.requirements import required_tool

pytestmark = pytest.mark.long

_DOCS = ROOT / "docs"
_TRIAL_ADDRESS = "127.0.0.1:9092"
#: The address that `make kafka-up` said: on this machine 9092 may be taken.
_SAID_ADDRESS = r"$(.venv/bin/python -m tools.kafka status | sed -n 's/^Kafka is at \(.*\): process.*/\1/p')"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a clone of the repository as it is now, with the environment of the tests in place of one of its own."""
    return clone_into(tmp_path / "clone")


@pytest.fixture
def own_cache(tmp_path: Path, broker_installed: None) -> Path:
    """Return a cache folder for a broker of `make kafka-up` of its own, with the jars that are there already."""
    cache = tmp_path / "cache" / "afl-stream"
    cache.mkdir(parents=True)
    for jars in cache_root().glob("*-*-*"):
        (cache / jars.name).symlink_to(jars)
    return cache.parent


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", ["README.md", "docs/testing.md"])
def test_what_people_type_in_a_clone_ends_as_the_page_says(page: str, clone: Path, own_cache: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(own_cache), "PYTHONPATH": ""}
    try:
        type_page(
            (ROOT / page).read_text(),
            clone,
            environment=environment,
            in_place_of={f"AFL_KAFKA_BOOTSTRAP={_TRIAL_ADDRESS}": f"AFL_KAFKA_BOOTSTRAP={_SAID_ADDRESS}"},
            timeout_s=500,
        )
    finally:
        down = [sys.executable, "-m", "tools.kafka", "down", "--delete"]
        subprocess.run(down, cwd=ROOT, env={**os.environ, **environment}, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.timeout(300)
def test_what_the_page_about_kafka_has_people_type_ends_as_it_says(
    kafka_bootstrap: str, kafka_prefix: str, tmp_path: Path
) -> None:
    type_page(
        (_DOCS / "kafka.md").read_text(),
        tmp_path,
        environment={"AFL_PREFIX": kafka_prefix},
        in_place_of={"AFL_KAFKA_BOOTSTRAP=kafka-1:9092,kafka-2:9092": f"AFL_KAFKA_BOOTSTRAP={kafka_bootstrap}"},
        files=files_of((_DOCS / "running.md").read_text())[:2],
        timeout_s=240,
    )

    assert "kafka-topics.sh" not in (tmp_path / "topics.sh").read_text(), "all topics are there"
    assert (tmp_path / "audit.jsonl").read_text().count('"kind"') >= 4


@pytest.mark.timeout(200)
def test_what_the_page_about_stores_has_people_type_ends_as_it_says(mongodb: MongoDBConfig, tmp_path: Path) -> None:
    type_page(
        (_DOCS / "stores.md").read_text(),
        tmp_path,
        environment={},
        in_place_of={"mongodb://127.0.0.1:27017/orders": mongodb.connection_string()},
        files=files_of((_DOCS / "running.md").read_text())[:2],
        timeout_s=150,
    )


@pytest.mark.timeout(300)
def test_what_the_page_about_the_approval_has_people_type_ends_as_it_says(
    kafka_bootstrap: str, kafka_prefix: str, clone: Path
) -> None:
    required_tool("kcat")
    type_page(
        (ROOT / "examples" / "approval" / "README.md").read_text(),
        clone,
        environment={"AFL_PREFIX": kafka_prefix, "PYTHONPATH": ""},
        in_place_of={"localhost:9092": kafka_bootstrap, "-t afl.external": f"-t {kafka_prefix}external"},
        timeout_s=240,
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize("example", ["package_check", "release_notes"])
def test_what_the_page_of_an_example_has_people_type_ends_as_it_says(
    kafka_bootstrap: str, kafka_prefix: str, clone: Path, example: str
) -> None:
    page = ROOT / "examples" / example / "README.md"
    if example == "package_check" and not has_dpkg(Path("/")):
        pytest.skip("the packages of this machine are not dpkg's")
    type_page(
        page.read_text(),
        clone,
        environment={"AFL_PREFIX": kafka_prefix, "PYTHONPATH": str(clone)},
        in_place_of={"localhost:9092": kafka_bootstrap},
        timeout_s=240,
    )
