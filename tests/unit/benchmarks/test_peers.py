"""Peers that docs/performance.md compares with: each has a program in benchmarks/peers/, and a pinned version."""

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]
#: The program of each peer, and where its version is pinned.
PEERS = {
    "dbos": ("dbos_steps", "benchmarks"),
    "celery": ("celery_chain", "celery"),
    "faust-streaming": ("faust_echo", "faust"),
    "quixstreams": ("quix_echo", "quix"),
}


def test_the_page_names_the_program_of_each_peer() -> None:
    section = (_ROOT / "docs" / "performance.md").read_text().partition("## Beside others")[2]

    named = set(re.findall(r"`benchmarks/peers/([a-z_]+)\.py`", section))

    assert named == {program for program, _ in PEERS.values()}


@pytest.mark.parametrize("package", PEERS)
def test_a_peer_has_a_program_and_one_version(package: str) -> None:
    program, constraints = PEERS[package]
    pinned = (_ROOT / "constraints" / f"{constraints}.txt").read_text().splitlines()

    assert (_ROOT / "benchmarks" / "peers" / f"{program}.py").exists()
    assert len([line for line in pinned if line.lower().startswith(f"{package}==")]) == 1
