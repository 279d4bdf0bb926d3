"""`examples/release_notes`: both kinds of workflow and the bridge, in one process, without a broker and on Kafka."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from examples.release_notes.__main__ import main
from examples.release_notes.changelog import hard_to_read, points_of, shortened

CHANGELOG: Final = f"""# Changelog

## Unreleased

* Tea: with milk and sugar (`docs/nowhere.md`).

## [1.2.0] - 2026-01-01

### Added

* `brew(minutes: Long)` for {"very " * 60}strong tea, on
  two lines; see `docs/README.md`.
* Coffee.

## 1.1.0

* Water.
"""


@pytest.fixture
def changelog(tmp_path: Path) -> Path:
    path = tmp_path / "CHANGELOG.md"
    path.write_text(CHANGELOG)
    return path


def released(*arguments: object) -> list[str]:
    out = io.StringIO()
    assert main([str(argument) for argument in arguments], out) == 0
    return out.getvalue().splitlines()


def assert_released(run: Callable[[Sequence[object]], list[str]], changelog: Path) -> None:
    assert run(["--changelog", changelog]) == [
        "ada reads: Release notes: Unreleased, 1 points",
        "remark: docs/nowhere.md does not exist",
        "Release notes: Unreleased, 1 points",
        "* Tea",
        "confirmed by ada",
    ]


def test_notes_are_drafted_reviewed_published_and_confirmed(changelog: Path) -> None:
    assert_released(lambda arguments: released(*arguments), changelog)


def test_the_same_on_kafka(changelog: Path, kafka_bootstrap: str) -> None:
    assert_released(lambda arguments: released(*arguments, "--bootstrap", kafka_bootstrap), changelog)


def test_a_version_that_the_changelog_lacks_is_named(changelog: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--changelog", str(changelog), "--version", "2.0"], io.StringIO())

    assert ended.value.code == 1
    assert "the changelog has no section 2.0; it has Unreleased, 1.2.0, 1.1.0" in capsys.readouterr().err


def test_a_section_ends_at_the_next_one_and_its_points_are_single_lines() -> None:
    points = points_of(CHANGELOG, "1.2.0")

    assert len(points) == 2
    assert points[1] == "Coffee."
    assert points[0].endswith("strong tea, on two lines; see `docs/README.md`.")
    assert shortened("`a: b` or c: d") == "`a: b` or c"
    (remark,) = hard_to_read(points)
    assert "characters are more than 300: `brew(minutes: Long)` for very very" in remark
