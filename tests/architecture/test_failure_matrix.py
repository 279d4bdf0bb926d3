"""docs/failure-matrix.md and the code name the same places to crash at."""

import re
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_PROBED = re.compile(r'probe\(\s*"([a-z_.]+)"')
_ROW = re.compile(r"^\| `([a-z_.]+)` \|", re.MULTILINE)
_TESTS = re.compile(r"^\| `(tests/[a-z_/]+\.py)` \| (.+) \|$", re.MULTILINE)
_POINT = re.compile(r"`([a-z_.]+)`")


def test_every_crash_point_of_the_code_has_a_row_and_every_row_a_place() -> None:
    sources = [path.read_text() for package in ("afl", "afl_stream") for path in (_ROOT / package).rglob("*.py")]
    probed = {name for source in sources for name in _PROBED.findall(source)}
    rows = _ROW.findall((_ROOT / "docs" / "failure-matrix.md").read_text())

    assert probed == set(rows)
    assert len(rows) == len(set(rows)), "a crash point has two rows"


def test_every_crash_point_has_a_test_that_names_it() -> None:
    page = (_ROOT / "docs" / "failure-matrix.md").read_text()
    tried = {(path, point) for path, points in _TESTS.findall(page) for point in _POINT.findall(points)}

    assert {point for _, point in tried} == set(_ROW.findall(page))
    assert [(path, point) for path, point in sorted(tried) if f'"{point}"' not in (_ROOT / path).read_text()] == []


def test_every_other_failure_names_a_file_of_tests_that_is_there() -> None:
    page = (_ROOT / "docs" / "failure-matrix.md").read_text()
    rows = [row for row in page.partition("## Other failures")[2].splitlines() if row.startswith("| ")][1:]
    named = {row: re.findall(r"`(tests/[a-z_/]+\.py)`", row.rsplit(" | ", 1)[1]) for row in rows}

    assert len(rows) > 20
    assert [row for row, files in named.items() if not files] == []
    assert [file for files in named.values() for file in files if not (_ROOT / file).exists()] == []
