"""Each module is reached from another one: a module that nothing reaches is dead, and misleads its readers."""

import ast
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

_ROOT: Final = Path(__file__).parents[2]
_TOPS: Final = ("afl", "afl_stream")

#: Modules whose names are for programs of others: they hold names of ours under the names by which those know them.
_FACES: Final = {"afl.transformer", "afl_stream.config", "afl_stream.service"}
#: The package whose modules are all such names.
_FACE: Final = "afl.runtime"
#: Modules that are run as a process of their own, and found by their files.
_RUN: Final = {"afl.scripts.zygote", "afl_stream.broker.leash"}


def modules_below(root: Path) -> Mapping[str, ast.Module]:
    """Return the modules of the packages by their dotted names."""
    paths = {path.relative_to(root).with_suffix(""): path for top in _TOPS for path in (root / top).rglob("*.py")}
    return {".".join(place.parts): ast.parse(path.read_text(encoding="utf-8")) for place, path in paths.items()}


def names_in(tree: ast.Module) -> Iterator[str]:
    """Yield what a module imports, wherever in it, and the texts by which it may name a module: `afl.cli:main`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.partition(":")[0]


def unreached(modules: Mapping[str, ast.Module]) -> set[str]:
    """Return the modules that no other one imports or names. Packages, and what `python -m` runs, are left out."""
    reached = {name for module, tree in modules.items() for name in names_in(tree) if name != module}
    return {name for name in modules if name.rpartition(".")[2] not in ("__init__", "__main__")} - reached


def unexplained(names: Collection[str]) -> set[str]:
    return {name for name in names if not name.startswith(f"{_FACE}.")} - _FACES - _RUN


@pytest.fixture(scope="module")
def found() -> set[str]:
    return unreached(modules_below(_ROOT))


def test_each_module_is_imported_or_named_by_another_one(found: set[str]) -> None:
    assert unexplained(found) == set()


def test_a_module_that_is_listed_as_a_face_or_a_process_is_reached_in_no_other_way(found: set[str]) -> None:
    assert (_FACES | _RUN) - found == set()


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("import afl.loader", False),
        ("from afl import loader", False),
        ("from afl.loader import load", False),
        ("def load() -> None:\n    from afl.loader import load", False),
        ("_HOMES = {'afl.loader': 'load'}", False),
        ("_COMMANDS = {'load': ('afl.loader:load_command', 'Load.')}", False),
        ("'''Says more than afl.loader does.'''", True),
        ("from afl.loaders import load", True),
    ],
)
def test_a_module_is_unreached_unless_another_one_imports_or_names_it(text: str, is_found: bool) -> None:
    modules = {"afl.loader": ast.parse("NAME = 'afl.loader'"), "afl.cli": ast.parse(text)}

    assert ("afl.loader" in unreached(modules)) is is_found
