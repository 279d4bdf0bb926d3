"""The modules that may be run because a registry names them.

A user who may write to a registry decides which modules agents load. Without a bound, that is any module that Python
finds and any file of the machine: `os`, with `system` as the function. So a process loads from a registry only the
modules that its operator allowed.
"""

from __future__ import annotations

import importlib.util
import os
import sysconfig
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Final

from afl.core.handlers.modules import HandlerModuleError, path_of

#: The modules below the folder in which a process was started.
HERE: Final = "."
#: Installed packages, which a folder around them does not allow: a virtual environment often stands there.
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})


class HandlerNotAllowed(HandlerModuleError):
    """A registry names a module, or a function of one, that the operator of this process has not allowed."""


class AllowedHandlers:
    """The allowed handler modules: module names and folders.

    An entry that is `.` or has a `/` is a folder, and allows the modules below it. Any other entry is a module (`shop`
    allows `shop` and `shop.billing`) or a pattern (`shop_*`). The folder `/` counts only when it is written exactly so.
    Folders allow no installed packages and nothing of Python's own library, unless the folder itself is inside them.
    `setting` names the setting for messages to operators.
    """

    def __init__(self, entries: Iterable[str] = (HERE,), *, setting: str = "agent.allowed_handlers") -> None:
        self._entries = tuple(entry.strip() for entry in entries if entry.strip())
        self._setting = setting
        self._patterns = tuple(entry for entry in self._entries if not _is_folder(entry))
        folders = {entry: Path(os.path.expanduser(entry)).resolve() for entry in self._entries if _is_folder(entry)}
        self._folders = tuple(folder for entry, folder in folders.items() if folder != Path("/") or entry == "/")
        self._vouched: set[str] = set()

    def vouch(self, module_uri: str) -> None:
        """Allow a module that this process's own code or command line named."""
        self._vouched.add(module_uri)

    def check(self, module_uri: str) -> None:
        """Raise HandlerNotAllowed for a module that must not be loaded. This check loads no part of it."""
        if module_uri not in self._vouched and not self._allows(module_uri):
            raise HandlerNotAllowed(
                module_uri,
                f"it is registered and not allowed here ({self._setting} is {', '.join(self._entries) or 'empty'})",
                f"the module or its folder in {self._setting}",
            )

    def check_function(self, module_uri: str, module: ModuleType, function: object) -> None:
        """Raise HandlerNotAllowed for a function that an allowed module only imports from one that is not allowed."""
        if not isinstance(function, FunctionType | BuiltinFunctionType | type):
            # Made by the module itself: an object, or another function with arguments bound.
            return
        home = function.__module__
        if isinstance(home, str) and (_package(home) == _package(module.__name__) or self._allows_name(home)):
            return
        name = getattr(function, "__qualname__", "?")
        raise HandlerNotAllowed(
            module_uri,
            f"its {name} is imported from {home}, which is not allowed here",
            f"a function of the module itself, or {home} in {self._setting}",
        )

    def _allows(self, module_uri: str) -> bool:
        path = path_of(module_uri)
        return self._allows_name(module_uri) if path is None else self._is_below(path)

    def _allows_name(self, name: str) -> bool:
        if any(name == entry or name.startswith(f"{entry}.") or fnmatchcase(name, entry) for entry in self._patterns):
            return True
        try:
            # Only the top-level package is looked up: looking inside it would run it.
            spec = importlib.util.find_spec(_package(name))
        except (ImportError, ValueError):
            return False
        if spec is None:
            # Loading the module reports what is missing.
            return True
        places = [*(spec.submodule_search_locations or ()), *([spec.origin] if spec.has_location else [])]
        return bool(places) and all(place is not None and self._is_below(Path(place)) for place in places)

    def _is_below(self, path: Path) -> bool:
        resolved = path.resolve()
        for folder in self._folders:
            if resolved.is_relative_to(folder):
                between = resolved.relative_to(folder)
                is_library = any(resolved.is_relative_to(kept) and not folder.is_relative_to(kept) for kept in _LIBRARY)
                if _INSTALLED.isdisjoint(between.parts) and not is_library:
                    return True
        return False


def _package(name: str) -> str:
    return name.partition(".")[0]


def _is_folder(entry: str) -> bool:
    return entry in (".", "..", "~") or "/" in entry


#: The folders of Python's own modules.
_LIBRARY: Final = tuple(Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib"))
