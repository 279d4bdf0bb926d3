"""docs/operations.md lists every kind of finding, and the versions' headers by their names."""

import re
from pathlib import Path

from afl_stream.wire.versions import HEADERS, SUPPORTED

_ROOT = Path(__file__).parents[2]
_PAGE = (_ROOT / "docs" / "operations.md").read_text()
_KIND = re.compile(r'Finding\(\s*"([a-z_.]+)"')
_ROW = re.compile(r"^\| `([a-z_.*]+\.[a-z_]+)` \|", re.MULTILINE)


def test_every_kind_of_finding_has_a_row_and_every_row_a_place() -> None:
    modules = (_ROOT / "afl" / "stores" / "maintenance").glob("*.py")
    kinds = {kind for module in modules for kind in _KIND.findall(module.read_text())}
    rows = _ROW.findall(_PAGE)

    # What cannot be read is found in every table.
    assert {kind for kind in kinds if not kind.endswith((".unreadable", ".version"))} == set(rows) - {
        "*.unreadable",
        "*.version",
    }
    assert len(rows) == len(set(rows))


def test_every_version_is_named_with_its_header() -> None:
    assert [name for name in (*SUPPORTED, *HEADERS) if f"`{name}`" not in _PAGE] == []
