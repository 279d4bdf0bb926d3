"""The origins of AFL texts, their ids, and the set of texts of one compilation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from afl.core.frozen import frozen

#: The largest text that is compiled. A hand-written text is a thousand times smaller; split a larger generated one.
MAX_SOURCE_BYTES: Final = 16 * 1024 * 1024

#: The ends of the names of AFL files.
FILE_SUFFIXES: Final = (".afl", ".ffl")


@frozen
class FileOrigin:
    """A file on disk."""

    path: str

    def to_source_id(self) -> str:
        return f"file://{self.path}"


@frozen
class MongoDBOrigin:
    """A flow stored in MongoDB."""

    collection_id: str
    display_name: str

    def to_source_id(self) -> str:
        return f"mongodb://{self.collection_id}/{self.display_name}"


@frozen
class MavenOrigin:
    """A source archive in a Maven repository."""

    group_id: str
    artifact_id: str
    version: str
    classifier: str = ""

    def to_source_id(self) -> str:
        base = f"maven://{self.group_id}/{self.artifact_id}/{self.version}"
        return f"{base}/{self.classifier}" if self.classifier else base


SourceOrigin: TypeAlias = FileOrigin | MongoDBOrigin | MavenOrigin


def provenance(origin: SourceOrigin | None) -> dict[str, str]:
    """Return an origin as compiled programs name it."""
    match origin:
        case FileOrigin(path):
            return {"type": "file", "path": path}
        case MongoDBOrigin(collection_id, display_name):
            return {"type": "mongodb", "collectionId": collection_id, "displayName": display_name}
        case MavenOrigin(group_id, artifact_id, version, classifier):
            document = {"type": "maven", "groupId": group_id, "artifactId": artifact_id, "version": version}
            return document | ({"classifier": classifier} if classifier else {})
        case None:
            return {"type": "unknown"}


@frozen
class SourceEntry:
    """One text with its origin; a library is compiled too, but is not the program itself."""

    text: str
    origin: SourceOrigin
    is_library: bool = False

    @property
    def source_id(self) -> str:
        return self.origin.to_source_id()


@dataclass
class CompilerInput:
    """The texts of one compilation."""

    primary_sources: list[SourceEntry] = field(default_factory=list)
    library_sources: list[SourceEntry] = field(default_factory=list)

    @property
    def all_sources(self) -> list[SourceEntry]:
        """Return all texts, primary ones first."""
        return [*self.primary_sources, *self.library_sources]


@dataclass
class SourceRegistry:
    """The origin of each source id."""

    sources: dict[str, SourceOrigin] = field(default_factory=dict)

    def register(self, source_id: str, origin: SourceOrigin) -> None:
        self.sources[source_id] = origin

    def register_entry(self, entry: SourceEntry) -> None:
        self.register(entry.source_id, entry.origin)

    def get(self, source_id: str) -> SourceOrigin | None:
        return self.sources.get(source_id)

    @classmethod
    def from_compiler_input(cls, compiler_input: CompilerInput) -> SourceRegistry:
        registry = cls()
        for entry in compiler_input.all_sources:
            registry.register_entry(entry)
        return registry
