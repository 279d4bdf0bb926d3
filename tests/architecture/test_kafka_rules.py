"""The rules for Kafka in docs/testing.md name tests that exist, and brokers of this tree are set as one says."""

import ast
import re
from pathlib import Path

from afl_stream.broker.settings import DEFAULTS
from tools.kafka.old import OLD_POM
from tools.kafka.versions import TESTED

_ROOT = Path(__file__).parents[2]
_NAMED = re.compile(r"`(tests/[a-z_/]+\.py)::(test_[a-z0-9_]+)`")


def named_tests() -> list[tuple[str, str]]:
    page = (_ROOT / "docs" / "testing.md").read_text()
    section = page.partition("## Rules for Kafka, and their tests")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ") and not line.startswith("| rule")]
    assert len(rows) >= 15
    assert all(_NAMED.search(row) for row in rows), "a rule has no test"
    return _NAMED.findall(section)


def names_in(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


def test_each_rule_for_kafka_names_tests_that_exist() -> None:
    missing = [f"{path}::{name}" for path, name in named_tests() if name not in names_in(_ROOT / path)]

    assert missing == []


def test_development_brokers_let_the_first_member_join_at_once() -> None:
    compose = (_ROOT / "docker-compose.yml").read_text()

    assert DEFAULTS["group.initial.rebalance.delay.ms"] == "0"
    assert re.search(r"KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS: \"?0\"?\s", compose)
    assert "group.initial.rebalance.delay.ms=0" in (_ROOT / "docs" / "kafka.md").read_text()


def test_the_versions_that_the_page_calls_tested_are_those_whose_jars_the_tests_run() -> None:
    section = (_ROOT / "docs" / "deploying.md").read_text().partition("### Versions and services")[2]
    named = re.findall(r"^\| (\d+(?:\.\d+)+) \|", section, re.MULTILINE)
    poms = [*(version.pom for version in TESTED.values()), OLD_POM]
    run = [re.findall(r"<version>([^<]+)</version>", pom.read_text())[0] for pom in poms]

    assert sorted(named) == sorted(run)
    assert all(version.startswith(f"{line}.") for line, version in zip(TESTED, run, strict=False))
