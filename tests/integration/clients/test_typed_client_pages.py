"""The pages of the clients, typed as they are printed in a clone at a real broker: built, tried out, tested."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.architecture.shell_sessions import clone_into, type_page
from tests.integration.clients.mixed_group import CLIENTS
from tests.integration.clients.rust_build import rust_build
from tests.worlds.processes import ROOT
from tests.worlds.requirements import required_tool

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

_TOOLS = {
    "go": ("go",),
    "java": ("mvn", "java", "javac"),
    "node": ("node", "npm"),
    "shell": ("kcat", "jq"),
}
_EXAMPLES = (
    "clients/go/examples/charge/main.go",
    "clients/java/examples/Charge.java",
    "clients/node/examples/charge.js",
    "clients/rust/examples/charge.rs",
    "clients/shell/examples/charge",
    "examples/ruby/charge.rb",
)


@pytest.mark.parametrize("client", sorted(_TOOLS))
def test_what_the_page_of_a_client_has_people_type_ends_as_it_says(
    kafka_bootstrap: str, kafka_prefix: str, tmp_path: Path, client: str
) -> None:
    for tool in _TOOLS[client]:
        required_tool(tool)

    _type(CLIENTS / client / "README.md", tmp_path, kafka_bootstrap, {"AFL_PREFIX": kafka_prefix})


def test_what_the_page_of_the_client_for_rust_has_people_type_ends_as_it_says(
    kafka_bootstrap: str, kafka_prefix: str, tmp_path: Path
) -> None:
    required_tool("cargo")
    page = CLIENTS / "rust" / "README.md"
    with rust_build(CLIENTS / "rust") as build:
        # The page names these words, too: librdkafka itself takes minutes to build.
        words = " ".join(build.features)
        assert not words or f"`{words}`" in page.read_text()
        typed = {cargo: f"{cargo} {words}" for cargo in ("cargo build", "cargo run", "cargo test") if words}
        _type(page, tmp_path, kafka_bootstrap, {"AFL_PREFIX": kafka_prefix, **build.environment}, typed)


def test_what_the_page_about_any_language_has_people_type_ends_as_it_says(
    kafka_bootstrap: str, kafka_prefix: str, tmp_path: Path
) -> None:
    for tool in ("ruby", "kcat"):
        required_tool(tool)

    _type(
        ROOT / "docs" / "any-language.md",
        tmp_path,
        kafka_bootstrap,
        {"AFL_PREFIX": kafka_prefix},
        {"AFL_PREFIX=afl.probe.": f"AFL_PREFIX={kafka_prefix}probe.", "-t afl.schemas": f"-t {kafka_prefix}schemas"},
    )


@pytest.mark.parametrize("example", _EXAMPLES)
def test_an_example_has_less_than_30_lines(example: str) -> None:
    lines = (ROOT / example).read_text().splitlines()

    assert len(lines) < 30
    # It is not made short by long lines.
    assert max(map(len, lines)) <= 120


def _type(
    page: Path,
    folder: Path,
    bootstrap: str,
    environment: Mapping[str, str],
    in_place_of: Mapping[str, str] | None = None,
) -> None:
    type_page(
        page.read_text(),
        clone_into(folder / "clone"),
        environment={"PYTHONPATH": "", **environment},
        in_place_of={"localhost:9092": bootstrap, **(in_place_of or {})},
        timeout_s=480,
    )
