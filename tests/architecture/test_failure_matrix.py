"""docs/failure-matrix.md and the code name the same places to crash at."""

import re
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_PROBED = re.compile(r'probe\(\s*"([a-z_.]+)"')
_ROW = re.compile(r"^\| `([a-z_.]+)` \|", re.MULTILINE)


def test_every_crash_point_of_the_code_has_a_row_and_every_row_a_place() -> None:
    sources = [path.read_text() for package in ("afl", "afl_stream") for path in (_ROOT / package).rglob("*.py")]
    probed = {name for source in sources for name in _PROBED.findall(source)}
    rows = _ROW.findall((_ROOT / "docs" / "failure-matrix.md").read_text())

    assert probed == set(rows)
    assert len(rows) == len(set(rows)), "a crash point has two rows"
