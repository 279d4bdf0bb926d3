"""The oldest generation of fixtures that this release reads, and the story that is told once more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compatibility.generations import GENERATION_1
from tests.compatibility.write import Told, story_in_sqlite


@pytest.fixture(scope="session")
def told_again(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Return the story of the fixtures, told by this release."""
    return story_in_sqlite(GENERATION_1 / "programs", tmp_path_factory.mktemp("told-again"))


@pytest.fixture
def answers() -> str:
    """Return the stored answers to what waits."""
    return _text(GENERATION_1 / "answers.jsonl")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
