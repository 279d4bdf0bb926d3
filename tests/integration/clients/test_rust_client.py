"""The client for Rust: its own tests and lints, and one group with an agent in Python."""

import shutil
from pathlib import Path

import pytest

from tests.integration.clients.fetched import run_in
from tests.integration.clients.mixed_group import CLIENTS, MixedGroup
from tests.integration.clients.rust_build import rust_build
from tests.worlds.requirements import required_tool
from tests.worlds.world import Deployments

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

FOLDER = CLIENTS / "rust"


def test_its_keys_and_offsets_are_as_it_says_and_a_facet_moves_to_it_without_a_stop(
    deployments: Deployments, tmp_path: Path
) -> None:
    cargo = required_tool("cargo")
    with rust_build(FOLDER) as build:
        locked = ["--locked", *build.features]
        run_in(FOLDER, [cargo, "fetch", "--locked"], environment=build.environment, fetches=True)
        run_in(FOLDER, [cargo, "test", *locked], environment=build.environment)
        # Toolchains without these two are common, as Debian's.
        if shutil.which("cargo-clippy"):
            words = [cargo, "clippy", *locked, "--all-targets", "--", "-D", "warnings"]
            run_in(FOLDER, words, environment=build.environment)
        if shutil.which("rustfmt"):
            run_in(FOLDER, [cargo, "fmt", "--check"])
        tasks = str(shutil.copy(build.examples / "tasks", tmp_path))

    group = MixedGroup(deployments, "rust", assignor="cooperative-sticky")
    with group.joined_by([tasks], tmp_path, build.environment):
        group.share()
        group.rebalance()
        group.move()
        group.answer_all_kinds()
    group.check_answers()
