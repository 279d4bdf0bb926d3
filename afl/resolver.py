"""Find the sources of namespaces that a program uses and lacks: in folders, and among published sources."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

from afl.ast import Program
from afl.config import AFLConfig, MongoDBConfig
from afl.errors import ParseError, SourceUnreadable
from afl.library.declarations import PATH, PREFIX, library
from afl.source import CompilerInput, FileOrigin, MongoDBOrigin, SourceEntry, SourceRegistry
from afl.sources.needed_names import needed_namespaces
from afl.syntax.parser import TextParser, read_source

_log = logging.getLogger(__name__)

_PATTERNS = ("*.afl", "*.ffl")


class PublishedNamespaces(Protocol):
    """A place of published sources, found by the namespaces that they define."""

    def batch_find(self, names: Sequence[str]) -> dict[str, str]:
        """Return the text of each namespace that was published."""


class NamespaceIndex:
    """An index of the files below some folders by the namespaces that they open, read at the first lookup."""

    def __init__(self, paths: Iterable[str | Path]) -> None:
        """Take folders, read with all folders in them, or single files; the first file to open a namespace wins."""
        self._paths = [Path(path) for path in paths]

    def find_namespace(self, name: str) -> Path | None:
        """Return the file that opens the namespace, or None."""
        return self._files.get(name)

    def all_namespaces(self) -> dict[str, Path]:
        """Return every namespace with its file."""
        return dict(self._files)

    @cached_property
    def _files(self) -> dict[str, Path]:
        found: dict[str, Path] = {}
        parser = TextParser()
        for file in self._candidates():
            try:
                program = parser.parse(read_source(file), source_id=FileOrigin(str(file)).to_source_id())
            except (ParseError, SourceUnreadable) as error:
                _log.warning("Skipped %s: %s", file, error)
                continue
            for namespace in program.namespaces:
                first = found.setdefault(namespace.name, file)
                if first != file:
                    _log.warning("Duplicate namespace %s: %s is taken, not %s", namespace.name, first, file)
        return found

    def _candidates(self) -> list[Path]:
        """Return the files in a fixed order, each once."""
        files: dict[Path, Path] = {}
        for path in self._paths:
            if not path.exists():
                _log.warning("The source path %s does not exist", path)
            below = [path] if path.is_file() else sorted(file for pattern in _PATTERNS for file in path.rglob(pattern))
            for file in below:
                if file.is_file() and file.resolve() != PATH:
                    files.setdefault(file.resolve(), file)
        return list(files.values())


class MongoDBNamespaceResolver:
    """Resolver that finds published sources in MongoDB."""

    def __init__(self, config: MongoDBConfig | AFLConfig, version: str = "latest") -> None:
        self._config = config.mongodb if isinstance(config, AFLConfig) else config
        self._version = version

    def find_namespace(self, name: str) -> str | None:
        """Return the text that was published with this namespace, or None. Raises MongoDBUnavailable."""
        return self.batch_find([name]).get(name)

    def batch_find(self, names: Sequence[str]) -> dict[str, str]:
        """Return the text of each namespace that was published, in one query. Raises MongoDBUnavailable."""
        from afl.sources.mongo import MongoSources

        if not names:
            return {}
        with MongoSources(self._config) as sources:
            found = sources.sources(names, self._version)
        return {name: str(document["source_text"]) for name, document in found.items()}


class DependencyResolver:
    """Resolver that adds missing namespaces until no further one can be found."""

    def __init__(
        self,
        filesystem_index: NamespaceIndex | None = None,
        mongodb_resolver: PublishedNamespaces | None = None,
    ) -> None:
        self._index = filesystem_index
        self._published = mongodb_resolver

    def resolve(
        self, program: Program, registry: SourceRegistry, compiler_input: CompilerInput
    ) -> tuple[Program, SourceRegistry, CompilerInput]:
        """Return the program with the sources of the namespaces it lacks; they are added to registry and input too.

        Files take precedence over published sources. The validator reports namespaces that are not found. Raises
        ParseError for a found source with a mistake, and MongoDBUnavailable.
        """
        parser = TextParser()
        here = {
            Path(entry.origin.path).resolve()
            for entry in compiler_input.all_sources
            if isinstance(entry.origin, FileOrigin)
        }
        texts = {entry.text for entry in compiler_input.all_sources}
        known = frozenset(PREFIX + name for name in library())
        asked: set[str] = set()
        added = [program]
        while added:
            needed: dict[str, object] = {}
            for part in added:
                needed |= needed_namespaces(part, known)
            held = {namespace.name for namespace in program.namespaces}
            missing = [name for name in needed if name not in held and name not in asked]
            asked.update(missing)
            added = []
            for entry in self._found(missing, here):
                # One text may be stored under each of its namespaces.
                if entry.text in texts:
                    continue
                texts.add(entry.text)
                added.append(parser.parse(entry.text, source_id=entry.source_id))
                compiler_input.library_sources.append(entry)
                registry.register_entry(entry)
            if added:
                program = Program.merge([program, *added])
        return program, registry, compiler_input

    def _found(self, names: Sequence[str], here: set[Path]) -> list[SourceEntry]:
        entries: list[SourceEntry] = []
        elsewhere: list[str] = []
        for name in names:
            file = self._index.find_namespace(name) if self._index is not None else None
            if file is None:
                elsewhere.append(name)
            elif file.resolve() not in here:
                here.add(file.resolve())
                entries.append(SourceEntry(read_source(file), FileOrigin(str(file)), is_library=True))
        if self._published is not None and elsewhere:
            published = self._published.batch_find(elsewhere)
            for name in elsewhere:
                if name in published:
                    origin = MongoDBOrigin("afl_sources", name)
                    entries.append(SourceEntry(published[name], origin, is_library=True))
        return entries


def resolver_of(config: AFLConfig, compiler_input: CompilerInput) -> DependencyResolver | None:
    """Return the resolver that the settings describe, or None when they describe none.

    The folders are those of the settings, and with `auto_resolve` those of the primary files.
    """
    paths: list[str | Path] = list(config.resolver.source_paths)
    if config.resolver.auto_resolve:
        origins = (entry.origin for entry in compiler_input.primary_sources)
        paths += [Path(origin.path).parent for origin in origins if isinstance(origin, FileOrigin)]
    index = NamespaceIndex(paths) if paths else None
    published = MongoDBNamespaceResolver(config.mongodb) if config.resolver.mongodb_resolve else None
    return DependencyResolver(index, published) if index or published else None
