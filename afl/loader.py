"""Load AFL sources: from files, from flows in MongoDB, from source archives of Maven repositories."""

from __future__ import annotations

import http.client
import io
import os
import urllib.error
import urllib.parse
import urllib.request
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from afl.config import AFLConfig, MongoDBConfig, load_config
from afl.core.text.masking import NOT_WELL_FORMED, Secrets, is_well_formed, secrets_of_url, shown_url
from afl.errors import AFLError
from afl.source import FILE_SUFFIXES, FileOrigin, MavenOrigin, MongoDBOrigin, SourceEntry

#: The variable that names the Maven repository when none is given.
MAVEN_REPOSITORY_VARIABLE = "AFL_MAVEN_REPOSITORY"

#: The Maven repository that is used when neither the caller nor the environment names one.
MAVEN_CENTRAL = "https://repo1.maven.org/maven2"

#: The longest silence of a repository, in seconds.
DOWNLOAD_TIMEOUT_S = 30.0

#: The largest archive, and the largest sum of texts in one: a bound against decompression bombs.
MAX_ARCHIVE_BYTES = 64 * 1024 * 1024


class SourceNotFound(AFLError, ValueError):
    """A source that was not found at its place, or is not AFL."""


class SourceLoader:
    """Loader that makes source entries from the names on a command line. Holds no state."""

    @staticmethod
    def load_file(path: str | Path, is_library: bool = False) -> SourceEntry:
        """Return the text of a UTF-8 file. Raises SourceUnreadable."""
        from afl.syntax.parser import read_source

        return SourceEntry(read_source(path), FileOrigin(str(path)), is_library)

    @staticmethod
    def load_mongodb(
        collection_id: str,
        display_name: str,
        is_library: bool = True,
        config: AFLConfig | MongoDBConfig | None = None,
    ) -> SourceEntry:
        """Return the AFL texts of a flow, joined into one: those of its `compiled_sources`, else of its `sources`.

        Without a config, `load_config` decides. Raises SourceNotFound or MongoDBUnavailable.
        """
        from afl.sources.joining import joined
        from afl.sources.mongo import MongoSources

        config = config or load_config()
        with MongoSources(config.mongodb if isinstance(config, AFLConfig) else config) as sources:
            flow = sources.flow(collection_id)
        if flow is None:
            raise SourceNotFound(f"Flow not found in MongoDB: {collection_id} ({display_name})")
        texts = _texts_in(flow.get("compiled_sources")) or _texts_in(flow.get("sources"))
        if not texts:
            raise SourceNotFound(f"Flow {collection_id} ({display_name}) has no AFL sources")
        return SourceEntry(joined(texts), MongoDBOrigin(collection_id, display_name), is_library)

    @staticmethod
    def load_maven(
        group_id: str,
        artifact_id: str,
        version: str,
        classifier: str = "sources",
        is_library: bool = True,
        repository_url: str | None = None,
    ) -> SourceEntry:
        """Return the AFL files of an archive in a Maven repository, in the order of their names, joined into one text.

        Without `repository_url`, AFL_MAVEN_REPOSITORY names the repository, else it is Maven Central. Raises
        SourceNotFound.
        """
        from afl.sources.joining import joined

        origin = MavenOrigin(group_id, artifact_id, version, classifier)
        url = _archive_url(origin, repository_url)
        texts = _texts_of(_download(url), url)
        if not texts:
            raise SourceNotFound(f"No .afl files found in {shown_url(url)}")
        return SourceEntry(joined(texts), origin, is_library)


def _texts_in(stored: Sequence[Mapping[str, Any]] | None) -> list[str]:
    """Return the AFL texts in a list of a flow."""
    return [str(source["content"]) for source in stored or () if source.get("language", "afl") == "afl"]


def _archive_url(origin: MavenOrigin, repository_url: str | None) -> str:
    repository = repository_url or os.environ.get(MAVEN_REPOSITORY_VARIABLE) or MAVEN_CENTRAL
    name = f"{origin.artifact_id}-{origin.version}{f'-{origin.classifier}' if origin.classifier else ''}.jar"
    parts = [*origin.group_id.split("."), origin.artifact_id, origin.version, name]
    return "/".join([repository.rstrip("/"), *(urllib.parse.quote(part, safe="") for part in parts)])


def _download(url: str) -> bytes:
    scheme, text = urllib.parse.urlsplit(url).scheme, f"cannot load {shown_url(url)}"
    if scheme not in ("http", "https", "file"):
        raise SourceNotFound(f"{text}: a Maven repository is at http, https or file")
    try:
        with urllib.request.urlopen(url, timeout=DOWNLOAD_TIMEOUT_S) as response:
            content = response.read(MAX_ARCHIVE_BYTES + 1)
    except urllib.error.HTTPError as error:
        error.close()
        raise SourceNotFound(f"{text}: HTTP {error.code}") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = Secrets(secrets_of_url(url)).masked(str(getattr(error, "reason", None) or error))
        raise SourceNotFound(f"{text}: {reason if is_well_formed(url) else NOT_WELL_FORMED}") from None
    if len(content) > MAX_ARCHIVE_BYTES:
        raise SourceNotFound(f"{text}: larger than {MAX_ARCHIVE_BYTES} bytes")
    return bytes(content)


def _texts_of(archive: bytes, url: str) -> list[str]:
    from afl.syntax.parser import decode_source

    url = shown_url(url)
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as jar:
            members = sorted(
                (item for item in jar.infolist() if item.filename.endswith(FILE_SUFFIXES)),
                key=lambda item: item.filename,
            )
            if sum(item.file_size for item in members) > MAX_ARCHIVE_BYTES:
                raise SourceNotFound(f"cannot load {url}: its AFL files take more than {MAX_ARCHIVE_BYTES} bytes")
            return [decode_source(jar.read(item), f"{url}!/{item.filename}") for item in members]
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as error:
        raise SourceNotFound(f"Invalid JAR file {url}: {error}") from error
