"""The texts of a workspace, and which of them make one program."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from pygls.uris import from_fs_path, to_fs_path

from afl.errors import SourceUnreadable
from afl.language_server.documents import Document, Parsed
from afl.language_server.texts import Text, Units
from afl.library.declarations import library_text, library_tree
from afl.source import FILE_SUFFIXES, FileOrigin
from afl.syntax.parser import read_source

#: Folders of foreign or generated files.
_SKIPPED = frozenset({"node_modules", "venv", "__pycache__", "build", "dist", "target"})

#: The most files of a workspace: a home folder that was opened by mistake must not be read for minutes.
MAX_FILES = 5_000


class Project:
    """The documents that are open, and the files of the workspace's folders and of the source path."""

    def __init__(self, folders: Iterable[Path], units: Units) -> None:
        self._folders = list(folders)
        self._units = units
        self._open: dict[str, Document] = {}
        self._files: dict[str, tuple[tuple[int, int], Document]] = {}

    @cached_property
    def library(self) -> Parsed:
        """The library, which every program knows without a file."""
        return Parsed(Text(library_text(), self._units), library_tree())

    # -- what is open -------------------------------------------------------------------------------------------------

    @property
    def open_documents(self) -> list[Document]:
        return list(self._open.values())

    def document(self, uri: str) -> Document | None:
        """Return an open document."""
        return self._open.get(uri)

    def open(self, uri: str, content: str, version: int | None = None) -> None:
        self._open[uri] = Document(uri, source_id_of(uri), Text(content, self._units), version=version)
        if not self._folders:
            # Without a workspace, only the files beside the open one are known.
            self.refresh()

    def change(self, uri: str, text: Text, version: int | None = None) -> None:
        self._open[uri] = self._open[uri].edited(text, version)

    def close(self, uri: str) -> None:
        self._open.pop(uri, None)

    # -- files --------------------------------------------------------------------------------------------------------

    def search(self, folders: Iterable[Path]) -> None:
        """Search these folders from now on."""
        self._folders = list(folders)
        self.refresh()

    def refresh(self) -> None:
        """Read new and changed files, and forget deleted ones."""
        found: dict[str, tuple[tuple[int, int], Document]] = {}
        for path in self._paths():
            source_id = FileOrigin(str(path)).to_source_id()
            try:
                status = path.stat()
                stamp = (status.st_mtime_ns, status.st_size)
                known = self._files.get(source_id)
                if known is not None and known[0] == stamp:
                    found[source_id] = known
                else:
                    text = Text(read_source(path), self._units)
                    found[source_id] = stamp, Document(from_fs_path(str(path)) or source_id, source_id, text)
            except (OSError, SourceUnreadable):
                continue
        self._files = found

    def _paths(self) -> Iterator[Path]:
        count = 0
        folders: dict[Path, bool] = dict.fromkeys(self._folders, True)
        if not folders:
            paths = (to_fs_path(uri) for uri in self._open)
            folders = dict.fromkeys((Path(path).parent for path in paths if path), False)
        for folder, is_deep in folders.items():
            for here, below, files in os.walk(folder):
                below[:] = sorted(name for name in below if name not in _SKIPPED and not name.startswith("."))
                if not is_deep:
                    below.clear()
                for name in sorted(files):
                    if name.endswith(FILE_SUFFIXES):
                        count += 1
                        if count > MAX_FILES:
                            return
                        yield Path(here) / name

    def all_documents(self) -> dict[str, Document]:
        """Return every document by its source id; an open document hides its file."""
        documents = {source_id: document for source_id, (_, document) in self._files.items()}
        documents.update((document.source_id, document) for document in self._open.values())
        return documents

    # -- programs -----------------------------------------------------------------------------------------------------

    def program_of(self, document: Document, parsed: Parsed | None) -> list[tuple[str, Parsed]]:
        """Return the trees that are compiled with a document whose tree is `parsed`, itself first, by source ids.

        These are the other parts of its namespaces in its own folder, unless they declare a name that it declares
        itself, and every document that opens a namespace that one of them needs: of several, the nearest.
        """
        if parsed is None:
            return []
        known = self.trees()
        known[document.source_id] = parsed
        chosen = {document.source_id: parsed}
        for source_id, other in known.items():
            is_beside = _folder(source_id) == _folder(document.source_id)
            if is_beside and other.opened & parsed.opened and not other.declared & parsed.declared:
                chosen.setdefault(source_id, other)
        waiting = list(chosen.values())
        held = {name for item in waiting for name in item.opened}
        while waiting:
            for name in sorted(waiting.pop().needed - held):
                held.add(name)
                opening = [source_id for source_id, item in known.items() if name in item.opened]
                for source_id in _nearest(document.source_id, opening):
                    if source_id not in chosen:
                        chosen[source_id] = known[source_id]
                        held |= known[source_id].opened
                        waiting.append(known[source_id])
        return list(chosen.items())

    def trees(self) -> dict[str, Parsed]:
        """Return the latest tree of every document that ever had one, by its source id."""
        documents = self.all_documents().items()
        return {source_id: parsed for source_id, item in documents if (parsed := item.latest) is not None}

    def namespaces(self) -> frozenset[str]:
        """Return every namespace of the workspace, and that of the library."""
        return self.library.opened.union(*(parsed.opened for parsed in self.trees().values()))

    def concerned(self, namespace: str) -> list[str]:
        """Return the source ids of the documents that open a namespace or use it."""
        trees = self.trees().items()
        return [source_id for source_id, item in trees if namespace in item.opened or namespace in item.needed]


def source_id_of(uri: str) -> str:
    """Return the compiler's source id of a document: its path if it is a file."""
    path = to_fs_path(uri)
    return FileOrigin(path).to_source_id() if uri.startswith("file:") and path else uri


def _folder(source_id: str) -> str:
    return source_id.rpartition("/")[0]


def _nearest(to: str, candidates: list[str]) -> list[str]:
    """Return the documents whose folder is nearest to the folder of a source: all of them are parts of one program."""

    def distance(source_id: str) -> tuple[int, str]:
        here, there = _folder(to).split("/"), _folder(source_id).split("/")
        pairs = enumerate(zip(here, there, strict=False))
        shared = next((number for number, (one, other) in pairs if one != other), min(len(here), len(there)))
        return len(here) + len(there) - 2 * shared, _folder(source_id)

    best = min((distance(item) for item in candidates), default=None)
    return [item for item in candidates if distance(item) == best]
