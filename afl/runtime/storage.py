"""Where handlers keep files: one small interface, found by a path or URL, whatever keeps them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import unquote, urlsplit

from afl.runtime.errors import RuntimeError as EngineError


class UnknownStorage(EngineError):
    """A URL whose scheme no back end was registered for."""

    def __init__(self, location: str, scheme: str, known: list[str]) -> None:
        super().__init__(f"no storage for {location}: there is {', '.join(known)}; register_storage({scheme!r}, ...)")
        self.location = location
        self.scheme = scheme


class StorageBackend(Protocol):
    """Files by location: a path, or a URL of the scheme that the back end is for."""

    def exists(self, location: str) -> bool: ...
    def open(self, location: str, mode: str = "r") -> IO[Any]: ...
    def makedirs(self, location: str) -> None: ...
    def listdir(self, location: str) -> list[str]: ...
    def size(self, location: str) -> int: ...
    def remove(self, location: str) -> None: ...


class LocalStorage:
    """Files of this machine, by path or `file:` URL."""

    def exists(self, location: str) -> bool:
        """Say whether there is a file or folder."""
        return local_path(location).exists()

    def open(self, location: str, mode: str = "r") -> IO[Any]:
        """Open a file; text is UTF-8. Folders above a file to be written are made."""
        path = local_path(location)
        if any(letter in mode for letter in "wax"):
            path.parent.mkdir(parents=True, exist_ok=True)
        return open(path, mode, encoding=None if "b" in mode else "utf-8")

    def makedirs(self, location: str) -> None:
        """Make a folder and those above it; nothing happens when it is there."""
        local_path(location).mkdir(parents=True, exist_ok=True)

    def listdir(self, location: str) -> list[str]:
        """Return the names in a folder, sorted."""
        return sorted(os.listdir(local_path(location)))

    def size(self, location: str) -> int:
        """Return a file's size in bytes."""
        return local_path(location).stat().st_size

    def remove(self, location: str) -> None:
        """Remove a file, or a folder with all that is in it; nothing happens when there is none."""
        path = local_path(location)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def local_path(location: str) -> Path:
    """The path that a path or a `file:` URL means. Raises ValueError for a URL of another machine."""
    if not location.startswith("file:"):
        return Path(location)
    parts = urlsplit(location)
    if parts.netloc not in ("", "localhost"):
        raise ValueError(f"{location} is a file of {parts.netloc}, not of this machine")
    return Path(unquote(parts.path))


def register_storage(scheme: str, make: Callable[[], StorageBackend]) -> None:
    """Have URLs of a scheme (`s3`, `hdfs`) kept by a back end of one's own; the latest registration counts."""
    _BACKENDS[scheme] = make


def storage_schemes() -> Iterator[str]:
    """The schemes that there are back ends for."""
    yield from sorted(_BACKENDS)


def get_storage_backend(location: str) -> StorageBackend:
    """The back end for a path or URL. Raises UnknownStorage."""
    scheme = urlsplit(location).scheme if "://" in location or location.startswith("file:") else "file"
    make = _BACKENDS.get(scheme)
    if make is None:
        raise UnknownStorage(location, scheme, list(storage_schemes()))
    return make()


_BACKENDS: dict[str, Callable[[], StorageBackend]] = {"file": LocalStorage}
