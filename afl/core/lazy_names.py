"""Names of a package that are loaded when they are first used, so that importing one does not load the others."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package.

    `homes` maps a module to the names that it gives, separated by blanks; `name:there` is a name that the module has as
    `there`.
    """
    home_of = {}
    for home, names in homes.items():
        for name in names.split():
            shown, _, there = name.partition(":")
            home_of[shown] = (home, there or shown)

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home, there = home_of[name]
        found = getattr(import_module(home), there)
        setattr(sys.modules[package], name, found)
        return found

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return load, listed
