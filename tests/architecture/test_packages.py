"""Rules between the packages that import-linter has no contract for."""

import ast
import configparser
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_TOPS = ("afl", "afl_stream")
#: Folders larger than that are looked for by scrolling, not by name.
_MOST_MODULES = 31


def _modules() -> Mapping[str, Path]:
    """Return the modules of the packages by their dotted names."""
    found = {}
    for top in _TOPS:
        for path in (_ROOT / top).rglob("*.py"):
            parts = path.relative_to(_ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


_MODULES = _modules()
_PACKAGES = {name for name, path in _MODULES.items() if path.name == "__init__.py"}


def _imported_by(name: str) -> Iterator[str]:
    """Yield the modules of ours that a module imports, wherever in it, and also for type checkers only."""
    for node in ast.walk(ast.parse(_MODULES[name].read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in _MODULES else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _needed_elsewhere() -> Mapping[str, set[str]]:
    """Return the modules of each package that modules outside of it import."""
    needed = defaultdict(set)
    for importer in _MODULES:
        for imported in _imported_by(importer):
            package, _, module = imported.rpartition(".")
            is_module = imported in _MODULES and imported not in _PACKAGES
            if is_module and package not in _TOPS and not f"{importer}.".startswith(f"{package}."):
                needed[package].add(module)
    return needed


def _listed(package: str) -> tuple[str, ...]:
    """Return what a package lists as PUBLIC_MODULES."""
    for node in ast.parse(_MODULES[package].read_text()).body:
        if isinstance(node, ast.Assign) and any(
            getattr(target, "id", "") == "PUBLIC_MODULES" for target in node.targets
        ):
            return tuple(ast.literal_eval(node.value))
    return ()


def test_a_module_that_another_package_imports_is_listed_by_its_own() -> None:
    hidden = {
        package: sorted(modules - set(_listed(package)))
        for package, modules in _needed_elsewhere().items()
        if modules - set(_listed(package))
    }

    assert hidden == {}


def test_a_package_lists_no_module_that_no_other_package_imports() -> None:
    needed = _needed_elsewhere()
    stale = {
        package: sorted(set(_listed(package)) - needed.get(package, set()))
        for package in _PACKAGES
        if set(_listed(package)) - needed.get(package, set())
    }

    assert stale == {}


def test_modules_are_listed_in_the_order_of_their_names() -> None:
    assert [package for package in sorted(_PACKAGES) if list(_listed(package)) != sorted(set(_listed(package)))] == []


def test_no_folder_holds_more_modules_than_a_reader_looks_through() -> None:
    counts = {
        str(folder.relative_to(_ROOT)): len([path for path in folder.glob("*.py") if path.name != "__init__.py"])
        for folder in {path.parent for path in _MODULES.values()}
    }

    assert {folder: count for folder, count in counts.items() if count > _MOST_MODULES} == {}


def test_the_face_of_the_runtime_holds_nothing_but_names_of_others() -> None:
    """Its modules re-export; the changers and handlers of public steps adapt the engine's tables."""
    adapters = re.compile(r"afl\.runtime\.(changers|handlers)\b")
    defining = [
        name
        for name, path in _MODULES.items()
        if name.startswith("afl.runtime") and not adapters.match(name)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    ]

    assert defining == []


def test_the_side_of_agents_is_kept_from_every_part_of_afl_but_the_core() -> None:
    contracts = configparser.ConfigParser()
    contracts.read(_ROOT / ".importlinter")
    rule = contracts["importlinter:contract:agent-side"]
    parts = {name.split(".")[1] for name in _MODULES if name.count(".") == 1 and name.startswith("afl.")}

    assert {name.removeprefix("afl.") for name in rule["forbidden_modules"].split()} == parts - {"__main__", "core"}
