"""Files that a person edits while a command runs: which of them have changed since the last look."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from pathlib import Path

from afl.core.handlers.modules import HandlersArgument, path_of


class FileWatch:
    """Compares times and sizes of files. Editors that replace a file, or remove it for a moment, are seen through."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._seen = {path: _stamp(path) for path in paths}

    def changed(self) -> frozenset[Path]:
        """Return the files that have changed since the last call; one that is gone has not, until it is back."""
        found: set[Path] = set()
        for path, before in self._seen.items():
            now = _stamp(path)
            if now is not None and now != before:
                self._seen[path] = now
                found.add(path)
        return frozenset(found)


def files_of_handlers(arguments: Sequence[str]) -> list[Path]:
    """Return the files of the modules that `--handlers` arguments name; what has no file is left out."""
    paths: list[Path] = []
    for argument in arguments:
        module_uri = HandlersArgument.parse(argument).module_uri
        path = path_of(module_uri)
        if path is None:
            spec = importlib.util.find_spec(module_uri)
            path = Path(spec.origin) if spec is not None and spec.has_location and spec.origin else None
        if path is not None:
            paths.append(path)
    return paths


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
