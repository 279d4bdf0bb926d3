"""How this installation is built: as plain Python, or with modules that mypyc has compiled."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final

#: The packages of the distribution, which stand beside each other.
_PACKAGES: Final = ("afl", "afl_stream")


def compiled_modules(root: Path | None = None) -> list[str]:
    """Return the names of the modules that are loaded as compiled code, sorted; none in a pure build.

    `root` is the folder of the packages, else of this installation. Python takes a compiled module before the source
    that stands beside it.
    """
    folder = root if root is not None else Path(__file__).parents[2]
    found = set()
    for package in _PACKAGES:
        for suffix in EXTENSION_SUFFIXES:
            for file in (folder / package).rglob(f"*{suffix}"):
                place = file.relative_to(folder)
                found.add(".".join([*place.parent.parts, file.name.partition(".")[0]]))
    return sorted(name.removesuffix(".__init__") for name in found if not name.endswith("__mypyc"))


def described_build(modules: list[str]) -> str:
    """Return for people how the installation is built, given its compiled modules."""
    if not modules:
        return "build: plain Python"
    return f"build: {len(modules)} modules compiled by mypyc: {', '.join(modules)}"
