"""Files of handlers: one small interface, found by a path or URL, over any kind of storage."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import unquote, urlsplit

from afl.engine.errors import RuntimeError as EngineError


class UnknownStorage(EngineError):
    """A URL whose scheme has no registered back end."""

    def __init__(self, location: str, scheme: str, known: list[str]) -> None:
        super().__init__(f"no storage for {location}: there is {', '.join(known)}; register_storage({scheme!r}, ...)")
        self.location = location
        self.scheme = scheme


class StorageRefused(EngineError, ValueError):
    """A location that is not written to or removed, because it is most likely a mistake."""

    def __init__(self, location: str, problem: str) -> None:
        super().__init__(f"storage location {location!r}: {problem}")
        self.location = location
        self.problem = problem


class StorageBackend(Protocol):
    """Files by location: a path, or a URL of the back end's scheme."""

    def exists(self, location: str) -> bool: ...
    def open(self, location: str, mode: str = "r") -> IO[Any]: ...
    def makedirs(self, location: str) -> None: ...
    def listdir(self, location: str) -> list[str]: ...
    def size(self, location: str) -> int: ...
    def remove(self, location: str, recursive: bool = False) -> None: ...


class LocalStorage:
    """Files of this machine, by path or `file:` URL.

    With a `root`, relative paths start there, and a location outside of it is refused: `..`, absolute paths and links
    that lead away included. Raises StorageRefused.
    """

    def __init__(self, root: str | os.PathLike[str] | None = None) -> None:
        self._root = None if root is None else Path(root).resolve()

    def exists(self, location: str) -> bool:
        """Say whether a file or folder exists."""
        return self._path(location).exists()

    def open(self, location: str, mode: str = "r") -> IO[Any]:
        """Open a file; text is UTF-8. Parent folders of a written file are created."""
        path = self._path(location)
        if any(letter in mode for letter in "wax+"):
            if path.is_dir():
                raise StorageRefused(location, "it is a folder; name a file in it")
            if "r" not in mode:
                path.parent.mkdir(parents=True, exist_ok=True)
        return open(path, mode, encoding=None if "b" in mode else "utf-8")

    def makedirs(self, location: str) -> None:
        """Create a folder and its parents; does nothing when it exists."""
        self._path(location).mkdir(parents=True, exist_ok=True)

    def listdir(self, location: str) -> list[str]:
        """Return the names in a folder, sorted."""
        return sorted(os.listdir(self._path(location)))

    def size(self, location: str) -> int:
        """Return a file's size in bytes."""
        return self._path(location).stat().st_size

    def remove(self, location: str, recursive: bool = False) -> None:
        """Remove a file or a link; does nothing when it does not exist.

        A folder is removed with its content when `recursive`, and refused otherwise. Never removed are the root, the
        working directory, the home directory, and the folders above them.
        """
        path = self._path(location)
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)
            return
        folder = path.resolve()
        for kept in (self._root, Path.cwd(), Path(os.path.expanduser("~")).resolve()):
            if kept is not None and (folder == kept or folder in kept.parents):
                raise StorageRefused(location, f"it is the folder {kept} or one above it, which is not removed")
        if not recursive:
            raise StorageRefused(location, "it is a folder; remove it and all that is in it with recursive=True")
        shutil.rmtree(folder)

    def _path(self, location: str) -> Path:
        path = local_path(location)
        # Python reads an empty path as the working directory: most often a variable was never set.
        if not str(location).strip() or (path == Path() and location.startswith("file:")):
            raise StorageRefused(location, "it is empty")
        if self._root is None:
            return path
        path = self._root / path
        # The last part is not resolved: a link may be removed, wherever it leads.
        within = path.parent.resolve() / path.name if path.name not in ("", "..") else path.resolve()
        if not within.is_relative_to(self._root) or (
            path.is_symlink() and not path.resolve().is_relative_to(self._root)
        ):
            raise StorageRefused(location, f"it leads out of {self._root}")
        return within


def local_path(location: str) -> Path:
    """Return the local path of a path or a `file:` URL. Raises ValueError for a URL of another machine."""
    if not location.startswith("file:"):
        return Path(location)
    parts = urlsplit(location)
    if parts.netloc not in ("", "localhost"):
        raise ValueError(f"{location} is a file of {parts.netloc}, not of this machine")
    return Path(unquote(parts.path))


def register_storage(scheme: str, make: Callable[[], StorageBackend]) -> None:
    """Register a back end for URLs of a scheme (`s3`, `hdfs`); the last registration wins."""
    _BACKENDS[scheme] = make


def storage_schemes() -> Iterator[str]:
    """Return the schemes that have a back end."""
    yield from sorted(_BACKENDS)


def get_storage_backend(location: str) -> StorageBackend:
    """Return the back end for a path or URL. Raises UnknownStorage."""
    scheme = urlsplit(location).scheme if "://" in location or location.startswith("file:") else "file"
    make = _BACKENDS.get(scheme)
    if make is None:
        raise UnknownStorage(location, scheme, list(storage_schemes()))
    return make()


_BACKENDS: dict[str, Callable[[], StorageBackend]] = {"file": LocalStorage}
