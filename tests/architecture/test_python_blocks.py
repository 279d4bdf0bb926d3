"""The Python that documents show runs: a module through the page's commands, anything else as it stands."""

from __future__ import annotations

import ast
import contextlib
import logging
import re
from pathlib import Path

import pytest

from tests.architecture.walkthroughs import Command, File, walkthrough

_ROOT = Path(__file__).parents[2]
_PAGES = [_ROOT / "README.md", _ROOT / "ARCHITECTURE.md", *sorted((_ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"\A# [\w./-]+\.py\n")
#: Pages whose Python starts or asks a server: what it imports is there, the rest is for tests that have one.
_WITH_A_SERVER = {"docs/stores.md", "docs/testing.md"}


def _page_name(page: Path) -> str:
    return str(page.relative_to(_ROOT))


_UNNAMED = [
    pytest.param(_page_name(page), block, id=f"{_page_name(page)}-{number}")
    for page in _PAGES
    for number, block in enumerate(_BLOCK.findall(page.read_text()))
    if not _NAME.match(block)
]


@pytest.mark.parametrize(("page", "block"), _UNNAMED)
def test_python_without_a_file_name_runs_as_it_stands(page: str, block: str, tmp_path: Path) -> None:
    tree = ast.parse(block)
    if page in _WITH_A_SERVER:
        tree.body = [statement for statement in tree.body if isinstance(statement, ast.Import | ast.ImportFrom)]
        assert tree.body, "what it needs is imported"

    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        with contextlib.chdir(tmp_path):
            exec(compile(tree, page, "exec"), {"__name__": "shown"})
    finally:
        root.handlers[:], root.level = before


@pytest.mark.parametrize("page", _PAGES, ids=_page_name)
def test_a_module_that_a_page_shows_is_used_by_one_of_its_commands(page: Path) -> None:
    items = list(walkthrough(page.read_text()))
    modules = [item.name for item in items if isinstance(item, File) and item.name.endswith(".py")]
    lines = [item.line for item in items if isinstance(item, Command)]
    texts = [item.text for item in items if isinstance(item, File)]

    for module in modules:
        stem = module.removesuffix(".py")
        wanted = re.compile(rf"\b(?:{re.escape(stem)}|{re.escape(stem.replace('/', '.'))})\b(?!\.afl)")
        assert any(wanted.search(line) for line in lines) or any(f'"{module}"' in text for text in texts), module
