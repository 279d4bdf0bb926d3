"""The wheel with compiled modules: built, unpacked beside the tests, and tested.

    python -m tools.fast build [FOLDER]      the wheel, into FOLDER (default: dist)
    python -m tools.fast test [PYTEST ...]   the tests on it, in a tree of their own

Which modules are compiled is said by pyproject.toml, under `tool.hatch.build.targets.wheel.hooks.mypyc`. pip makes the
environment in which the wheel is built, with mypyc in it; a C compiler has to be there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[1]
#: What a build is made of, and what tests need besides the packages.
_SOURCES: Final = ("afl", "afl_stream", "schemas", "topics", "pyproject.toml", "README.md", "LICENSE")
_BESIDE: Final = ("tests", "tools", "benchmarks", "examples", "docs", "editors", "constraints", "schemas", "topics")
#: The C compiler's level of optimisation, in pyproject.toml.
_OPT_LEVEL: Final = re.compile(r'\bopt_level = "\d"')
_NOT_COPIED: Final = shutil.ignore_patterns("__pycache__", "*.so", "*.pyd")


class WheelNotBuilt(Exception):
    """The compiled wheel cannot be built here: for want of a C compiler, or of a package index, for instance."""

    def __init__(self, said: str) -> None:
        super().__init__(f"the wheel with compiled modules could not be built:\n{said}")


def build_wheel(to: Path, *, optimised: bool = True) -> Path:
    """Build the wheel with compiled modules into a folder; return its file. Raises WheelNotBuilt.

    It is built from a copy of the sources: no compiled module is ever left in the tree, where Python would take it.
    Without `optimised` the C compiler optimises nothing, which takes it a fraction of the time: the code does the same.
    """
    to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        tree, built = Path(folder) / "tree", Path(folder) / "built"
        tree.mkdir()
        _copy(_SOURCES, tree)
        if not optimised:
            project = tree / "pyproject.toml"
            project.write_text(_OPT_LEVEL.sub('opt_level = "0"', project.read_text()))
        environment = os.environ | {"HATCH_BUILD_HOOK_ENABLE_MYPYC": "1"}
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "--disable-pip-version-check",
                "wheel",
                "--no-deps",
                "-w",
                str(built),
                str(tree),
            ],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            raise WheelNotBuilt(done.stdout[-4_000:])
        (wheel,) = built.iterdir()
        return Path(shutil.copy2(wheel, to))


def unpack_with_tests(wheel: Path, to: Path) -> None:
    """Unpack a wheel into an empty folder, and put the tests beside it, which then run on the wheel's packages."""
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(to)
    _copy((*_BESIDE, "pyproject.toml", "README.md", "CHANGELOG.md", "ARCHITECTURE.md", "Makefile"), to)


def run_tests(tree: Path, arguments: Sequence[str]) -> int:
    """Run pytest in such a tree; return its exit code."""
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=tree, env=environment, check=False).returncode


def _copy(names: Sequence[str], to: Path) -> None:
    for name in names:
        source = _ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=_NOT_COPIED)
        elif source.exists():
            shutil.copy2(source, to / name)


def main(arguments: Sequence[str]) -> int:
    """Build, or build and test; return the exit code."""
    if arguments[:1] == ["build"] and len(arguments) <= 2:
        wheel = build_wheel(Path(arguments[1]) if len(arguments) == 2 else _ROOT / "dist")
        print(wheel)  # noqa: T201 - what the command is for
        return 0
    if arguments[:1] == ["test"]:
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder) / "tree"
            unpack_with_tests(build_wheel(Path(folder) / "wheel"), tree)
            return run_tests(tree, arguments[1:])
    print(__doc__, file=sys.stderr)  # noqa: T201 - how it is used
    return 2


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
