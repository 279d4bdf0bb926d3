"""Publish AFL sources to MongoDB, where compilers find them by the namespaces that they define."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from afl.compiler import check_input
from afl.config import AFLConfig, load_config
from afl.core.clock import epoch_ms
from afl.core.strictness import Strictness
from afl.diagnostics import Diagnostic
from afl.emitter import emit_dict, to_text
from afl.errors import AFLError
from afl.source import CompilerInput, FileOrigin, SourceEntry
from afl.sources.joining import joined
from afl.sources.mongo import MAX_TEXT_BYTES, MongoSources

#: The version that compilers use when none is given, and the only one that may change.
LATEST = "latest"

#: The UUID from which ids of publications are derived. The ids are in people's command lines. Never change it.
_PUBLICATIONS = uuid.UUID("0f3c6d0a-5d0f-5e0c-9f4b-8a6f0c1f3f2b")


class PublishError(AFLError):
    """Sources that were not published; `diagnostics` holds the errors of the program, when they are the reason."""

    def __init__(self, message: str, diagnostics: Sequence[Diagnostic] = ()) -> None:
        super().__init__(message)
        self.diagnostics = tuple(diagnostics)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedNamespace:
    """A namespace that was published."""

    name: str
    version: str
    checksum: str
    origins: tuple[str, ...]
    #: Whether the text differs from the one published before.
    is_changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """The result of publishing: `flow_id` and `name` are the parts of `--mongo ID:NAME`."""

    flow_id: str
    name: str
    version: str
    namespaces: tuple[PublishedNamespace, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """Return the publication as a JSON document for programs."""
        return {
            "flowId": self.flow_id,
            "name": self.name,
            "version": self.version,
            "namespaces": [
                {"name": item.name, "checksum": item.checksum, "changed": item.is_changed, "origins": [*item.origins]}
                for item in self.namespaces
            ],
        }


class SourcePublisher:
    """Publisher to one database."""

    def __init__(self, config: AFLConfig | None = None) -> None:
        """Take the config, or that of `load_config`."""
        config = config or load_config()
        # New sources may use namespaces that are published already.
        self._config = replace(config, resolver=replace(config.resolver, mongodb_resolve=True))

    def publish(
        self,
        sources: CompilerInput,
        *,
        name: str = "",
        version: str = LATEST,
        force: bool = False,
        strictness: Strictness = Strictness.LENIENT,
    ) -> Publication:
        """Check sources as one program, and publish the primary ones.

        Missing namespaces come from library sources and from published ones. Publishing the same texts again changes
        nothing. `name` is the name of the publication, by default the first namespace. Raises PublishError,
        MongoDBUnavailable.

        Without `force`, a version other than `latest` keeps its text forever: a build with that version must be
        repeatable.
        """
        checked = check_input(sources, config=self._config, strictness=strictness)
        if checked.has_errors:
            raise PublishError("the program has errors; nothing is published", checked.diagnostics)
        groups = _groups(sources.primary_sources)
        if not groups:
            raise PublishError("nothing is published: the sources open no namespace, by which they could be found")
        name = name or min((names[0] for names, _ in groups), key=str)
        flow_id = str(uuid.uuid5(_PUBLICATIONS, f"{name}\n{version}"))
        now_ms = epoch_ms()
        documents = [document for names, entries in groups for document in _documents(names, entries, version, now_ms)]
        with MongoSources(self._config.mongodb) as database:
            there = database.sources([document["namespace_name"] for document in documents], version)
            published = tuple(_compared(document, there) for document in documents)
            kept = [item.name for item in published if item.is_changed and item.name in there]
            if kept and version != LATEST and not force:
                raise PublishError(
                    f"version {version} of {', '.join(kept)} is published with another text; "
                    "choose a new version, or force it"
                )
            program = to_text(emit_dict(checked.program), None)
            flow = _flow(flow_id, name, version, sources.primary_sources, program, now_ms)
            changed = {item.name for item in published if item.is_changed}
            database.write(flow, [document for document in documents if document["namespace_name"] in changed])
        return Publication(
            flow_id=flow_id, name=name, version=version, namespaces=published, diagnostics=checked.diagnostics
        )

    def published(self) -> list[Mapping[str, Any]]:
        """Return what is published, without the texts, by namespace and version. Raises MongoDBUnavailable."""
        with MongoSources(self._config.mongodb) as database:
            return database.published()

    def remove(self, namespace: str, version: str = LATEST) -> bool:
        """Remove a published namespace, and return whether it was published. Raises MongoDBUnavailable."""
        with MongoSources(self._config.mongodb) as database:
            return database.remove(namespace, version)


def _groups(entries: Sequence[SourceEntry]) -> list[tuple[list[str], list[SourceEntry]]]:
    """Return the sources in groups that have no namespace in common, each with its namespaces in order."""
    from afl.parser import AFLParser

    parser = AFLParser()
    groups: list[tuple[list[str], list[SourceEntry]]] = []
    for entry in entries:
        opened = parser.parse(entry.text, source_id=entry.source_id).namespaces
        names = list(dict.fromkeys(namespace.name for namespace in opened))
        if not names:
            continue
        touched = [group for group in groups if set(group[0]) & set(names)]
        merged_names = list(dict.fromkeys([*(name for group in touched for name in group[0]), *names]))
        merged = (merged_names, [*(item for group in touched for item in group[1]), entry])
        groups = [*(group for group in groups if group not in touched), merged]
    return groups


def _documents(names: Sequence[str], entries: Sequence[SourceEntry], version: str, now_ms: int) -> list[dict[str, Any]]:
    """Return a document for each namespace, which holds the whole text that defines it."""
    text = joined([entry.text for entry in entries])
    if len(text.encode()) > MAX_TEXT_BYTES:
        raise PublishError(f"the text of {', '.join(names)} is larger than {MAX_TEXT_BYTES} bytes")
    return [
        {
            "uuid": str(uuid.uuid5(_PUBLICATIONS, f"source\n{name}\n{version}")),
            "namespace_name": name,
            "namespaces_defined": list(names),
            "source_text": text,
            "version": version,
            "published_at": now_ms,
            "origin": " ".join(entry.source_id for entry in entries),
            "checksum": hashlib.sha256(text.encode()).hexdigest(),
        }
        for name in names
    ]


def _compared(document: Mapping[str, Any], there: Mapping[str, Mapping[str, Any]]) -> PublishedNamespace:
    former = there.get(document["namespace_name"], {})
    return PublishedNamespace(
        name=document["namespace_name"],
        version=document["version"],
        checksum=document["checksum"],
        origins=tuple(document["origin"].split(" ")),
        is_changed=former.get("checksum") != document["checksum"],
    )


def _flow(
    flow_id: str, name: str, version: str, entries: Sequence[SourceEntry], program: str, now_ms: int
) -> dict[str, Any]:
    texts = [{"name": _file_name(entry), "content": entry.text, "language": "afl"} for entry in entries]
    size = sum(len(text["content"].encode()) for text in texts)
    if size + len(program.encode()) <= MAX_TEXT_BYTES:
        # Only the texts are required: the program can be compiled again.
        texts.append({"name": "program.json", "content": program, "language": "json"})
    elif size > MAX_TEXT_BYTES:
        raise PublishError(f"the sources of {name} are larger than {MAX_TEXT_BYTES} bytes together")
    return {
        "uuid": flow_id,
        "name": {"name": name, "path": f"{name}@{version}", "uuid": flow_id},
        "compiled_sources": texts,
        "version": version,
        "published_at": now_ms,
    }


def _file_name(entry: SourceEntry) -> str:
    return entry.origin.path if isinstance(entry.origin, FileOrigin) else entry.source_id
