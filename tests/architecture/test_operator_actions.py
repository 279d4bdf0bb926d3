"""Retry, re-run and reset are made in one package: nothing else makes a new generation of steps."""

import ast
from pathlib import Path

_ROOT = Path(__file__).parents[2]
#: What new generations are made with (afl/core/ids.py), and the rows that an action works on.
_TOOLS = frozenset({"made_again", "continued", "RunRows"})


def test_new_generations_are_made_by_operations_alone() -> None:
    users = {
        str(path.relative_to(_ROOT).parent)
        for package in ("afl", "afl_stream")
        for path in sorted((_ROOT / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and _TOOLS & {alias.name for alias in node.names}
    }

    assert users == {"afl/engine/operations"}
